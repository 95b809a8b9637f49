//! Settings of a model's answer, such as its maximum length. Every vendor has these settings in some form.

use std::{fmt, str::FromStr};

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind},
    secret::beginning,
};

/// How much the model thinks. Each wire translates the level into its vendor's setting. If the model does not have the
/// level, the vendor refuses the request. The vendor's error lists the levels of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effort {
    /// No thinking, or as little as the model allows.
    Off,
    /// Very little thinking.
    Minimal,
    /// Little thinking.
    Low,
    /// A moderate amount of thinking.
    Medium,
    /// Much thinking.
    High,
    /// Very much thinking.
    XHigh,
    /// As much thinking as the model allows.
    Max,
    /// Thinking of at most this number of tokens. Tokens of thinking count as tokens of the answer. Only Claude's
    /// models up to 4.5 and OpenRouter accept a budget of tokens. The budget must be less than
    /// [`max_tokens`](Settings::max_tokens), and for Claude at least 1,024 tokens. For other models and servers, the
    /// builder of the provider fails, and so does each request.
    Tokens(u32),
}

impl FromStr for Effort {
    type Err = Error;

    /// Reads the name of a level, such as `off` or `xhigh`.
    fn from_str(name: &str) -> Result<Self, Error> {
        Ok(match name.trim().to_ascii_lowercase().as_str() {
            "off" => Self::Off,
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::XHigh,
            "max" => Self::Max,
            _ => {
                let name = beginning(name, 40);
                let what = format!(
                    "`{name}` is no effort; expected `off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`"
                );
                return Err(Error::new(ErrorKind::Configuration, what));
            }
        })
    }
}

/// Whether the model may, must or must not call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call a tool.
    Required,
    /// The model must not call a tool. The tools are still sent, so that the prompt cache stays valid.
    Forbidden,
    /// The model must call the tool with this name.
    Tool(String),
}

/// How the vendor's prompt cache is used. A vendor caches the beginning of a request for some time.
/// If another request begins with the same bytes, the cached part costs about a tenth of its price.
///
/// | | Anthropic, also through OpenRouter | OpenAI up to `gpt-5.5` | OpenAI from `gpt-5.6` | others |
/// |---|---|---|---|---|
/// | `Off` | nothing is marked | cannot be switched off | no writes (`mode: explicit`) | as the server does |
/// | `Short` | marks for 5 minutes: tools, system prompt, last message | 5 to 10 minutes | 30 minutes | as the server does |
/// | `Long` | the same marks for 1 hour; writing costs 2 times the input price instead of 1.25 times | 24 hours, where the model has it | 30 minutes | as the server does |
///
/// Sources: <https://docs.claude.com/en/docs/build-with-claude/prompt-caching> and
/// <https://platform.openai.com/docs/guides/prompt-caching>.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PromptCache {
    /// Requests do not use the cache, if the vendor allows this.
    Off,
    /// The vendor keeps cached bytes for minutes. This is the cheapest choice for a conversation without long pauses.
    #[default]
    Short,
    /// The vendor keeps cached bytes for an hour or more, if possible. Use this for conversations with long pauses.
    Long,
}

/// The settings of an answer. For a setting that is `None`, the vendor's default applies.
///
/// ```
/// use harness::provider::{Effort, Settings};
///
/// let settings = Settings { effort: Some(Effort::High), ..Settings::default() };
/// assert_eq!(settings.max_tokens, None);
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Settings {
    /// The maximum number of tokens of an answer, including thinking. If the model's [window](crate::context::Window)
    /// is known and has less room left, the agent requests fewer tokens.
    pub max_tokens: Option<u32>,
    /// The sampling temperature. Newer models refuse this setting.
    pub temperature: Option<f64>,
    /// The probability mass for nucleus sampling. Newer models refuse this setting.
    pub top_p: Option<f64>,
    /// Stop sequences: the answer ends at any of these texts.
    pub stop: Vec<String>,
    /// How much the model thinks.
    pub effort: Option<Effort>,
    /// Whether requests contain the thinking of earlier turns. Default `true`. Requests always contain the thinking
    /// since the user's last message: vendors refuse the result of a call without the thinking before the call. A user
    /// message directly after results, as after a stopped run, begins no new turn. There are two exceptions. If
    /// thinking is off for a model of Anthropic, requests contain no thinking, because the vendor would refuse them.
    /// Requests to a server that needs all thinking (`ThoughtReplay::Field`) always contain all thinking.
    ///
    /// `false` makes requests shorter. But the vendor's prompt cache then ends before the first message without its
    /// thinking.
    pub earlier_thinking: Option<bool>,
    /// Whether Claude's models send a summary of their thinking as text. Default `true`. Models from Opus 4.7 on send
    /// the summary only on request. From Opus 5.5 on, text that the model writes between calls also counts as thinking.
    /// With `false`, a reader may therefore see no text for minutes.
    pub thinking_text: Option<bool>,
    /// Whether the model may, must or must not call a tool. If the model [cannot be
    /// forced](crate::models::Model::forced_tools) to call a tool, the builder of the provider or the request fails.
    pub tool_choice: Option<ToolChoice>,
    /// Whether the model may make several calls in one answer.
    pub parallel_calls: Option<bool>,
    /// Whether the vendor enforces the schemas of the tools (strict mode). Default `false`. A tool whose schema has no
    /// [strict form](crate::tool::ToolSchema::strict) is sent without strict mode. In any case, the library checks the
    /// arguments of each call.
    pub strict_tools: Option<bool>,
    /// How the vendor's prompt cache is used. Default: [`PromptCache::Short`].
    pub prompt_cache: Option<PromptCache>,
    /// Groups requests that begin alike: OpenAI routes requests with the same key to the same machines, whose cache
    /// contains earlier requests. Default: the id of the conversation's first message, so that a conversation and its
    /// forks share a key, also after a restart. A server that is not known to accept a key gets a key only if the
    /// program sets one here. At most 64 characters; a longer key is hashed. If a key is set here, requests to OpenAI's
    /// models from `gpt-5.6` on also mark the end of the system prompt for the cache.
    pub cache_key: Option<String>,
    /// A name for the end user, for the vendor's abuse checks. Choose a name that does not identify the person.
    pub user: Option<String>,
    /// Additional members of the request's body, in the vendor's format.
    ///
    /// An object given here is merged with the request's object of the same name: values given here replace values of
    /// the request, `null` removes a value, and all other values stay (`output_config` with a `format` keeps the
    /// effort). Objects with different values of `type` are not merged. A value that is not merged replaces the whole
    /// member, and `null` removes the member. A `null` inside a new object is not sent. `tools` are added to the tools
    /// of the request. `messages`, `input` and `stream` cannot be replaced.
    pub extra: Map<String, Value>,
}

