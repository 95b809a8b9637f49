//! The provider for OpenAI's models over the Responses API, and for compatible servers.

use std::{borrow::Cow, fmt};

use reqwest::header::{AUTHORIZATION, HeaderMap};

use super::{
    address, credentials,
    server_quirks::ServerQuirks,
    setup::{BuilderSettings, setters, with_retry},
    transport::{self, HttpRequest, HttpTransport, HttpVendor},
    vendors,
};
use crate::wire::{AnswerDecoder, ModelCapabilities, RefusedMembers, responses};
use harness_core::{
    error::Error,
    models,
    provider::{EventStream, Provider, ReasoningBinding, Request, ResponseSizeLimits},
    secret::Secrets,
};

const BASE_URL: &str = "https://api.openai.com/v1";

/// The default URL of a server on this machine. The port is the default port of vLLM.
const LOCAL_URL: &str = "http://127.0.0.1:8000/v1";

/// The provider for OpenAI's models over the Responses API.
///
/// A request that fails for a temporary reason is retried at most twice, as in the vendors' own
/// SDKs: see [`RetryPolicy`](harness_core::policy::RetryPolicy), and [`with_retry`](Self::with_retry) for another
/// policy.
///
/// The vendor stores nothing: each request contains the whole conversation, including encrypted thinking.
///
/// ```no_run
/// use harness::{OpenAIProvider, provider::Effort};
///
/// # fn main() -> Result<(), harness::Error> {
/// let provider = OpenAIProvider::from_env()?;
/// let other = OpenAIProvider::builder().api_key("..").effort(Effort::High).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OpenAIProvider {
    name: String,
    transport: HttpTransport,
    url: String,
    headers: HeaderMap,
    options: responses::Options,
    /// The properties of the server that the provider has learned from refusals.
    lessons: ServerQuirks,
    response_size_limits: ResponseSizeLimits,
}

impl OpenAIProvider {
    /// The model of a provider if the program sets no model.
    pub const DEFAULT_MODEL: &'static str = models::OPENAI;

    /// Creates a provider with the key in `OPENAI_API_KEY`. The optional variables `OPENAI_BASE_URL`, `OPENAI_MODEL`,
    /// `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` set the base URL, the model, the organisation and the project.
    ///
    /// # Errors
    /// The same as [`OpenAIBuilder::build`].
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Starts a builder. Values that are not set are read from the environment, as [`from_env`](Self::from_env) does.
    pub fn builder() -> OpenAIBuilder {
        OpenAIBuilder::default()
    }

    /// Starts a builder for your own server with the Responses API, such as vLLM, llama.cpp or LM Studio. Values that
    /// are not set are read from `LOCAL_BASE_URL` (default `http://127.0.0.1:8000/v1`), `LOCAL_MODEL` (default
    /// `default`, which servers with a single model accept) and `LOCAL_API_KEY` (default: no key is sent). The
    /// variables for OpenAI are not read, so that OpenAI's key is not sent to another server.
    ///
    /// ```
    /// use harness::{OpenAIProvider, Provider as _};
    ///
    /// let provider = OpenAIProvider::local().model("llama-3.1-8b-instruct").build()?;
    /// assert_eq!(provider.model(), "llama-3.1-8b-instruct");
    /// # Ok::<(), harness::Error>(())
    /// ```
    pub fn local() -> OpenAIBuilder {
        OpenAIBuilder { is_local: true, ..OpenAIBuilder::default() }
    }

    with_retry!();

    /// The provider's options with the settings of this request, and with what was learned about the server.
    fn options_for(&self, request: &Request<'_>) -> Cow<'_, responses::Options> {
        let (way, refused) = (self.lessons.way(request), self.lessons.refused());
        match request.settings_over(&self.options.settings) {
            None if way.is_none() && refused.is_empty() => Cow::Borrowed(&self.options),
            own => {
                let mut options = self.options.clone();
                options.settings = own.unwrap_or(options.settings);
                options.answer_way = way.or(options.answer_way);
                options.refused = options.refused.and(refused);
                Cow::Owned(options)
            }
        }
    }
}

impl HttpVendor for OpenAIProvider {
    fn question(&self, request: &Request<'_>) -> Result<HttpRequest, Error> {
        let options = self.options_for(request);
        let request = &*request.for_model(&self.name, &self.options.model);
        let request = &*self.lessons.without_refused(request);
        if request.is_summary_request() {
            let body = responses::encode_summary(request, &options)?;
            let url = address::endpoint(&self.url, "", "/compact");
            return Ok(HttpRequest { url: Some(url), headers: self.headers.clone(), body });
        }
        let body = responses::encode_pieces(request, &options)?;
        Ok(HttpRequest { url: None, headers: self.headers.clone(), body })
    }

    fn decoder(&self, request: &Request<'_>) -> Box<dyn AnswerDecoder> {
        let limits = self.response_size_limits;
        Box::new(match request.is_summary_request() {
            true => responses::summary_decoder(limits),
            false => responses::decoder(limits),
        })
    }
}

impl fmt::Debug for OpenAIProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAIProvider")
            .field("model", &self.options.model)
            .field("url", &address::shown(&self.url))
            .finish_non_exhaustive()
    }
}

