//! What all providers are set up with, and the part of each builder that is the same.

use std::fmt;

use secrecy::SecretString;

use super::{Clocks, address};
use crate::{
    models::Models,
    provider::{AnswerLimits, Settings},
};

/// What a builder has been told so far.
#[derive(Clone, Default)]
pub(super) struct Setup {
    pub(super) key: Option<SecretString>,
    pub(super) base_url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) name: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) settings: Settings,
    pub(super) clocks: Clocks,
    pub(super) answer_limits: AnswerLimits,
    pub(super) models: Models,
    /// A typed request, taken over when the provider is built.
    #[cfg(feature = "async-openai")]
    pub(super) template: serde_json::Map<String, serde_json::Value>,
}

/// Without the key, without the headers, which may hold one, and with the address as it may be
/// shown.
impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("base_url", &self.base_url.as_deref().map(address::shown))
            .field("model", &self.model)
            .field("name", &self.name)
            .field("settings", &self.settings)
            .field("clocks", &self.clocks)
            .field("answer_limits", &self.answer_limits)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// The setters that every builder has; each builder holds a [`Setup`] named `setup`.
macro_rules! setters {
    () => {
        /// The key. It is never printed.
        #[must_use]
        pub fn api_key(mut self, key: impl Into<String>) -> Self {
            self.setup.key = Some(secrecy::SecretString::from(key.into()));
            self
        }

        /// The address of the server. The path of the protocol is added if it is not there.
        #[must_use]
        pub fn base_url(mut self, url: impl Into<String>) -> Self {
            self.setup.base_url = Some(url.into());
            self
        }

        /// The model that is asked.
        #[must_use]
        pub fn model(mut self, model: impl Into<String>) -> Self {
            self.setup.model = Some(model.into());
            self
        }

        /// What the provider is called in replies, errors and records, and where the price of its
        /// model is looked up. Default: the vendor at the address, as far as it is known.
        #[must_use]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.setup.name = Some(name.into());
            self
        }

        /// The most tokens of an answer, thinking included.
        #[must_use]
        pub fn max_tokens(mut self, tokens: u32) -> Self {
            self.setup.settings.max_tokens = Some(tokens);
            self
        }

        /// How hard the model thinks.
        #[must_use]
        pub fn effort(mut self, effort: $crate::provider::Effort) -> Self {
            self.setup.settings.effort = Some(effort);
            self
        }

        /// How the vendor's prompt cache is used. Default: for minutes.
        #[must_use]
        pub fn prompt_cache(mut self, cache: $crate::provider::PromptCache) -> Self {
            self.setup.settings.prompt_cache = Some(cache);
            self
        }

        /// A member of every request's body in the vendor's own words: see
        /// [`Settings::extra`](crate::provider::Settings::extra).
        #[must_use]
        pub fn extra(
            mut self,
            name: impl Into<String>,
            value: impl Into<serde_json::Value>,
        ) -> Self {
            self.setup.settings.extra.insert(name.into(), value.into());
            self
        }

        /// All settings at once. What `max_tokens`, `effort`, `prompt_cache` and `extra` said before is
        /// forgotten.
        #[must_use]
        pub fn settings(mut self, settings: $crate::provider::Settings) -> Self {
            self.setup.settings = settings;
            self
        }

        /// A header of every request. One with a name that is set already replaces it.
        #[must_use]
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.setup.headers.push((name.into(), value.into()));
            self
        }

        /// How long the provider may keep us waiting.
        #[must_use]
        pub fn clocks(mut self, clocks: $crate::client::Clocks) -> Self {
            self.setup.clocks = clocks;
            self
        }

        /// How large an answer may become.
        #[must_use]
        pub fn answer_limits(mut self, limits: $crate::provider::AnswerLimits) -> Self {
            self.setup.answer_limits = limits;
            self
        }

        /// What is known of models, with the program's own entries: it says which files the model takes.
        /// Default: the library's table. A document or sound is sent only to a model of which it is known
        /// that it takes them:
        ///
        /// ```
        /// use harness::models::{Model, Models};
        ///
        /// let mine = Model { documents: Some(true), ..Model::default() };
        /// let models = Models::default().with("my-model", mine);
        /// # let _ = harness::ChatCompletionsProvider::builder().models(models);
        /// ```
        #[must_use]
        pub fn models(mut self, models: $crate::models::Models) -> Self {
            self.setup.models = models;
            self
        }
    };
}

/// The policy and the tap of every ready provider; each holds a `Transport` named `transport`.
macro_rules! with_retry {
    () => {
        /// Sets when a failed request is tried again. Unless it is set,
        /// [`RetryPolicy::default`](crate::policy::RetryPolicy::default) is followed; with
        /// [`RetryPolicy::none`](crate::policy::RetryPolicy::none) nothing is sent twice. A policy
        /// around the provider, such as that of a
        /// [`RetryProvider`](crate::policy::RetryProvider), counts in place of this one.
        #[must_use]
        pub fn with_retry(mut self, policy: $crate::policy::RetryPolicy) -> Self {
            self.transport = self.transport.with_retry(policy);
            self
        }

        /// Records what is sent and what comes: see [`Tap`](crate::client::Tap).
        #[must_use]
        pub fn with_tap(mut self, tap: $crate::client::Tap) -> Self {
            self.transport = self.transport.with_tap(tap);
            self
        }
    };
}

pub(super) use {setters, with_retry};
