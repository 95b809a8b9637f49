//! Response bodies in the format of Anthropic's Messages API, for the loopback server and for tests
//! of decoders. Source: the vendor's documentation of streaming messages and errors.

use std::fmt;

use serde_json::{Value, json};

use super::{
    Answer, deltas,
    events::{common_parts, kind, set, write_named},
};

/// Begins the stream of one answer. Add the answer's blocks in order.
///
/// ```
/// use harness::testing::anthropic;
/// use serde_json::json;
///
/// let body = anthropic::body()
///     .text("Let me see.")
///     .call("toolu_1", "weather", json!({"city": "Oslo"}))
///     .usage(120, 40);
/// assert!(body.to_string().starts_with("event: message_start\n"));
/// assert!(body.to_string().contains(r#""stop_reason":"tool_use""#));
/// ```
pub fn body() -> AnthropicBody {
    AnthropicBody {
        id: "msg_01".to_owned(),
        model: "claude-opus-5-5".to_owned(),
        blocks: Vec::new(),
        stop: None,
        stop_details: None,
        usage: AnthropicUsage { input: 25, output: 15, ..AnthropicUsage::default() },
        ping: true,
        end: AnthropicEnd::Whole,
    }
}

/// The response to a failed request, with this status and the vendor's error object. `kind` is the
/// vendor's name for the error, such as `rate_limit_error`.
///
/// ```
/// use harness::testing::anthropic;
///
/// let busy = anthropic::error(429, "rate_limit_error", "Slow down").header("retry-after", "2");
/// # let _ = busy;
/// ```
pub fn error(status: u16, kind: &str, message: &str) -> Answer {
    let error = json!({"type": kind, "message": message});
    let body = json!({"type": "error", "error": error, "request_id": "req_01"});
    Answer::json(status, &body).header("request-id", "req_01")
}

/// The stream of one answer, which [`body`] begins. `to_string` returns the bytes of the stream; a
/// [`LoopbackServer`](super::LoopbackServer) accepts the value as an answer.
///
/// Text, thinking and arguments are split into several deltas, and a `ping` follows the first
/// `content_block_start`. The default stop reason depends on the blocks.
#[derive(Clone, Debug)]
pub struct AnthropicBody {
    id: String,
    model: String,
    blocks: Vec<AnthropicBlock>,
    stop: Option<String>,
    stop_details: Option<Value>,
    usage: AnthropicUsage,
    ping: bool,
    end: AnthropicEnd,
}

#[derive(Clone, Copy, Debug, Default)]
struct AnthropicUsage {
    input: u64,
    output: u64,
    cache_write: u64,
    cache_read: u64,
    thinking: Option<u64>,
}

/// One content block: its start event and its deltas.
#[derive(Clone, Debug)]
struct AnthropicBlock {
    start: Value,
    deltas: Vec<Value>,
}

#[derive(Clone, Debug)]
enum AnthropicEnd {
    Whole,
    Error(Value),
    Cut { in_block: bool },
}

impl AnthropicBody {
    /// Adds text.
    #[must_use]
    pub fn text(self, text: impl AsRef<str>) -> Self {
        let deltas = deltas::of_words(text.as_ref());
        self.with(
            json!({"type": "text", "text": ""}),
            deltas.iter().map(|text| json!({"type": "text_delta", "text": text})),
        )
    }

    /// Adds thinking with its signature. `text` is empty for hidden thinking.
    #[must_use]
    pub fn thinking(self, text: impl AsRef<str>, signature: &str) -> Self {
        let deltas = deltas::of_words(text.as_ref());
        let signed = json!({"type": "signature_delta", "signature": signature});
        self.with(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas
                .iter()
                .map(|text| json!({"type": "thinking_delta", "thinking": text}))
                .chain([signed]),
        )
    }

    /// Adds encrypted thinking, which only the vendor can read.
    #[must_use]
    pub fn redacted_thinking(self, data: &str) -> Self {
        self.block(json!({"type": "redacted_thinking", "data": data}))
    }

    /// Adds a call of one of the client's tools.
    #[must_use]
    pub fn call(self, id: &str, name: &str, arguments: Value) -> Self {
        let empty = arguments.as_object().is_some_and(serde_json::Map::is_empty);
        // The vendor sends no delta for a call without arguments.
        let text = if empty { String::new() } else { arguments.to_string() };
        self.call_text(id, name, text)
    }

    /// Adds a call with this argument text, which may be invalid JSON.
    #[must_use]
    pub fn call_text(self, id: &str, name: &str, arguments: impl AsRef<str>) -> Self {
        let deltas = deltas::of_json(arguments.as_ref());
        // The vendor's first delta is empty.
        let deltas = std::iter::once(String::new()).chain(deltas);
        self.with(
            json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            deltas.map(|text| json!({"type": "input_json_delta", "partial_json": text})),
        )
    }

