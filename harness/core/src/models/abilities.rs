//! The abilities of models, such as thinking or reading pictures. The price list does not contain these abilities, so
//! this file is maintained by hand.
//!
//! Sources, as of November 2026: the vendors' documentation and SDKs, and recorded responses of the vendors' servers,
//! such as a refused effort level (status 400). The answer lengths and the support of pictures and documents are from
//! the model table of LiteLLM 1.109.1. For a model that is missing here, the library sends only what every server
//! accepts.

use super::{
    CacheLife::{self, Options, Retention},
    Model,
    SchemaAnswers::{self, Never, WithoutTools},
    Thinking, find,
    find::ModelHost,
};
use crate::provider::Effort::{self, High, Low, Max, Medium, Minimal, Off, XHigh};

/// A family of models with the same abilities.
struct ModelFamily {
    names: &'static [&'static str],
    model: Model,
}

const fn family(names: &'static [&'static str], output: u32, thinking: Thinking) -> ModelFamily {
    let model = Model {
        price: None,
        window: None,
        output: Some(output),
        thinking: Some(thinking),
        thinks_unasked: None,
        efforts: None,
        images: Some(true),
        request_images: None,
        request_bytes: None,
        request_tools: None,
        documents: Some(true),
        audio: Some(false),
        strict_tools: Some(true),
        schema_answers: Some(SchemaAnswers::Always),
        cache_life: None,
        deferred_tools: Some(false),
        omits_thinking: Some(false),
        binds_reasoning: Some(false),
        appends_changes: None,
        forced_tools: None,
    };
    ModelFamily { names, model }
}

impl ModelFamily {
    const fn efforts(mut self, efforts: &'static [Effort]) -> Self {
        self.model.efforts = Some(efforts);
        self
    }

    /// Sets whether a model thinks if a request does not mention thinking.
    const fn unasked(mut self, thinks: bool) -> Self {
        self.model.thinks_unasked = Some(thinks);
        self
    }

    const fn strict(mut self, strict: Option<bool>) -> Self {
        self.model.strict_tools = strict;
        self
    }

    const fn with_schema_answers(mut self, answers: SchemaAnswers) -> Self {
        self.model.schema_answers = Some(answers);
        self
    }

    const fn cache(mut self, life: CacheLife) -> Self {
        self.model.cache_life = Some(life);
        self
    }

    const fn without_documents(mut self) -> Self {
        self.model.documents = Some(false);
        self
    }

    const fn text_only(mut self) -> Self {
        self.model.images = Some(false);
        self.model.documents = Some(false);
        self
    }

    const fn with_audio(mut self) -> Self {
        self.model.audio = Some(true);
        self
    }

    const fn defers_tools(mut self) -> Self {
        self.model.deferred_tools = Some(true);
        self
    }

    const fn omits_thinking(mut self) -> Self {
        self.model.omits_thinking = Some(true);
        self
    }

    const fn binds_reasoning(mut self) -> Self {
        self.model.binds_reasoning = Some(true);
        self
    }

    const fn refuses_forced_tools(mut self) -> Self {
        self.model.forced_tools = Some(false);
        self
    }

    /// Sets the context window in tokens, for models whose window the price list does not give.
    const fn window(mut self, window: u64) -> Self {
        self.model.window = Some(window);
        self
    }
}

