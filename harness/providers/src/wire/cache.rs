//! The members of a request for the vendor's prompt cache. OpenAI caches the conversation by
//! itself; the system prompt is marked if other conversations should find it. Anthropic caches what
//! is marked.
//!
//! Sources: <https://platform.openai.com/docs/guides/prompt-caching> and
//! <https://openrouter.ai/docs/guides/best-practices/prompt-caching>.

use super::{
    json::{JsonBody, comma, member, put, raw},
    media::ModelCapabilities,
    names,
    optional::{OptionalMember, RefusedMembers},
};
use harness_core::{
    models::CacheLife,
    provider::{BodyDraft, PromptCache, Request, Settings},
};

/// The maximum length of a key.
const KEY: usize = 64;

pub(super) fn write(
    body: &mut JsonBody<'_>,
    request: &Request<'_>,
    settings: &Settings,
    takes: &ModelCapabilities,
) {
    let cache = settings.prompt_cache.unwrap_or_default();
    // Other servers of these protocols may refuse unknown members.
    let is_known = matches!(takes.provider(), "openai" | "azure");
    let first = || request.first().map(|first| first.id());
    let own = is_known && cache != PromptCache::Off;
    let key = settings.cache_key.as_deref().or_else(|| first().filter(|_| own));
    if let Some(key) = key {
        body.optional(OptionalMember::CacheKey, |out| put(out, &names::id(key, KEY)));
    }
    match (takes.cache_life().filter(|_| is_known), cache) {
        (Some(CacheLife::Retention), PromptCache::Long) => {
            body.optional(OptionalMember::CacheRetention, |out| raw(out, "\"24h\""));
        }
        (Some(CacheLife::Options), PromptCache::Off) => {
            body.member("prompt_cache_options", |out| raw(out, r#"{"mode":"explicit"}"#));
        }
        _ => {}
    }
    // OpenRouter passes the member on to Anthropic, which then marks the last message of each
    // request itself.
    if takes.provider() == "openrouter"
        && takes.model().starts_with("anthropic/")
        && let Some(mark) = anthropic(cache)
    {
        body.optional(OptionalMember::CacheControl, |out| raw(out, mark));
    }
}

/// The mark at the end of a part that Anthropic caches. All marks of a request have the same
/// lifetime, because longer ones would have to precede shorter ones.
pub(super) fn anthropic(cache: PromptCache) -> Option<&'static str> {
    match cache {
        PromptCache::Off => None,
        PromptCache::Short => Some(r#"{"type":"ephemeral"}"#),
        PromptCache::Long => Some(r#"{"type":"ephemeral","ttl":"1h"}"#),
    }
}

/// Whether the system prompt is marked. OpenAI's newer models look up the beginning of a request
/// only up to marks, and the vendor itself sets one only after the newest message. A program that
/// sets a key indicates that its conversations begin alike. Without a key, each conversation has
/// its own key and finds only itself.
pub(super) fn marks_system(
    settings: &Settings,
    takes: &ModelCapabilities,
    refused: RefusedMembers,
) -> bool {
    settings.cache_key.is_some()
        && !refused.has(OptionalMember::CacheBreakpoint)
        && matches!(takes.provider(), "openai" | "azure")
        && takes.cache_life() == Some(CacheLife::Options)
        && settings.prompt_cache != Some(PromptCache::Off)
}

/// A marked text, as the only part of a message.
pub(super) fn marked(out: &mut BodyDraft, kind: &str, words: &str) {
    comma(out);
    raw(out, "{");
    member(out, "type", kind);
    member(out, "text", words);
    raw(out, r#","prompt_cache_breakpoint":{"mode":"explicit"}}"#);
}
