//! Estimates how many tokens each part of a request has.

use harness_schema::ToolSchema;
use serde::{Deserialize, Serialize};

use super::Usage;
use crate::message::{Block, Media, MediaKind, Message, Messages};

/// How many tokens each part of a request has.
///
/// Vendors count only the whole request. The parts are estimated from the text: a token has 4 Latin characters, 2
/// characters of a neighbouring alphabet, or 1 other character. A picture counts as 1,500 tokens. Any other file
/// counts as one token per 16 bytes, or as 1,500 tokens if its data is not in the transcript. Once the vendor has
/// counted the whole request, the parts are scaled to add up to the vendor's count, and `measured` is `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextTokens {
    /// The tokens of the system prompt.
    pub system: u64,
    /// The tokens of the tool definitions.
    pub tools: u64,
    /// The tokens of the messages, with calls and results.
    pub history: u64,
    /// The tokens of earlier thinking that is sent again.
    pub reasoning: u64,
    /// Whether the parts are scaled to the vendor's count of the whole request.
    pub measured: bool,
}

impl ContextTokens {
    /// The sum of the parts.
    pub fn total(&self) -> u64 {
        let Self { system, tools, history, reasoning, measured: _ } = self;
        system.saturating_add(*tools).saturating_add(*history).saturating_add(*reasoning)
    }

    /// Scales the parts to the vendor's count; without a count, returns the parts unchanged. If the vendor summarized
    /// the conversation before it answered, the tokens of this summary are not included.
    #[must_use]
    pub fn measured(self, usage: &Usage) -> Self {
        let (Some(input), estimated) = (usage.input, self.total()) else { return self };
        let whole = input.saturating_sub(usage.compaction.unwrap_or(0));
        if estimated == 0 {
            return Self { history: whole, measured: true, ..self };
        }
        let scaled = |part: u64| {
            let share = u128::from(part) * u128::from(whole) / u128::from(estimated);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let (system, tools) = (scaled(self.system), scaled(self.tools));
        let reasoning = scaled(self.reasoning);
        // The messages get the rounding difference, so that the parts add up to the whole.
        let history = whole.saturating_sub(system).saturating_sub(tools).saturating_sub(reasoning);
        Self { system, tools, history, reasoning, measured: true }
    }
}

/// Estimates the tokens of a growing conversation, reading each message once.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct ContextMeter {
    counted: usize,
    so_far: ContextTokens,
}

impl ContextMeter {
    /// Creates a meter for requests with this system prompt and these tools.
    pub fn new(system: Option<&str>, tools: &[ToolSchema]) -> Self {
        let of_tool = |tool: &ToolSchema| {
            tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.input_schema.to_string())
        };
        let so_far = ContextTokens {
            system: system.map(tokens).unwrap_or_default(),
            tools: tools.iter().map(of_tool).sum(),
            ..ContextTokens::default()
        };
        Self { counted: 0, so_far }
    }

    /// Adds this number of tokens for further tools.
    pub fn with_tools(mut self, tokens: u64) -> Self {
        self.so_far.tools = self.so_far.tools.saturating_add(tokens);
        self
    }

    /// The tokens of the tool definitions.
    pub fn tools(&self) -> u64 {
        self.so_far.tools
    }

    /// The tokens of the system prompt.
    pub fn system(&self) -> u64 {
        self.so_far.system
    }

    /// The estimate for a request with these messages. `messages` must begin with the messages that were counted
    /// before. Thinking in messages before the index `thinking_from` is not sent and not counted.
    pub fn count(&mut self, messages: &Messages, thinking_from: usize) -> ContextTokens {
        for (at, message) in messages.iter().enumerate().skip(self.counted) {
            let (said, thought) = of_message(message);
            self.so_far.history += said;
            if at >= thinking_from {
                self.so_far.reasoning += thought;
            }
        }
        self.counted = messages.len();
        self.so_far
    }

    /// Counts the messages that were replaced since `past` anew. None of the messages so far is sent with its thinking
    /// any more. Returns the number of counted messages, and their tokens.
    pub fn replace(&mut self, past: &Messages, messages: &Messages) -> (usize, ContextTokens) {
        for (at, old, new) in messages.replaced_since(past) {
            if at < self.counted {
                let without = self.so_far.history.saturating_sub(tokens_of(old));
                self.so_far.history = without.saturating_add(tokens_of(new));
            }
        }
        self.so_far.reasoning = 0;
        (self.counted, self.so_far)
    }
}

/// A rough count of a message's tokens, without its thinking.
#[doc(hidden)]
pub fn tokens_of(message: &Message) -> u64 {
    of_message(message).0
}

