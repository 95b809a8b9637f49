//! Two types: what a model's reasoning is bound to, and the instructions and tools that are added during a
//! conversation.

use harness_schema::ToolSchema;

/// What the reasoning of a provider's model is bound to. The newest models of Anthropic and OpenAI check the
/// instructions, tools and messages before the reasoning that is sent back. If this content has changed since the
/// reasoning was generated, the models refuse or drop the reasoning.
///
/// Sources: <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks>,
/// <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReasoningBinding {
    /// Whether reasoning is bound at all. If not, the other members have no meaning.
    pub is_bound: bool,
    /// Whether the provider can send [changed instructions and tools](super::PrefixAddition) after the messages so far.
    pub appends: bool,
    /// Whether the provider puts found tools at the position of the search that found them. Everything before that
    /// position then stays unchanged.
    pub defers_tools: bool,
    /// A text about other content before the messages, apart from instructions and tools: for example, whether the
    /// vendor enforces the tools' schemas, or the vendor's format of a typed answer. Two requests with equal texts
    /// have equal content here. Empty for most requests.
    pub form: String,
    /// The tool whose arguments are the typed answer, if the provider requests the answer through a tool. This tool
    /// counts as a tool of the request.
    pub answer_tool: Option<ToolSchema>,
    /// The name of the wire whose reasoning the provider sends back: see
    /// [`VendorData::wire`](crate::message::VendorData::wire). Empty if it is unknown.
    pub wire: &'static str,
}

impl ReasoningBinding {
    /// Creates a binding for reasoning that is bound to everything before it.
    pub fn bound() -> Self {
        Self { is_bound: true, ..Self::default() }
    }

    /// Sets whether changes can be sent after the messages so far.
    #[must_use]
    pub fn with_appended_changes(mut self, appends: bool) -> Self {
        self.appends = appends;
        self
    }

    /// Sets whether found tools are sent at the position of the search.
    #[must_use]
    pub fn with_deferred_tools(mut self, defers: bool) -> Self {
        self.defers_tools = defers;
        self
    }

    /// Sets the name of the wire whose reasoning the provider sends back.
    #[must_use]
    pub fn with_wire(mut self, wire: &'static str) -> Self {
        self.wire = wire;
        self
    }

    /// Sets the text about other content before the messages.
    #[must_use]
    pub fn with_form(mut self, form: String) -> Self {
        self.form = form;
        self
    }

    /// Sets the tool whose arguments are the typed answer.
    #[must_use]
    pub fn with_answer_tool(mut self, tool: Option<ToolSchema>) -> Self {
        self.answer_tool = tool;
        self
    }

    /// Combines two bindings into a binding that is safe for both providers.
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
                answer_tool: self.answer_tool.or(other.answer_tool),
                wire: if self.wire == other.wire { self.wire } else { "" },
            },
        }
    }
}

/// Instructions and tools that are sent after a message, because they changed during the conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PrefixAddition {
    /// The id of the message after which the instructions and tools are sent.
    pub after: String,
    /// The instructions. Their text tells the model that they replace earlier instructions.
    pub system: Option<String>,
    /// The tools. A tool replaces an earlier tool of the same name.
    pub tools: Vec<ToolSchema>,
}

impl PrefixAddition {
    /// Creates an addition after the message with the id `after`.
    pub fn new(after: String, system: Option<String>, tools: Vec<ToolSchema>) -> Self {
        Self { after, system, tools }
    }
}
