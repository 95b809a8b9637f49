//! The provider for Anthropic's models, and for compatible servers.

use std::{borrow::Cow, fmt};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{
    address, credentials,
    server_quirks::ServerQuirks,
    setup::{BuilderSettings, setters, with_retry},
    transport::{self, HttpRequest, HttpTransport, HttpVendor},
    vendors::{self, VendorProfile},
};
use crate::wire::{AnswerDecoder, ModelCapabilities, RefusedMembers, anthropic};
use harness_core::{
    error::Error,
    models,
    provider::{EventStream, Provider, ReasoningBinding, Request, ResponseSizeLimits},
    secret::Secrets,
};

const BASE_URL: &str = "https://api.anthropic.com";

/// The version of the protocol. The newer version `2026-10-21` refuses sampling parameters for all models. This version
/// accepts sampling parameters for models that support them.
const VERSION: &str = "2023-06-01";

/// The beta header value for requests that ask the vendor for a summary or contain such a summary.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand>.
const SUMMARIES: &str = "compact-2026-09-04";

/// The beta header value of a request that defines a tool in the middle of the conversation.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages>.
const ADDED_TOOLS: &str = "inline-tools-2026-09-15";

const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// Adds a beta feature to the header, after the features that the program has set.
fn add_beta(headers: &mut HeaderMap, name: &'static str) {
    let given = headers.get(&BETA).and_then(|given| given.to_str().ok()).unwrap_or_default();
    if given.split(',').any(|given| given.trim() == name) {
        return;
    }
    let both = if given.is_empty() { name.to_owned() } else { format!("{given},{name}") };
    if let Ok(both) = HeaderValue::from_str(&both) {
        headers.insert(BETA, both);
    }
}

/// The provider for Anthropic's models, over the Messages API.
///
/// A request that fails for a temporary reason is retried at most twice, as in the vendors' own
/// SDKs: see [`RetryPolicy`](harness_core::policy::RetryPolicy), and [`with_retry`](Self::with_retry) for another
/// policy.
///
/// ```no_run
/// use harness::AnthropicProvider;
///
/// # fn main() -> Result<(), harness::Error> {
/// let provider = AnthropicProvider::from_env()?;
/// let other = AnthropicProvider::builder().api_key("..").model("claude-opus-5-5").build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnthropicProvider {
    name: String,
    transport: HttpTransport,
    url: String,
    headers: HeaderMap,
    options: anthropic::Options,
    /// The properties of the server that the provider has learned from refusals.
    lessons: ServerQuirks,
    response_size_limits: ResponseSizeLimits,
}

impl AnthropicProvider {
    /// The model of a provider if the program sets no model.
    pub const DEFAULT_MODEL: &'static str = models::ANTHROPIC;

    /// Creates a provider with the key in `ANTHROPIC_API_KEY`. The optional variables `ANTHROPIC_BASE_URL` and
    /// `ANTHROPIC_MODEL` set the base URL and the model.
    ///
    /// # Errors
    /// The same as [`AnthropicBuilder::build`].
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Starts a builder. Values that are not set are read from the environment, as [`from_env`](Self::from_env) does.
    pub fn builder() -> AnthropicBuilder {
        AnthropicBuilder::default()
    }

    with_retry!();

    /// The provider's options with the settings of this request, and with what was learned about the server.
    fn options_for(&self, request: &Request<'_>) -> Cow<'_, anthropic::Options> {
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

impl HttpVendor for AnthropicProvider {
    fn question(&self, request: &Request<'_>) -> Result<HttpRequest, Error> {
        let options = self.options_for(request);
        // The vendor refuses a request with both its own context management and a signed summary.
        let request = &*match options.settings.extra.contains_key("context_management") {
            true => Cow::Borrowed(request),
            false => request.for_model(&self.name, &self.options.model),
        };
        let request = &*self.lessons.without_refused(request);
        let mut headers = self.headers.clone();
        if request.is_summary_request() || request.has_summary_first() {
            add_beta(&mut headers, SUMMARIES);
        }
        if anthropic::adds_tools(request) {
            add_beta(&mut headers, ADDED_TOOLS);
        }
        let body = anthropic::encode_pieces(request, &options)?;
        Ok(HttpRequest { url: None, headers, body })
    }

    fn decoder(&self, request: &Request<'_>) -> Box<dyn AnswerDecoder> {
        let limits = self.response_size_limits;
        Box::new(match request.is_summary_request() {
            true => anthropic::summary_decoder(limits),
            false => anthropic::decoder(limits),
        })
    }
}

impl fmt::Debug for AnthropicProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicProvider")
            .field("model", &self.options.model)
            .field("url", &address::shown(&self.url))
            .finish_non_exhaustive()
    }
}

impl Provider for AnthropicProvider {
    /// The name set in the builder, or the vendor at the base URL, or `anthropic` if the vendor is
    /// unknown.
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
        anthropic::binding(request, &self.options_for(request))
    }

