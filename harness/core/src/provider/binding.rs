//! What the reasoning of a model is bound to, and what of it a program has changed meanwhile.

use harness_schema::ToolSchema;

/// What the reasoning of a provider's model is bound to. The newest models of Anthropic and OpenAI refuse or drop reasoning
/// that is sent back behind other instructions, tools or messages than it was made behind.
///
/// Sources: <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>,
/// <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReasoningBinding {
    /// Whether it is bound at all. If not, the other members mean nothing.
    pub is_bound: bool,
    /// Whether the provider can send [changes](super::PrefixAddition) of instructions and tools behind the messages so far.
    pub appends: bool,
    /// Whether tools that a search has found are sent at the place of the search, so that they change nothing before it.
    pub defers_tools: bool,
    /// What a request has before its messages besides instructions and tools: whether the tools are held to their schemas,
    /// and what asks for a typed answer. Equal texts mean equal requests. Empty for most requests.
    pub form: String,
}

impl ReasoningBinding {
    /// Reasoning is bound to what comes before it.
    pub fn bound() -> Self {
        Self { is_bound: true, ..Self::default() }
    }

    /// With changes that can be sent behind the messages so far.
    #[must_use]
    pub fn with_appended_changes(mut self, appends: bool) -> Self {
        self.appends = appends;
        self
    }

    /// With tools that a search has found at the place of the search.
    #[must_use]
    pub fn with_deferred_tools(mut self, defers: bool) -> Self {
        self.defers_tools = defers;
        self
    }

    /// With what else a request has before its messages.
    #[must_use]
    pub fn with_form(mut self, form: String) -> Self {
        self.form = form;
        self
    }

    /// What holds where one of two providers answers.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.is_bound, other.is_bound) {
            (_, false) => Self { appends: self.appends && other.appends, ..self },
            (false, true) => Self { appends: self.appends && other.appends, ..other },
            (true, true) => Self {
                is_bound: true,
                appends: self.appends && other.appends,
                defers_tools: self.defers_tools && other.defers_tools,
                form: match self.form == other.form {
                    true => self.form,
                    false => format!("{}\n{}", self.form, other.form),
                },
            },
        }
    }
}

/// Instructions and tools that are sent behind a message, because they came when the conversation was going on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PrefixAddition {
    /// The id of the message.
    pub after: String,
    /// The instructions, in words that say that they replace earlier ones.
    pub system: Option<String>,
    /// The tools. One with the name of an earlier tool replaces it.
    pub tools: Vec<ToolSchema>,
}

impl PrefixAddition {
    /// These instructions and tools, behind the message with this id.
    pub fn new(after: String, system: Option<String>, tools: Vec<ToolSchema>) -> Self {
        Self { after, system, tools }
    }
}
