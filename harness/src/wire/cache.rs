//! What a request in OpenAI's protocols says of the prompt cache. Nothing is marked: the vendor keeps the longest
//! beginning by itself.
//!
//! Source: <https://platform.openai.com/docs/guides/prompt-caching>.

use super::{json::Body, media::Takes, names};
use crate::{
    models::CacheLife,
    provider::{PromptCache, Request, Settings},
};

/// So long a key may be.
const KEY: usize = 64;

pub(super) fn write(
    body: &mut Body<'_>,
    request: &Request<'_>,
    settings: &Settings,
    takes: &Takes,
) {
    let cache = settings.prompt_cache.unwrap_or_default();
    // Other servers that speak these protocols may refuse a member that they do not know.
    let is_known = matches!(takes.provider(), "openai" | "azure");
    let first = || request.messages().get(0).map(|first| first.id());
    let own = is_known && cache != PromptCache::Off;
    let key = settings.cache_key.as_deref().or_else(|| first().filter(|_| own));
    body.maybe("prompt_cache_key", key.map(|key| names::id(key, KEY)).as_ref());
    match (takes.cache_life().filter(|_| is_known), cache) {
        (Some(CacheLife::Retention), PromptCache::Long) => {
            body.value("prompt_cache_retention", "24h");
        }
        (Some(CacheLife::Options), PromptCache::Off) => {
            body.value("prompt_cache_options", &serde_json::json!({ "mode": "explicit" }));
        }
        _ => {}
    }
}
