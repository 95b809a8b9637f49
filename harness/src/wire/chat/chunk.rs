//! The chunk of a stream. Every member is optional, and no type of a value is an error.

use serde::Deserialize;

use crate::{
    provider::Usage,
    wire::tolerant::{Arguments, Count, List, Obj, Raw, Text, TextOrList},
};

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) object: Text<'a>,
    #[serde(borrow, default)]
    pub(super) choices: List<Choice<'a>>,
    #[serde(default)]
    pub(super) usage: Obj<WireUsage>,
    #[serde(default)]
    pub(super) x_groq: Obj<Groq>,
    #[serde(borrow, default)]
    pub(super) error: Option<Raw<'a>>,
    #[serde(borrow, default)]
    pub(super) detail: Option<Raw<'a>>,
    /// The URLs of the sources of the answer, in each chunk.
    #[serde(borrow, default)]
    pub(super) citations: List<Text<'a>>,
    /// The same sources with titles.
    #[serde(borrow, default)]
    pub(super) search_results: List<Raw<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Obj<Delta<'a>>,
    /// The whole message so far, beside the delta or instead of it.
    #[serde(borrow, default)]
    pub(super) message: Obj<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: TextOrList<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: List<Raw<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: List<CallDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) function_call: Obj<Function<'a>>,
    /// The sources of the text.
    #[serde(borrow, default)]
    pub(super) annotations: List<Raw<'a>>,
    /// The pictures that the model generated.
    #[serde(borrow, default)]
    pub(super) images: List<Raw<'a>>,
    /// The audio of the answer.
    #[serde(borrow, default)]
    pub(super) audio: Obj<Audio<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Audio<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) data: Text<'a>,
    #[serde(borrow, default)]
    pub(super) transcript: Text<'a>,
    #[serde(default)]
    pub(super) expires_at: Count,
}

#[derive(Default, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function: Obj<Function<'a>>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    /// A call of something other than a function.
    #[serde(borrow, default)]
    pub(super) custom: Option<Raw<'a>>,
    /// The data that the server wants back with the call.
    #[serde(borrow, default)]
    pub(super) extra_content: Option<Raw<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default)]
    pub(super) usage: Obj<WireUsage>,
}

#[derive(Default, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    pub(super) prompt_tokens: Count,
    #[serde(default)]
    pub(super) completion_tokens: Count,
    #[serde(default)]
    pub(super) total_tokens: Count,
    #[serde(default)]
    pub(super) reasoning_tokens: Count,
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Count,
    #[serde(default)]
    pub(super) prompt_tokens_details: Obj<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Obj<CompletionDetails>,
}

#[derive(Default, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Count,
    #[serde(default)]
    pub(super) cache_write_tokens: Count,
}

#[derive(Default, Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Count,
}

impl WireUsage {
    /// The usage with the same meaning as on every wire. Some vendors do not count thinking as
    /// completion tokens; the total shows this.
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
