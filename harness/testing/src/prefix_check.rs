//! Simulates vendors that accept reasoning only after an unchanged prefix.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use harness_core::models::Models;
use serde_json::Value;

use crate::{Answer, LoopbackServer, ReceivedRequest, anthropic};

/// Simulates how the newest models treat reasoning. Each piece of reasoning is bound to its exact prefix: the
/// instructions, the tools and all earlier messages. If a request contains a piece after another prefix, a
/// [refusing](Self::refusing) server always answers with status 400 and the vendor's error message. A
/// [dropping](Self::dropping) server ignores the piece and reports nothing.
///
/// The server of a provider without `.name("anthropic")` or `.name("openai")` counts as a gateway, which gets no changes
/// behind messages. The proofs are hashes, so a check in another process accepts the proofs of an earlier one, but it does
/// not know for what a vendor's summary stands.
///
/// Use this to test that a conversation survives a change of the program: other instructions, another doc comment, a
/// new tool. Bodies of Anthropic's Messages API and of OpenAI's Responses API are supported.
///
/// ```
/// use std::sync::Arc;
///
/// use harness::{Agent, AnthropicProvider, testing::{PrefixCheck, anthropic}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let check = Arc::new(PrefixCheck::refusing());
/// let server = check
///     .serve(|_, proof| anthropic::body().thinking("Hm.", proof).text("Yes.").answer())
///     .await?;
/// let provider = AnthropicProvider::builder().api_key("k").base_url(server.url()).build()?;
/// let mut chat = Agent::builder(provider).system("Be brief.").build()?.chat();
/// chat.send("One?").await?;
/// chat.send("Two?").await?;
/// assert_eq!((check.kept(), check.lost(), check.refusals()), (1, 0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The compared prefix consists of `system` or `instructions`, `tools`, the format of a typed answer (OpenAI), and the
/// messages. Cache marks, and tools that a search has not found yet, are ignored. The check also refuses changes within
/// a conversation that the vendor does not accept: a misplaced system message, an added tool without the required beta
/// header, and a choice of tools (OpenAI) that names an unlisted tool. A system message must follow a user message, and
/// must be the last message or precede an answer. A [summary by the
/// vendor](harness_core::context::Window::vendor_summaries) replaces the messages that it summarizes, and reasoning
/// after the summary stays bound to these messages.
///
/// Sources: <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>,
/// <https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages>,
/// <https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks> and
/// <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>. Not checked: a request for OpenAI's summary,
/// which has no tools, and requests to a model that binds nothing according to the [table of models](Models). A model
/// that binds its reasoning does not accept the reasoning of such a model.
#[derive(Debug)]
pub struct PrefixCheck {
    refuses: bool,
    kept: AtomicUsize,
    lost: AtomicUsize,
    refusals: AtomicUsize,
    /// The messages that each summary replaces, by the proof of the summary.
    summaries: Mutex<HashMap<String, Vec<Value>>>,
}

/// The beginning of every proof.
const PROOF: &str = "proof";

impl PrefixCheck {
    /// Simulates a server that refuses requests with reasoning after a changed prefix.
    pub fn refusing() -> Self {
        Self::new(true)
    }

    /// Simulates a server that drops reasoning after a changed prefix.
    pub fn dropping() -> Self {
        Self::new(false)
    }

    fn new(refuses: bool) -> Self {
        let (kept, lost, refusals, summaries) = Default::default();
        Self { refuses, kept, lost, refusals, summaries }
    }

