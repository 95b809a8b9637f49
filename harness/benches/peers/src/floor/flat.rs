//! A variant of the floor. Instead of the scan, `serde_json` deserializes each event into a flat
//! struct that borrows from the event. The struct has only the necessary members. A string is
//! copied only if it contains JSON escapes.

use std::borrow::Cow;

use serde::Deserialize;

use crate::subject::Failure;

/// `Option<Cow<str>>` would always copy the text. A `Cow` in a struct borrows the text.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Anthropic<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    index: Option<u32>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Responses<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    output_index: Option<u32>,
    #[serde(borrow)]
    delta: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    total_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u32>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, alias = "content")]
    text: Option<Text<'a>>,
}

/// Deserializes an event and appends its text.
pub fn flat(wire: &str, data: &[u8], text: &mut String) -> Result<(), Failure> {
    let said = |text: Option<Text<'_>>, out: &mut String| {
        if let Some(Text(more)) = text {
            out.push_str(&more);
        }
    };
    match wire {
        "anthropic" => {
            let event: Anthropic<'_> = serde_json::from_slice(data)?;
            if event.kind == "content_block_delta" && event.index.is_some() {
                said(event.delta.and_then(|delta| delta.text), text);
            }
        }
        "responses" => {
            let event: Responses<'_> = serde_json::from_slice(data)?;
            if event.kind == "response.output_text.delta" && event.output_index.is_some() {
                said(event.delta, text);
            }
        }
        _ if data == b"[DONE]" => {}
        _ => {
            let chunk: Chat<'_> = serde_json::from_slice(data)?;
            std::hint::black_box(chunk.usage.and_then(|usage| usage.total_tokens));
            for choice in chunk.choices {
                std::hint::black_box((choice.index, choice.finish_reason.is_some()));
                said(choice.delta.and_then(|delta| delta.text), text);
            }
        }
    }
    Ok(())
}
