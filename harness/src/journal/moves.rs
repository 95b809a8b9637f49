//! What facts say of the part of a conversation that is sent.

use serde::{Deserialize, Serialize};

use crate::{message::Message, provider::Usage};

/// A result in whose place a line is sent from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedResult {
    /// The id of the call.
    pub call: String,
    /// The line.
    pub text: String,
}

impl ClearedResult {
    /// This line in the place of the result of this call.
    pub fn new(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call: call.into(), text: text.into() }
    }
}

/// The arguments of a call in whose place shorter ones are sent from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedArguments {
    /// The place, in the transcript, of the message that has the call.
    pub message: u64,
    /// Which of its calls it is, from 0 on.
    pub call: u64,
    /// The arguments that are sent: a JSON object.
    pub arguments: String,
}

impl ClearedArguments {
    /// These arguments in the place of those of this call of this message.
    pub fn new(message: u64, call: u64, arguments: impl Into<String>) -> Self {
        Self { message, call, arguments: arguments.into() }
    }
}

/// A summary that the vendor has made in a form of its own. It goes back to the provider and the model that made it, and
/// to nobody else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VendorSummary {
    /// The name of the provider that it goes back to.
    pub provider: String,
    /// The model that it goes back to, as it is asked.
    pub model: String,
    /// The vendor's block, unaltered, as the first message.
    pub message: Message,
    /// What must not be lost whatever the block says. It stands behind all that had been said when the block was made,
    /// since nothing may stand between the block and the words that follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Message>,
}

impl VendorSummary {
    /// This block, made by this model of this provider, and what is said beside it.
    pub fn new(
        provider: impl Into<String>,
        model: impl Into<String>,
        message: Message,
        words: Option<Message>,
    ) -> Self {
        Self { provider: provider.into(), model: model.into(), message, words }
    }
}

/// The request by which a model was asked for a summary, or those by which it was asked in vain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// Tokens counted.
    pub usage: Usage,
    /// Who was asked, such as `anthropic`.
    pub provider: String,
    /// The model, as the vendor names it.
    pub model: String,
    /// The model that was asked, where the one that answered has another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_model: Option<String>,
    /// Whether no whole answer came: then the tokens are a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub broke_off: bool,
}