    /// The number of pieces of reasoning with an unchanged prefix in the last accepted request.
    pub fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// The number of pieces of reasoning that were dropped because their prefix had changed, over all requests: a piece
    /// counts once for each request that contains it.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    /// The number of refused requests.
    pub fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Checks a request. Returns the proof for the reasoning in the answer: use it as the signature of thinking for
    /// Anthropic, and as the encrypted content for OpenAI. If the request asks for the vendor's summary, returns the
    /// proof of the summary.
    ///
    /// # Errors
    /// Returns the vendor's error response if the vendor would refuse the request.
    pub fn check(&self, request: &ReceivedRequest) -> Result<String, Answer> {
        let body = request.json();
        let mut summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = PrefixOfRequest::of(&body, &summaries);
        let is_compact = request.path().ends_with("/compact");
        if is_compact || body.get("compaction").is_some() {
            summaries.insert(prefix.proof(), prefix.messages.clone());
        }
        drop(summaries);
        if is_compact {
            return Ok(prefix.proof());
        }
        if let Some(fault) = prefix.fault(request) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(anthropic::error(400, "invalid_request_error", &fault));
        }
        let (mut kept, mut lost) = (0, 0);
        for (place, proof) in prefix.proofs() {
            if !prefix.is_checked || prefix.has_made(&proof) {
                kept += 1;
                continue;
            }
            if self.refuses {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                return Err(prefix.refusal(&place));
            }
            lost += 1;
        }
        self.kept.store(kept, Ordering::Relaxed);
        self.lost.fetch_add(lost, Ordering::Relaxed);
        Ok(prefix.proof())
    }

    /// Starts a server that checks each request. For each accepted request, the server calls `answer` with the request
    /// and a signature. The answer gives this signature to its reasoning, so that later requests can be checked.
    ///
    /// # Errors
    /// Fails if the operating system provides no port.
    pub async fn serve(
        self: &Arc<Self>,
        mut answer: impl FnMut(&ReceivedRequest, &str) -> Answer + Send + 'static,
    ) -> io::Result<LoopbackServer> {
        let check = Arc::clone(self);
        LoopbackServer::answering(move |request| match check.check(request) {
            Ok(proof) => answer(request, &proof),
            Err(refusal) => refusal,
        })
        .await
    }
}

/// The parts of a request to which reasoning is bound.
struct PrefixOfRequest {
    is_anthropic: bool,
    /// Whether the model checks its reasoning.
    is_checked: bool,
    /// The part of the request before the messages.
    head: String,
    messages: Vec<Value>,
    /// How many of these messages are not in the request, because a summary replaces them.
    summarized: usize,
    /// The first tool in the choice of tools that is not in the list of tools (OpenAI).
    unlisted: Option<String>,
}

impl PrefixOfRequest {
    fn of(body: &Value, summaries: &HashMap<String, Vec<Value>>) -> Self {
        let is_anthropic = body.get("messages").is_some();
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
        let vendor = if is_anthropic { "anthropic" } else { "openai" };
        let is_checked = Models::default().find(vendor, model).binds_reasoning != Some(false);
        let mut tools = list(body.get("tools"));
        tools.retain(|tool| tool.get("defer_loading") != Some(&Value::Bool(true)));
        let name = |tool: &Value| Some(tool.get("name")?.as_str()?.to_owned());
        let listed: Vec<_> = tools.iter().map(name).collect();
        let mut allowed = list(body.pointer("/tool_choice/tools")).into_iter();
        let unlisted = allowed.find(|tool| !listed.contains(&name(tool)));
        let unlisted = unlisted.map(|tool| name(&tool).unwrap_or_default());
        let mut head = vec![Value::Array(tools)];
        for path in ["/system", "/instructions", "/text/format"] {
            head.push(body.pointer(path).cloned().unwrap_or_default());
        }
        head.iter_mut().for_each(unmark);
        let mut messages = list(body.get(if is_anthropic { "messages" } else { "input" }));
        messages.iter_mut().for_each(unmark);
        let stands_for = |(at, message): (usize, &Value)| {
            let block = message.pointer("/content/0").filter(|_| is_anthropic).unwrap_or(message);
            let proof = block.get(if is_anthropic { "signature" } else { "encrypted_content" });
            let is_summary = block.get("type").and_then(Value::as_str) == Some("compaction");
            let proof = proof.and_then(Value::as_str).filter(|_| is_summary)?;
            Some((at, summaries.get(proof)?.clone()))
        };
        let mut summarized = 0;
        if let Some((at, mut all)) = messages.iter().enumerate().rev().find_map(stands_for) {
            summarized = all.len();
            all.extend(messages.split_off(at.saturating_add(1)));
            messages = all;
        }
        let head = Value::Array(head).to_string();
        Self { is_anthropic, is_checked, head, messages, summarized, unlisted }
    }

