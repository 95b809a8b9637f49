//! One chunk of a stream. Every member is optional, and a value of a wrong type is no error.

use serde::Deserialize;

use crate::wire::{
    token_details::{InputTokenDetails, OutputTokenDetails},
    tolerant::{
        RawArguments, RawJson, TextOrList, TolerantCount, TolerantList, TolerantObject,
        TolerantText,
    },
};
use harness_core::provider::Usage;

#[derive(Deserialize)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) model: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) object: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) choices: TolerantList<ChunkChoice<'a>>,
    #[serde(default)]
    pub(super) usage: TolerantObject<ChatWireUsage>,
    #[serde(default)]
    pub(super) x_groq: TolerantObject<GroqExtension>,
    #[serde(borrow, default)]
    pub(super) error: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    pub(super) detail: Option<RawJson<'a>>,
    /// The URLs of all sources of the answer. Each chunk repeats these URLs.
    #[serde(borrow, default)]
    pub(super) citations: TolerantList<TolerantText<'a>>,
    /// The same sources as in `citations`, with titles.
    #[serde(borrow, default)]
    pub(super) search_results: TolerantList<RawJson<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ChunkChoice<'a> {
    #[serde(default)]
    pub(super) index: TolerantCount,
    #[serde(borrow, default)]
    pub(super) delta: TolerantObject<ChunkDelta<'a>>,
    /// The whole message so far. Some servers send this member in addition to the delta or in place of the delta.
    #[serde(borrow, default)]
    pub(super) message: TolerantObject<ChunkDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: TolerantText<'a>,
}

#[derive(Deserialize)]
pub(super) struct ChunkDelta<'a> {
    #[serde(borrow, default)]
    pub(super) content: TextOrList<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_text: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: TolerantList<RawJson<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: TolerantList<CallDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) function_call: TolerantObject<FunctionDelta<'a>>,
    /// The citations of the text.
    #[serde(borrow, default)]
    pub(super) annotations: TolerantList<RawJson<'a>>,
    /// The pictures that the model generated.
    #[serde(borrow, default)]
    pub(super) images: TolerantList<RawJson<'a>>,
    /// A fragment of the answer's audio.
    #[serde(borrow, default)]
    pub(super) audio: TolerantObject<AudioDelta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct AudioDelta<'a> {
    #[serde(borrow, default)]
    pub(super) id: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) data: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) transcript: TolerantText<'a>,
    #[serde(default)]
    pub(super) expires_at: TolerantCount,
}

#[derive(Default, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: TolerantCount,
    #[serde(borrow, default)]
    pub(super) id: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) function: TolerantObject<FunctionDelta<'a>>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: TolerantText<'a>,
    /// The content of a call that is not a function call.
    #[serde(borrow, default)]
    pub(super) custom: Option<RawJson<'a>>,
    /// The data that requests with this call must contain.
    #[serde(borrow, default)]
    pub(super) extra_content: Option<RawJson<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<RawArguments<'a>>,
}

#[derive(Deserialize)]
pub(super) struct GroqExtension {
    #[serde(default)]
    pub(super) usage: TolerantObject<ChatWireUsage>,
}

#[derive(Default, Deserialize)]
pub(super) struct ChatWireUsage {
    #[serde(default)]
    pub(super) prompt_tokens: TolerantCount,
    #[serde(default)]
    pub(super) completion_tokens: TolerantCount,
    #[serde(default)]
    pub(super) total_tokens: TolerantCount,
    #[serde(default)]
    pub(super) reasoning_tokens: TolerantCount,
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: TolerantCount,
    #[serde(default)]
    pub(super) prompt_tokens_details: TolerantObject<InputTokenDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: TolerantObject<OutputTokenDetails>,
}

impl ChatWireUsage {
    /// The token counts in the library's form. Some vendors do not count thinking as completion tokens. In that case,
    /// the output is the total without the prompt.
    pub(super) fn known(&self) -> Usage {
        let prompt = self.prompt_tokens.0;
        let completion = self.completion_tokens.0;
        let details = self.completion_tokens_details.0.as_ref();
        let reasoning =
            details.and_then(|details| details.reasoning_tokens.0).or(self.reasoning_tokens.0);
        let rest = self.total_tokens.0.and_then(|total| total.checked_sub(prompt?));
        let output = match reasoning {
            Some(1..) => completion.max(rest),
            _ => completion,
        };
        let cache = self.prompt_tokens_details.0.as_ref();
        Usage {
            input: prompt,
            cache_read: cache
                .and_then(|cache| cache.cached_tokens.0)
                .or(self.prompt_cache_hit_tokens.0),
            cache_write: cache.and_then(|cache| cache.cache_write_tokens.0),
            output,
            reasoning,
            compaction: None,
        }
    }
}
