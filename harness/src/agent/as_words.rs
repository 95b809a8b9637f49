//! The call of the tool that takes the answer, read as the words of the answer: so the transcript, the events
//! and the check are the same in whichever way the model was asked for it.

use std::collections::HashMap;

use crate::provider::{AnswerSchema, StopReason, StreamEvent, VendorPart};

/// Reads the events of one answer.
pub(super) struct AsWords<'a> {
    /// The name of the tool, if an answer is wanted.
    tool: Option<&'a str>,
    /// What was said in the blocks that are calls of it.
    said: HashMap<u32, String>,
    /// Whether other tools are called, too.
    calls: bool,
}

impl<'a> AsWords<'a> {
    pub(super) fn new(answer: Option<&'a AnswerSchema>) -> Self {
        let tool = answer.map(|answer| &*answer.tool().name);
        Self { tool, said: HashMap::new(), calls: false }
    }

    /// The event that stands for this one, if one does.
    pub(super) fn read(&mut self, event: StreamEvent) -> Option<StreamEvent> {
        let Some(tool) = self.tool else { return Some(event) };
        match event {
            StreamEvent::ToolCallStart { block, name, .. } if name == tool => {
                self.said.entry(block).or_default();
                None
            }
            StreamEvent::ToolCallDelta { block, json } if self.said.contains_key(&block) => {
                let said = self.said.entry(block).or_default();
                // Some servers send a call once more whole.
                if serde_json::from_str::<serde::de::IgnoredAny>(said).is_ok() {
                    return None;
                }
                said.push_str(&json);
                Some(StreamEvent::TextDelta { block, text: json })
            }
            StreamEvent::ToolCallArguments { block, json } if self.said.contains_key(&block) => {
                let said = self.said.entry(block).or_default();
                let text = match json.strip_prefix(said.as_str()) {
                    Some(rest) => rest.to_owned(),
                    // What was shown cannot be taken back: the answer is checked, and asked for again.
                    None => json.clone(),
                };
                *said = json;
                (!text.is_empty()).then_some(StreamEvent::TextDelta { block, text })
            }
            StreamEvent::ToolCallEnd { block } if self.said.contains_key(&block) => None,
            StreamEvent::Vendor { block, part: VendorPart::ToolCall, .. }
                if self.said.contains_key(&block) =>
            {
                None
            }
            StreamEvent::Completed { stop: StopReason::ToolCalls, usage }
                if !self.calls && !self.said.is_empty() =>
            {
                Some(StreamEvent::Completed { stop: StopReason::Complete, usage })
            }
            event => {
                match event {
                    StreamEvent::ToolCallStart { .. } => self.calls = true,
                    StreamEvent::Discarded { .. } => {
                        self.said.clear();
                        self.calls = false;
                    }
                    _ => {}
                }
                Some(event)
            }
        }
    }
}
