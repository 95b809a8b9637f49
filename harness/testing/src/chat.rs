//! Response bodies in the format of OpenAI's Chat Completions API, for the loopback server and for
//! tests of decoders. Source: the vendor's documentation of chat completion chunks. Many servers
//! deviate from this protocol; use [`ChatBody::delta`] for their deltas.

use std::fmt;

use serde_json::{Value, json};

use super::{
    Answer, deltas,
    events::{common_parts, set},
};

pub use super::responses::error;

/// Begins the stream of one answer. Add the answer's parts in order.
///
/// ```
/// use harness::testing::chat;
/// use serde_json::json;
///
/// let body = chat::body()
///     .text("Let me see.")
///     .call("call_1", "weather", json!({"city": "Oslo"}))
///     .call("call_2", "weather", json!({"city": "Rome"}))
///     .usage(120, 40);
/// assert!(body.to_string().contains(r#""finish_reason":"tool_calls""#));
/// assert!(body.to_string().ends_with("data: [DONE]\n\n"));
/// ```
pub fn body() -> ChatBody {
    ChatBody {
        id: "chatcmpl-01".to_owned(),
        model: "gpt-6.2".to_owned(),
        deltas: Vec::new(),
        calls: 0,
        stop: None,
        usage: Some(ChatUsage { prompt: 25, completion: 15, cached: 0, reasoning: 0 }),
        end: ChatEnd::Whole,
        done: true,
    }
}

/// The stream of one answer, which [`body`] begins. `to_string` returns the bytes of the stream; a
/// [`LoopbackServer`](super::LoopbackServer) accepts the value as an answer.
///
/// By default, text and arguments are split into several deltas, calls have an index, the token
/// counts are in a separate last chunk, and the stream ends with `[DONE]`.
#[derive(Clone, Debug)]
pub struct ChatBody {
    id: String,
    model: String,
    deltas: Vec<Value>,
    calls: usize,
    stop: Option<String>,
    usage: Option<ChatUsage>,
    end: ChatEnd,
    done: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct ChatUsage {
    prompt: u64,
    completion: u64,
    cached: u64,
    reasoning: u64,
}

#[derive(Clone, Debug)]
enum ChatEnd {
    Whole,
    Error(Value),
    Cut,
}

impl ChatBody {
    /// Adds text.
    #[must_use]
    pub fn text(self, text: impl AsRef<str>) -> Self {
        self.words("content", text.as_ref())
    }

    /// Adds the text of a refusal.
    #[must_use]
    pub fn refusal(self, text: impl AsRef<str>) -> Self {
        self.words("refusal", text.as_ref())
    }

    /// Adds thinking in this field of the delta. Servers use `reasoning_content` or `reasoning`.
    #[must_use]
    pub fn reasoning(self, field: &str, text: impl AsRef<str>) -> Self {
        self.words(field, text.as_ref())
    }

    /// Adds a call of one of the client's tools.
    #[must_use]
    pub fn call(self, id: &str, name: &str, arguments: Value) -> Self {
        self.call_text(id, name, arguments.to_string())
    }

    /// Adds a call with this argument text, which may be invalid JSON.
    #[must_use]
    pub fn call_text(mut self, id: &str, name: &str, arguments: impl AsRef<str>) -> Self {
        let index = self.calls;
        self.calls += 1;
        let start = json!({
            "index": index,
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        });
        let more = deltas::of_json(arguments.as_ref())
            .into_iter()
            .map(|text| json!({"index": index, "function": {"arguments": text}}));
        let deltas = std::iter::once(start).chain(more);
        self.deltas.extend(deltas.map(|call| json!({"tool_calls": [call]})));
        self
    }

    /// Adds a delta unchanged, for example a call without an index, two calls in one delta, or a
    /// vendor's own field.
    #[must_use]
    pub fn delta(mut self, delta: Value) -> Self {
        if delta.get("tool_calls").is_some() {
            self.calls += 1;
        }
        self.deltas.push(delta);
        self
    }

