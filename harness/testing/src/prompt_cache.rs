//! A simulation of a vendor's prompt cache, as its documentation describes it.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use harness_core::{models::Price, provider::Usage};

/// The number of bytes of JSON that count as one token.
const BYTES: usize = 4;

/// The smallest number of tokens that is cached.
const LEAST: u64 = 1024;

/// The number of blocks before a mark that are searched for a cached one.
const LOOKBACK: usize = 20;

/// The most marks that a request may have.
const MARKS: usize = 4;

/// The size in tokens of the pieces that are cached without marks.
const PIECE: usize = 128;

/// Simulates a vendor's prompt cache: how many tokens of each request are read from it, how many are written to it,
/// and what all of them cost. Use it to test that the requests of a program begin with the same bytes.
///
/// Four bytes of JSON count as one token. Time is tokio's, so a test can let it pass with
/// `tokio::time::advance`.
///
/// ```
/// use harness::{
///     Agent, AnthropicProvider,
///     models::Price,
///     testing::{LoopbackServer, SimulatedCache, anthropic},
/// };
/// use std::sync::Arc;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let cache = Arc::new(SimulatedCache::anthropic());
/// let counts = Arc::clone(&cache);
/// let server = LoopbackServer::answering(move |request| {
///     let usage = counts.usage(request.body()).unwrap();
///     let (read, written) = (usage.cache_read.unwrap(), usage.cache_write.unwrap());
///     let rest = usage.input.unwrap() - read - written;
///     anthropic::body().text("Noted.").usage(rest, 3).cache(written, read).answer()
/// })
/// .await?;
/// let provider = AnthropicProvider::builder().api_key("k").base_url(server.url()).build()?;
/// let agent = Agent::builder(provider).build()?;
/// let mut chat = agent.chat();
/// chat.send("word ".repeat(2_000)).await?;
/// let reply = chat.send("And now?").await?;
/// // Everything before is read from the cache, for a tenth of its price.
/// assert!(reply.usage().cache_read > Some(2_000));
/// assert!(cache.cost(&Price::new(3.0, 15.0).cached(0.3, 3.75)) < 0.015);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Sources: <https://docs.claude.com/en/docs/build-with-claude/prompt-caching> and
/// <https://platform.openai.com/docs/guides/prompt-caching>; for tools that are found by a search,
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching>. Not simulated:
/// requests that reach another machine or begin before an earlier one was answered, models with another smallest
/// length, and OpenAI's marks from `gpt-5.6` on.
#[derive(Debug)]
pub struct SimulatedCache {
    is_marked: bool,
    held: Mutex<CachedPrefix>,
}

#[derive(Debug, Default)]
struct CachedPrefix {
    /// How long each beginning is cached, and until when.
    beginnings: HashMap<u64, (Duration, Instant)>,
    requests: Vec<Usage>,
}

/// A part of a request after which a cached beginning can end.
struct CacheBlock {
    text: String,
    /// How long it is cached, if it is marked.
    life: Option<Duration>,
}

impl SimulatedCache {
    /// The cache of Anthropic: [marked](harness_core::provider::PromptCache) parts of a request are cached for 5 minutes
    /// or an hour after their last use.
    pub fn anthropic() -> Self {
        Self { is_marked: true, held: Mutex::default() }
    }

    /// The cache of OpenAI for the models before `gpt-5.6`: any beginning is cached for 5 minutes or a day after its
    /// last use, for requests with the same `prompt_cache_key`. It reads the bodies of both protocols.
    pub fn openai() -> Self {
        Self { is_marked: false, held: Mutex::default() }
    }

    /// Counts a request with this body as the vendor would: all tokens that are sent, and those of them that are
    /// read from the cache or written to it.
    ///
    /// # Errors
    /// Fails if the body is not a JSON object, or has more marks than the vendor accepts.
    pub fn usage(&self, body: &[u8]) -> Result<Usage, String> {
        let body: Value = serde_json::from_slice(body).map_err(|err| err.to_string())?;
        if !body.is_object() {
            return Err("the body of a request is an object".to_owned());
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.beginnings.retain(|_, (_, until)| *until > now);
        let usage = match self.is_marked {
            true => held.marked(&blocks(&body), now)?,
            false => held.automatic(&body, now),
        };
        held.requests.push(usage);
        Ok(usage)
    }

    /// The counts of each request, in order.
    pub fn requests(&self) -> Vec<Usage> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }

    /// The cost of all requests, without their answers.
    pub fn cost(&self, price: &Price) -> f64 {
        let of = |usage: &Usage| price.of(&Usage { output: Some(0), ..*usage });
        self.requests().iter().filter_map(of).sum()
    }
}

