//! Turns the result of a server into a tool's output. The parts are read from JSON one by one, so that an unknown part
//! does not affect the other parts.

use std::collections::HashMap;

use harness_schema::SchemaChecker;
use serde_json::Value;

use super::{IN_DOUBT, OUTCOME, stdout_filter::VALUES};
use harness_core::{
    message::{Link, Media, ToolContent, count_values},
    secret::beginning,
    tool::{ToolError, ToolOutput},
};

/// The maximum size of a picture, in bytes. Vendors refuse larger pictures.
const PICTURE: usize = 5 << 20;

/// The maximum number of parts that are read of one result.
pub(super) const PARTS: usize = 256;

/// The maximum length of a URI, in bytes. A longer URI is left out, because a cut URI would name something else.
const ADDRESS: usize = 8 << 10;

/// The output of a call. `declared` checks the structured content against the schema that the tool declares.
///
/// # Errors
/// Fails with the server's text if the result says that the call has failed.
pub(super) fn output(
    result: &Value,
    declared: Option<&SchemaChecker>,
) -> Result<ToolOutput, ToolError> {
    let mut parts = match result.get("content") {
        Some(Value::Array(blocks)) => {
            let mut parts: Vec<ToolContent> = blocks.iter().take(PARTS).map(part).collect();
            if blocks.len() > PARTS {
                parts.push(more(blocks.len() - PARTS));
            }
            parts
        }
        None | Some(Value::Null) => Vec::new(),
        // Some servers send one part instead of a list.
        Some(block) => vec![part(block)],
    };
    let silent = parts.iter().all(|part| part.to_text().is_some_and(|text| text.trim().is_empty()));
    let structure = result.get("structuredContent").filter(|value| !value.is_null());
    // Any value other than `false` means a failure.
    let failed = result.get("isError").unwrap_or(&Value::Null);
    if !matches!(failed, Value::Null | Value::Bool(false)) {
        if let Some(value) = structure.filter(|_| silent) {
            parts = vec![ToolContent::Json(value.clone())];
        }
        let said: Vec<String> = parts.iter().filter_map(ToolContent::to_text).collect();
        let said = said.join("\n");
        let said = match said.trim().is_empty() {
            true => "the tool has failed, and the server does not say why".to_owned(),
            false => said,
        };
        let outcome = result.get("_meta").and_then(|meta| meta.get(OUTCOME));
        return Err(match outcome.is_some_and(|outcome| outcome == IN_DOUBT) {
            true => ToolError::in_doubt(said),
            false => ToolError::new(said),
        });
    }
    let Some(value) = structure else { return Ok(parts.into()) };
    // Some servers return the same value as text and as structured content. The value is kept only once.
    let repeats = silent || matches!(&*parts, [only] if says(only, value));
    if repeats {
        parts = vec![ToolContent::Json(value.clone())];
    }
    let fault = declared.and_then(|declared| declared.read(value.clone()).err());
    match fault {
        Some((_, faults)) => {
            let wrong: Vec<String> = faults.iter().take(3).map(|fault| fault.line()).collect();
            let wrong = wrong.join("; ");
            parts.push(
                format!("[The structured content does not fit the tool's output schema: {wrong}]")
                    .into(),
            );
            Ok(parts.into())
        }
        None if repeats => Ok(parts.into()),
        None => {
            let words: Vec<String> = parts.iter().filter_map(ToolContent::to_text).collect();
            if !has_data(&words.join("\n"), value) {
                parts.push(ToolContent::Json(value.clone()));
            }
            ToolOutput::from(parts).with_value(value)
        }
    }
}

/// The note that replaces the parts above the maximum number.
pub(super) fn more(parts: usize) -> ToolContent {
    format!("[{parts} more parts, which were not read]").into()
}

/// Whether the part is a text with the JSON of this value.
fn says(part: &ToolContent, value: &Value) -> bool {
    let ToolContent::Text(text) = part else { return false };
    // Values inside a text were not counted when the message was read, so they are counted here.
    if count_values(text.as_bytes()) > VALUES {
        return false;
    }
    let Ok(said) = serde_json::from_str::<Value>(text) else { return false };
    said == *value
}

/// The maximum work of [`has_data`]: bytes of text times the number of values. More work would take too long.
const WORK: usize = 1 << 28;

