//! What a model may read of a call: nothing that is known to be secret, and no more than the limit,
//! so that one `cat` cannot fill the context. Every result passes here, errors too.

use std::{borrow::Cow, path::Path};

use serde_json::Value;

use super::{ToolOutput, ToolRegistry};
use crate::{
    message::{CallOutcome, Kept, Media, ToolContent, ToolResult, is_too_deep},
    secret::Secrets,
};

/// So many parts of one result stay apart; the texts of more become one.
const PARTS: usize = 1000;

/// A part is not cut to less than this: notes of what was cut would be longer than what is left.
const LEAST: usize = 256;

/// So much of a name that the model made up is quoted.
const NAME: usize = 100;

impl ToolRegistry {
    /// The result of a call that succeeded, with its value for the program.
    pub(crate) async fn readable_output(&self, call_id: &str, output: ToolOutput) -> ToolResult {
        let (content, value) = output.into_parts();
        let result = self.readable(call_id, CallOutcome::Succeeded, content).await;
        result.with_kept(value.map(|value| self.keepable(value)))
    }

    /// What somebody says that a call came to, as it may be kept: as its success.
    pub(crate) fn readable_success(&self, call_id: &str, said: &ToolResult) -> ToolResult {
        let outcome = CallOutcome::Succeeded;
        let result = self.readable_now(call_id, outcome, said.content().to_vec());
        match said.value() {
            Some(value) => result.with_kept(Some(self.keepable(value.clone()))),
            None => result,
        }
    }

    /// The value for the program as it may be kept: without what is known to be secret, and within the limit.
    fn keepable(&self, value: Value) -> Kept {
        if is_too_deep(&value) {
            return Kept::LeftOut("it is nested too deep".to_owned());
        }
        let ToolContent::Json(value) = cleaned(ToolContent::Json(value), self.secrets()) else {
            return Kept::LeftOut("a secret is spread over it".to_owned());
        };
        let (size, most) = (value.to_string().len(), self.limits().value);
        if size <= most {
            return Kept::Json(value);
        }
        Kept::LeftOut(format!(
            "it has {size} bytes of JSON, and {most} are kept: `ToolLimits::value` sets how many"
        ))
    }

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
                Part::Cut { text, share, of } => {
                    let folder = self.limits().overflow_folder.as_deref();
                    let whole = keep_whole(&text, folder, call_id, at).await;
                    shortened(cut(&text, share, &whole), of)
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
            Part::Cut { text, share, of } => shortened(cut(&text, share, ""), of),
        });
        ToolResult::new(call_id, outcome, kept)
    }

    /// The same for words that become a part of a result, such as why a call was denied.
    pub(crate) fn readable_text(&self, text: &str) -> String {
        self.readable_part(text, 1)
    }

    /// The same for one of so many texts, which share the room.
    pub(crate) fn readable_part(&self, text: &str, of: usize) -> String {
        let (text, limit) = (self.secrets().hide(text), self.limits().output / of.max(1));
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
    /// A text that is cut to so many bytes, and the document that it is of.
    Cut {
        text: String,
        share: usize,
        of: Option<Media>,
    },
}

/// What is left of a text, in the document that it is of.
fn shortened(text: String, of: Option<Media>) -> ToolContent {
    match of {
        Some(document) => ToolContent::Document(document.with_text(text)),
        None => ToolContent::Text(text),
    }
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
        part if size <= share => Part::Whole(part),
        ToolContent::Text(text) => Part::Cut { text, share, of: None },
        ToolContent::Document(document) => {
            let text = document.text().unwrap_or_default().to_owned();
            Part::Cut { text, share, of: Some(document) }
        }
        part => Part::Cut { text: part.to_text().unwrap_or_default(), share, of: None },
    });
    parts.collect()
}

/// The texts as one, and the files behind it.
fn joined(content: Vec<ToolContent>) -> Vec<ToolContent> {
    let (files, texts): (Vec<_>, Vec<_>) = content.into_iter().partition(is_file);
    let texts: Vec<String> = texts.iter().filter_map(ToolContent::to_text).collect();
    let text = (!texts.is_empty()).then(|| ToolContent::Text(texts.join("\n")));
    text.into_iter().chain(files).collect()
}

/// Whether a part is a file that is not text.
fn is_file(part: &ToolContent) -> bool {
    part.media().is_some_and(|(_, media)| media.text().is_none())
}

/// What the limit counts of a part.
fn size(part: &ToolContent) -> usize {
    match part {
        ToolContent::Text(text) => text.len(),
        ToolContent::Json(value) => value.to_string().len(),
        ToolContent::Document(media) => media.text().map_or(0, str::len),
        ToolContent::Link(_) => part.to_text().map_or(0, |text| text.len()),
        ToolContent::Image(_) | ToolContent::Audio(_) => 0,
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
        ToolContent::Image(media) => file(media, secrets, ToolContent::Image),
        ToolContent::Audio(media) => file(media, secrets, ToolContent::Audio),
        ToolContent::Document(media) => file(media, secrets, ToolContent::Document),
        link @ ToolContent::Link(_) => {
            let text = link.to_text().unwrap_or_default();
            match secrets.hide(&text) {
                Cow::Borrowed(_) => link,
                Cow::Owned(clean) => ToolContent::Text(clean),
            }
        }
    }
}

/// A file without these secrets in its words. The bytes are not searched. An address with a secret in it
/// leads nowhere without it, so the model reads it as words.
fn file(media: Media, secrets: &Secrets, part: fn(Media) -> ToolContent) -> ToolContent {
    let clean = |text: &str| match secrets.hide(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(clean) => Some(clean),
    };
    let place = media.url().or(media.file_id().map(|(id, _)| id));
    match place.and_then(clean) {
        Some(clean) => {
            ToolContent::Text(format!("[A file stood here whose address holds a secret: {clean}]"))
        }
        None => part(media.reworded(clean)),
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
            Part::Cut { text, share, of: _ } => cut(text, *share, "").len(),
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
