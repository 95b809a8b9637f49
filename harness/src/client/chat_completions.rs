//! Every server that speaks Chat Completions: on this machine, or hosted by a vendor.

use std::{borrow::Cow, fmt};

use reqwest::header::{AUTHORIZATION, HeaderMap};

use super::{
    address, credentials,
    lessons::Lessons,
    setup::{Setup, setters, with_retry},
    transport::{self, Question, Transport},
    vendors::{self, Vendor},
};
use crate::{
    error::Error,
    models,
    provider::{AnswerLimits, EventStream, Provider, Request},
    schema::StrictForm,
    secret::Secrets,
    wire::{Takes, chat},
};

/// Any server that speaks Chat Completions, often called *OpenAI-compatible*: Ollama, vLLM, llama.cpp
/// or LM Studio on this machine, or OpenRouter, Groq, DeepSeek, Mistral, Google, xAI, Azure and others.
///
/// A request that fails in a way that passes is tried again, twice at most, as by the vendors' own
/// SDKs: see [`RetryPolicy`](crate::RetryPolicy), and [`with_retry`](Self::with_retry) for another
/// policy.
///
/// How a vendor differs is known by its address; what is not known can be said to the builder.
///
/// ```no_run
/// use harness::ChatCompletionsProvider;
///
/// # fn main() -> Result<(), harness::Error> {
/// let ollama = ChatCompletionsProvider::builder()
///     .base_url("http://127.0.0.1:11434")
///     .model("qwen3")
///     .build()?;
/// let hosted = ChatCompletionsProvider::builder()
///     .base_url("https://openrouter.ai/api/v1")
///     .api_key("..")
///     .model("z-ai/glm-5")
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ChatCompletionsProvider {
    name: String,
    transport: Transport,
    url: String,
    headers: HeaderMap,
    options: chat::Options,
    /// What the server has taught by what it refuses.
    lessons: Lessons,
    reading: chat::Reading,
    answer_limits: AnswerLimits,
}

impl ChatCompletionsProvider {
    /// The model that is asked unless another is named: servers that hold one model take any
    /// name.
    pub const DEFAULT_MODEL: &'static str = models::ANY;

    /// A provider with the address in `CHAT_COMPLETIONS_BASE_URL`, the model in `CHAT_COMPLETIONS_MODEL` and, if it is
    /// set, the key in `CHAT_COMPLETIONS_API_KEY`.
    ///
    /// Without `CHAT_COMPLETIONS_BASE_URL`, the one vendor is asked whose key is set: `OPENROUTER_API_KEY`,
    /// `GROQ_API_KEY`, `DEEPSEEK_API_KEY`, `MISTRAL_API_KEY`, `XAI_API_KEY`, or
    /// `AZURE_OPENAI_API_KEY` with `AZURE_OPENAI_ENDPOINT`. Without any, the server at
    /// `OLLAMA_HOST`, which is `http://127.0.0.1:11434` unless it is set.
    ///
    /// # Errors
    /// Fails if several vendors' keys are set and nothing says which one is meant.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A provider to be set up. What is not set is read from the environment, as by
    /// [`from_env`](Self::from_env).
    pub fn builder() -> ChatCompletionsBuilder {
        ChatCompletionsBuilder::default()
    }

    with_retry!();

    fn question(&self, request: &Request<'_>) -> Result<Question, Error> {
        let own = request.settings().map(|own| own.over(&self.options.settings));
        let (turns, way) = (self.lessons.turns(), self.lessons.way(request));
        let body = match own {
            None if !turns && way.is_none() => chat::encode_pieces(request, &self.options)?,
            own => {
                let mut options = self.options.clone();
                options.settings = own.unwrap_or(options.settings);
                options.strict_turns |= turns;
                options.answer_way = way.or(options.answer_way);
                chat::encode_pieces(request, &options)?
            }
        };
        Ok(Question { url: self.url.clone(), headers: self.headers.clone(), body })
    }
}