impl Provider for OpenAIProvider {
    /// The name set in the builder. Default: the vendor at the base URL. If the vendor is unknown, the default is
    /// `openai`. A server that is [local](Self::local) or gets no key has its host and port as the name, such as
    /// `127.0.0.1:8000`.
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

    fn reasoning_binding(&self, request: &Request<'_>) -> ReasoningBinding {
        responses::binding(request, &self.options_for(request))
    }

    fn has_vendor_summaries(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        self.transport.ask(request, self, (&self.lessons, &self.options.takes))
    }
}

/// Builds an [`OpenAIProvider`].
#[derive(Clone, Debug, Default)]
pub struct OpenAIBuilder {
    setup: BuilderSettings,
    /// Whether the server is the program's own. If so, the provider sends it no key or header for OpenAI.
    is_local: bool,
}

impl OpenAIBuilder {
    setters!();

    /// Uses a typed request of `async-openai` as the template of each request: the values of the template are sent
    /// unless this builder sets the same setting. The template's input is ignored. The template's tools are added to
    /// the agent's tools.
    ///
    /// ```
    /// use async_openai::types::responses::CreateResponseArgs;
    /// use harness::OpenAIProvider;
    ///
    /// let template = CreateResponseArgs::default()
    ///     .model("gpt-5.6")
    ///     .input("")
    ///     .top_logprobs(2_u8)
    ///     .build()
    ///     .unwrap();
    /// let builder = OpenAIProvider::builder().template(&template)?;
    /// # Ok::<(), harness::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the request cannot be
    /// serialized as JSON.
    #[cfg(feature = "async-openai")]
    pub fn template(
        mut self,
        request: &async_openai::types::responses::CreateResponse,
    ) -> Result<Self, Error> {
        self.setup.take_template(request)?;
        Ok(self)
    }

    /// Builds the provider.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if there is no key and the server is
    /// neither [local](OpenAIProvider::local) nor on this machine, if the key or a header (also one from
    /// `OPENAI_ORG_ID` or `OPENAI_PROJECT_ID`) contains a character that is not allowed, if the base URL is invalid, or
    /// if TLS cannot be set up.
    pub fn build(self) -> Result<OpenAIProvider, Error> {
        let Self { setup, is_local } = self;
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
        let [base_variable, model_variable] = match is_local {
            true => ["LOCAL_BASE_URL", "LOCAL_MODEL"],
            false => ["OPENAI_BASE_URL", "OPENAI_MODEL"],
        };
        let [default_base, default_model] = match is_local {
            true => [LOCAL_URL, models::ANY],
            false => [BASE_URL, OpenAIProvider::DEFAULT_MODEL],
        };
        let base = base_url.or_else(|| credentials::variable(base_variable));
        let url = address::endpoint(base.as_deref().unwrap_or(default_base), "/v1", "/responses");
        let key = match is_local {
            true => key.or_else(|| credentials::key("LOCAL_API_KEY").ok()),
            false => credentials::key_for(&url, key, "OPENAI_API_KEY")?,
        };
        let model = model
            .or_else(|| credentials::variable(model_variable))
            .unwrap_or_else(|| default_model.to_owned());
        let mut headers = transport::json_headers();
        if let Some(key) = &key {
            headers.insert(AUTHORIZATION, transport::secret_header("Bearer ", key)?);
        }
        let accounts =
            [("openai-organization", "OPENAI_ORG_ID"), ("openai-project", "OPENAI_PROJECT_ID")];
        for (name, variable) in accounts.into_iter().filter(|_| !is_local) {
            if let Some(value) = credentials::variable(variable) {
                headers.extend(transport::headers(&[(name.to_owned(), value)])?);
            }
        }
        headers.extend(transport::headers(&own)?);
        let secrets = credentials::known(key.as_ref(), &own, &url, &settings);
        let name = name.or_else(|| vendors::name_at(&url).map(str::to_owned));
        // If the program sets the vendor's name, the URL counts as the vendor's own server, for example behind a proxy.
        let is_own = name.as_deref() == Some("openai");
        let name = name.unwrap_or_else(|| match is_local || key.is_none() {
            true => address::server(&url),
            false => "openai".to_owned(),
        });
        let takes = ModelCapabilities::of(&*name, &*model, &known);
        let binds_reasoning = known.find(&name, &model).binds_reasoning == Some(true);
        responses::check(&settings)?;
        Ok(OpenAIProvider {
            transport: HttpTransport::build(&url, timeouts, secrets)?.with_silence(silence),
            url,
            headers,
            options: responses::Options {
                appends_changes: takes.appends_changes(is_own),
                // Other servers with this protocol may not support deferred tools.
                defers_tools: name == "openai"
                    && known.find(&name, &model).deferred_tools == Some(true),
                model,
                settings,
                takes,
                answer_way: None,
                refused: RefusedMembers::default(),
                binds_reasoning,
            },
            name,
            lessons: ServerQuirks::default(),
            response_size_limits,
        })
    }
}
