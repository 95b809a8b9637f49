//! The provider for all servers with Chat Completions, local or hosted by a vendor.

use std::{borrow::Cow, fmt};

use harness_schema::StrictForm;
use reqwest::header::{AUTHORIZATION, HeaderMap};

use super::{
    address, credentials,
    server_quirks::ServerQuirks,
    setup::{BuilderSettings, setters, with_retry},
    transport::{self, HttpRequest, HttpTransport, HttpVendor},
    vendors::{self, VendorProfile},
};
use crate::wire::{AnswerDecoder, ModelCapabilities, chat};
use harness_core::{
    error::Error,
    models,
    provider::{EventStream, Provider, Request, ResponseSizeLimits},
    secret::Secrets,
};

/// The provider for any server with Chat Completions, often called *OpenAI-compatible*: Ollama, vLLM, llama.cpp or LM
/// Studio on this machine, or OpenRouter, Groq, DeepSeek, Mistral, Google, xAI, Azure and others.
///
/// A request that fails for a temporary reason is retried at most twice, as in the vendors' own
/// SDKs: see [`RetryPolicy`](harness_core::policy::RetryPolicy), and [`with_retry`](Self::with_retry) for another
/// policy.
///
/// The provider recognizes known vendors by the base URL, and adapts to their servers. For other servers, use the
/// methods of the builder.
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
    transport: HttpTransport,
    url: String,
    headers: HeaderMap,
    options: chat::Options,
    /// The properties of the server that the provider has learned from refusals.
    lessons: ServerQuirks,
    reading: chat::DecodeOptions,
    response_size_limits: ResponseSizeLimits,
}

/// A note for the error of a server that does not know the default model name.
const NO_MODEL_IS_NAMED: &str = "no model is named: set `CHAT_COMPLETIONS_MODEL`, or call \
                                 `.model(..)` of the builder";

impl ChatCompletionsProvider {
    /// The model of a provider if the program sets no model. Servers with a single model accept any name. Other servers
    /// answer with status 404.
    pub const DEFAULT_MODEL: &'static str = models::ANY;

    /// Creates a provider with the base URL in `CHAT_COMPLETIONS_BASE_URL`, the model in `CHAT_COMPLETIONS_MODEL` and
    /// the optional key in `CHAT_COMPLETIONS_API_KEY`.
    ///
    /// Without `CHAT_COMPLETIONS_BASE_URL`, the provider uses the vendor whose key is set: `OPENROUTER_API_KEY`,
    /// `GROQ_API_KEY`, `DEEPSEEK_API_KEY`, `MOONSHOT_API_KEY`, `MISTRAL_API_KEY`, `XAI_API_KEY`, or
    /// `AZURE_OPENAI_API_KEY` with `AZURE_OPENAI_ENDPOINT`. Without any of these keys, the provider uses the server at
    /// `OLLAMA_HOST`, by default `http://127.0.0.1:11434`.
    ///
    /// # Errors
    /// The same as [`ChatCompletionsBuilder::build`].
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Starts a builder. Values that are not set are read from the environment, as [`from_env`](Self::from_env) does.
    pub fn builder() -> ChatCompletionsBuilder {
        ChatCompletionsBuilder::default()
    }

    with_retry!();
}

impl HttpVendor for ChatCompletionsProvider {
    fn question(&self, request: &Request<'_>) -> Result<HttpRequest, Error> {
        let request = &*self.lessons.without_refused(request);
        let own = request.settings_over(&self.options.settings);
        let (turns, way) = (self.lessons.turns(), self.lessons.way(request));
        let refused = self.lessons.refused();
        let body = match own {
            None if !turns && way.is_none() && refused.is_empty() => {
                chat::encode_pieces(request, &self.options)?
            }
            own => {
                let mut options = self.options.clone();
                options.settings = own.unwrap_or(options.settings);
                options.strict_turns |= turns;
                options.answer_way = way.or(options.answer_way);
                options.refused = options.refused.and(refused);
                chat::encode_pieces(request, &options)?
            }
        };
        Ok(HttpRequest { url: None, headers: self.headers.clone(), body })
    }

    fn decoder(&self, _: &Request<'_>) -> Box<dyn AnswerDecoder> {
        Box::new(chat::decoder(self.response_size_limits, self.reading))
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
    /// The name set in the builder. Default: the vendor at the base URL, such as `groq`. If the vendor is unknown: the
    /// host and port of the server, such as `127.0.0.1:11434`.
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
        self.transport.ask(request, self, (&self.lessons, &self.options.takes))
    }
}

/// Builds a [`ChatCompletionsProvider`].
#[derive(Clone, Debug, Default)]
pub struct ChatCompletionsBuilder {
    setup: BuilderSettings,
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

    /// Sets how the model's thinking is sent back. Default: as the vendor at the base URL requires. For other servers,
    /// the default is the field in which the thinking arrived.
    #[must_use]
    pub fn thought_replay(mut self, replay: chat::ThoughtReplay) -> Self {
        self.thought = Some(replay);
        self
    }

    /// Sets which call ids the server accepts. Default: nine characters for Mistral, otherwise up to 64.
    #[must_use]
    pub fn call_ids(mut self, ids: chat::CallIds) -> Self {
        self.call_ids = Some(ids);
        self
    }

    /// Sets whether the text of an answer contains thinking between `<think>` and `</think>`. Default: no.
    #[must_use]
    pub fn think_tags(mut self, tags: chat::ThinkTags) -> Self {
        self.think_tags = tags;
        self
    }

