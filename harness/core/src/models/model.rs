//! The data about one model, and the table with the program's own entries.

use std::{collections::BTreeMap, fmt};

use super::{Price, find};
use crate::provider::Effort;

/// The data about a model. `None` means unknown: a program that needs the value must assume the
/// worst, as the library does.
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
    /// The price of its tokens, in US dollars unless the program uses another currency.
    pub price: Option<Price>,
    /// The context window: the maximum number of tokens of a request and its answer together.
    pub window: Option<u64>,
    /// The maximum number of tokens of an answer, including thinking.
    pub output: Option<u32>,
    /// How it thinks.
    pub thinking: Option<Thinking>,
    /// Whether it thinks if a request does not say how much.
    pub thinks_unasked: Option<bool>,
    /// Its levels of effort, with [`Effort::Off`] if its thinking can be turned off.
    pub efforts: Option<&'static [Effort]>,
    /// Whether it accepts pictures. If unknown, they are sent, because many local models accept
    /// them.
    pub images: Option<bool>,
    /// How many pictures a request may have.
    pub request_images: Option<u32>,
    /// How many bytes a request may have.
    pub request_bytes: Option<u64>,
    /// How many tools a request may have.
    pub request_tools: Option<u32>,
    /// Whether it accepts PDF documents. If unknown, they are not sent.
    pub documents: Option<bool>,
    /// Whether it accepts audio. If unknown, no audio is sent.
    pub audio: Option<bool>,
    /// Whether its vendor can hold it to the schemas of tools (strict mode).
    pub strict_tools: Option<bool>,
    /// Whether its vendor can hold its answer to a schema.
    pub schema_answers: Option<SchemaAnswers>,
    /// The request option for the lifetime of the prompt cache, besides cache marks.
    pub cache_life: Option<CacheLife>,
    /// Whether its vendor accepts tools that were [found by a search](crate::tool::ToolSearch) at
    /// the place of the search, so that everything before it stays in the vendor's cache.
    pub deferred_tools: Option<bool>,
    /// Whether its thinking has no text unless a request asks for it.
    pub omits_thinking: Option<bool>,
    /// Whether its vendor binds its reasoning to the instructions, the tools and all messages before it: see
    /// [`ReasoningBinding`](crate::provider::ReasoningBinding).
    pub binds_reasoning: Option<bool>,
    /// Whether its server takes changes of instructions and tools behind the messages so far. If unknown, they are sent
    /// there only to a model that binds its reasoning, and only by the providers with the names `anthropic` and `openai`:
    /// a gateway may refuse them or leave them out.
    pub appends_changes: Option<bool>,
    /// Whether a request of Anthropic's protocol may demand a call of a tool. If not,
    /// [`ToolChoice::Required`](crate::provider::ToolChoice::Required) and
    /// [`ToolChoice::Tool`](crate::provider::ToolChoice::Tool) are an error of the builder, or of the request that has them.
    pub forced_tools: Option<bool>,
}

impl Model {
    /// This entry; unknown values are taken from `base`.
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

/// A model of which only the price is known.
impl From<Price> for Model {
    fn from(price: Price) -> Self {
        Self { price: Some(price), ..Self::default() }
    }
}

/// Whether a vendor can hold the answer of a model to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaAnswers {
    /// The vendor cannot.
    Never,
    /// The vendor can, in a request without tools.
    WithoutTools,
    /// The vendor can, in any request.
    Always,
}

/// The request option for the lifetime of OpenAI's prompt cache.
///
/// Source: <https://platform.openai.com/docs/guides/prompt-caching>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheLife {
    /// The option is `prompt_cache_retention`: the cache lives for some minutes or for a day.
    Retention,
    /// The option is `prompt_cache_options`: the cache always lives for half an hour. The option can also turn off
    /// cache writes.
    Options,
}

/// How a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// It does not think.
    Never,
    /// On request, within a number of tokens.
    Budget,
    /// At the requested effort, or not at all.
    Effort,
    /// At the requested effort. With thinking off, it still thinks between tool calls.
    BetweenCalls,
    /// At the requested effort. Thinking cannot be turned off.
    Always,
}

/// The data about models: the program's entries, and the library's own table.
///
/// The program's entries are found by the requested model name or by the name in the answer. An
/// entry applies to the model with its name and to dated versions, such as `my-model` for
/// `my-model-20260131`. An entry whose name ends with `*` applies to all names with this beginning.
/// The longest matching name wins. Values that an entry leaves open are taken from the table. A
/// server may answer with another name than the requested one, such as a file path. Then an entry
/// for the name in the answer has precedence over one for the requested name, and both over the
/// table.
///
/// The table is searched by provider and model, because prices differ between providers. It
/// contains
///
/// - the models of Anthropic, OpenAI, Google and xAI by their names at any provider, also as
///   `anthropic/claude-..`, `models/gemini-..` and `claude-..@20250929`,
/// - the models on Amazon Bedrock by ids such as `us.anthropic.claude-..-v1:0`, at the prices there,
/// - the models of DeepSeek, Mistral and Groq if these are the provider.
///
/// Open models have no price elsewhere, because the price depends on the host. A model whose name
/// only begins like one in the table has no entry: `gpt-5-pro` is not `gpt-5`.
///
/// Prices are the list prices of [`DATE`](super::DATE), without batch discounts, priority
/// surcharges, taxes and your own contract. Give your own prices where money matters.
#[derive(Clone, PartialEq)]
pub struct Models {
    own: BTreeMap<String, Model>,
    listed: bool,
}

impl Default for Models {
    fn default() -> Self {
        Self { own: BTreeMap::new(), listed: true }
    }
}

impl Models {
    /// An empty table, which knows only what the program adds.
    pub fn none() -> Self {
        Self { own: BTreeMap::new(), listed: false }
    }

    /// Adds the entry for a name, or replaces an earlier one. A [`Price`] alone is enough.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, model: impl Into<Model>) -> Self {
        self.own.insert(name.into(), model.into());
        self
    }

    /// The data about the model with this name at this provider. `provider` is its
    /// [`name`](crate::provider::Provider::name), such as `anthropic`.
    pub fn find(&self, provider: &str, model: &str) -> Model {
        self.own(model).over(self.listed(provider, model))
    }

    /// The price of an answer from this model when the request named another one. The program's
    /// entry for the answering model has precedence, then its entry for the requested one, then the
    /// table.
    #[doc(hidden)]
    pub fn price(&self, provider: &str, model: &str, asked: Option<&str>) -> Option<Price> {
        let own = self.own(model).price.or_else(|| self.own(asked?).price);
        own.or_else(|| self.listed(provider, model).price)
    }

    /// The table's entry.
    fn listed(&self, provider: &str, model: &str) -> Model {
        if self.listed { find::listed(provider, model) } else { Model::default() }
    }

    /// The program's entry.
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