impl fmt::Debug for ChatCompletionsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatCompletionsProvider")
            .field("model", &self.options.model)
            .field("url", &address::shown(&self.url))
            .finish_non_exhaustive()
    }
}

impl Provider for ChatCompletionsProvider {
    /// What the builder was told, or the vendor at this address, such as `groq`. If the vendor is not
    /// known, it is the server, such as `127.0.0.1:11434`.
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> &str {
        &self.options.model
    }

    fn secrets(&self) -> &Secrets {
        self.transport.secrets()
    }

    fn tells_answer_schema(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        self.transport.ask(
            request,
            |request| self.question(request),
            || chat::decoder(self.answer_limits, self.reading),
            (&self.lessons, &self.options.takes),
        )
    }
}

/// Sets up a [`ChatCompletionsProvider`].
#[derive(Clone, Debug, Default)]
pub struct ChatCompletionsBuilder {
    setup: Setup,
    thought: Option<chat::ThoughtReplay>,
    call_ids: Option<chat::CallIds>,
    think_tags: chat::ThinkTags,
    done_is_enough: Option<bool>,
    ask_for_usage: Option<bool>,
    max_completion_tokens: Option<bool>,
    strict_turns: Option<bool>,
    strict_form: Option<StrictForm>,
}

impl ChatCompletionsBuilder {
    setters!();

    /// How the model's thinking goes back. Default: as the vendor at this address wants it, and
    /// elsewhere in the field in which it came.
    #[must_use]
    pub fn thought_replay(mut self, replay: chat::ThoughtReplay) -> Self {
        self.thought = Some(replay);
        self
    }

    /// Which ids of calls the server takes. Default: nine characters for Mistral, else up to 64.
    #[must_use]
    pub fn call_ids(mut self, ids: chat::CallIds) -> Self {
        self.call_ids = Some(ids);
        self
    }

    /// Whether thinking stands among the words, between `<think>` and `</think>`. Default no.
    #[must_use]
    pub fn think_tags(mut self, tags: chat::ThinkTags) -> Self {
        self.think_tags = tags;
        self
    }

    /// Whether `[DONE]` ends an answer that gives no reason to stop. Default only for vendors
    /// known to give none.
    #[must_use]
    pub fn done_is_enough(mut self, enough: bool) -> Self {
        self.done_is_enough = Some(enough);
        self
    }

    /// Whether the server is asked to count tokens (`stream_options`). Default yes, except where
    /// it is known to count unasked.
    #[must_use]
    pub fn ask_for_usage(mut self, ask: bool) -> Self {
        self.ask_for_usage = Some(ask);
        self
    }

    /// Whether the limit of tokens is called `max_completion_tokens`. Default only for OpenAI and
    /// Azure.
    #[must_use]
    pub fn max_completion_tokens(mut self, name: bool) -> Self {
        self.max_completion_tokens = Some(name);
        self
    }

    /// Whether the server wants the person and the model to speak in turns, as Mistral's do: after
    /// results only the model may speak, and nobody twice in a row. What is sent is made so then, with a
    /// short message of the other side in between; the transcript is not changed.
    ///
    /// Default: yes for Mistral. Elsewhere the provider learns it from the server's first refusal: it sends
    /// the conversation once more at once, in turns, and does so from then on. With `false` it never does.
    /// For Mistral's models behind another server, `true` spares that refusal.
    ///
    /// Only Chat Completions needs it: Messages joins messages of one side that follow each other, and
    /// Responses has items and no turns.
    #[must_use]
    pub fn strict_turns(mut self, strict: bool) -> Self {
        self.strict_turns = Some(strict);
        self
    }

    /// In which form the server holds the model to the schemas of tools, if it is asked to
    /// ([`Settings::strict_tools`](crate::provider::Settings::strict_tools)). Default: as the vendor at
    /// this address takes it, and elsewhere what most servers take.
    #[must_use]
    pub fn strict_form(mut self, form: StrictForm) -> Self {
        self.strict_form = Some(form);
        self
    }