impl Settings {
    /// Returns these settings. Values that are not set come from `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let Self {
            max_tokens,
            temperature,
            top_p,
            stop,
            effort,
            earlier_thinking,
            thinking_text,
            tool_choice,
            parallel_calls,
            strict_tools,
            prompt_cache,
            cache_key,
            user,
            extra,
        } = self;
        let mut both = base.extra.clone();
        for (name, value) in extra {
            match both.get_mut(name) {
                Some(known) => merge_extra(known, value),
                None => _ = both.insert(name.clone(), value.clone()),
            }
        }
        Self {
            max_tokens: max_tokens.or(base.max_tokens),
            temperature: temperature.or(base.temperature),
            top_p: top_p.or(base.top_p),
            stop: if stop.is_empty() { base.stop.clone() } else { stop.clone() },
            effort: effort.or(base.effort),
            earlier_thinking: earlier_thinking.or(base.earlier_thinking),
            thinking_text: thinking_text.or(base.thinking_text),
            tool_choice: tool_choice.clone().or_else(|| base.tool_choice.clone()),
            parallel_calls: parallel_calls.or(base.parallel_calls),
            strict_tools: strict_tools.or(base.strict_tools),
            prompt_cache: prompt_cache.or(base.prompt_cache),
            cache_key: cache_key.clone().or_else(|| base.cache_key.clone()),
            user: user.clone().or_else(|| base.user.clone()),
            extra: both,
        }
    }
}

/// Merges `over` into a value. Objects are merged member by member, and a `null` in `over` removes the member. Any
/// other value is replaced. An object with a different `type` is also replaced.
pub fn merge(value: &mut Value, over: &Value) {
    let (Value::Object(members), Value::Object(more)) = (&mut *value, over) else {
        value.clone_from(over);
        return;
    };
    if is_another(members, more) {
        value.clone_from(over);
        return;
    }
    for (name, over) in more {
        match members.get_mut(name) {
            Some(_) if over.is_null() => _ = members.shift_remove(name),
            Some(known) => merge(known, over),
            None if over.is_null() => {}
            None => _ = members.insert(name.clone(), over.clone()),
        }
    }
}

/// Like [`merge`], but for two values of [`Settings::extra`]. A `null` stays in the result, because the `null` must
/// also remove the member that the library itself adds to the request.
fn merge_extra(value: &mut Value, over: &Value) {
    match (&mut *value, over) {
        (Value::Object(members), Value::Object(more)) if !is_another(members, more) => {
            for (name, over) in more {
                match members.get_mut(name) {
                    Some(known) if !over.is_null() => merge(known, over),
                    _ => _ = members.insert(name.clone(), over.clone()),
                }
            }
        }
        _ => value.clone_from(over),
    }
}

fn is_another(members: &Map<String, Value>, more: &Map<String, Value>) -> bool {
    more.get("type").is_some_and(|kind| members.get("type").is_some_and(|own| own != kind))
}

/// Shows only the names of the members of `extra`. The values may contain the key of a server that the vendor calls.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            max_tokens,
            temperature,
            top_p,
            stop,
            effort,
            earlier_thinking,
            thinking_text,
            tool_choice,
            parallel_calls,
            strict_tools,
            prompt_cache,
            cache_key,
            user,
            extra,
        } = self;
        f.debug_struct("Settings")
            .field("max_tokens", max_tokens)
            .field("temperature", temperature)
            .field("top_p", top_p)
            .field("stop", stop)
            .field("effort", effort)
            .field("earlier_thinking", earlier_thinking)
            .field("thinking_text", thinking_text)
            .field("tool_choice", tool_choice)
            .field("parallel_calls", parallel_calls)
            .field("strict_tools", strict_tools)
            .field("prompt_cache", prompt_cache)
            .field("cache_key", cache_key)
            .field("user", user)
            .field("extra", &extra.keys().collect::<Vec<_>>())
            .finish()
    }
}
