//! What a model may read of a call: nothing that is known to be secret, and no more than the limit,
//! so that one `cat` cannot fill the context. Every result passes here, errors too.

use std::{borrow::Cow, path::Path};

use serde_json::Value;

use super::ToolRegistry;
use crate::{
    message::{CallOutcome, ToolContent, ToolResult},
    secret::Secrets,
};

/// So many parts of one result stay apart; the texts of more become one.
const PARTS: usize = 1000;

/// A part is not cut to less than this: notes of what was cut would be longer than what is left.
const LEAST: usize = 256;

/// So much of a name that the model made up is quoted.
const NAME: usize = 100;

impl ToolRegistry {
    /// The result of a call as the model may read it: without what is known to be secret, and with
    /// the longest texts cut in the middle where all are too long. What was cut is kept whole where
    /// the limits say so.
    pub(crate) async fn readable(
        &self,
        call_id: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
    ) -> ToolResult {
        let content = self.cleaned(content);
        if fits(&content, self.limits().output) {
            return ToolResult::new(call_id, outcome, content);
        }
        let mut kept = Vec::with_capacity(content.len());
        for (at, part) in capped(content, self.limits().output).into_iter().enumerate() {
            kept.push(match part {
                Part::Whole(part) => part,
                Part::Cut(text, share) => {
                    let folder = self.limits().overflow_folder.as_deref();
                    let whole = keep_whole(&text, folder, call_id, at).await;
                    ToolContent::Text(cut(&text, share, &whole))
                }
            });
        }
        ToolResult::new(call_id, outcome, kept)
    }

    /// The same where nothing can be waited for: what is cut is not kept.
    pub(crate) fn readable_now(
        &self,
        call_id: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
    ) -> ToolResult {
        let parts = capped(self.cleaned(content), self.limits().output).into_iter();
        let kept = parts.map(|part| match part {
            Part::Whole(part) => part,
            Part::Cut(text, share) => ToolContent::Text(cut(&text, share, "")),
        });
        ToolResult::new(call_id, outcome, kept)
    }

    /// The same for words that become a part of a result, such as why a call was denied.
    pub(crate) fn readable_text(&self, text: &str) -> String {
        let (text, limit) = (self.secrets().hide(text), self.limits().output);
        if text.len() > limit { cut(&text, limit, "") } else { text.into_owned() }
    }

    fn cleaned(&self, content: Vec<ToolContent>) -> Vec<ToolContent> {
        if self.secrets().is_empty() {
            return content;
        }
        content.into_iter().map(|part| cleaned(part, self.secrets())).collect()
    }
}

/// A part of a result.
enum Part {
    Whole(ToolContent),
    /// A text that is cut to so many bytes.
    Cut(String, usize),
}

/// Whether nothing must be cut.
fn fits(content: &[ToolContent], limit: usize) -> bool {
    content.len() <= PARTS && content.iter().map(size).sum::<usize>() <= limit
}

/// The content within the limit.
fn capped(mut content: Vec<ToolContent>, limit: usize) -> Vec<Part> {
    if content.len() > PARTS {
        content = joined(content);
    }
    if fits(&content, limit) {
        return content.into_iter().map(Part::Whole).collect();
    }
    let mut sizes: Vec<usize> = content.iter().map(size).collect();
    let mut share = fair_share(&sizes, limit);
    if share < LEAST.min(limit) {
        content = joined(content);
        sizes = content.iter().map(size).collect();
        share = fair_share(&sizes, limit);
    }
    let parts = content.into_iter().zip(sizes);
    let parts = parts.map(|(part, size)| match part {
        ToolContent::Text(text) if size > share => Part::Cut(text, share),
        ToolContent::Json(value) if size > share => Part::Cut(value.to_string(), share),
        part => Part::Whole(part),
    });
    parts.collect()
}

/// The texts as one, and the pictures behind it.
fn joined(content: Vec<ToolContent>) -> Vec<ToolContent> {
    let (pictures, texts): (Vec<_>, Vec<_>) =
        content.into_iter().partition(|part| matches!(part, ToolContent::Image { .. }));
    let texts: Vec<String> = texts.iter().filter_map(ToolContent::to_text).collect();
    let text = (!texts.is_empty()).then(|| ToolContent::Text(texts.join("\n")));
    text.into_iter().chain(pictures).collect()
}

/// What the limit counts of a part.
fn size(part: &ToolContent) -> usize {
    match part {
        ToolContent::Text(text) => text.len(),
        ToolContent::Json(value) => value.to_string().len(),
        ToolContent::Image { .. } => 0,
    }
}

