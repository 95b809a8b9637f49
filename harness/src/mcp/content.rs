//! What a server hands over, as a tool's output. It is read from JSON, so that one part that nobody knows does
//! not spoil the others.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    message::{Media, ToolContent},
    secret::beginning,
    tool::{ToolError, ToolOutput},
};

/// Bytes of a picture, at most: what vendors take.
const PICTURE: usize = 5 << 20;

/// Parts of one result that are read.
const PARTS: usize = 256;

/// The result of a call.
///
/// # Errors
/// Fails with the server's words if it says that the call has failed.
pub(super) fn output(result: &Value) -> Result<ToolOutput, ToolError> {
    let mut parts = match result.get("content") {
        Some(Value::Array(blocks)) => {
            let mut parts: Vec<ToolContent> = blocks.iter().take(PARTS).map(part).collect();
            if blocks.len() > PARTS {
                parts.push(
                    format!("[{} more parts, which were not read]", blocks.len() - PARTS).into(),
                );
            }
            parts
        }
        Some(Value::String(text)) => vec![text.as_str().into()],
        _ => Vec::new(),
    };
    let silent = parts.iter().all(|part| part.to_text().is_some_and(|text| text.trim().is_empty()));
    // Servers hand over the same value as text and as a structure: one of the two is read.
    if let Some(value) = result.get("structuredContent").filter(|value| silent && !value.is_null())
    {
        parts = vec![ToolContent::Json(value.clone())];
    }
    if result.get("isError") != Some(&Value::Bool(true)) {
        return Ok(parts.into());
    }
    let said: Vec<String> = parts.iter().filter_map(ToolContent::to_text).collect();
    let said = said.join("\n");
    Err(ToolError::new(match said.trim().is_empty() {
        true => "the tool has failed, and the server does not say why".to_owned(),
        false => said,
    }))
}

/// One part.
pub(super) fn part(block: &Value) -> ToolContent {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    match kind {
        "text" => text("text").unwrap_or_default().into(),
        "image" => picture(text("mimeType").unwrap_or_default(), text("data").unwrap_or_default()),
        "audio" => format!("[audio, {}, is not shown]", short(text("mimeType"))).into(),
        "resource_link" => {
            format!("[the resource {}: {}]", short(text("uri")), short(text("name"))).into()
        }
        "resource" => block.get("resource").map_or_else(|| unknown(kind), resource),
        _ => match text("text") {
            Some(text) => text.into(),
            None => unknown(kind),
        },
    }
}

/// The contents of a resource: text, or bytes in base64.
pub(super) fn resource(resource: &Value) -> ToolContent {
    let text = |name: &str| resource.get(name).and_then(Value::as_str);
    let uri = short(text("uri"));
    match (text("text"), text("blob"), text("mimeType").unwrap_or_default()) {
        (Some(text), ..) => format!("[the resource {uri}]\n{text}").into(),
        (None, Some(blob), mime) if mime.starts_with("image/") => picture(mime, blob),
        (None, Some(_), mime) => {
            format!("[the resource {uri}, {}, is not shown]", short(Some(mime))).into()
        }
        (None, None, _) => format!("[the resource {uri} has no contents]").into(),
    }
}

fn picture(mime: &str, data: &str) -> ToolContent {
    let mime_shown = short(Some(mime));
    if !matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        return format!("[a picture, {mime_shown}: models take PNG, JPEG, GIF and WebP]").into();
    }
    // What is too large is not decoded.
    if data.len() / 4 * 3 > PICTURE {
        return format!("[a picture, {mime_shown}, of more than {PICTURE} bytes is not shown]")
            .into();
    }
    match STANDARD.decode(data) {
        Ok(data) => ToolContent::Image(Media::from_bytes(mime, data)),
        Err(_) => format!("[a picture, {mime_shown}, that cannot be read: it is no base64]").into(),
    }
}

fn unknown(kind: &str) -> ToolContent {
    format!("[a part of the type `{}`, which is not known here]", short(Some(kind))).into()
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
        let output = output(result).expect("no error");
        output.content().iter().filter_map(ToolContent::to_text).collect()
    }

    #[test]
    fn words_win_over_a_structure_that_repeats_them() {
        let both =
            json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"n": 3}});
        assert_eq!(texts(&both), ["3"]);
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
        assert!(texts[3].contains("no base64"), "{}", texts[3]);
        assert!(texts[6].contains("inside"), "{}", texts[6]);
        let many = json!({"content": vec![json!({"type": "text", "text": "x"}); 300]});
        assert_eq!(output(&many).expect("an output").content().len(), PARTS + 1);
    }

    #[test]
    fn a_picture_is_checked() {
        let good = json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]});
        let seen = output(&good).expect("an output");
        assert_eq!(seen.content(), [ToolContent::Image(Media::from_bytes("image/png", [0; 3]))]);
        let large = "A".repeat((PICTURE + 3) / 3 * 4 + 4);
        let large = json!({"content": [{"type": "image", "mimeType": "image/png", "data": large}]});
        assert!(texts(&large)[0].contains("not shown"));
    }

    #[test]
    fn a_failure_has_the_servers_words() {
        let failed =
            json!({"isError": true, "content": [{"type": "text", "text": "no such file"}]});
        assert_eq!(output(&failed).expect_err("a failure").to_string(), "no such file");
        assert!(output(&json!({"isError": true})).is_err());
    }
}
