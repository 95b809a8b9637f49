//! Types that describe which parts of a conversation later requests omit or shorten. The facts about the context
//! contain these types.

use serde::{Deserialize, Serialize};

use crate::{message::Message, provider::Usage};

/// A result that is replaced by one line in all later requests, or that loses some of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedResult {
    /// The id of the call.
    pub call: String,
    /// The line that is sent in place of the result or of the files.
    pub text: String,
    /// The files of the result that are left out, numbered from 0. All other files are sent, even those that an earlier
    /// fact left out. The rest of the result stays, and the line takes the place of the first file that is left out.
    /// `None` if the line replaces the whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<u64>>,
    /// The index, in the transcript, of the user's message whose files are left out; `call` is empty then. `None` if
    /// the files or the result belong to a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
}

impl ClearedResult {
    /// Later requests contain `text` in place of a call's result. `call` is the id of the call.
    pub fn new(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call: call.into(), text: text.into(), files: None, message: None }
    }

    /// Later requests omit files of a call's result. `call` is the id of the call, and `files` are the numbers of the
    /// omitted files, from 0. All other files are sent. `text` takes the place of the first omitted file.
    pub fn files(
        call: impl Into<String>,
        files: impl IntoIterator<Item = u64>,
        text: impl Into<String>,
    ) -> Self {
        Self { files: Some(files.into_iter().collect()), ..Self::new(call, text) }
    }

    /// Later requests omit files of a user's message. `message` is the index of the message in the transcript, and
    /// `files` are the numbers of the omitted files, from 0. All other files of the message are sent. `text` takes the
    /// place of the first omitted file.
    pub fn files_of_user(
        message: u64,
        files: impl IntoIterator<Item = u64>,
        text: impl Into<String>,
    ) -> Self {
        Self { message: Some(message), ..Self::files("", files, text) }
    }
}

/// Shorter arguments for one call. Later requests contain these arguments in place of the call's original arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClearedArguments {
    /// The index, in the transcript, of the message with the call.
    pub message: u64,
    /// The number of the call in that message, from 0.
    pub call: u64,
    /// The replacement for the arguments: a JSON object.
    pub arguments: String,
}

impl ClearedArguments {
    /// Replaces the arguments of one call. `message` is the index, in the transcript, of the message with the call.
    /// `call` is the number of the call in that message, from 0.
    pub fn new(message: u64, call: u64, arguments: impl Into<String>) -> Self {
        Self { message, call, arguments: arguments.into() }
    }
}

/// A summary in the vendor's own format. This summary is sent only to the provider and the model that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VendorSummary {
    /// The name of the provider that made the summary.
    pub provider: String,
    /// The requested name of the model that made the summary.
    pub model: String,
    /// The message with the vendor's unaltered block. Requests begin with this message.
    pub message: Message,
    /// User messages, calls and pinned texts that must not be lost, whatever the block contains. They are sent after
    /// all messages that existed when the block was made, because these messages must directly follow the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Message>,
}

impl VendorSummary {
    /// A block from this model of this provider, and the words that are sent with the block.
    pub fn new(
        provider: impl Into<String>,
        model: impl Into<String>,
        message: Message,
        words: Option<Message>,
    ) -> Self {
        Self { provider: provider.into(), model: model.into(), message, words }
    }
}

/// The request for a summary. If earlier requests failed, the numbers are for all requests together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The tokens of the request and the response.
    pub usage: Usage,
    /// The provider that received the request, such as `anthropic`.
    pub provider: String,
    /// The vendor's name for the model that answered.
    pub model: String,
    /// The requested model name. `None` if the model that answered has the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_model: Option<String>,
    /// Whether no complete response arrived, so that `usage` is a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub broke_off: bool,
}
