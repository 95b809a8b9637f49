//! Limits what a model reads of a result: known secrets are removed, and texts over the limit are cut, so that one
//! `cat` cannot fill the context. Every result passes through this module, also the result of a failed call.

use std::{borrow::Cow, path::Path};

use serde_json::Value;

use super::{
    ToolContext, ToolOutput, ToolRegistry,
    large_results::{LargeResults, READ_RESULT, SpillNote, read_file},
    shrink::shrunk,
};
use crate::{
    message::{CUT, CallOutcome, Media, ProgramValue, ToolContent, ToolResult, unreadable_reason},
    secret::Secrets,
};

/// The maximum number of separate parts in a result. If a result has more parts, their texts are joined into one part.
const PARTS: usize = 1000;

/// The minimum length to which a part is cut, in bytes. If the shares of the parts would be smaller, the parts are
/// joined, because the notes about the cuts would be longer than the text.
const LEAST: usize = 256;

/// The maximum number of bytes that are quoted of the name of an unknown tool.
const NAME: usize = 100;

impl ToolRegistry {
    /// The result of a successful call, with its value for the program.
    pub(crate) async fn readable_output(
        &self,
        call_id: &str,
        output: ToolOutput,
        context: &ToolContext,
    ) -> ToolResult {
        let (content, value, file) = output.into_parts();
        let result = match file {
            None => self.readable(call_id, CallOutcome::Succeeded, content, context).await,
            Some(path) => self.readable_file(self.room(context), call_id, &path).await,
        };
        result.with_kept(value.map(|value| self.keepable(value)))
    }

    /// The result of a successful call whose output is a file.
    #[doc(hidden)]
    pub async fn readable_file(
        &self,
        (limit, spills): ResultLimit<'_>,
        call_id: &str,
        path: &Path,
    ) -> ToolResult {
        match read_file(path, limit, self.secrets(), spills).await {
            Ok((text, name)) => {
                let result = ToolResult::new(call_id, CallOutcome::Succeeded, [text.into()]);
                result.kept_as(name.into_iter().collect())
            }
            Err(why) => {
                let text = format!("the tool ran to its end, but {why}").into();
                self.readable_now(call_id, CallOutcome::Failed, vec![text])
            }
        }
    }

    /// The number of bytes that the model reads of the call's result, and the store for large results.
    fn room<'c>(&self, context: &'c ToolContext) -> ResultLimit<'c> {
        match context.spills() {
            // `read_result` returns a part of a result that is already kept.
            Some(spills) if context.name() == READ_RESULT => (spills.limit(), None),
            Some(spills) => (spills.limit(), Some(spills)),
            None => (context.readable().unwrap_or_else(|| self.limits().output_bytes()), None),
        }
    }

    /// Prepares a result that a program or a person supplies for a call. Known secrets are removed. A text over the
    /// limit is cut; `room` contains the limit, and the store that keeps the whole text.
    #[doc(hidden)]
    pub async fn readable_said(&self, said: &ToolResult, room: ResultLimit<'_>) -> ToolResult {
        let (id, content) = (said.call_id(), said.content().to_vec());
        let result = self.readable_in(room, id, said.outcome(), content).await;
        match said.value() {
            Some(value) => result.with_kept(Some(self.keepable(value.clone()))),
            None => result,
        }
    }

    /// Whether a result with this content is neither cut nor stored as a large result.
    #[doc(hidden)]
    pub fn is_within(&self, content: &[ToolContent], (limit, _): ResultLimit<'_>) -> bool {
        is_within(content, limit)
    }

    /// Removes known secrets from the value that a tool returns for the program. If the value cannot be stored, for
    /// example because it is over the limit, the reason replaces the value.
    fn keepable(&self, value: Value) -> ProgramValue {
        if let Some(why) = unreadable_reason(&value) {
            return ProgramValue::LeftOut(format!("it {why}"));
        }
        let ToolContent::Json(value) = cleaned(ToolContent::Json(value), self.secrets()) else {
            return ProgramValue::LeftOut("a secret is spread over it".to_owned());
        };
        let (size, most) = (value.to_string().len(), self.limits().value);
        if size <= most {
            return ProgramValue::Json(value);
        }
        ProgramValue::LeftOut(format!(
            "it has {size} bytes of JSON, and {most} are kept: `ToolLimits::value` sets how many"
        ))
    }

    /// Returns the result of a call for the model, without known secrets. If the content is over the limit, the longest
    /// texts are cut in the middle. If large results are kept, the whole text of each cut part is stored.
    #[doc(hidden)]
    pub async fn readable(
        &self,
        call_id: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
        context: &ToolContext,
    ) -> ToolResult {
        self.readable_in(self.room(context), call_id, outcome, content).await
    }

    /// Like [`readable`](Self::readable), for a caller that has the limit but no context of the call.
    #[doc(hidden)]
    pub async fn readable_in(
        &self,
        (limit, spills): ResultLimit<'_>,
        call_id: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
    ) -> ToolResult {
        let content = self.cleaned(content);
        if is_within(&content, limit) {
            return ToolResult::new(call_id, outcome, content);
        }
        let mut kept = Vec::with_capacity(content.len());
        let mut names = Vec::new();
        for part in capped(content, limit) {
            let whole = match (&part, spills) {
                (ResultPart::Cut { whole, .. }, Some(spills)) => spills.keep(&whole.text()).await,
                (ResultPart::Cut { whole, .. }, None) => {
                    SpillNote::of_lost(whole.text().as_bytes())
                }
                (ResultPart::Whole(_), _) => SpillNote { text: String::new(), name: None },
            };
            part.shortened(&whole.text, &mut kept);
            names.extend(whole.name);
        }
        ToolResult::new(call_id, outcome, kept).kept_as(names)
    }

    /// Like [`readable`](Self::readable), for short texts that the program itself writes. The whole text of a cut part
    /// is not stored.
    #[doc(hidden)]
    pub fn readable_now(
        &self,
        call_id: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
    ) -> ToolResult {
        self.readable_to(self.limits().output_bytes(), call_id, outcome, content)
    }

    /// Like [`readable_now`](Self::readable_now), with another limit in bytes.
    #[doc(hidden)]
    pub fn readable_to(
        &self,
        limit: usize,
        call_id: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
    ) -> ToolResult {
        let mut kept = Vec::new();
        for part in capped(self.cleaned(content), limit) {
            part.shortened("", &mut kept);
        }
        ToolResult::new(call_id, outcome, kept)
    }

    /// Like [`readable_now`](Self::readable_now), for a text that becomes a part of a result, such as the reason of a
    /// denial.
    #[doc(hidden)]
    pub fn readable_text(&self, text: &str) -> String {
        self.readable_part(text, 1)
    }

    /// Like [`readable_text`](Self::readable_text), for a text that shares the limit with other texts. `of` is the
    /// number of these texts, including `text`.
    #[doc(hidden)]
    pub fn readable_part(&self, text: &str, of: usize) -> String {
        let (text, limit) = (self.secrets().hide(text), self.limits().output_bytes() / of.max(1));
        if text.len() > limit { cut(&text, limit, "") } else { text.into_owned() }
    }

    fn cleaned(&self, content: Vec<ToolContent>) -> Vec<ToolContent> {
        if self.secrets().is_empty() {
            return content;
        }
        content.into_iter().map(|part| cleaned(part, self.secrets())).collect()
    }
}