    /// The proof for reasoning after the first `count` messages.
    fn proof_behind(&self, count: usize) -> String {
        let mut hasher = DefaultHasher::new();
        self.head.hash(&mut hasher);
        for message in self.messages.iter().take(count) {
            message.to_string().hash(&mut hasher);
        }
        format!("{PROOF}:{count}:{:016x}", hasher.finish())
    }

    fn proof(&self) -> String {
        let proof = self.proof_behind(self.messages.len());
        if self.is_checked { proof } else { format!("{proof}:unbound") }
    }

    /// Whether the model produced the reasoning with this proof after a prefix of this request.
    fn has_made(&self, proof: &str) -> bool {
        let count = proof.split(':').nth(1).and_then(|count| count.parse().ok());
        count.is_some_and(|count| count < self.messages.len() && self.proof_behind(count) == proof)
    }

    /// The proofs in the request, each with its position.
    fn proofs(&self) -> Vec<(String, String)> {
        let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
        let ours = |proof: &String| proof.starts_with(PROOF);
        let mut proofs = Vec::new();
        for (at, message) in self.messages.iter().enumerate().skip(self.summarized) {
            if !self.is_anthropic {
                let proof = text(message, "encrypted_content").filter(ours);
                proofs.extend(proof.map(|proof| (format!("input[{at}]"), proof)));
                continue;
            }
            for (number, block) in list(message.get("content")).iter().enumerate() {
                let proof = text(block, "signature").filter(ours);
                let place = || format!("messages.{at}.content.{number}");
                proofs.extend(proof.map(|proof| (place(), proof)));
            }
        }
        proofs
    }

    fn refusal(&self, place: &str) -> Answer {
        let words = match self.is_anthropic {
            true => format!(
                "{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove \
                 the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
            ),
            false => format!(
                "The encrypted content of {place} could not be verified. Reason: Encrypted content could not be decrypted \
                 or parsed."
            ),
        };
        anthropic::error(400, "invalid_request_error", &words)
    }

    /// The first change in the conversation that the vendor does not accept, as an error message.
    fn fault(&self, request: &ReceivedRequest) -> Option<String> {
        let is = |message: &Value, name: &str, value: &str| {
            message.get(name).and_then(Value::as_str) == Some(value)
        };
        if let Some(name) = &self.unlisted {
            return Some(format!("Tool choice '{name}' not found in 'tools' parameter."));
        }
        let mut before = None;
        let sent = self.messages.iter().enumerate().skip(self.summarized);
        for (at, message) in sent.filter(|_| self.is_anthropic) {
            let is_system = is(message, "role", "system");
            if is_system && !before.is_some_and(|before| is(before, "role", "user")) {
                return Some(format!(
                    "messages.{at}: a `system` message must follow a `user` message"
                ));
            }
            let is_after_system = before.is_some_and(|before| is(before, "role", "system"));
            if is_after_system && !is(message, "role", "assistant") {
                return Some(format!(
                    "messages.{at}: a `system` message must either be the last entry in `messages` or be immediately \
                     followed by an `assistant` turn"
                ));
            }
            let adds = |block: &Value| is(block, "type", "tool_addition");
            let beta = request.header("anthropic-beta").unwrap_or_default();
            if list(message.get("content")).iter().any(adds) && !beta.contains("inline-tools-") {
                return Some(format!("messages.{at}.content: `tool_addition` needs a beta header"));
            }
            before = Some(message);
        }
        None
    }
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Removes the cache marks.
fn unmark(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "cache_control" && name != "prompt_cache_breakpoint");
            members.values_mut().for_each(unmark);
        }
        Value::Array(values) => values.iter_mut().for_each(unmark),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
