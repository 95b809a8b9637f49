//! Keeps the output of a tool within its limit, so that one `cat` cannot fill the context.

use std::path::Path;

use super::ToolLimits;
use crate::message::ToolContent;

/// The content within the limit: the longest text parts are cut in the middle.
pub(super) async fn capped(
    content: Vec<ToolContent>,
    limits: &ToolLimits,
    call_id: &str,
) -> Vec<ToolContent> {
    let sizes: Vec<usize> =
        content.iter().map(|part| part.to_text().map_or(0, |text| text.len())).collect();
    if sizes.iter().sum::<usize>() <= limits.output {
        return content;
    }
    let share = fair_share(&sizes, limits.output);
    let mut kept = Vec::with_capacity(content.len());
    for (at, part) in content.into_iter().enumerate() {
        match part.to_text() {
            Some(text) if text.len() > share => {
                let whole = keep_whole(&text, limits.overflow_folder.as_deref(), call_id, at).await;
                kept.push(ToolContent::Text(cut(&text, share, &whole)));
            }
            Some(_) | None => kept.push(part),
        }
    }
    kept
}

/// The largest share that each part may have so that all fit: small parts stay whole, and what
/// they leave goes to the large ones.
fn fair_share(sizes: &[usize], limit: usize) -> usize {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let (mut left, mut parts) = (limit, sorted.len());
    for size in sorted {
        let share = left / parts.max(1);
        if size > share {
            return share;
        }
        left -= size;
        parts -= 1;
    }
    limit
}

/// The head and the tail of a text with a note between them. The note is not counted.
pub(crate) fn cut(text: &str, keep: usize, whole: &str) -> String {
    let half = (keep / 2).min(text.len() / 2);
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let tail = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at));
    let tail = tail.unwrap_or(text.len());
    let gone = tail - head;
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{head}\n[.. {gone} of {} bytes were cut here{whole} ..]\n{tail}", text.len())
}

/// Writes the whole text to the folder, and gives the words that tell where.
async fn keep_whole(text: &str, folder: Option<&Path>, call_id: &str, part: usize) -> String {
    let Some(folder) = folder else { return String::new() };
    // Ids come from outside: only what is safe in a file's name is taken from them.
    let id: String =
        call_id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let path = folder.join(format!("{id}-{part}-{:08x}.txt", fastrand::u32(..)));
    let (to, text) = (path.clone(), text.to_owned());
    let written = tokio::task::spawn_blocking(move || std::fs::write(to, text)).await;
    match written {
        Ok(Ok(())) => format!("; the whole is in {}", path.display()),
        Ok(Err(err)) => format!("; the whole could not be kept: {err}"),
        Err(err) => format!("; the whole could not be kept: {err}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{cut, fair_share};

    #[test]
    fn small_parts_stay_whole_and_leave_their_room_to_the_large() {
        assert_eq!(fair_share(&[10, 10, 100], 60), 40);
        assert_eq!(fair_share(&[100, 100], 60), 30);
        assert_eq!(fair_share(&[10], 60), 60);
        assert_eq!(fair_share(&[], 60), 60);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = "äöü€".repeat(20);
        for keep in 0..text.len() {
            let cut = cut(&text, keep, "");
            assert!(cut.contains(" bytes were cut here"), "{keep}");
            assert!(cut.len() <= keep + 80, "{keep}: {}", cut.len());
        }
    }
}
