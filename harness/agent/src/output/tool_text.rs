//! Turns a call of the answer tool into the text of the answer. So the transcript, the events and the check are
//! the same for each way in which a provider requests a structured answer.

use harness_core::provider::{OutputSchema, StopReason, StreamEvent, VendorPart};

/// Reads the events of one answer.
pub(crate) struct OutputToolText<'a> {
    /// The name of the answer tool, if a structured answer is wanted.
    tool: Option<&'a str>,
    /// The arguments so far of each block that calls the answer tool, in the order of the blocks.
    arguments: Vec<(u32, OutputArguments)>,
    /// Whether the model has also called other tools.
    calls: bool,
}

/// The arguments of one call so far. They may be long and come in small pieces, so each byte is read only once.
#[derive(Default)]
struct OutputArguments {
    text: String,
    /// How many objects and lists are open.
    depth: usize,
    in_string: bool,
    /// Whether the last byte was a backslash that escapes the next byte.
    escapes: bool,
    /// Whether the object or list at the beginning of the text has ended.
    is_whole: bool,
}

impl OutputArguments {
    fn push(&mut self, json: &str) {
        self.text.push_str(json);
        for byte in json.bytes() {
            match byte {
                _ if self.escapes => self.escapes = false,
                b'\\' if self.in_string => self.escapes = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    self.is_whole |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

impl<'a> OutputToolText<'a> {
    pub(crate) fn new(answer: Option<&'a OutputSchema>) -> Self {
        let tool = answer.map(|answer| &*answer.tool().name);
        Self { tool, arguments: Vec::new(), calls: false }
    }

    /// The place of a block's arguments, or where they would be inserted.
    fn place_of(&self, block: u32) -> Result<usize, usize> {
        self.arguments.binary_search_by_key(&block, |(other, _)| *other)
    }

    fn arguments_of(&mut self, block: u32) -> Option<&mut OutputArguments> {
        let at = self.place_of(block).ok()?;
        self.arguments.get_mut(at).map(|(_, arguments)| arguments)
    }

    /// The arguments of the first complete call of the answer tool that `is_of_use` accepts. If `is_of_use`
    /// accepts no call, the arguments of the first complete call. `None` without a call, `Some(None)` if no
    /// call is complete.
    pub(crate) fn call(&self, is_of_use: impl Fn(&str) -> bool) -> Option<Option<&str>> {
        if self.arguments.is_empty() {
            return None;
        }
        let whole = || {
            self.arguments
                .iter()
                .filter(|(_, arguments)| arguments.is_whole)
                .map(|(_, arguments)| &*arguments.text)
        };
        Some(whole().find(|text| is_of_use(text)).or_else(|| whole().next()))
    }

    /// Returns the event that replaces `event`. `None` if the event is left out.
    pub(crate) fn read(&mut self, event: StreamEvent) -> Option<StreamEvent> {
        let Some(tool) = self.tool else { return Some(event) };
        match event {
            StreamEvent::ToolCallStart { block, name, .. } if name == tool => {
                if let Err(at) = self.place_of(block) {
                    self.arguments.insert(at, (block, OutputArguments::default()));
                }
                None
            }
            StreamEvent::ToolCallDelta { block, json } if self.place_of(block).is_ok() => {
                let arguments = self.arguments_of(block)?;
                // Some servers send the whole call a second time.
                if arguments.is_whole {
                    return None;
                }
                arguments.push(&json);
                Some(StreamEvent::TextDelta { block, text: json })
            }
            StreamEvent::ToolCallArguments { block, json } if self.place_of(block).is_ok() => {
                let arguments = self.arguments_of(block)?;
                let text = match json.strip_prefix(arguments.text.as_str()) {
                    Some(rest) => rest.to_owned(),
                    // The text that was already shown cannot be withdrawn. The answer will fail its check and
                    // be requested again.
                    None => json.clone(),
                };
                *arguments = OutputArguments::default();
                arguments.push(&json);
                (!text.is_empty()).then_some(StreamEvent::TextDelta { block, text })
            }
            StreamEvent::ToolCallEnd { block } if self.place_of(block).is_ok() => None,
            StreamEvent::Vendor { block, part: VendorPart::ToolCall, .. }
                if self.place_of(block).is_ok() =>
            {
                None
            }
            StreamEvent::Completed { stop: StopReason::ToolCalls, usage }
                if !self.calls && !self.arguments.is_empty() =>
            {
                Some(StreamEvent::Completed { stop: StopReason::Complete, usage })
            }
            event => {
                match event {
                    StreamEvent::ToolCallStart { .. } => self.calls = true,
                    StreamEvent::Discarded { .. } => {
                        self.arguments.clear();
                        self.calls = false;
                    }
                    _ => {}
                }
                Some(event)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OutputArguments;

    #[test]
    fn the_end_of_an_object_is_known_letter_by_letter() {
        let text = r#" ]} {"a\"}": ["}]", {"b": "\\"}], "c": {}} "#;
        let end = text.rfind('}').unwrap();
        let mut arguments = OutputArguments::default();
        for (at, letter) in text.char_indices() {
            assert_eq!(arguments.is_whole, at > end, "{at}");
            arguments.push(&letter.to_string());
        }
        assert_eq!(arguments.text, text);
    }
}
