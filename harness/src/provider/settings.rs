//! How a provider shall answer: the settings that every vendor has a word for.

use std::fmt;

use serde_json::{Map, Value};

/// How hard the model thinks. Each wire says it in its vendor's words; a level that a model does
/// not know is refused by the vendor, who names the levels that it does know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effort {
    /// Not at all, or as little as the model allows.
    Off,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// Moderately.
    Medium,
    /// Hard.
    High,
    /// Harder.
    XHigh,
    /// As hard as it can.
    Max,
}

/// Whether the model may, must or must not call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// It must call one.
    Required,
    /// It must not call any. The tools are still described, so that a prompt cache stays warm.
    Forbidden,
    /// It must call the tool of this name.
    Tool(String),
}

/// How the vendor's prompt cache is used. A vendor keeps the beginning of a request for a while, and reads it
/// for a tenth of its price or so when another request begins with the same bytes.
///
/// | | Anthropic, also through OpenRouter | OpenAI up to `gpt-5.5` | OpenAI from `gpt-5.6` | others |
/// |---|---|---|---|---|
/// | `Off` | nothing is marked | cannot be switched off | no writes (`mode: explicit`) | as the server does |
/// | `Short` | marks for 5 minutes: tools, system prompt, last message | 5 to 10 minutes | 30 minutes | as the server does |
/// | `Long` | the same marks for 1 hour; to write costs 2 times the input, else 1.25 | 24 hours, where the model has it | 30 minutes | as the server does |
///
/// Sources: <https://docs.claude.com/en/docs/build-with-claude/prompt-caching> and
/// <https://platform.openai.com/docs/guides/prompt-caching>.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PromptCache {
    /// It is not used, as far as the vendor allows that.
    Off,
    /// For minutes: the price of a conversation that goes on without long pauses is the lowest.
    #[default]
    Short,
    /// For an hour or more: for conversations that wait, such as for a person.
    Long,
}

/// How a provider shall answer. What is `None` is left to the vendor.
///
/// ```
/// use harness::provider::{Effort, Settings};
///
/// let settings = Settings { effort: Some(Effort::High), ..Settings::default() };
/// assert_eq!(settings.max_tokens, None);
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Settings {
    /// The most tokens of an answer, thinking included.
    pub max_tokens: Option<u32>,
    /// Chance in the choice of words. Newer models refuse it.
    pub temperature: Option<f64>,
    /// The share of likely words that is chosen from. Newer models refuse it.
    pub top_p: Option<f64>,
    /// Texts at which the answer stops.
    pub stop: Vec<String>,
    /// How hard the model thinks.
    pub effort: Option<Effort>,
    /// Whether the thinking of earlier turns goes back to the model, as it does unless this is `false`.
    /// Of the turn that goes on, since the person's last words, it goes back all the same: vendors
    /// refuse the results of calls without the thinking that led to them. Words that follow such results
    /// at once, as after a run that was stopped, begin no turn. A server that wants all
    /// thinking back ([`ThoughtReplay::Field`](crate::wire::chat::ThoughtReplay::Field)) gets it.
    ///
    /// It makes requests shorter, and the vendor's prompt cache is lost from the first message that is
    /// sent without its thinking.
    pub earlier_thinking: Option<bool>,
    /// Whether it may, must or must not call a tool. Newer models refuse to be forced.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may call several tools at once.
    pub parallel_calls: Option<bool>,
    /// Whether the vendor holds the model to the schemas of the tools. A tool whose schema has no
    /// [strict form](crate::tool::ToolSchema::strict) is sent without; unless this is `true`, all
    /// are. The arguments are checked when the call comes, whichever it is.
    pub strict_tools: Option<bool>,
    /// How the vendor's prompt cache is used. Default: [`PromptCache::Short`].
    pub prompt_cache: Option<PromptCache>,
    /// Which requests have their beginning in common: OpenAI sends requests of one key to the same machines,
    /// whose cache holds what they have sent before. Default: the id of the first message, so each
    /// conversation and its forks have a key of their own, the same one after a restart. Servers that are not
    /// known to take a key get one only if it stands here. At most 64 letters; a longer one is hashed. Where it stands here,
    /// OpenAI's models from `gpt-5.6` on also get the end of the system prompt marked, for conversations that begin alike.
    pub cache_key: Option<String>,
    /// A name for the end user that says nothing about them, for the vendor's abuse checks.
    pub user: Option<String>,
    /// Members of the request's body in the vendor's own words.
    ///
    /// Where the request has such a member already and both are objects, they are merged: members
    /// given here win, `null` removes one, and what is not named stays (`output_config` with a
    /// `format` keeps the effort). A member of such an object that is `null` is not sent. An object whose `type` differs replaces the whole, as does any
    /// other value; `null` leaves the member out. `tools` are added to those of the request;
    /// `messages`, `input` and `stream` cannot be replaced.
    pub extra: Map<String, Value>,
}

impl Settings {
    /// These settings, with what they leave open taken from `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let Self {
            max_tokens,
            temperature,
            top_p,
            stop,
            effort,
            earlier_thinking,
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

/// Puts `over` over a value: members of objects one by one, everything else as a whole. An object
/// that says another `type` is another thing, and replaces. A member whose value is `null` takes away
/// what is there.
pub(crate) fn merge(value: &mut Value, over: &Value) {
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

/// As [`merge`], where both are members of a request's body in the vendor's own words. A `null` stays: it
/// takes away what the request says by itself, too.
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

/// Of the members in the vendor's own words only the names: their values may hold the key of a
/// server that the vendor is to ask.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            max_tokens,
            temperature,
            top_p,
            stop,
            effort,
            earlier_thinking,
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