impl CachedPrefix {
    fn marked(&mut self, blocks: &[CacheBlock], now: Instant) -> Result<Usage, String> {
        let marks = blocks.iter().filter(|block| block.life.is_some()).count();
        if marks > MARKS {
            return Err(format!(
                "A maximum of {MARKS} blocks with cache_control may be provided. Found {marks}."
            ));
        }
        let mut hasher = DefaultHasher::new();
        let (mut sent, mut ends) = (0, Vec::with_capacity(blocks.len()));
        for block in blocks {
            block.text.hash(&mut hasher);
            sent += tokens(block.text.len());
            ends.push((hasher.finish(), sent));
        }
        let marks: Vec<(usize, Duration)> =
            blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.life?))).collect();
        let mut read = 0;
        for (at, _) in &marks {
            let known = ends.iter().take(at + 1).rev().take(LOOKBACK + 1);
            for (end, tokens) in known {
                if let Some((life, until)) = self.beginnings.get_mut(end) {
                    *until = now + *life;
                    read = read.max(*tokens);
                    break;
                }
            }
        }
        let mut kept = read;
        for (at, life) in marks {
            let Some((end, tokens)) = ends.get(at).filter(|(_, tokens)| *tokens >= LEAST) else {
                continue;
            };
            kept = kept.max(*tokens);
            self.beginnings.insert(*end, (life, now + life));
        }
        let counts = |tokens| Some(tokens);
        Ok(Usage {
            input: counts(sent),
            cache_read: counts(read),
            cache_write: counts(kept - read),
            ..Usage::default()
        })
    }

    fn automatic(&mut self, body: &Value, now: Instant) -> Usage {
        let part = |name: &str| body.get(name).map(Value::to_string).unwrap_or_default();
        let text = ["tools", "instructions", "messages", "input"].map(part).concat();
        let life = match body.get("prompt_cache_retention").and_then(Value::as_str) {
            Some("24h") => Duration::from_secs(24 * 60 * 60),
            _ => Duration::from_secs(5 * 60),
        };
        let mut hasher = DefaultHasher::new();
        part("prompt_cache_key").hash(&mut hasher);
        let (mut read, mut is_read) = (0, true);
        let pieces = text.as_bytes().chunks_exact(PIECE * BYTES);
        for (count, piece) in (1..).zip(pieces) {
            piece.hash(&mut hasher);
            let end = hasher.finish();
            is_read &= self.beginnings.contains_key(&end);
            if is_read {
                read = count * tokens(piece.len());
            }
            self.beginnings.insert(end, (life, now + life));
        }
        let read = Some(read).filter(|read| *read >= LEAST).unwrap_or(0);
        let input = Some(tokens(text.len()));
        Usage { input, cache_read: Some(read), cache_write: None, ..Usage::default() }
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES)).unwrap_or(u64::MAX)
}

/// The parts of a request to Anthropic, in the order in which the vendor caches them.
fn blocks(body: &Value) -> Vec<CacheBlock> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut blocks: Vec<CacheBlock> = Vec::new();
    // A tool that is found by a search stands where it was found, and not at the beginning.
    let is_deferred = |tool: &Value| tool.get("defer_loading") == Some(&Value::Bool(true));
    let (deferred, tools): (Vec<Value>, Vec<Value>) =
        list(body.get("tools")).into_iter().partition(is_deferred);
    let in_full = |mut part: Value| {
        for reference in part.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten()
        {
            let name = reference.get("tool_name");
            let found = deferred.iter().find(|tool| name.is_some() && tool.get("name") == name);
            if let Some(found) = found {
                *reference = found.clone();
            }
        }
        part
    };
    for part in tools.into_iter().chain(list(body.get("system"))) {
        blocks.push(block("", part));
    }
    // If these change, the tools and the system prompt stay cached, and no message does.
    let settings = ["tool_choice", "thinking"].map(|name| body.get(name).map(Value::to_string));
    let mut before = settings.into_iter().flatten().collect::<String>();
    for message in list(body.get("messages")) {
        let role = message.get("role").map(Value::to_string).unwrap_or_default();
        for part in list(message.get("content")) {
            blocks.push(block(&format!("{before}{role}"), in_full(part)));
            before.clear();
        }
    }
    if let (Some(mark), Some(last)) = (body.get("cache_control"), blocks.last_mut()) {
        last.life = life(mark);
    }
    blocks
}

fn block(before: &str, mut part: Value) -> CacheBlock {
    let mark = part.as_object_mut().and_then(|part| part.shift_remove("cache_control"));
    CacheBlock { text: format!("{before}{part}"), life: mark.as_ref().and_then(life) }
}

/// How long a marked part is cached.
fn life(mark: &Value) -> Option<Duration> {
    (mark.get("type")? == "ephemeral").then(|| match mark.get("ttl").and_then(Value::as_str) {
        Some("1h") => Duration::from_secs(60 * 60),
        _ => Duration::from_secs(5 * 60),
    })
}