/// A part without these secrets. A value keeps its shape, unless a secret is spread over it.
fn cleaned(part: ToolContent, secrets: &Secrets) -> ToolContent {
    match part {
        ToolContent::Text(text) => match secrets.hide(&text) {
            Cow::Borrowed(_) => ToolContent::Text(text),
            Cow::Owned(clean) => ToolContent::Text(clean),
        },
        ToolContent::Json(mut value) => {
            let text = value.to_string();
            if let Cow::Borrowed(_) = secrets.hide(&text) {
                return ToolContent::Json(value);
            }
            clean_value(&mut value, secrets);
            let text = value.to_string();
            match secrets.hide(&text) {
                Cow::Borrowed(_) => ToolContent::Json(value),
                Cow::Owned(clean) => ToolContent::Text(clean),
            }
        }
        picture @ ToolContent::Image { .. } => picture,
    }
}

fn clean_value(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = secrets.hide(text) {
                *text = clean;
            }
        }
        Value::Number(number) => {
            if let Cow::Owned(clean) = secrets.hide(&number.to_string()) {
                *value = Value::String(clean);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| clean_value(value, secrets)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| clean_value(value, secrets));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// A name that the model made up, as it can be quoted.
pub(super) fn short_name(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME {
        return Cow::Borrowed(name);
    }
    let end = (0..=NAME).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{} .. ({} bytes)", name.get(..end).unwrap_or_default(), name.len()))
}

/// What stands around a place of a text, for a person who knows the text.
pub(super) fn around(text: &str, place: usize, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let from = place.min(text.len()).saturating_sub(most / 2).min(text.len() - most);
    let end = from + most;
    let from = (0..=from).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end = (end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let (before, after) =
        (if from > 0 { ".. " } else { "" }, if end < text.len() { " .." } else { "" });
    let part = text.get(from..end).unwrap_or_default();
    Cow::Owned(format!("{before}{part}{after} ({} bytes in all)", text.len()))
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
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let id: String = call_id.chars().take(NAME).map(safe).collect();
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
    use serde_json::json;

    use super::{Part, around, capped, cleaned, cut, fair_share, short_name};
    use crate::{message::ToolContent, secret::Secrets};

    fn text(parts: Vec<Part>) -> usize {
        let length = |part: &Part| match part {
            Part::Whole(part) => part.to_text().map_or(0, |text| text.len()),
            Part::Cut(text, share) => cut(text, *share, "").len(),
        };
        parts.iter().map(length).sum()
    }

    #[test]
    fn any_number_of_parts_stays_within_the_limit_and_what_is_said_of_the_cuts() {
        for parts in [1, 2, 10, 999, 1001, 50_000] {
            for size in [0, 1, 100, 10_000] {
                let content = vec![ToolContent::Text("x".repeat(size)); parts];
                let capped = capped(content, 4096);
                let said = capped.len() * 80;
                assert!(capped.len() <= 1000, "{parts} of {size}: {} parts", capped.len());
                assert!(text(capped) <= 4096 + said, "{parts} of {size}");
            }
        }
    }

    #[test]
    fn a_value_keeps_its_shape_without_its_secret() {
        let secrets = Secrets::default().with("sk-0001/0002").with("47110815");
        let value = json!({"a": ["sk-0001/0002", 47110815_u64], "b": {"c": "x sk-0001/0002"}});
        let clean = json!({"a": ["[secret]", "[secret]"], "b": {"c": "x [secret]"}});
        let of = |value| cleaned(ToolContent::Json(value), &secrets);
        assert_eq!(of(value), ToolContent::Json(clean));
        assert_eq!(of(json!({"a": 1})), ToolContent::Json(json!({"a": 1})));
        let name = ToolContent::Text(r#"{"[secret]":1}"#.into());
        assert_eq!(of(json!({"sk-0001/0002": 1})), name);
    }

    #[test]
    fn a_quoted_name_is_short_and_a_place_has_its_surroundings() {
        assert_eq!(short_name("look"), "look");
        let long = short_name(&"ä".repeat(1000)).into_owned();
        assert!(long.len() < 130 && long.ends_with("ä .. (2000 bytes)"), "{long}");
        assert_eq!(around("short", 3, 10), "short");
        let text = format!("{}HERE{}", "ä".repeat(500), "ö".repeat(500));
        for place in [0, 1, 999, 1002, 2003, usize::MAX] {
            let part = around(&text, place, 100);
            assert!(part.len() < 150 && part.ends_with("(2004 bytes in all)"), "{part}");
            assert_eq!(part.contains("HERE"), (999..1100).contains(&place), "{place}");
        }
    }

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
