//! Simulates a vendor's prompt cache according to the vendor's documentation.

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

/// The minimum length of a cached prefix, in tokens.
const LEAST: u64 = 1024;

/// The number of blocks before a mark in which the vendor looks for a cached prefix.
const LOOKBACK: usize = 20;

/// The maximum number of marks in a request.
const MARKS: usize = 4;

/// Without marks, a cached prefix is a multiple of this number of tokens.
const PIECE: usize = 128;

/// Simulates a vendor's prompt cache: the tokens of each request that are read from or written to the cache, and the
/// cost of all requests. Use this to test that a program's requests begin with the same bytes.
///
/// Four bytes of JSON count as one token. The cache uses tokio's clock, so a test can let time pass with
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
/// <https://platform.openai.com/docs/guides/prompt-caching>; for tools found by a search,
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching>. Not simulated:
/// requests that reach another machine or start before an earlier request was answered, models with another minimum
/// length, and OpenAI's marks from `gpt-5.6` on.
#[derive(Debug)]
pub struct SimulatedCache {
    is_marked: bool,
    held: Mutex<CachedPrefix>,
}

#[derive(Debug, Default)]
struct CachedPrefix {
    /// For each cached prefix: its lifetime after each use, and its current expiry time.
    beginnings: HashMap<u64, (Duration, Instant)>,
    requests: Vec<Usage>,
}

/// A block of a request, after which a cached prefix can end.
struct CacheBlock {
    text: String,
    /// The lifetime in the cache, if the block is marked.
    life: Option<Duration>,
}

impl SimulatedCache {
    /// The cache of Anthropic. [Marked](harness_core::provider::PromptCache) parts of a request are cached for 5
    /// minutes or an hour after their last use.
    pub fn anthropic() -> Self {
        Self { is_marked: true, held: Mutex::default() }
    }

    /// The cache of OpenAI for models before `gpt-5.6`. Any prefix is cached for 5 minutes or a day after its last use,
    /// separately for each `prompt_cache_key`. Bodies of both OpenAI protocols are supported.
    pub fn openai() -> Self {
        Self { is_marked: false, held: Mutex::default() }
    }

    /// Processes a request with this body. Returns the token counts that the vendor would report: all input tokens, and
    /// how many of them were read from and written to the cache.
    ///
    /// # Errors
    /// Fails if the body is not a JSON object, or has more marks than the vendor allows.
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

    /// The token counts of each request, in order.
    pub fn requests(&self) -> Vec<Usage> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }

    /// The cost of all requests, excluding output tokens.
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

/// The blocks of a request to Anthropic, in the order in which the vendor caches them.
fn blocks(body: &Value) -> Vec<CacheBlock> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut blocks: Vec<CacheBlock> = Vec::new();
    // A tool found by a search is cached after the search result, not at the beginning.
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
    // A change of these settings invalidates the cached messages, but not the tools and the system prompt.
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

/// The lifetime of a marked part in the cache, or `None` for another type of mark.
fn life(mark: &Value) -> Option<Duration> {
    (mark.get("type")? == "ephemeral").then(|| match mark.get("ttl").and_then(Value::as_str) {
        Some("1h") => Duration::from_secs(60 * 60),
        _ => Duration::from_secs(5 * 60),
    })
}
