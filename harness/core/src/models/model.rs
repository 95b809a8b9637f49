//! The data about one model, and the table with the program's own entries.

use std::fmt;

use super::{Price, find};
use crate::provider::Effort;

/// The data about a model. `None` means unknown: where a value matters, a program should assume the worst case, as the
/// library does.
///
/// ```
/// use harness::models::{Model, Models, Price};
///
/// let mine = Model { window: Some(32_000), ..Model::from(Price::new(0.5, 2.0)) };
/// let models = Models::default().with("my-model", mine);
/// assert_eq!(models.find("ollama", "my-model"), mine);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// The price of tokens, in US dollars unless the program uses another currency.
    pub price: Option<Price>,
    /// The context window: the maximum number of tokens of a request and its answer together.
    pub window: Option<u64>,
    /// The maximum number of tokens of an answer, including thinking.
    pub output: Option<u32>,
    /// How the model thinks.
    pub thinking: Option<Thinking>,
    /// Whether the model thinks if a request does not mention thinking.
    pub thinks_unasked: Option<bool>,
    /// The supported effort levels. [`Effort::Off`] is included if thinking can be turned off.
    pub efforts: Option<&'static [Effort]>,
    /// Whether the model accepts pictures. If unknown, pictures are sent, because many local models accept them.
    pub images: Option<bool>,
    /// The maximum number of pictures in a request.
    pub request_images: Option<u32>,
    /// The maximum size of a request in bytes.
    pub request_bytes: Option<u64>,
    /// The maximum number of tools in a request.
    pub request_tools: Option<u32>,
    /// Whether the model accepts PDF documents. If unknown, no documents are sent.
    pub documents: Option<bool>,
    /// Whether the model accepts audio. If unknown, no audio is sent.
    pub audio: Option<bool>,
    /// Whether the vendor can enforce the schemas of tools (strict mode).
    pub strict_tools: Option<bool>,
    /// Whether the vendor can enforce a schema for the answer.
    pub schema_answers: Option<SchemaAnswers>,
    /// The request option that sets the lifetime of the prompt cache, if the model has such an option. Cache marks do
    /// not count as an option.
    pub cache_life: Option<CacheLife>,
    /// Whether the vendor accepts [found tools](crate::tool::ToolSearch) at the position of the search that found them.
    /// The vendor's cache then stays valid for everything before this position.
    pub deferred_tools: Option<bool>,
    /// Whether the vendor omits the visible text of thinking, unless a request asks for the text.
    pub omits_thinking: Option<bool>,
    /// Whether the vendor binds reasoning to the instructions, the tools and all earlier messages: see
    /// [`ReasoningBinding`](crate::provider::ReasoningBinding).
    pub binds_reasoning: Option<bool>,
    /// Whether the server accepts changed instructions and tools after the messages so far, instead of before all
    /// messages. If unknown, the library sends changes in this position only to models that bind their reasoning: on
    /// the vendor's own hosts, and at providers that the program names `anthropic` or `openai`. A gateway may refuse
    /// or drop such changes.
    pub appends_changes: Option<bool>,
    /// Whether a request of Anthropic's protocol may force a call. If not,
    /// [`ToolChoice::Required`](crate::provider::ToolChoice::Required) and
    /// [`ToolChoice::Tool`](crate::provider::ToolChoice::Tool) are errors of the provider's builder or of the
    /// request.
    pub forced_tools: Option<bool>,
}

impl Model {
    /// This entry, with unknown values taken from `base`.
    #[doc(hidden)]
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let Self {
            price,
            window,
            output,
            thinking,
            thinks_unasked,
            efforts,
            images,
            request_images,
            request_bytes,
            request_tools,
            documents,
            audio,
            strict_tools,
            schema_answers,
            cache_life,
            deferred_tools,
            omits_thinking,
            binds_reasoning,
            appends_changes,
            forced_tools,
        } = self;
        Self {
            price: price.or(base.price),
            window: window.or(base.window),
            output: output.or(base.output),
            thinking: thinking.or(base.thinking),
            thinks_unasked: thinks_unasked.or(base.thinks_unasked),
            efforts: efforts.or(base.efforts),
            images: images.or(base.images),
            request_images: request_images.or(base.request_images),
            request_bytes: request_bytes.or(base.request_bytes),
            request_tools: request_tools.or(base.request_tools),
            documents: documents.or(base.documents),
            audio: audio.or(base.audio),
            strict_tools: strict_tools.or(base.strict_tools),
            schema_answers: schema_answers.or(base.schema_answers),
            cache_life: cache_life.or(base.cache_life),
            deferred_tools: deferred_tools.or(base.deferred_tools),
            omits_thinking: omits_thinking.or(base.omits_thinking),
            binds_reasoning: binds_reasoning.or(base.binds_reasoning),
            appends_changes: appends_changes.or(base.appends_changes),
            forced_tools: forced_tools.or(base.forced_tools),
        }
    }
}

/// Makes an entry in which only the price is known.
impl From<Price> for Model {
    fn from(price: Price) -> Self {
        Self { price: Some(price), ..Self::default() }
    }
}

/// Whether a vendor can enforce a schema for a model's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaAnswers {
    /// The vendor cannot enforce a schema.
    Never,
    /// The vendor can enforce a schema, but only in requests without tools.
    WithoutTools,
    /// The vendor can enforce a schema in any request.
    Always,
}

/// The request option for the lifetime of OpenAI's prompt cache.
///
/// Source: <https://platform.openai.com/docs/guides/prompt-caching>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheLife {
    /// The option is `prompt_cache_retention`. The cache lives for some minutes or for a day.
    Retention,
    /// The option is `prompt_cache_options`. The cache always lives for half an hour, and cache writes can be turned
    /// off.
    Options,
}