/// The number of bytes that a model reads of a result, and the store for large results (`None`: they are only cut).
pub(crate) type ResultLimit<'a> = (usize, Option<&'a LargeResults>);

/// A part of a result.
enum ResultPart {
    Whole(ToolContent),
    /// A part that is cut to `share` bytes.
    Cut {
        whole: WholeContent,
        share: usize,
    },
}

/// The whole content of a part that is cut.
enum WholeContent {
    /// A text, and the document that contains the text, if any.
    Text(String, Option<Media>),
    /// A text that was or contains JSON, and is cut as text. The second value is a note about the JSON.
    WasJson(String, &'static str),
    Json(Value),
}

impl WholeContent {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text, _) | Self::WasJson(text, _) => Cow::Borrowed(text),
            Self::Json(value) => Cow::Owned(value.to_string()),
        }
    }
}

impl ResultPart {
    /// Appends the cut form of this part to `kept`. `whole` is a note about the location of the whole text.
    fn shortened(self, whole: &str, kept: &mut Vec<ToolContent>) {
        let (cut_part, share) = match self {
            Self::Whole(part) => return kept.push(part),
            Self::Cut { whole, share } => (whole, share),
        };
        match cut_part {
            WholeContent::Text(text, None) => {
                kept.push(ToolContent::Text(cut(&text, share, whole)))
            }
            WholeContent::Text(text, Some(document)) => {
                kept.push(ToolContent::Document(document.with_text(cut(&text, share, whole))));
            }
            WholeContent::WasJson(text, note) => {
                kept.push(ToolContent::Text(cut(&text, share, whole)));
                kept.push(ToolContent::Text(note.to_owned()));
            }
            WholeContent::Json(value) => {
                let size = value.to_string().len();
                let short = shrunk(value, share);
                let left = short.to_string().len();
                kept.push(ToolContent::Json(short));
                let text =
                    format!("[.. the JSON above was cut to {left} of {size} bytes{whole} ..]");
                kept.push(ToolContent::Text(text));
            }
        }
    }
}

/// Whether the content is within the limits, so that nothing is cut.
fn is_within(content: &[ToolContent], limit: usize) -> bool {
    content.len() <= PARTS && content.iter().map(size).sum::<usize>() <= limit
}