    /// Sets whether an answer without a stop reason is complete when the server sends `[DONE]`. Default: only for
    /// vendors that are known to send no stop reason.
    #[must_use]
    pub fn done_is_enough(mut self, enough: bool) -> Self {
        self.done_is_enough = Some(enough);
        self
    }

    /// Sets whether requests ask the server to report token counts (`stream_options`). Default: yes, except for vendors
    /// that always report token counts.
    #[must_use]
    pub fn ask_for_usage(mut self, ask: bool) -> Self {
        self.ask_for_usage = Some(ask);
        self
    }

    /// Sets whether the token limit is sent as `max_completion_tokens` instead of `max_tokens`. Default: only for
    /// OpenAI and Azure.
    #[must_use]
    pub fn max_completion_tokens(mut self, name: bool) -> Self {
        self.max_completion_tokens = Some(name);
        self
    }

    /// Sets whether the server requires alternating turns of user and model, as Mistral does. Such a server refuses two
    /// consecutive messages of the user or of the model. After results of calls, the server accepts only a message of
    /// the model. With `true`, requests contain short extra messages between messages that cannot follow each other.
    /// The transcript is not changed.
    ///
    /// Default: `true` for Mistral. For other servers, the provider learns this from the first refusal. The provider
    /// then sends the conversation again with alternating turns, and uses alternating turns in later requests. `false`
    /// turns the learning off. Set `true` for Mistral's models behind another server, to avoid the first refusal.
    ///
    /// Other protocols need no such setting: Messages merges consecutive messages of one side, and Responses has items
    /// instead of turns.
    #[must_use]
    pub fn strict_turns(mut self, strict: bool) -> Self {
        self.strict_turns = Some(strict);
        self
    }

    /// Sets the form of tool schemas in strict mode
    /// ([`Settings::strict_tools`](harness_core::provider::Settings::strict_tools)). Default: the form of the vendor at
    /// the base URL; for other servers, the form that most servers accept.
    #[must_use]
    pub fn strict_form(mut self, form: StrictForm) -> Self {
        self.strict_form = Some(form);
        self
    }

    /// Uses a typed request of `async-openai` as the template of each request: the values of the template are sent
    /// unless this builder sets the same setting. The template's messages are ignored. The template's tools are added
    /// to the agent's tools.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the request cannot be
    /// serialized as JSON.
    #[cfg(feature = "async-openai")]
    pub fn template(
        mut self,
        request: &async_openai::types::chat::CreateChatCompletionRequest,
    ) -> Result<Self, Error> {
        self.setup.take_template(request)?;
        Ok(self)
    }

    /// Builds the provider.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the environment names
    /// several vendors and `CHAT_COMPLETIONS_BASE_URL` is not set, if the key or a header contains
    /// a character that is not allowed, if the base URL is invalid, or if TLS cannot be set up.
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
        let BuilderSettings {
            key,
            base_url,
            model,
            headers: own,
            settings,
            timeouts,
            silence,
            name,
            response_size_limits,
            models: known,
            ..
        } = setup;
        let base = base_url.or_else(|| credentials::variable("CHAT_COMPLETIONS_BASE_URL"));
        let base = match base {
            Some(base) => base,
            None => vendors::base_in_env()?,
        };
        let vendor = VendorProfile::at(&address::host(&base));
        let name = name
            .or_else(|| vendor.name.map(str::to_owned))
            .unwrap_or_else(|| address::server(&base));
        let key = key
            .or_else(|| credentials::key("CHAT_COMPLETIONS_API_KEY").ok())
            .or_else(|| vendor.key.and_then(|name| credentials::key(name).ok()));
        let model = model.or_else(|| credentials::variable("CHAT_COMPLETIONS_MODEL"));
        let not_found = model.is_none().then_some(NO_MODEL_IS_NAMED);
        let model = model.unwrap_or_else(|| ChatCompletionsProvider::DEFAULT_MODEL.to_owned());
        let vendor = vendor.with_model(&model);
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
        // Models whose thinking has a token budget send signatures but do not require them back.
        let how = known.find(&name, &model).thinking;
        let signs = !matches!(how, Some(models::Thinking::Budget | models::Thinking::Never));
        let takes = ModelCapabilities::of(&*name, &*model, &known);
        let signed_calls = vendor.signed_calls.filter(|_| signs).map(Cow::Borrowed);
        let options = chat::Options {
            settings,
            thought: thought.unwrap_or(vendor.thought),
            call_ids: call_ids.unwrap_or(vendor.call_ids),
            max_completion_tokens: max_completion_tokens.unwrap_or(vendor.max_completion_tokens),
            ask_for_usage: ask_for_usage.unwrap_or(!vendor.counts_unasked),
            strict_turns: strict_turns.unwrap_or(vendor.strict_turns),
            origin,
            signed_calls,
            strict_form: strict_form.unwrap_or(vendor.strict_form),
            takes,
            thinking_budget: vendor.thinking_budget,
            ..chat::Options::new(model)
        };
        chat::check(&options)?;
        Ok(ChatCompletionsProvider {
            name,
            transport: HttpTransport::build(&url, timeouts, secrets)?
                .with_silence(silence)
                .with_note_if_not_found(not_found),
            url,
            headers,
            options,
            lessons: match strict_turns.is_none() && !vendor.strict_turns {
                true => ServerQuirks::default().of_turns(),
                false => ServerQuirks::default(),
            },
            reading: chat::DecodeOptions {
                think_tags,
                done_is_enough: done_is_enough.unwrap_or(vendor.done_is_enough),
                origin,
            },
            response_size_limits,
        })
    }
}