    /// Sets the finish reason, such as `length`. The default is `tool_calls` if there is a call,
    /// and otherwise `stop`.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Sets the token counts as this vendor reports them: `prompt` includes cached tokens,
    /// `completion` includes thinking.
    #[must_use]
    pub fn usage(mut self, prompt: u64, completion: u64) -> Self {
        self.usage = Some(ChatUsage { prompt, completion, ..self.usage.unwrap_or_default() });
        self
    }

    /// Sets the number of prompt tokens that came from the prompt cache.
    #[must_use]
    pub fn cached(mut self, tokens: u64) -> Self {
        self.usage = Some(ChatUsage { cached: tokens, ..self.usage.unwrap_or_default() });
        self
    }

    /// Sets the number of completion tokens that were used for thinking.
    #[must_use]
    pub fn reasoning_tokens(mut self, tokens: u64) -> Self {
        self.usage = Some(ChatUsage { reasoning: tokens, ..self.usage.unwrap_or_default() });
        self
    }

    /// Leaves out the token counts, which servers send only on request.
    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Leaves out `[DONE]`, as some servers do.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.done = false;
        self
    }

    /// Adds an error object in place of the next chunk, and ends the stream.
    #[must_use]
    pub fn error(mut self, code: &str, message: &str) -> Self {
        let error =
            json!({"message": message, "type": "server_error", "param": null, "code": code});
        self.end = ChatEnd::Error(json!({"error": error}));
        self
    }

    /// Ends the stream at this point, without a finish reason and without `[DONE]`.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = ChatEnd::Cut;
        self
    }

    fn words(mut self, field: &str, text: &str) -> Self {
        for piece in deltas::of_words(text) {
            let mut delta = json!({});
            set(&mut delta, field, piece);
            self.deltas.push(delta);
        }
        self
    }

    /// The chunks of the stream, without the final `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        let silent = self.deltas.first().is_none_or(|delta| delta.get("content").is_none());
        let content = if silent { Value::Null } else { "".into() };
        let role = json!({"role": "assistant", "content": content, "refusal": null});
        let mut chunks = vec![self.choice(&role, None)];
        chunks.extend(self.deltas.iter().map(|delta| self.choice(delta, None)));
        match &self.end {
            ChatEnd::Whole => {
                let by_itself = if self.calls > 0 { "tool_calls" } else { "stop" };
                let stop = self.stop.as_deref().unwrap_or(by_itself);
                chunks.push(self.choice(&json!({}), Some(stop)));
                chunks.extend(self.usage.map(|usage| self.chunk(&[], &counted(usage))));
            }
            ChatEnd::Error(error) => chunks.push(error.clone()),
            ChatEnd::Cut => {}
        }
        chunks
    }

    /// The answer of a server with this body: server-sent events with status 200.
    pub fn answer(&self) -> Answer {
        Answer::sse(self.to_string()).header("x-request-id", "req_01")
    }

    fn choice(&self, delta: &Value, stop: Option<&str>) -> Value {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": stop});
        self.chunk(&[choice], &Value::Null)
    }

    fn chunk(&self, choices: &[Value], usage: &Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": "fp_01",
            "choices": choices,
            "obfuscation": "x7Qp2Lm",
        });
        // If token counts were requested, every chunk has the member `usage`, which is null in all
        // chunks but the last.
        if self.usage.is_some() {
            set(&mut chunk, "usage", usage.clone());
        }
        chunk
    }
}

fn counted(ChatUsage { prompt, completion, cached, reasoning }: ChatUsage) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

/// Writes the stream as bytes: each chunk as the data of an unnamed event, and then `[DONE]`.
impl fmt::Display for ChatBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().iter().try_for_each(|chunk| write!(f, "data: {chunk}\n\n"))?;
        if self.done && matches!(self.end, ChatEnd::Whole) {
            f.write_str("data: [DONE]\n\n")?;
        }
        Ok(())
    }
}

common_parts!(ChatBody, "completion");
