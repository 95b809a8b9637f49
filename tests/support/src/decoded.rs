//! Decodes a body for the tests of the wires: whole, byte by byte, and with one more member in each
//! event, which must all give the same.

use harness::{
    Error, StopReason, StreamEvent, Usage,
    provider::{Accumulator, ProviderResponse, ResponseSizeLimits},
    wire::{anthropic, chat, responses},
};
use serde_json::Value;

/// The events of a body, and how it ended.
#[derive(Debug)]
pub struct Decoded {
    pub events: Vec<StreamEvent>,
    pub end: Result<(), Error>,
    /// How many records said something.
    pub heard: u64,
}

/// A call as the events tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub ended: bool,
}

pub fn call(id: &str, name: &str, arguments: &str) -> Call {
    let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
    Call { id, name, arguments, ended: true }
}

impl Decoded {
    pub fn text(&self) -> String {
        let text = |event: &StreamEvent| match event {
            StreamEvent::TextDelta { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }

    pub fn reasoning(&self) -> String {
        let text = |event: &StreamEvent| match event {
            StreamEvent::ReasoningDelta { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }

    /// The calls in the order in which they began.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<(u32, Call)> = Vec::new();
        for event in &self.events {
            match event {
                StreamEvent::ToolCallStart { block, id, name } => {
                    let (id, name) = (id.clone(), name.clone());
                    calls.push((*block, Call { id, name, ..Call::default() }));
                }
                StreamEvent::ToolCallDelta { block, json } => {
                    assert!(!json.is_empty(), "an empty delta");
                    let call = &mut calls.iter_mut().rfind(|(of, _)| of == block).unwrap().1;
                    call.arguments.push_str(json);
                }
                StreamEvent::ToolCallArguments { block, json } => {
                    let call = &mut calls.iter_mut().rfind(|(of, _)| of == block).unwrap().1;
                    call.arguments.clone_from(json);
                }
                StreamEvent::ToolCallEnd { block } => {
                    let call = &mut calls.iter_mut().rfind(|(of, _)| of == block).unwrap().1;
                    assert!(!std::mem::replace(&mut call.ended, true), "a call ended twice");
                }
                _ => {}
            }
        }
        calls.into_iter().map(|(_, call)| call).collect()
    }

    pub fn completed(&self) -> Option<(StopReason, Usage)> {
        match self.events.last() {
            Some(StreamEvent::Completed { stop, usage }) => Some((*stop, **usage)),
            _ => None,
        }
    }

    pub fn stop(&self) -> StopReason {
        assert!(self.end.is_ok(), "{:?}", self.end);
        self.completed().unwrap().0
    }

    pub fn usage(&self) -> Usage {
        self.completed().unwrap().1
    }

    /// What is kept for the vendor, in order.
    pub fn kept(&self) -> Vec<Value> {
        let kept = |event: &StreamEvent| match event {
            StreamEvent::Vendor { data, .. } => Some(serde_json::from_str(data.json()).unwrap()),
            _ => None,
        };
        self.events.iter().filter_map(kept).collect()
    }

    /// What came of it, without the words of an error, which may quote an event.
    pub fn said(&self) -> String {
        let end = self.end.as_ref().map_err(Error::kind);
        format!("{:?}\n{end:?}\n{}", self.events, self.heard)
    }

    pub fn error(&self) -> &Error {
        self.end.as_ref().unwrap_err()
    }

    pub fn answer(&self) -> ProviderResponse {
        let mut answer = Accumulator::default();
        for event in &self.events {
            answer.push(event).unwrap();
        }
        answer.finish().unwrap()
    }
}

/// Reads a body in these pieces.
pub fn read(wire: &str, pieces: &[&[u8]], reading: chat::DecodeOptions) -> Decoded {
    macro_rules! read {
        ($decoder:expr) => {{
            let mut decoder = $decoder;
            let mut events = Vec::new();
            let mut end = Ok(());
            for piece in pieces {
                end = decoder.push(piece);
                events.extend(std::iter::from_fn(|| decoder.next_event()));
                if end.is_err() {
                    break;
                }
            }
            if end.is_ok() {
                end = decoder.finish();
                events.extend(std::iter::from_fn(|| decoder.next_event()));
            }
            Decoded { events, end, heard: decoder.heard() }
        }};
    }
    match wire {
        "anthropic" => read!(anthropic::decoder(ResponseSizeLimits::default())),
        "responses" => read!(responses::decoder(ResponseSizeLimits::default())),
        "chat" => read!(chat::decoder(ResponseSizeLimits::default(), reading)),
        other => panic!("there is no wire `{other}`"),
    }
}

/// Reads a body whole, byte by byte, and as `serde_json` reads it.
pub fn both_ways(wire: &str, body: &str, reading: chat::DecodeOptions) -> Decoded {
    let whole = read(wire, &[body.as_bytes()], reading);
    let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
    let cut = read(wire, &bytes, reading);
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "byte by byte is different");
    let unusual = read(wire, &[&unusual(body.as_bytes())], reading);
    assert_eq!(whole.said(), unusual.said(), "as `serde_json` reads it, it is different:\n{body}");
    whole
}

/// The body with a member more at the beginning of each event, whose name no wire knows. The name has
/// an escape in it: that is so unusual that the event is left to `serde_json`.
pub fn unusual(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut is_more, mut after_cr) = (false, false);
    for line in body.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
        let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start);
        match data.and_then(|data| data.strip_prefix(b"{")).filter(|_| !is_more) {
            Some(members) => {
                let is_empty = members.trim_ascii_start().first().is_none_or(|byte| *byte == b'}');
                out.extend_from_slice(b"data: {\"\\u0071\":0");
                out.extend_from_slice(if is_empty { b"" } else { b"," });
                out.extend_from_slice(members);
            }
            None => out.extend_from_slice(line),
        }
        // The data of one event may stand on many lines.
        is_more = data.is_some() || (is_more && after_cr && line == b"\n");
        after_cr = line.ends_with(b"\r");
    }
    out
}

/// Events as vendors send them that name each.
pub fn named(events: &[Value]) -> String {
    let one =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(one).collect()
}

/// Events as vendors send them that name none.
pub fn unnamed(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
