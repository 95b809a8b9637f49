//! The stream of one answer, from `response.created` to the final event.

use std::fmt;

use serde_json::{Value, json};

use super::item::{ItemStatus, OutputItem};
use crate::{
    Answer,
    events::{common_parts, set, write_named},
};

/// Begins the stream of one answer. Add the answer's items in order.
///
/// ```
/// use harness::testing::responses;
/// use serde_json::json;
///
/// let body = responses::body()
///     .reasoning(&["The user wants the weather."], "gAAAAB")
///     .call("call_1", "weather", json!({"city": "Oslo"}))
///     .usage(120, 40);
/// assert!(body.to_string().starts_with("event: response.created\n"));
/// assert!(body.to_string().contains("event: response.completed\n"));
/// ```
pub fn body() -> ResponsesBody {
    ResponsesBody {
        id: "resp_01".to_owned(),
        model: "gpt-6.2".to_owned(),
        items: Vec::new(),
        usage: ResponsesUsage { input: 25, output: 15, cached: 0, reasoning: 0 },
        end: ResponsesEnd::Completed,
    }
}

/// The stream of one answer, which [`body`] begins. `to_string` returns the bytes of the stream; a
/// [`LoopbackServer`](crate::LoopbackServer) accepts the value as an answer.
///
/// As with the real service, text, summaries and arguments are split into several deltas, and the
/// events at the end of an item repeat the complete content. The id of an item contains its index:
/// `msg_0`, `fc_1`, `rs_2`.
#[derive(Clone, Debug)]
pub struct ResponsesBody {
    id: String,
    model: String,
    items: Vec<OutputItem>,
    usage: ResponsesUsage,
    end: ResponsesEnd,
}

#[derive(Clone, Copy, Debug)]
struct ResponsesUsage {
    input: u64,
    output: u64,
    cached: u64,
    reasoning: u64,
}

#[derive(Clone, Debug)]
enum ResponsesEnd {
    Completed,
    Incomplete(String),
    Failed { announced: bool, code: String, message: String },
    Cut { in_item: bool },
}

