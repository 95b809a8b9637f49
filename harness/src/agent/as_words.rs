//! Turns a call of the answer tool into the text of the answer. So the transcript, the events and
//! the check are the same for each way in which a provider asks for a structured answer.

use std::collections::HashMap;

use crate::provider::{AnswerSchema, StopReason, StreamEvent, VendorPart};

/// Reads the events of one answer.
pub(super) struct AsWords<'a> {
    /// The name of the answer tool, if an answer is wanted.
    tool: Option<&'a str>,
    /// The text so far of the blocks that call it.
    said: HashMap<u32, String>,
    /// Whether other tools are called, too.
    calls: bool,
}

impl<'a> AsWords<'a> {
    pub(super) fn new(answer: Option<&'a AnswerSchema>) -> Self {
        let tool = answer.map(|answer| &*answer.tool().name);
        Self { tool, said: HashMap::new(), calls: false }
    }

    /// The event that replaces this one, if any.
    pub(super) fn read(&mut self, event: StreamEvent) -> Option<StreamEvent> {
        let Some(tool) = self.tool else { return Some(event) };
        match event {
            StreamEvent::ToolCallStart { block, name, .. } if name == tool => {
                self.said.entry(block).or_default();
                None
            }
            StreamEvent::ToolCallDelta { block, json } if self.said.contains_key(&block) => {
                let said = self.said.entry(block).or_default();
                // Some servers send the whole call once more.
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
                    // The text that was already shown cannot be withdrawn. The answer will fail its
                    // check and be requested again.
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
