//! The parts of facts that change what is sent of a conversation.

use serde::{Deserialize, Serialize};

use crate::{message::Message, provider::Usage};

/// A result that is replaced by a line in what is sent, or of which only files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedResult {
    /// The id of the call.
    pub call: String,
    /// The line.
    pub text: String,
    /// Which of its files are left out, by their numbers from 0 on; all others are sent, those that
    /// were left out before, too. The rest of it stays, and the line is in the place of the first of
    /// them. `None` if the line replaces the whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<u64>>,
    /// The index, in the transcript, of the message of the user whose files are meant. There is no
    /// call then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
}

impl ClearedResult {
    /// Replaces the result of this call by this line.
    pub fn new(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call: call.into(), text: text.into(), files: None, message: None }
    }

    /// Leaves out these files of the result of this call, by their numbers from 0 on, and no others.
    pub fn files(
        call: impl Into<String>,
        files: impl IntoIterator<Item = u64>,
        text: impl Into<String>,
    ) -> Self {
        Self { files: Some(files.into_iter().collect()), ..Self::new(call, text) }
    }

    /// The same for the message of the user at this index of the transcript.
    pub fn files_of_user(
        message: u64,
        files: impl IntoIterator<Item = u64>,
        text: impl Into<String>,
    ) -> Self {
        Self { message: Some(message), ..Self::files("", files, text) }
    }
}

/// The arguments of a call that are replaced by shorter ones in what is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedArguments {
    /// The index, in the transcript, of the message that has the call.
    pub message: u64,
    /// The number of the call in that message, from 0 on.
    pub call: u64,
    /// The arguments that are sent instead: a JSON object.
    pub arguments: String,
}

impl ClearedArguments {
    /// Replaces the arguments of this call of this message.
    pub fn new(message: u64, call: u64, arguments: impl Into<String>) -> Self {
        Self { message, call, arguments: arguments.into() }
    }
}

/// A summary in the vendor's own form. It is only sent to the provider and the model that have made
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VendorSummary {
    /// The name of the provider that has made it.
    pub provider: String,
    /// The name of the model that has made it, as it is asked for.
    pub model: String,
    /// The vendor's block, unaltered, as the first message.
    pub message: Message,
    /// Everything that must not be lost, whatever the block contains. It comes after all messages
    /// that existed when the block was made, since nothing may come between the block and the
    /// messages after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Message>,
}

impl VendorSummary {
    /// A block that this model of this provider has made, and the words that are sent with it.
    pub fn new(
        provider: impl Into<String>,
        model: impl Into<String>,
        message: Message,
        words: Option<Message>,
    ) -> Self {
        Self { provider: provider.into(), model: model.into(), message, words }
    }
}

/// The request by which a model was asked for a summary, or all of them if the first ones failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The tokens of the request and the answer.
    pub usage: Usage,
    /// The provider that was asked, such as `anthropic`.
    pub provider: String,
    /// The model that answered, by the vendor's name for it.
    pub model: String,
    /// The name of the model that was asked, if the one that answered has another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_model: Option<String>,
    /// Whether no complete answer came. The tokens are then a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub broke_off: bool,
}