impl ResponsesBody {
    /// Adds text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(OutputItem::Text(text.into()))
    }

    /// Adds the text of a refusal.
    #[must_use]
    pub fn refusal(self, text: impl Into<String>) -> Self {
        self.with(OutputItem::Refusal(text.into()))
    }

    /// Adds thinking with the parts of its summary and its encrypted content. The summary may be
    /// empty. As with the real service, the first event of the item contains only the beginning of
    /// the encrypted content.
    #[must_use]
    pub fn reasoning(self, summary: &[&str], encrypted: &str) -> Self {
        let summary = summary.iter().copied().map(str::to_owned).collect();
        self.with(OutputItem::Reasoning { summary, encrypted: encrypted.to_owned() })
    }

    /// Adds a call of one of the client's tools.
    #[must_use]
    pub fn call(self, call_id: &str, name: &str, arguments: Value) -> Self {
        self.call_text(call_id, name, arguments.to_string())
    }

    /// Adds a call with this argument text, which may be invalid JSON.
    #[must_use]
    pub fn call_text(self, call_id: &str, name: &str, arguments: impl Into<String>) -> Self {
        self.with(OutputItem::Call {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.into(),
        })
    }

    /// Adds an item without deltas, such as a search that the vendor ran.
    #[must_use]
    pub fn item(self, item: Value) -> Self {
        self.with(OutputItem::Whole(item))
    }

    /// Ends the answer early with this reason: `max_output_tokens` or `content_filter`. The last
    /// item stays incomplete.
    #[must_use]
    pub fn incomplete(mut self, reason: &str) -> Self {
        self.end = ResponsesEnd::Incomplete(reason.to_owned());
        self
    }

    /// Ends the stream with `response.failed`, after the items added before this call.
    #[must_use]
    pub fn failed(mut self, code: &str, message: &str) -> Self {
        let (code, message) = (code.to_owned(), message.to_owned());
        self.end = ResponsesEnd::Failed { announced: false, code, message };
        self
    }

    /// Ends the stream with `error` and `response.failed`, after the items added before this call.
    #[must_use]
    pub fn error(mut self, code: &str, message: &str) -> Self {
        let (code, message) = (code.to_owned(), message.to_owned());
        self.end = ResponsesEnd::Failed { announced: true, code, message };
        self
    }

    /// Ends the stream without a final event, after the items added before this call.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = ResponsesEnd::Cut { in_item: false };
        self
    }

    /// Ends the stream inside the last item, after its deltas.
    #[must_use]
    pub fn cut_in_item(mut self) -> Self {
        self.end = ResponsesEnd::Cut { in_item: true };
        self
    }

    /// Sets the token counts as this vendor reports them: `input` includes cached tokens, `output`
    /// includes thinking.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = ResponsesUsage { input, output, ..self.usage };
        self
    }

    /// Sets the number of input tokens that came from the prompt cache.
    #[must_use]
    pub fn cached(mut self, tokens: u64) -> Self {
        self.usage.cached = tokens;
        self
    }

    /// Sets the number of output tokens that were used for thinking.
    #[must_use]
    pub fn reasoning_tokens(mut self, tokens: u64) -> Self {
        self.usage.reasoning = tokens;
        self
    }

    fn with(mut self, item: OutputItem) -> Self {
        self.items.push(item);
        self
    }

    /// The events of the stream, each as the JSON of its `data`. The `type` in the JSON is also the
    /// event's name.
    pub fn events(&self) -> Vec<Value> {
        let begun = self.response("in_progress", Vec::new());
        let mut events = vec![
            json!({"type": "response.created", "response": begun}),
            json!({"type": "response.in_progress", "response": begun}),
        ];
        let mut output = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            let last = index + 1 == self.items.len();
            let status = match &self.end {
                ResponsesEnd::Incomplete(_) if last => ItemStatus::Incomplete,
                ResponsesEnd::Cut { in_item: true } if last => ItemStatus::InProgress,
                _ => ItemStatus::Completed,
            };
            events.extend(item.events(index, status));
            output.push(item.at(index, status));
        }
        events.extend(self.ending(output));
        for (number, event) in events.iter_mut().enumerate() {
            set(event, "sequence_number", number);
        }
        events
    }

    /// The answer of a server with this body: server-sent events with status 200.
    pub fn answer(&self) -> Answer {
        Answer::sse(self.to_string()).header("x-request-id", "req_01")
    }

    fn ending(&self, output: Vec<Value>) -> Vec<Value> {
        match &self.end {
            ResponsesEnd::Completed => {
                let mut response = self.response("completed", output);
                set(&mut response, "usage", self.counted());
                vec![json!({"type": "response.completed", "response": response})]
            }
            ResponsesEnd::Incomplete(reason) => {
                let mut response = self.response("incomplete", output);
                set(&mut response, "incomplete_details", json!({"reason": reason}));
                set(&mut response, "usage", self.counted());
                vec![json!({"type": "response.incomplete", "response": response})]
            }
            ResponsesEnd::Failed { announced, code, message } => {
                let mut response = self.response("failed", output);
                set(&mut response, "error", json!({"code": code, "message": message}));
                let failed = json!({"type": "response.failed", "response": response});
                if !announced {
                    return vec![failed];
                }
                let error = json!({"type": code, "code": code, "message": message, "param": null});
                vec![json!({"type": "error", "error": error}), failed]
            }
            ResponsesEnd::Cut { .. } => Vec::new(),
        }
    }

    fn response(&self, status: &str, output: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": "response",
            "created_at": 1_790_000_000,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "prompt_cache_key": null,
            "reasoning": {"effort": "medium", "summary": null},
            "safety_identifier": null,
            "service_tier": "default",
            "store": false,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": null,
            "user": null,
        })
    }

    fn counted(&self) -> Value {
        let ResponsesUsage { input, output, cached, reasoning } = self.usage;
        json!({
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": input + output,
        })
    }
}

/// Writes the stream as bytes: each event with its name and its data.
impl fmt::Display for ResponsesBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_named(f, &self.events())
    }
}

common_parts!(ResponsesBody, "response");