/// By default, a family accepts pictures and documents and no audio.
#[rustfmt::skip]
static FAMILIES: &[ModelFamily] = &[
    // Anthropic. Models up to 4.5 think within a token budget. From 4.6 on, the model decides how much it thinks. From
    // 5 on, it also thinks if a request does not mention thinking.
    family(&["claude-3-haiku", "claude-3-sonnet", "claude-3-opus"], 4_096, Thinking::Never).unasked(false).without_documents().strict(Some(false)).with_schema_answers(Never),
    family(&["claude-3-5-haiku", "claude-3-5-sonnet"], 8_192, Thinking::Never).unasked(false).strict(Some(false)).with_schema_answers(Never),
    family(&["claude-3-7-sonnet"], 64_000, Thinking::Budget).unasked(false).strict(Some(false)).with_schema_answers(Never),
    family(&["claude-opus-4-0", "claude-opus-4", "claude-opus-4-1"], 32_000, Thinking::Budget).unasked(false).strict(Some(false)).with_schema_answers(Never),
    family(&["claude-sonnet-4-0", "claude-sonnet-4"], 64_000, Thinking::Budget).unasked(false).strict(Some(false)).with_schema_answers(Never),
    family(&["claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5"], 64_000, Thinking::Budget).unasked(false).defers_tools(),
    family(&["claude-sonnet-4-6", "claude-opus-4-6"], 128_000, Thinking::Effort).unasked(false).efforts(&[Off, Low, Medium, High, Max]).defers_tools(),
    family(&["claude-opus-4-7", "claude-opus-4-8"], 128_000, Thinking::Effort).unasked(false).efforts(&[Off, Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking(),
    family(&["claude-opus-5", "claude-sonnet-5"], 128_000, Thinking::Effort).unasked(true).efforts(&[Off, Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking(),
    // From 5.1 and 5.5 on, reasoning is bound to everything that precedes it in the request, and most models refuse a forced
    // call: `tool_choice: type "tool" and "any" are not supported for this model`.
    // Source: <https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5>.
    family(&["claude-haiku-5-5"], 128_000, Thinking::Effort).unasked(true).efforts(&[Off, Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking().binds_reasoning(),
    family(&["claude-sonnet-5-5"], 128_000, Thinking::BetweenCalls).unasked(true).efforts(&[Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking().binds_reasoning().refuses_forced_tools(),
    family(&["claude-opus-5-5"], 128_000, Thinking::Always).unasked(true).efforts(&[Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking().binds_reasoning().refuses_forced_tools(),
    family(&["claude-fable-5", "claude-mythos-5"], 128_000, Thinking::Always).unasked(true).efforts(&[Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking(),
    family(&["claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2"], 128_000, Thinking::Always).unasked(true).efforts(&[Low, Medium, High, XHigh, Max]).defers_tools().omits_thinking().binds_reasoning().refuses_forced_tools(),
    // OpenAI.
    family(&["gpt-4.1"], 32_768, Thinking::Never).cache(Retention),
    family(&["gpt-4.1-mini", "gpt-4.1-nano"], 32_768, Thinking::Never),
    family(&["gpt-4o", "gpt-4o-mini"], 16_384, Thinking::Never),
    family(&["gpt-4o-audio-preview", "gpt-4o-mini-audio-preview", "gpt-audio", "gpt-audio-mini"], 16_384, Thinking::Never).text_only().with_audio(),
    family(&["gpt-3.5-turbo"], 4_096, Thinking::Never).text_only().strict(Some(false)).with_schema_answers(Never),
    family(&["o3-mini"], 100_000, Thinking::Always).efforts(&[Low, Medium, High]).text_only(),
    family(&["o1", "o3", "o3-pro", "o4-mini"], 100_000, Thinking::Always).efforts(&[Low, Medium, High]),
    family(&["gpt-5"], 128_000, Thinking::Always).efforts(&[Minimal, Low, Medium, High]).cache(Retention),
    family(&["gpt-5-mini", "gpt-5-nano"], 128_000, Thinking::Always).efforts(&[Minimal, Low, Medium, High]),
    family(&["gpt-5-chat", "gpt-5-chat-latest", "gpt-5.1-chat-latest", "gpt-5.2-chat-latest", "gpt-5.3-chat-latest"], 16_384, Thinking::Never),
    family(&["gpt-5-codex", "gpt-5.1-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini", "gpt-5.2-codex"], 128_000, Thinking::Always).cache(Retention),
    family(&["gpt-5-pro"], 272_000, Thinking::Always),
    family(&["gpt-5.1"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High]).cache(Retention),
    family(&["gpt-5.2"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High, XHigh]).cache(Retention),
    family(&["gpt-5.4", "gpt-5.5"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High, XHigh]).cache(Retention).defers_tools(),
    family(&["gpt-5.3-codex"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High, XHigh]),
    family(&["gpt-5.4-mini", "gpt-5.4-nano"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High, XHigh]).defers_tools(),
    family(&["gpt-5.2-pro"], 128_000, Thinking::Always),
    family(&["gpt-5.4-pro", "gpt-5.5-pro"], 128_000, Thinking::Always).defers_tools(),
    family(&["gpt-5.6", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High, XHigh]).cache(Options).defers_tools(),
    family(&["gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra"], 128_000, Thinking::Effort).efforts(&[Off, Low, Medium, High, XHigh, Max]).cache(Options).defers_tools().binds_reasoning(),
    family(&["gpt-6-astra", "gpt-6.1-sol"], 128_000, Thinking::Always).efforts(&[Low, Medium, High, XHigh, Max]).cache(Options).defers_tools().binds_reasoning(),
    // Google.
    family(&["gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"], 65_536, Thinking::Budget).strict(None).with_schema_answers(WithoutTools).with_audio().window(1_048_576),
    family(&["gemini-3-pro-preview", "gemini-3.1-pro-preview"], 65_536, Thinking::Always).efforts(&[Low, Medium, High]).strict(None).with_audio().window(1_048_576),
    family(&["gemini-3-flash-preview", "gemini-3.1-flash-lite", "gemini-3.5-flash", "gemini-3.5-flash-lite", "gemini-3.6-flash"], 65_536, Thinking::Always).efforts(&[Minimal, Low, Medium, High]).strict(None).with_audio(),
    family(&["gemini-3.7-flash", "gemini-3.8-flash"], 65_536, Thinking::Always).efforts(&[Low, Medium, High]).strict(None).with_audio(),
];

/// The abilities of the model with this name, if a family contains it.
pub(super) fn of(name: &str) -> Option<Model> {
    let bare = find::without_vendor(name);
    let name = bare.as_deref().unwrap_or(name);
    let known = FAMILIES.iter().flat_map(|family| family.names.iter().map(move |of| (*of, family)));
    let fitting = known.filter(|(of, _)| find::is_of(name, of));
    let (_, family) = fitting.max_by_key(|(of, _)| of.len())?;
    Some(family.model)
}

/// The maximum number of tools in a request to a model of this host. The limit also applies if another service, such as
/// Azure, runs the model.
///
/// Sources: <https://platform.openai.com/docs/api-reference/chat/create>, <https://console.groq.com/docs/api-reference>, and the
/// refusal `Invalid 'tools': array too long. Expected an array with maximum length 128`, also at Azure and Copilot.
pub(super) fn tools(host: ModelHost) -> Option<u32> {
    matches!(host, ModelHost::OpenAi | ModelHost::Groq).then_some(128)
}

/// The abilities that all models of a host have in common.
///
/// DeepSeek's servers refuse messages with anything but text (`unknown variant 'image_url', expected 'text'`), and
/// their JSON mode takes no schema. Groq refuses its JSON mode together with tools (`json mode cannot be combined
/// with tool/function calling`). It is unknown whether xAI and Mistral accept JSON mode together with tools.
///
/// Limits per request: Anthropic accepts 600 pictures and 32 MB, but only 100 pictures with a window of 200,000 tokens
/// (<https://platform.claude.com/docs/en/build-with-claude/vision>). OpenAI accepts 1,500 pictures and 512 MB
/// (<https://developers.openai.com/api/docs/guides/images-vision>). Groq accepts 5 pictures; error messages of its Qwen
/// models state 3 (<https://console.groq.com/docs/vision>). Mistral accepts 8 pictures
/// (<https://docs.mistral.ai/capabilities/vision>).
pub(super) fn at(host: ModelHost, window: Option<u64>) -> Model {
    match host {
        ModelHost::DeepSeek => Model {
            images: Some(false),
            documents: Some(false),
            audio: Some(false),
            schema_answers: Some(Never),
            ..Model::default()
        },
        ModelHost::XAi | ModelHost::Mistral | ModelHost::Groq => Model {
            schema_answers: Some(WithoutTools),
            request_images: match host {
                ModelHost::Mistral => Some(8),
                ModelHost::Groq => Some(5),
                _ => None,
            },
            ..Model::default()
        },
        ModelHost::Anthropic => Model {
            request_images: Some(if window.is_some_and(|it| it > 200_000) { 600 } else { 100 }),
            request_bytes: Some(32 * 1024 * 1024),
            ..Model::default()
        },
        ModelHost::OpenAi => Model {
            request_images: Some(1_500),
            request_bytes: Some(512 * 1024 * 1024),
            ..Model::default()
        },
        ModelHost::Google | ModelHost::Bedrock => Model::default(),
    }
}
