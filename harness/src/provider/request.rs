//! What a provider is asked.

use super::{Ledger, Sent, Settings};
use crate::{
    error::Error,
    message::{Message, Transcript},
    tool::ToolSchema,
};

/// One question to a provider. It borrows everything, so that asking copies nothing.
///
/// It can only be made of a transcript that may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    system: Option<&'a str>,
    messages: &'a [Message],
    tools: &'a [ToolSchema],
    settings: Option<&'a Settings>,
    ledger: Option<&'a Ledger>,
    sent: Option<&'a Sent>,
}

impl<'a> Request<'a> {
    /// A question that continues this transcript.
    ///
    /// # Errors
    /// Fails if the transcript cannot be sent: see [`Transcript::sendable`].
    pub fn new(transcript: &'a Transcript) -> Result<Self, Error> {
        let messages = transcript.sendable()?;
        Ok(Self { system: None, messages, tools: &[], settings: None, ledger: None, sent: None })
    }

    /// Adds the system prompt.
    #[must_use]
    pub fn with_system(mut self, system: Option<&'a str>) -> Self {
        self.system = system;
        self
    }

    /// Adds the tools, in the order in which the model is told of them.
    #[must_use]
    pub fn with_tools(mut self, tools: &'a [ToolSchema]) -> Self {
        self.tools = tools;
        self
    }

    /// Adds settings for this question alone. What they leave open is as the provider is set.
    #[must_use]
    pub fn with_settings(mut self, settings: Option<&'a Settings>) -> Self {
        self.settings = settings;
        self
    }

    /// Adds the run's record of what failures have cost. Without one, each call has its own.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<&'a Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// Adds what was sent already of this conversation. Without it all of it is written.
    #[must_use]
    pub fn with_sent(mut self, sent: Option<&'a Sent>) -> Self {
        self.sent = sent;
        self
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&'a str> {
        self.system
    }

    /// The messages; every call has its result.
    pub fn messages(&self) -> &'a [Message] {
        self.messages
    }

    /// What was sent already of this conversation.
    pub fn sent(&self) -> Option<&'a Sent> {
        self.sent
    }

    /// Settings for this question alone.
    pub fn settings(&self) -> Option<&'a Settings> {
        self.settings
    }

    /// The tools, in a stable order.
    pub fn tools(&self) -> &'a [ToolSchema] {
        self.tools
    }

    /// The run's record of what failures have cost.
    pub fn ledger(&self) -> Option<&'a Ledger> {
        self.ledger
    }
}
