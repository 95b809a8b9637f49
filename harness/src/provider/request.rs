//! What a provider is asked.

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
}

impl<'a> Request<'a> {
    /// A question that continues this transcript.
    ///
    /// # Errors
    /// Fails if the transcript cannot be sent: see [`Transcript::sendable`].
    pub fn new(transcript: &'a Transcript) -> Result<Self, Error> {
        Ok(Self { system: None, messages: transcript.sendable()?, tools: &[] })
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

    /// The system prompt.
    pub fn system(&self) -> Option<&'a str> {
        self.system
    }

    /// The messages; every call has its result.
    pub fn messages(&self) -> &'a [Message] {
        self.messages
    }

    /// The tools, in a stable order.
    pub fn tools(&self) -> &'a [ToolSchema] {
        self.tools
    }
}
