//! The parts of facts that change what is sent of a conversation.

use serde::{Deserialize, Serialize};

use crate::{message::Message, provider::Usage};

/// A result that the model gets as one line from now on, or without some of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedResult {
    /// The id of the call.
    pub call: String,
    /// The line that is sent instead.
    pub text: String,
    /// The files of the result that are left out, by their numbers from 0 on. All other files are sent, also those
    /// that were left out before. The rest of the result stays, and the line stands in the place of the first file
    /// that is left out. `None` if the line replaces the whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<u64>>,
    /// The index, in the transcript, of the user's message whose files are left out. `call` is empty then. `None` if
    /// it is the result of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
}

impl ClearedResult {
    /// Replaces the result of the call with this id by this line.
    pub fn new(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call: call.into(), text: text.into(), files: None, message: None }
    }

    /// Leaves out these files of the result of the call with this id, by their numbers from 0 on. All other files are
    /// sent.
    pub fn files(
        call: impl Into<String>,
        files: impl IntoIterator<Item = u64>,
        text: impl Into<String>,
    ) -> Self {
        Self { files: Some(files.into_iter().collect()), ..Self::new(call, text) }
    }

    /// Leaves out these files of the user's message at this index of the transcript. All other files of the message
    /// are sent.
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
    /// Replaces the arguments of one call: `message` is the index of its message in the transcript, and `call` its
    /// number in that message, from 0 on.
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
