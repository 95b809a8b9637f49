//! Anthropic's models, and servers that speak its protocol too.

use std::fmt;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::SecretString;

use super::{
    Clocks, credentials,
    transport::{self, Question, Transport},
};
use crate::{
    error::Error,
    provider::{EventStream, Limits, Provider, Request, Settings},
    wire::anthropic,
};

const BASE_URL: &str = "https://api.anthropic.com";

/// The version of the protocol. The newer `2026-10-21` refuses sampling parameters for all
/// models; this one still takes them where the model does.
const VERSION: &str = "2023-06-01";

/// Anthropic's models over the Messages API.
///
/// ```no_run
/// use harness::AnthropicProvider;
///
/// # fn main() -> Result<(), harness::Error> {
/// let provider = AnthropicProvider::from_env()?;
/// let other = AnthropicProvider::builder().api_key("..").model("claude-haiku-5-5").build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnthropicProvider {
    transport: Transport,
    url: String,
    headers: HeaderMap,
    options: anthropic::Options,
    limits: Limits,
}

impl AnthropicProvider {
    /// The model that is asked unless another is named.
    pub const DEFAULT_MODEL: &'static str = "claude-sonnet-5";

    /// A provider with the key in `ANTHROPIC_API_KEY` and, if it is set, the address in
    /// `ANTHROPIC_BASE_URL` and the model in `ANTHROPIC_MODEL`.
    ///
    /// # Errors
    /// Fails if the key is missing.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A provider to be set up. What is not set is read from the environment, as by
    /// [`from_env`](Self::from_env).
    pub fn builder() -> AnthropicBuilder {
        AnthropicBuilder::default()
    }
}

impl fmt::Debug for AnthropicProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicProvider")
            .field("model", &self.options.model)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Provider for AnthropicProvider {
    fn name(&self) -> &str {
        "anthropic"
    }

    fn model(&self) -> &str {
        &self.options.model
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let body = match request.settings() {
            None => anthropic::encode(&request, &self.options),
            Some(own) => {
                let settings = own.over(&self.options.settings);
                anthropic::encode(
                    &request,
                    &anthropic::Options { settings, ..self.options.clone() },
                )
            }
        };
        let question = body.map(|body| Question {
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: Bytes::from(body),
        });
        self.transport.ask(question, anthropic::decoder(self.limits))
    }
}

/// Sets up an [`AnthropicProvider`].
#[derive(Clone, Default)]
pub struct AnthropicBuilder {
    key: Option<SecretString>,
    base_url: Option<String>,
    model: Option<String>,
    headers: Vec<(String, String)>,
    settings: Settings,
    no_cache: bool,
    clocks: Clocks,
    limits: Limits,
}

impl AnthropicBuilder {
    /// The key. It is never printed.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(SecretString::from(key.into()));
        self
    }

    /// The address of the server, without `/v1/messages`.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// The model that is asked.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The most tokens of an answer, thinking included. Default 16,384.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.settings.max_tokens = Some(tokens);
        self
    }

    /// All settings at once.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// A header of every request, such as `anthropic-beta`. One with a name that is set already
    /// replaces it.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Whether the vendor keeps the beginning of the conversation in its prompt cache. Default
    /// yes.
    #[must_use]
    pub fn prompt_cache(mut self, cache: bool) -> Self {
        self.no_cache = !cache;
        self
    }

    /// How long the provider may keep us waiting.
    #[must_use]
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    /// How large an answer may become.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The provider.
    ///
    /// # Errors
    /// Fails if there is no key, or if a header cannot be sent.
    pub fn build(self) -> Result<AnthropicProvider, Error> {
        let Self { key, base_url, model, headers: own, settings, no_cache, clocks, limits } = self;
        let key = match key {
            Some(key) => key,
            None => credentials::key("ANTHROPIC_API_KEY")?,
        };
        let base = base_url.or_else(|| credentials::variable("ANTHROPIC_BASE_URL"));
        let base = base.unwrap_or_else(|| BASE_URL.to_owned());
        let model = model
            .or_else(|| credentials::variable("ANTHROPIC_MODEL"))
            .unwrap_or_else(|| AnthropicProvider::DEFAULT_MODEL.to_owned());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        headers.insert("x-api-key", transport::secret_header("", &key)?);
        headers.extend(transport::headers(&own)?);
        Ok(AnthropicProvider {
            transport: Transport::build(clocks)?,
            url: endpoint(&base, "/v1/messages"),
            headers,
            options: anthropic::Options { model, settings, cache: !no_cache },
            limits,
        })
    }
}

impl fmt::Debug for AnthropicBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicBuilder")
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

/// The address of an endpoint, whether or not the base names the version already.
fn endpoint(base: &str, path: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix(path).unwrap_or(base);
    let base = base.strip_suffix("/v1").unwrap_or(base);
    format!("{base}{path}")
}