    /// Adds a block without deltas, such as the result of a tool that the vendor runs itself.
    #[must_use]
    pub fn block(self, block: Value) -> Self {
        self.with(block, [])
    }

    /// Sets the stop reason, such as `max_tokens`. The default is `tool_use` if there is a call,
    /// and otherwise `end_turn`.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Ends the answer with a refusal by the model. `category` is the kind of the refusal, such as
    /// `cyber`.
    #[must_use]
    pub fn refusal(mut self, category: &str, explanation: &str) -> Self {
        let details = json!({"type": "refusal", "category": category, "explanation": explanation});
        self.stop_details = Some(details);
        self.stop("refusal")
    }

    /// Sets the token counts as this vendor reports them. `input` excludes tokens read from the
    /// cache and tokens written to the cache.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage.input = input;
        self.usage.output = output;
        self
    }

    /// Sets the tokens written to and read from the prompt cache.
    #[must_use]
    pub fn cache(mut self, written: u64, read: u64) -> Self {
        self.usage.cache_write = written;
        self.usage.cache_read = read;
        self
    }

    /// Sets the number of output tokens that were used for thinking.
    #[must_use]
    pub fn thinking_tokens(mut self, tokens: u64) -> Self {
        self.usage.thinking = Some(tokens);
        self
    }

    /// Leaves out the `ping` event.
    #[must_use]
    pub fn without_ping(mut self) -> Self {
        self.ping = false;
        self
    }

    /// Ends the stream with an error event, after the blocks added before this call.
    #[must_use]
    pub fn error(mut self, kind: &str, message: &str) -> Self {
        self.end = AnthropicEnd::Error(json!({"type": kind, "message": message}));
        self
    }

    /// Ends the stream without a stop reason, after the blocks added before this call.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = AnthropicEnd::Cut { in_block: false };
        self
    }

    /// Ends the stream inside the last block, before its `content_block_stop`.
    #[must_use]
    pub fn cut_in_block(mut self) -> Self {
        self.end = AnthropicEnd::Cut { in_block: true };
        self
    }

    fn with(mut self, start: Value, deltas: impl IntoIterator<Item = Value>) -> Self {
        self.blocks.push(AnthropicBlock { start, deltas: deltas.into_iter().collect() });
        self
    }

    /// The events of the stream, each as the JSON of its `data`. The `type` in the JSON is also the
    /// event's name.
    pub fn events(&self) -> Vec<Value> {
        let mut events = vec![self.message_start()];
        for (index, block) in self.blocks.iter().enumerate() {
            let last = index + 1 == self.blocks.len();
            let start = &block.start;
            events.push(
                json!({"type": "content_block_start", "index": index, "content_block": start}),
            );
            if self.ping && index == 0 {
                events.push(json!({"type": "ping"}));
            }
            for delta in &block.deltas {
                events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            if !(last && matches!(self.end, AnthropicEnd::Cut { in_block: true })) {
                events.push(json!({"type": "content_block_stop", "index": index}));
            }
        }
        match &self.end {
            AnthropicEnd::Whole => {
                events.push(self.message_delta());
                events.push(json!({"type": "message_stop"}));
            }
            AnthropicEnd::Error(error) => {
                events.push(json!({"type": "error", "error": error, "request_id": "req_01"}));
            }
            AnthropicEnd::Cut { .. } => {}
        }
        events
    }

    /// The answer of a server with this body: server-sent events with status 200.
    pub fn answer(&self) -> Answer {
        Answer::sse(self.to_string()).header("request-id", "req_01")
    }

    fn message_start(&self) -> Value {
        // The counts in `message_delta` later replace these counts.
        let mut usage = self.counted(1);
        set(&mut usage, "service_tier", "standard");
        json!({"type": "message_start", "message": {
            "model": self.model,
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        }})
    }

    fn message_delta(&self) -> Value {
        let calls = self.blocks.iter().any(|block| kind(&block.start) == "tool_use");
        let stop = self.stop.as_deref().unwrap_or(if calls { "tool_use" } else { "end_turn" });
        let mut delta = json!({"stop_reason": stop, "stop_sequence": null});
        if let Some(details) = &self.stop_details {
            set(&mut delta, "stop_details", details.clone());
        }
        let mut usage = self.counted(self.usage.output);
        if let Some(tokens) = self.usage.thinking {
            let details = json!({"thinking_tokens": tokens});
            set(&mut usage, "output_tokens_details", details);
        }
        json!({"type": "message_delta", "delta": delta, "usage": usage})
    }

    fn counted(&self, output: u64) -> Value {
        json!({
            "input_tokens": self.usage.input,
            "cache_creation_input_tokens": self.usage.cache_write,
            "cache_read_input_tokens": self.usage.cache_read,
            "output_tokens": output,
        })
    }
}

/// Writes the stream as bytes: each event with its name and its data.
impl fmt::Display for AnthropicBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_named(f, &self.events())
    }
}

common_parts!(AnthropicBody, "message");