/// Whether a text certainly contains all data of this value: each text, number, boolean and `null`, as often as in the
/// value. Many servers write only a summary as text, and put the data into the structured content.
fn has_data(text: &str, value: &Value) -> bool {
    let mut data = HashMap::new();
    leaves(value, &mut data);
    let is_small = text.len().saturating_mul(data.len()) <= WORK;
    is_small
        && data.into_iter().all(|(written, times)| {
            // The text may contain the data as JSON or in plain form.
            let escaped = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let plain: Option<String> = escaped.and_then(|_| serde_json::from_str(&written).ok());
            let has = |words: &str| has_word(text, words).take(times).count() == times;
            has(escaped.unwrap_or(&written)) || plain.is_some_and(|plain| has(&plain))
        })
}

/// Counts how often each text, number, boolean and `null` occurs in a value. The key of each count is the JSON of the
/// counted value.
fn leaves(value: &Value, found: &mut HashMap<String, usize>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, found)),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            *found.entry(value.to_string()).or_default() += 1;
        }
    }
}

/// The positions in a text at which `words` is not a part of a longer word or number.
fn has_word<'t>(text: &'t str, words: &'t str) -> impl Iterator<Item = usize> + 't {
    let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
    let begins = words.chars().next().is_some_and(joins);
    let ends = words.chars().next_back().is_some_and(joins);
    let is_number = words.parse::<f64>().is_ok();
    let places = text.match_indices(words).map(|(at, _)| at);
    places.filter(move |at| {
        let (before, rest) = text.split_at_checked(*at).unwrap_or_default();
        let behind = rest.strip_prefix(words).unwrap_or_default();
        let mut after = behind.chars();
        let (before, after, second) = (before.chars().next_back(), after.next(), after.next());
        let is_digit = |letter: Option<char>| letter.is_some_and(|it| it.is_ascii_digit());
        let is_part = is_number
            && (matches!(before, Some('.' | ',' | '-' | '+'))
                || matches!(after, Some('.' | ',')) && is_digit(second));
        !(is_part || begins && before.is_some_and(joins) || ends && after.is_some_and(joins))
    })
}

/// Reads one part of a result.
pub(super) fn part(block: &Value) -> ToolContent {
    if let Value::String(text) = block {
        return text.as_str().into();
    }
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    match kind {
        "image" => picture(text("mimeType").unwrap_or_default(), text("data").unwrap_or_default()),
        "audio" => match text("mimeType").filter(|mime| mime.starts_with("audio/")) {
            Some(mime) => file("sound", mime, text("data").unwrap_or_default(), None),
            None => {
                format!("[sound, {}, which is not a media type of sound]", short(text("mimeType")))
                    .into()
            }
        },
        "resource_link" => link(block).unwrap_or_else(|| unknown(kind)),
        "resource" => block.get("resource").map_or_else(|| unknown(kind), resource),
        _ => match block.get("text") {
            Some(Value::String(text)) => text.as_str().into(),
            Some(Value::Null) => "".into(),
            // Some servers send JSON instead of text.
            Some(value) => ToolContent::Json(value.clone()),
            None => unknown(kind),
        },
    }
}

/// Reads a link to content that the result does not include. Puts the title before the description.
fn link(block: &Value) -> Option<ToolContent> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let uri = text("uri").filter(|uri| uri.len() <= ADDRESS)?;
    let title = text("title");
    let name = text("name").or(title).unwrap_or(uri);
    let title = title.filter(|title| *title != name);
    let words: Vec<&str> = [title, text("description")].into_iter().flatten().collect();
    let mut link = Link::new(uri, name);
    if !words.is_empty() {
        link = link.with_description(words.join(": "));
    }
    if let Some(mime) = text("mimeType") {
        link = link.with_mime(mime);
    }
    Some(ToolContent::Link(link))
}

/// Reads the content of a resource: text, or bytes in base64.
pub(super) fn resource(resource: &Value) -> ToolContent {
    let text = |name: &str| resource.get(name).and_then(Value::as_str);
    let uri = text("uri").filter(|uri| !uri.is_empty() && uri.len() <= ADDRESS);
    match (text("text"), text("blob"), text("mimeType").unwrap_or_default()) {
        (Some(text), _, mime) => {
            let document = Media::from_text(mime, text);
            ToolContent::Document(match uri {
                Some(uri) => document.with_uri(uri),
                None => document,
            })
        }
        (None, Some(blob), mime) if mime.starts_with("image/") => picture_at(mime, blob, uri),
        (None, Some(blob), "") => file("a resource", "application/octet-stream", blob, uri),
        (None, Some(blob), mime) => file("a resource", mime, blob, uri),
        (None, None, _) => format!("[the resource {} has no contents]", short(uri)).into(),
    }
}

fn picture(mime: &str, data: &str) -> ToolContent {
    picture_at(mime, data, None)
}