    fn has_vendor_summaries(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        self.transport.ask(request, self, (&self.lessons, &self.options.takes))
    }
}

/// Builds an [`AnthropicProvider`].
#[derive(Clone, Debug, Default)]
pub struct AnthropicBuilder {
    setup: BuilderSettings,
    unsigned_thinking: Option<bool>,
}

impl AnthropicBuilder {
    setters!();

    /// Sets whether thinking without a signature is sent back. With `true`, each turn with calls contains thinking. If
    /// the model sent no thinking, this part is empty. Default: `true` only for DeepSeek and Moonshot (Kimi), whose
    /// servers refuse a turn that has calls and no thinking. Set `true` for a gateway to a model of these two vendors:
    /// otherwise the gateway refuses the request that contains the results of the first calls. Anthropic refuses
    /// thinking that it has not signed.
    #[must_use]
    pub fn unsigned_thinking(mut self, sent: bool) -> Self {
        self.unsigned_thinking = Some(sent);
        self
    }

    /// Builds the provider.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if there is no key and the
    /// server is not on this machine, if the key or a header contains a character that is not
    /// allowed, if the base URL is invalid, or if TLS cannot be set up.
    pub fn build(self) -> Result<AnthropicProvider, Error> {
        let Self { setup, unsigned_thinking } = self;
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
        let base = base_url.or_else(|| credentials::variable("ANTHROPIC_BASE_URL"));
        let model = model
            .or_else(|| credentials::variable("ANTHROPIC_MODEL"))
            .unwrap_or_else(|| AnthropicProvider::DEFAULT_MODEL.to_owned());
        let mut headers = transport::json_headers();
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        let url = address::endpoint(base.as_deref().unwrap_or(BASE_URL), "", "/v1/messages");
        let key = credentials::key_for(&url, key, "ANTHROPIC_API_KEY")?;
        if let Some(key) = &key {
            headers.insert("x-api-key", transport::secret_header("", key)?);
        }
        headers.extend(transport::headers(&own)?);
        let secrets = credentials::known(key.as_ref(), &own, &url, &settings);
        // If the program sets the vendor's name, the URL counts as the vendor's own server, for example behind a proxy.
        let is_own = name.as_deref() == Some("anthropic") || vendors::is_at(&url, "anthropic.com");
        let name = name.unwrap_or_else(|| vendors::name_at(&url).unwrap_or("anthropic").to_owned());
        let takes = ModelCapabilities::of(&*name, &*model, &known);
        let unsigned =
            unsigned_thinking.unwrap_or(VendorProfile::at(&address::host(&url)).unsigned_thinking);
        let binds_reasoning = known.find(&name, &model).binds_reasoning == Some(true);
        let options = anthropic::Options {
            appends_changes: takes.appends_changes(is_own),
            // Other servers with this protocol may not support deferred tools.
            defers_tools: name == "anthropic"
                && known.find(&name, &model).deferred_tools == Some(true),
            refused: RefusedMembers::at(&name, &model),
            model,
            settings,
            takes,
            answer_way: None,
            unsigned_thinking: unsigned,
            binds_reasoning,
        };
        anthropic::check(&options)?;
        Ok(AnthropicProvider {
            transport: HttpTransport::build(&url, timeouts, secrets)?.with_silence(silence),
            url,
            headers,
            options,
            name,
            lessons: ServerQuirks::default(),
            response_size_limits,
        })
    }
}