    /// Takes a typed request of `async-openai` as the template of each request: what it sets is
    /// sent, unless a setting of this builder says otherwise. Its messages are left out, and its
    /// tools are added to those of the agent.
    ///
    /// # Errors
    /// Fails if the request cannot be written as JSON.
    #[cfg(feature = "async-openai")]
    pub fn template(
        mut self,
        request: &async_openai::types::chat::CreateChatCompletionRequest,
    ) -> Result<Self, Error> {
        self.setup.take_template(request)?;
        Ok(self)
    }

    /// The provider.
    ///
    /// # Errors
    /// Fails if a header cannot be sent, or if the environment names several vendors.
    pub fn build(self) -> Result<ChatCompletionsProvider, Error> {
        let Self {
            setup,
            thought,
            call_ids,
            think_tags,
            done_is_enough,
            ask_for_usage,
            max_completion_tokens,
            strict_turns,
            strict_form,
        } = self;
        #[cfg(feature = "async-openai")]
        let setup = setup.with_template();
        let Setup {
            key,
            base_url,
            model,
            headers: own,
            settings,
            clocks,
            name,
            answer_limits,
            models: known,
            ..
        } = setup;
        let base = base_url.or_else(|| credentials::variable("CHAT_COMPLETIONS_BASE_URL"));
        let base = match base {
            Some(base) => base,
            None => vendors::base_in_env()?,
        };
        let vendor = Vendor::at(&address::host(&base));
        let name = name
            .or_else(|| vendor.name.map(str::to_owned))
            .unwrap_or_else(|| address::server(&base));
        let key = key
            .or_else(|| credentials::key("CHAT_COMPLETIONS_API_KEY").ok())
            .or_else(|| vendor.key.and_then(|name| credentials::key(name).ok()));
        let model = model
            .or_else(|| credentials::variable("CHAT_COMPLETIONS_MODEL"))
            .unwrap_or_else(|| ChatCompletionsProvider::DEFAULT_MODEL.to_owned());
        let mut headers = transport::json_headers();
        if let Some(key) = &key {
            headers.insert(AUTHORIZATION, transport::secret_header("Bearer ", key)?);
            if vendor.api_key_header {
                headers.insert("api-key", transport::secret_header("", key)?);
            }
        }
        headers.extend(transport::headers(&own)?);
        let url = address::endpoint(&base, vendor.version, "/chat/completions");
        let secrets = credentials::known(key.as_ref(), &own, &url, &settings);
        let origin = chat::Origin::of(&address::shown(&url), &model);
        // Models that think within a budget give proofs and do not ask for them.
        let how = known.find(&name, &model).thinking;
        let signs = !matches!(how, Some(models::Thinking::Budget | models::Thinking::Never));
        let takes = Takes::of(&*name, &*model, &known);
        let signed_calls = vendor.signed_calls.filter(|_| signs).map(Cow::Borrowed);
        Ok(ChatCompletionsProvider {
            name,
            transport: Transport::build(&url, clocks, secrets)?,
            url,
            headers,
            options: chat::Options {
                settings,
                thought: thought.unwrap_or(vendor.thought),
                call_ids: call_ids.unwrap_or(vendor.call_ids),
                max_completion_tokens: max_completion_tokens
                    .unwrap_or(vendor.max_completion_tokens),
                ask_for_usage: ask_for_usage.unwrap_or(!vendor.counts_unasked),
                strict_turns: strict_turns.unwrap_or(vendor.strict_turns),
                origin,
                signed_calls,
                strict_form: strict_form.unwrap_or(vendor.strict_form),
                takes,
                ..chat::Options::new(model)
            },
            lessons: match strict_turns.is_none() && !vendor.strict_turns {
                true => Lessons::default().of_turns(),
                false => Lessons::default(),
            },
            reading: chat::Reading {
                think_tags,
                done_is_enough: done_is_enough.unwrap_or(vendor.done_is_enough),
                origin,
            },
            answer_limits,
        })
    }
}