/// How a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// The model does not think.
    Never,
    /// The model thinks on request, within a token budget.
    Budget,
    /// The model thinks at the requested effort, and thinking can be turned off.
    Effort,
    /// The model thinks at the requested effort. If thinking is turned off, the model still thinks between tool calls.
    BetweenCalls,
    /// The model thinks at the requested effort, and thinking cannot be turned off.
    Always,
}

/// What the library knows about models: entries that the program adds, and the library's own table.
///
/// The program's entries are looked up by the requested model name and by the name in the response. An entry applies to
/// the model of that name and to its dated versions: `my-model` applies to `my-model-20260131`. An entry whose name
/// ends with `*` applies to all names with this beginning. The longest matching name wins. Values that an entry leaves
/// open come from the library's table. A response may name another model than the request, for example a file path. An
/// entry for the name in the response has precedence over an entry for the requested name, and both have precedence
/// over the library's table.
///
/// The library's table is looked up by provider and model, because prices differ between providers. The table contains
///
/// - the models of Anthropic, OpenAI, Google and xAI at any provider, also under names such as `anthropic/claude-..`,
///   `models/gemini-..` and `claude-..@20250929`,
/// - the models on Amazon Bedrock, under ids such as `us.anthropic.claude-..-v1:0` and with Bedrock's prices,
/// - the models of DeepSeek, Mistral and Groq, if the provider is one of these.
///
/// At other providers, open models have no entry, because their price depends on the host. Similar names do not match:
/// `gpt-5-pro` is not `gpt-5`.
///
/// Prices are list prices as of [`DATE`](super::DATE), without batch discounts, priority surcharges, taxes or
/// individual contracts. Set your own prices if exact costs matter.
#[derive(Clone, PartialEq)]
pub struct Models {
    /// The program's own entries, sorted by name.
    own: Vec<(String, Model)>,
    listed: bool,
}

impl Default for Models {
    fn default() -> Self {
        Self { own: Vec::new(), listed: true }
    }
}

impl Models {
    /// An empty table, which contains only the entries that the program adds.
    pub fn none() -> Self {
        Self { own: Vec::new(), listed: false }
    }

    /// Adds the entry for a name, or replaces an earlier entry. A [`Price`] alone is accepted as an entry.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, model: impl Into<Model>) -> Self {
        self.set(name.into(), model.into());
        self
    }

    fn set(&mut self, name: String, model: Model) {
        let at = self.own.partition_point(|(other, _)| *other < name);
        match self.own.get_mut(at).filter(|(other, _)| *other == name) {
            Some((_, there)) => *there = model,
            None => self.own.insert(at, (name, model)),
        }
    }

    /// The data about a model at a provider. `provider` is the [`name`](crate::provider::Provider::name) of the
    /// provider, such as `anthropic`.
    pub fn find(&self, provider: &str, model: &str) -> Model {
        self.own(model).over(self.listed(provider, model))
    }

    /// The price of an answer from `model` to a request that named `asked`. The program's entry for `model` has
    /// precedence, then the program's entry for `asked`, then the library's table.
    #[doc(hidden)]
    pub fn price(&self, provider: &str, model: &str, asked: Option<&str>) -> Option<Price> {
        let own = self.own(model).price.or_else(|| self.own(asked?).price);
        own.or_else(|| self.listed(provider, model).price)
    }

    fn listed(&self, provider: &str, model: &str) -> Model {
        if self.listed { find::listed(provider, model) } else { Model::default() }
    }

    /// The program's own entry.
    fn own(&self, model: &str) -> Model {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => find::is_of(model, name),
        };
        let own = self.own.iter().filter(|(name, _)| fits(name));
        own.max_by_key(|(name, _)| name.len()).map(|(_, known)| *known).unwrap_or_default()
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("own", &self.own).field("listed", &self.listed).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, Models, Price};

    #[test]
    fn the_programs_entries_go_by_the_whole_name() {
        let models = Models::none()
            .with("gpt-5", Price::new(1.0, 1.0))
            .with("gpt-5-mini", Price::new(2.0, 2.0))
            .with("my-*", Price::new(3.0, 3.0))
            .with("my-own", Price::new(4.0, 4.0));
        let input = |model: &str| models.find("", model).price.map(|price| price.input);
        let table = [
            ("gpt-5", Some(1.0)),
            ("gpt-5-2025-08-07", Some(1.0)),
            ("gpt-5@20250807", Some(1.0)),
            ("gpt-5-latest", None),
            ("gpt-5-mini", Some(2.0)),
            ("gpt-5-mini-2025-08-07", Some(2.0)),
            ("gpt-5.1", None),
            ("gpt-5-pro", None),
            ("gpt-50", None),
            ("my-own", Some(4.0)),
            ("my-own-2025-08-07", Some(4.0)),
            ("my-other", Some(3.0)),
            ("", None),
        ];
        for (model, expected) in table {
            assert_eq!(input(model), expected, "{model}");
        }
    }

    #[test]
    fn an_entry_of_the_program_leaves_the_rest_to_the_table() {
        let listed = Models::default().find("anthropic", "claude-sonnet-5");
        let cheap = Price::new(0.1, 0.2);
        let mine = Models::default().with("claude-sonnet-5", cheap);
        let known = mine.find("anthropic", "claude-sonnet-5");
        assert_eq!(known, Model { price: Some(cheap), ..listed });
        let none = Models::none().find("anthropic", "claude-sonnet-5");
        assert_eq!(none, Model::default());
    }
}