fn picture_at(mime: &str, data: &str, uri: Option<&str>) -> ToolContent {
    let mime_shown = short(Some(mime));
    if !matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        return format!("[a picture, {mime_shown}: models take PNG, JPEG, GIF and WebP]").into();
    }
    if data.len() / 4 * 3 > PICTURE {
        return format!("[a picture, {mime_shown}, of more than {PICTURE} bytes is not shown]")
            .into();
    }
    file("a picture", mime, data, uri)
}

/// Reads a file in base64. The media type determines the kind of the returned part. Some servers break base64 into
/// lines.
fn file(what: &str, mime: &str, data: &str, uri: Option<&str>) -> ToolContent {
    let data: String = match data.contains(|c: char| c.is_ascii_whitespace()) {
        true => data.chars().filter(|c| !c.is_ascii_whitespace()).collect(),
        false => data.to_owned(),
    };
    match Media::from_base64(mime, data) {
        Ok(media) if media.size() == Some(0) => {
            format!("[{what}, {}, is empty]", short(Some(mime))).into()
        }
        Ok(media) => ToolContent::from(match uri {
            Some(uri) => media.with_uri(uri),
            None => media,
        }),
        Err(_) => {
            let uri = uri.map(|uri| format!(" {}", short(Some(uri)))).unwrap_or_default();
            let mime = short(Some(mime));
            format!("[{what}{uri}, {mime}, which cannot be read: it is not base64]").into()
        }
    }
}

fn unknown(kind: &str) -> ToolContent {
    format!("[a part of the type `{}`, which cannot be read]", short(Some(kind))).into()
}