/// Two rough counts: the tokens of a message without its thinking, and the tokens of its thinking.
fn of_message(message: &Message) -> (u64, u64) {
    let (mut said, mut thought) = (0, 0);
    for block in message.blocks() {
        match block {
            Block::Reasoning(reasoning) => {
                let proof = reasoning.vendor().map(|data| tokens(data.json()));
                thought += tokens(reasoning.text()).max(proof.unwrap_or(0));
            }
            Block::Text(text) => said += tokens(text.text()),
            Block::Image(media) => said += of_media(MediaKind::Image, media),
            Block::Audio(media) => said += of_media(MediaKind::Audio, media),
            Block::Document(media) => said += of_media(MediaKind::Document, media),
            Block::ToolCall(call) => said += tokens(call.name()) + tokens(call.arguments()),
            Block::ToolResult(result) => {
                let parts = result.content().iter().map(|part| match part.media() {
                    Some((kind, media)) => of_media(kind, media),
                    None => part.to_text().map_or(0, |text| tokens(&text)),
                });
                said += parts.sum::<u64>();
            }
            Block::Vendor(data) => said += tokens(data.json()),
        }
    }
    (said, thought)
}

/// An estimate for a picture of the usual size, in tokens.
const PICTURE: u64 = 1500;

/// Estimates the tokens of a file. One token for 16 bytes fits PDF files and compressed audio: one page or one minute
/// has some tens of kilobytes, and costs a few thousand tokens.
fn of_media(kind: MediaKind, media: &Media) -> u64 {
    match (kind, media.text(), media.size()) {
        (MediaKind::Image, ..) | (_, None, None) => PICTURE,
        (_, Some(text), _) => tokens(text),
        (_, None, Some(size)) => u64::try_from(size / 16).unwrap_or(u64::MAX),
    }
}

/// A rough count of a text's tokens.
fn tokens(text: &str) -> u64 {
    // The code counts quarters of a token: a character of 1 byte counts 1, a character of 2 bytes 2, and a character of
    // 3 or 4 bytes 4. So each character counts its number of bytes, plus 1 for a character of 3 bytes.
    if text.is_ascii() {
        return u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(4);
    }
    let is_three = |byte: &u8| u8::from(byte & 0xf0 == 0xe0);
    // A chunk has at most 255 bytes, so a `u8` can hold its count. A wider integer would take more than ten times
    // as long.
    let of_chunk = |chunk: &[u8]| usize::from(chunk.iter().map(is_three).sum::<u8>());
    let of_three: usize = text.as_bytes().chunks(usize::from(u8::MAX)).map(of_chunk).sum();
    let quarters = u64::try_from(text.len().saturating_add(of_three)).unwrap_or(u64::MAX);
    quarters.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::{ContextMeter, ContextTokens};
    use crate::{
        message::{Block, Message, Messages, ReasoningBlock},
        provider::Usage,
    };

    #[test]
    fn a_letter_of_three_bytes_is_one_token_however_many_there_are() {
        for count in [1, 85, 86, 300, 5000] {
            assert_eq!(super::tokens(&"語".repeat(count)), count as u64);
        }
    }

    #[test]
    fn what_was_replaced_is_counted_as_if_all_were_counted_anew() {
        let thought = || Block::Reasoning(ReasoningBlock::new("hm".repeat(40), None));
        let said = |at: usize| Message::assistant([thought(), Block::text("word ".repeat(at))]);
        let past: Messages = (0..200).map(said).collect();
        let (mut meter, mut now) = (ContextMeter::new(Some("Be brief."), &[]), past.clone());
        let _ = meter.count(&past.range(..150), 0);
        for at in [0, 31, 32, 149, 150, 199] {
            now.replace(at, Message::assistant([thought(), Block::text("short")]));
        }
        let thinking_from = now.len();
        let (counted, tokens) = meter.replace(&past, &now);
        let anew =
            ContextMeter::new(Some("Be brief."), &[]).count(&now.range(..150), thinking_from);
        assert_eq!((counted, tokens), (150, anew));
        now.push(said(3));
        let anew = ContextMeter::new(Some("Be brief."), &[]).count(&now, thinking_from);
        assert_eq!(meter.count(&now, thinking_from), anew);
    }

    #[test]
    fn the_parts_are_estimated_and_then_scaled_to_what_was_counted() {
        let thought = Block::Reasoning(ReasoningBlock::new("hm".repeat(40), None));
        let said =
            [Message::user("x".repeat(400)), Message::assistant([thought, Block::text("日本")])];
        let said: Messages = said.into_iter().collect();
        let mut meter = ContextMeter::new(Some("Be brief."), &[]);
        let first = meter.count(&said.range(..1), 0);
        let expected = ContextTokens { system: 3, history: 100, ..ContextTokens::default() };
        assert_eq!(first, expected);
        let second = meter.count(&said, 0);
        assert_eq!((second.reasoning, second.history, second.total()), (20, 102, 125));
        assert_eq!(second.measured(&Usage::default()), second);

        let counted = Usage { input: Some(251), ..Usage::default() };
        let measured = second.measured(&counted);
        assert!(measured.measured);
        assert_eq!(measured.total(), 251, "the parts add up to the whole");
        assert_eq!((measured.system, measured.reasoning), (6, 40));

        let summed_up = Usage { input: Some(1251), compaction: Some(1000), ..Usage::default() };
        assert_eq!(second.measured(&summed_up), measured);
    }
}
