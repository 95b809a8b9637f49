//! What is known of one model, and the table with the program's own entries.

use std::{collections::BTreeMap, fmt};

use super::{Price, find};
use crate::provider::Effort;

/// What is known of a model. `None` is what nobody knows: a program that needs it must assume the
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
    /// What its tokens cost, in US dollars unless the program says otherwise.
    pub price: Option<Price>,
    /// How many tokens a request and its answer may have together.
    pub window: Option<u64>,
    /// How many tokens an answer may have, thinking included.
    pub output: Option<u32>,
    /// How it thinks.
    pub thinking: Option<Thinking>,
    /// The levels of effort that it knows, [`Effort::Off`] if it can be told not to think.
    pub efforts: Option<&'static [Effort]>,
    /// Whether it takes pictures. Where nobody knows it, they are sent: many local models do.
    pub images: Option<bool>,
    /// Whether it takes PDF documents. Where nobody knows it, they are not sent.
    pub documents: Option<bool>,
    /// Whether it takes sound. Where nobody knows it, none is sent.
    pub audio: Option<bool>,
    /// Whether its vendor can hold it to the schemas of tools.
    pub strict_tools: Option<bool>,
    /// Whether its vendor can hold its answer to a schema.
    pub schema_answers: Option<SchemaAnswers>,
    /// How its vendor is told for how long the prompt cache keeps what it has, beside marks in the request.
    pub cache_life: Option<CacheLife>,
    /// Whether its vendor reads tools that were [found by a search](crate::tool::ToolSearch) where they were found, so that what
    /// stands before that stays in its cache.
    pub deferred_tools: Option<bool>,
}

impl Model {
    /// This, with what it leaves open taken from `base`.
    pub(super) fn over(self, base: Self) -> Self {
        let Self {
            price,
            window,
            output,
            thinking,
            efforts,
            images,
            documents,
            audio,
            strict_tools,
            schema_answers,
            cache_life,
            deferred_tools,
        } = self;
        Self {
            price: price.or(base.price),
            window: window.or(base.window),
            output: output.or(base.output),
            thinking: thinking.or(base.thinking),
            efforts: efforts.or(base.efforts),
            images: images.or(base.images),
            documents: documents.or(base.documents),
            audio: audio.or(base.audio),
            strict_tools: strict_tools.or(base.strict_tools),
            schema_answers: schema_answers.or(base.schema_answers),
            cache_life: cache_life.or(base.cache_life),
            deferred_tools: deferred_tools.or(base.deferred_tools),
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
#[non_exhaustive]
pub enum SchemaAnswers {
    /// It cannot.
    Never,
    /// It can, in a request without tools.
    WithoutTools,
    /// It can.
    Always,
}

/// How OpenAI is told for how long the prompt cache keeps what it has.
///
/// Source: <https://platform.openai.com/docs/guides/prompt-caching>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheLife {
    /// By `prompt_cache_retention`: minutes, or a day.
    Retention,
    /// By `prompt_cache_options`, which knows half an hour alone, and can leave out the writes.
    Options,
}

/// How a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Thinking {
    /// It does not.
    Never,
    /// If asked to, within a number of tokens.
    Budget,
    /// As hard as it is asked to, or not at all.
    Effort,
    /// As hard as it is asked to. Told not to think, it still does so between the calls of tools.
    BetweenCalls,
    /// As hard as it is asked to. It cannot be told not to.
    Always,
}

/// What is known of models: the entries of the program, and behind them those of the library's own
/// table.
///
/// The program's entries go by the model's name as it is asked for or answers. A name stands for
/// the model of this name and for its dated versions, such as `my-model` for `my-model-20260131`; a
/// name that ends with `*` stands for all that begin so. The longest name that fits wins. What an
/// entry leaves open is taken from the table. A server may answer under another name than it was asked by,
/// such as the path of a file: then an entry for the name that answered counts before one for the name that
/// was asked, and both before the table.
///
/// The table goes by the provider and the model: the same name costs something else elsewhere. It
/// knows
///
/// - the models of Anthropic, OpenAI, Google and xAI by their names wherever they are asked, also as
///   `anthropic/claude-..`, `models/gemini-..` and `claude-..@20250929`,
/// - those on Amazon Bedrock by ids such as `us.anthropic.claude-..-v1:0`, with the prices there,
/// - those of DeepSeek, Mistral and Groq when these are the provider.
///
/// Open models have no price elsewhere, since that depends on who serves them. Nor has a model
/// whose name only begins like one in the table: `gpt-5-pro` is not `gpt-5`.
///
/// Prices are the list prices of [`DATE`](super::DATE), without batches, priority, taxes or your own
/// contract: give your own where money matters.
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
    /// An empty table: only what the program adds is known.
    pub fn none() -> Self {
        Self { own: BTreeMap::new(), listed: false }
    }

    /// Adds what is known of a model, or replaces what the program said of this name before. A
    /// [`Price`] alone will do.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, model: impl Into<Model>) -> Self {
        self.own.insert(name.into(), model.into());
        self
    }

    /// What is known of the model of this name, asked of this provider: its
    /// [`name`](crate::Provider::name), such as `anthropic`.
    pub fn find(&self, provider: &str, model: &str) -> Model {
        self.own(model).over(self.listed(provider, model))
    }

    /// What the tokens of an answer of this model cost, if another one was asked: what the program says of
    /// the one that answered, else what it says of the one that was asked, else what the table says of the
    /// one that answered.
    pub(crate) fn price(&self, provider: &str, model: &str, asked: Option<&str>) -> Option<Price> {
        let own = self.own(model).price.or_else(|| self.own(asked?).price);
        own.or_else(|| self.listed(provider, model).price)
    }

    /// What the table says.
    fn listed(&self, provider: &str, model: &str) -> Model {
        if self.listed { find::listed(provider, model) } else { Model::default() }
    }

    /// What the program says.
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
