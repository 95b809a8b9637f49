//! The settings that all providers share, and the setters that all builders share.

use std::{fmt, time::Duration};

use secrecy::SecretString;

use super::{Timeouts, address};
use harness_core::{
    models::Models,
    provider::{ResponseSizeLimits, Settings},
};

/// The values set in a builder so far.
#[derive(Clone, Default)]
pub(super) struct BuilderSettings {
    pub(super) key: Option<SecretString>,
    pub(super) base_url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) name: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) settings: Settings,
    pub(super) timeouts: Timeouts,
    pub(super) silence: Option<Duration>,
    pub(super) response_size_limits: ResponseSizeLimits,
    pub(super) models: Models,
    /// The members of a typed request, applied when the provider is built.
    #[cfg(feature = "async-openai")]
    pub(super) template: serde_json::Map<String, serde_json::Value>,
}

/// Omits the key and the headers, because a header may contain a key, and shows the URL without its secret parts.
impl fmt::Debug for BuilderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("base_url", &self.base_url.as_deref().map(address::shown))
            .field("model", &self.model)
            .field("name", &self.name)
            .field("settings", &self.settings)
            .field("clocks", &self.timeouts)
            .field("silence", &self.silence)
            .field("response_size_limits", &self.response_size_limits)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// The setters of all builders. Each builder has a field `setup` with a [`BuilderSettings`].
macro_rules! setters {
    () => {
        /// Sets the key. The key is never printed.
        #[must_use]
        pub fn api_key(mut self, key: impl Into<String>) -> Self {
            self.setup.key = Some(secrecy::SecretString::from(key.into()));
            self
        }

        /// Sets the base URL of the server. The path of the protocol is appended if the URL does not contain it.
        #[must_use]
        pub fn base_url(mut self, url: impl Into<String>) -> Self {
            self.setup.base_url = Some(url.into());
            self
        }

        /// Sets the id of the model.
        #[must_use]
        pub fn model(mut self, model: impl Into<String>) -> Self {
            self.setup.model = Some(model.into());
            self
        }

        /// Sets the name of the provider. Replies, errors and records contain the name. The provider also uses the name
        /// to find its models in the table of models. Default: the name of the vendor at the base URL, if the vendor is
        /// known.
        #[must_use]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.setup.name = Some(name.into());
            self
        }

        /// Sets the maximum number of tokens of an answer, including thinking.
        #[must_use]
        pub fn max_tokens(mut self, tokens: u32) -> Self {
            self.setup.settings.max_tokens = Some(tokens);
            self
        }

        /// Sets how much the model thinks.
        #[must_use]
        pub fn effort(mut self, effort: harness_core::provider::Effort) -> Self {
            self.setup.settings.effort = Some(effort);
            self
        }

        /// Sets how the vendor's prompt cache is used. Default:
        /// [`PromptCache::Short`](harness_core::provider::PromptCache::Short).
        #[must_use]
        pub fn prompt_cache(mut self, cache: harness_core::provider::PromptCache) -> Self {
            self.setup.settings.prompt_cache = Some(cache);
            self
        }

        /// Adds a member to the body of every request, in the vendor's format: see
        /// [`Settings::extra`](harness_core::provider::Settings::extra).
        #[must_use]
        pub fn extra(
            mut self,
            name: impl Into<String>,
            value: impl Into<serde_json::Value>,
        ) -> Self {
            self.setup.settings.extra.insert(name.into(), value.into());
            self
        }

        /// Replaces all settings, including earlier values of `max_tokens`, `effort`, `prompt_cache` and `extra`.
        #[must_use]
        pub fn settings(mut self, settings: harness_core::provider::Settings) -> Self {
            self.setup.settings = settings;
            self
        }

        /// Adds a header to every request, in place of an earlier header with the same name.
        #[must_use]
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.setup.headers.push((name.into(), value.into()));
            self
        }

        /// Sets the timeouts of one try.
        #[must_use]
        pub fn timeouts(mut self, timeouts: $crate::client::Timeouts) -> Self {
            self.setup.timeouts = timeouts;
            self
        }

        /// Sets how long the server may be silent after the stop reason before the answer ends. Default 5 s.
        ///
        /// The stop reason comes before the last event. Some servers never send the last event and keep the connection
        /// open, although the answer is complete. A longer time is needed only for a server that sends a stop reason in
        /// the middle of an answer.
        #[must_use]
        pub fn silence_after_stop(mut self, silence: std::time::Duration) -> Self {
            self.setup.silence = Some(silence);
            self
        }

        /// Sets the maximum sizes of an answer.
        #[must_use]
        pub fn response_size_limits(
            mut self,
            limits: harness_core::provider::ResponseSizeLimits,
        ) -> Self {
            self.setup.response_size_limits = limits;
            self
        }

        /// Sets the data about models. The data determine which files a model accepts. Default: the library's table. A
        /// document or audio is sent only to a model that is known to accept it:
        ///
        /// ```
        /// use harness::models::{Model, Models};
        ///
        /// let mine = Model { documents: Some(true), ..Model::default() };
        /// let models = Models::default().with("my-model", mine);
        /// # let _ = harness::ChatCompletionsProvider::builder().models(models);
        /// ```
        #[must_use]
        pub fn models(mut self, models: harness_core::models::Models) -> Self {
            self.setup.models = models;
            self
        }
    };
}

/// The setters for the retry policy and the tap. Each provider has a field `transport` with a `HttpTransport`.
macro_rules! with_retry {
    () => {
        /// Sets when a failed request is retried. Default:
        /// [`RetryPolicy::default`](harness_core::policy::RetryPolicy::default). With
        /// [`RetryPolicy::none`](harness_core::policy::RetryPolicy::none), every request is sent once. The policy of a
        /// wrapping provider, such as a [`RetryProvider`](harness_core::policy::RetryProvider), replaces this policy.
        #[must_use]
        pub fn with_retry(mut self, policy: harness_core::policy::RetryPolicy) -> Self {
            self.transport = self.transport.with_retry(policy);
            self
        }

        /// Records requests and answers in files: see [`Tap`](crate::client::Tap).
        #[must_use]
        pub fn with_tap(mut self, tap: $crate::client::Tap) -> Self {
            self.transport = self.transport.with_tap(tap);
            self
        }
    };
}

pub(super) use {setters, with_retry};