fn short(text: Option<&str>) -> String {
    let text = text.unwrap_or("unnamed").replace(|c: char| c.is_control(), " ");
    beginning(&text, 200).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(result: &Value) -> Vec<String> {
        let output = output(result, None).expect("no error");
        output.content().iter().filter_map(ToolContent::to_text).collect()
    }

    #[test]
    fn words_win_over_a_structure_that_repeats_them() {
        let both =
            json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"n": 3}});
        assert_eq!(texts(&both), ["3"]);
        let read = output(&both, None).expect("an output");
        assert_eq!(read.value(), Some(&json!({"n": 3})), "it is for the program");
        let summary = json!({"content": [{"type": "text", "text": "2 accounts"}], "structuredContent": {"ids": ["a\"1", "b2"]}});
        assert_eq!(texts(&summary), ["2 accounts", r#"{"ids":["a\"1","b2"]}"#]);
        for text in ["a\"1 and b2", r#"["a\"1", "b2"]"#] {
            let listed = json!({"content": [{"type": "text", "text": text}], "structuredContent": {"ids": ["a\"1", "b2"]}});
            assert_eq!(texts(&listed), [text]);
        }
        for (text, value) in [
            ("The check took 15 ms.", json!({"fault": 5})),
            ("Version 1.5, -5 degrees, 5,000 of x5", json!({"n": 5})),
            ("Deleted 3 files.", json!({"deleted": 3, "dry_run": true})),
            ("It is true.", json!({"ok": true, "saved": true})),
            ("Found 3", json!({"n": 3, "next": null})),
            ("0 tests have failed.", json!({"passed": 0, "failed": 0})),
            ("That is all.", json!({"name": "a"})),
            ("said \\", json!({"name": "said \""})),
        ] {
            let said =
                json!({"content": [{"type": "text", "text": text}], "structuredContent": value});
            assert_eq!(texts(&said), [text.to_owned(), value.to_string()]);
        }
        for (text, value) in [
            ("It is 5.", json!({"n": 5})),
            ("5, of 7; null (-3.5)", json!({"list": [7, 5, null], "n": -3.5})),
            ("true and \"a b\"", json!({"ok": true, "name": "a b"})),
            ("[1, 2, 1]", json!({"result": [1, 2, 1]})),
            ("Nothing.", json!({})),
        ] {
            let said =
                json!({"content": [{"type": "text", "text": text}], "structuredContent": value});
            assert_eq!(texts(&said), [text]);
        }
        let same = json!({"content": [{"type": "text", "text": "{\n  \"n\": 3\n}"}], "structuredContent": {"n": 3}});
        let read = output(&same, None).expect("an output");
        assert_eq!(read, ToolContent::Json(json!({"n": 3})).into(), "it is kept once");
        let empty =
            json!({"content": [{"type": "text", "text": " "}], "structuredContent": {"n": 3}});
        assert_eq!(texts(&empty), [r#"{"n":3}"#]);
        assert_eq!(texts(&json!({})), Vec::<String>::new());
    }

    #[test]
    fn a_part_that_nobody_knows_spoils_no_other() {
        let result = json!({"content": [
            {"type": "hologram"}, 7, {"type": "text", "text": "kept"}, {"type": "image", "mimeType": "image/png", "data": "%"},
            {"type": "image", "mimeType": "image/svg+xml", "data": ""}, {"type": "audio", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}},
        ]});
        let texts = texts(&result);
        assert_eq!(texts.len(), 7);
        assert_eq!(texts[2], "kept");
        assert!(texts[3].contains("not base64"), "{}", texts[3]);
        assert!(texts[6].contains("inside"), "{}", texts[6]);
        let many = json!({"content": vec![json!({"type": "text", "text": "x"}); 300]});
        assert_eq!(output(&many, None).expect("an output").content().len(), PARTS + 1);
    }

    #[test]
    fn a_structure_that_does_not_fit_is_no_value_and_fails_no_call() {
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let checker = SchemaChecker::new(&schema).expect("a schema");
        let of = |value: Value| {
            let result =
                json!({"content": [{"type": "text", "text": "said"}], "structuredContent": value});
            output(&result, Some(&checker)).expect("an output")
        };
        let fits = of(json!({"n": 3, "more": true}));
        assert_eq!(fits.value(), Some(&json!({"n": 3, "more": true})));
        assert_eq!(fits.content().len(), 2, "the words, and the data that they lack");
        let wrong = of(json!({"n": "three"}));
        assert_eq!((wrong.value(), wrong.content().len()), (None, 2));
        let why = wrong.content()[1].to_text().expect("words");
        assert!(why.contains("output schema") && why.contains('n'), "{why}");
    }

    #[test]
    fn parts_of_every_kind_are_what_they_are() {
        let png = Media::from_bytes("image/png", [1, 2, 3]);
        let wav = Media::from_bytes("audio/wav", [1, 2, 3]);
        let pdf = Media::from_bytes("application/pdf", [1, 2, 3]).with_uri("f:a");
        let bytes = Media::from_bytes("application/octet-stream", [1, 2, 3]).with_uri("f:a");
        let note = Media::from_text("text/markdown", "# A").with_uri("f:a");
        let link = Link::new("f:a", "a");
        let blob = |mime: &str| json!({"type": "resource", "resource": {"uri": "f:a", "blob": "AQID", "mimeType": mime}});
        for (block, expected) in [
            (
                json!({"type": "image", "mimeType": "image/png", "data": "AQ\nID"}),
                png.clone().into(),
            ),
            (json!({"type": "audio", "mimeType": "audio/wav", "data": "AQID"}), wav.clone().into()),
            (blob("audio/wav"), ToolContent::Audio(wav.with_uri("f:a"))),
            (blob("image/png"), ToolContent::Image(png.with_uri("f:a"))),
            (blob("application/pdf"), ToolContent::Document(pdf)),
            (blob(""), ToolContent::Document(bytes)),
            (
                json!({"type": "resource", "resource": {"uri": "f:a", "text": "# A", "mimeType": "text/markdown"}}),
                ToolContent::Document(note),
            ),
            (json!({"type": "resource_link", "uri": "f:a", "name": "a"}), link.clone().into()),
            (
                json!({"type": "resource_link", "uri": "f:a", "name": "a", "title": "An A", "mimeType": "text/plain",
                    "description": "It is one."}),
                link.with_description("An A: It is one.").with_mime("text/plain").into(),
            ),
        ] {
            assert_eq!(part(&block), expected, "{block}");
        }
        let long = json!({"type": "resource_link", "uri": "f:".repeat(ADDRESS), "name": "a"});
        for unread in [
            long,
            json!({"type": "audio", "mimeType": "text/html", "data": "AQID"}),
            json!({"type": "resource_link"}),
        ] {
            assert!(matches!(part(&unread), ToolContent::Text(_)), "{unread}");
        }
    }

    #[test]
    fn a_picture_is_checked() {
        let good = json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]});
        let seen = output(&good, None).expect("an output");
        assert_eq!(seen.content(), [ToolContent::Image(Media::from_bytes("image/png", [0; 3]))]);
        let large = "A".repeat((PICTURE + 3) / 3 * 4 + 4);
        let large = json!({"content": [{"type": "image", "mimeType": "image/png", "data": large}]});
        assert!(texts(&large)[0].contains("not shown"));
    }

    #[test]
    fn a_failure_has_the_servers_words() {
        let failed =
            json!({"isError": true, "content": [{"type": "text", "text": "no such file"}]});
        assert_eq!(output(&failed, None).expect_err("a failure").to_string(), "no such file");
        assert!(output(&json!({"isError": true}), None).is_err());
    }
}
