//! The details of token counts, which two wires send in the same form.

use serde::Deserialize;

use super::{
    json_walk::JsonWalk,
    tolerant::{TolerantCount, TolerantObject},
};

#[derive(Deserialize)]
pub(super) struct InputTokenDetails {
    #[serde(default)]
    pub(super) cached_tokens: TolerantCount,
    #[serde(default)]
    pub(super) cache_write_tokens: TolerantCount,
}

impl InputTokenDetails {
    pub(super) fn walk(walk: &mut JsonWalk<'_>) -> Option<TolerantObject<Self>> {
        let counts = TolerantCount::walk_all(walk, ["cached_tokens", "cache_write_tokens"])?;
        Some(TolerantObject(
            counts.map(|[cached_tokens, cache_write_tokens]| Self {
                cached_tokens,
                cache_write_tokens,
            }),
        ))
    }
}

#[derive(Deserialize)]
pub(super) struct OutputTokenDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: TolerantCount,
}

impl OutputTokenDetails {
    pub(super) fn walk(walk: &mut JsonWalk<'_>) -> Option<TolerantObject<Self>> {
        let counts = TolerantCount::walk_all(walk, ["reasoning_tokens"])?;
        Some(TolerantObject(counts.map(|[reasoning_tokens]| Self { reasoning_tokens })))
    }
}