/// Marks each part as complete, or as cut to its share of the limit.
fn capped(mut content: Vec<ToolContent>, limit: usize) -> Vec<ResultPart> {
    let mut has_json = false;
    if content.len() > PARTS {
        (content, has_json) = joined(content);
    }
    if is_within(&content, limit) {
        return content.into_iter().map(ResultPart::Whole).collect();
    }
    let mut sizes: Vec<usize> = content.iter().map(size).collect();
    let mut share = fair_share(&sizes, limit);
    if share < LEAST.min(limit) {
        let more;
        (content, more) = joined(content);
        has_json |= more;
        sizes = content.iter().map(size).collect();
        share = fair_share(&sizes, limit);
    }
    let parts = content.into_iter().zip(sizes);
    let parts = parts.map(|(part, size)| match part {
        part if size <= share => ResultPart::Whole(part),
        ToolContent::Text(text) if has_json => {
            ResultPart::Cut { whole: WholeContent::WasJson(text, JOINED), share }
        }
        ToolContent::Text(text) => ResultPart::Cut { whole: WholeContent::Text(text, None), share },
        ToolContent::Json(Value::String(text)) => {
            ResultPart::Cut { whole: WholeContent::WasJson(text, OF_A_STRING), share }
        }
        ToolContent::Json(value @ (Value::Array(_) | Value::Object(_))) => {
            ResultPart::Cut { whole: WholeContent::Json(value), share }
        }
        ToolContent::Document(document) => {
            let text = document.text().unwrap_or_default().to_owned();
            ResultPart::Cut { whole: WholeContent::Text(text, Some(document)), share }
        }
        part => ResultPart::Cut {
            whole: WholeContent::Text(part.to_text().unwrap_or_default(), None),
            share,
        },
    });
    parts.collect()
}

/// The note after a JSON string that was cut.
const OF_A_STRING: &str = "[.. the text above is the content of a JSON string ..]";

/// The note after joined parts that were cut.
const JOINED: &str = "[.. the text above joins many parts, and some of them were JSON ..]";

/// Joins all texts into one part, followed by the files. Also returns whether some of the texts were JSON.
fn joined(content: Vec<ToolContent>) -> (Vec<ToolContent>, bool) {
    let (files, texts): (Vec<_>, Vec<_>) = content.into_iter().partition(is_file);
    let has_json = texts.iter().any(|part| matches!(part, ToolContent::Json(_)));
    let texts: Vec<String> = texts.iter().filter_map(ToolContent::to_text).collect();
    let text = (!texts.is_empty()).then(|| ToolContent::Text(texts.join("\n")));
    (text.into_iter().chain(files).collect(), has_json)
}

/// Whether a part is a file without text.
fn is_file(part: &ToolContent) -> bool {
    part.media().is_some_and(|(_, media)| media.text().is_none())
}

/// How many bytes of this part count toward the limit.
fn size(part: &ToolContent) -> usize {
    match part {
        ToolContent::Text(text) => text.len(),
        ToolContent::Json(value) => value.to_string().len(),
        ToolContent::Document(media) => media.text().map_or(0, str::len),
        ToolContent::Link(_) => part.to_text().map_or(0, |text| text.len()),
        ToolContent::Image(_) | ToolContent::Audio(_) => 0,
    }
}

/// Removes these secrets from a part. A JSON value keeps its structure. But if a secret spans several members, the
/// value becomes text.
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

/// Removes these secrets from the texts of a file. The bytes of the file are not searched. If the file's address
/// contains a secret, the part becomes a text with the cleaned address, because nobody can open this address.
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

/// Shortens a tool name that does not exist, so that it can be quoted.
pub(super) fn short_name(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME {
        return Cow::Borrowed(name);
    }
    let end = (0..=NAME).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{} .. ({} bytes)", name.get(..end).unwrap_or_default(), name.len()))
}

/// The text around the byte `place`, about `most` bytes long.
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

/// The largest size that each part may have so that all parts fit into `limit`. Smaller parts stay whole, and larger
/// parts share the remaining room equally.
pub(super) fn fair_share(sizes: &[usize], limit: usize) -> usize {
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

/// The beginning and the end of a text, with a note between them. `keep` is the number of bytes that are kept; the note
/// does not count.
#[doc(hidden)]
pub fn cut(text: &str, keep: usize, whole: &str) -> String {
    let half = (keep / 2).min(text.len() / 2);
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let tail = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at));
    let tail = tail.unwrap_or(text.len());
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    gap(head, tail, text.len(), whole)
}

/// Joins the head and the tail of a text of `size` bytes, with a note between them. `whole` is a note about the
/// location of the whole text.
pub(super) fn gap(head: &str, tail: &str, size: usize, whole: &str) -> String {
    let gone = size.saturating_sub(head.len()).saturating_sub(tail.len());
    format!("{head}\n[.. {gone} of {size}{CUT}{whole} ..]\n{tail}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ResultPart, around, capped, cleaned, cut, fair_share, short_name};
    use crate::{message::ToolContent, secret::Secrets};

    fn text(parts: Vec<ResultPart>) -> usize {
        let length = |part: &ResultPart| match part {
            ResultPart::Whole(part) => part.to_text().map_or(0, |text| text.len()),
            ResultPart::Cut { whole, share } => cut(&whole.text(), *share, "").len(),
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
