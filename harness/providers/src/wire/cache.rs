//! Writes the members of a request that control the vendor's prompt cache. The vendor caches the request up to a cache
//! mark. OpenAI caches conversations without a mark, and needs a mark only to share a system prompt between
//! conversations. Anthropic caches only up to the marks.
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

/// The maximum length of a cache key.
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
        body.optional(OptionalMember::CacheKey, &|out| put(out, &names::id(key, KEY)));
    }
    match (takes.cache_life().filter(|_| is_known), cache) {
        (Some(CacheLife::Retention), PromptCache::Long) => {
            body.optional(OptionalMember::CacheRetention, &|out| raw(out, "\"24h\""));
        }
        (Some(CacheLife::Options), PromptCache::Off) => {
            body.member("prompt_cache_options", &|out| raw(out, r#"{"mode":"explicit"}"#));
        }
        _ => {}
    }
    // OpenRouter passes the member `cache_control` on to Anthropic. Anthropic then marks the last message of each
    // request.
    if takes.provider() == "openrouter"
        && takes.model().starts_with("anthropic/")
        && let Some(mark) = anthropic(cache)
    {
        body.optional(OptionalMember::CacheControl, &|out| raw(out, mark));
    }
}

/// The cache mark for Anthropic. All marks of a request have the same lifetime, because Anthropic requires marks with a
/// longer lifetime to come first.
pub(super) fn anthropic(cache: PromptCache) -> Option<&'static str> {
    match cache {
        PromptCache::Off => None,
        PromptCache::Short => Some(r#"{"type":"ephemeral"}"#),
        PromptCache::Long => Some(r#"{"type":"ephemeral","ttl":"1h"}"#),
    }
}

/// Whether the system prompt gets a cache mark. Without this mark, OpenAI's newer models cache only up to the newest
/// message, and conversations cannot share a cached system prompt. The mark helps only conversations with a common
/// cache key, which the program sets. By default, each conversation has its own key.
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

/// Writes a text with a mark, as the only part of a message.
pub(super) fn marked(out: &mut BodyDraft, kind: &str, words: &str) {
    comma(out);
    raw(out, "{");
    member(out, "type", kind);
    member(out, "text", words);
    raw(out, r#","prompt_cache_breakpoint":{"mode":"explicit"}}"#);
}
