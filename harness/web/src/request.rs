//! What a request of a client says, whatever its protocol.

use serde_json::Value;

use super::ClientAnswer;
use harness_core::{
    error::{Error, ErrorKind},
    message::{Block, Media, Message, Role},
};

/// A request of a client, decoded. Everything else in it, such as the history, was left out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientRequest {
    /// The conversation. The client chooses the name, so check whether its user may use it.
    pub conversation: String,
    /// The name that the client gives to the run, in protocols in which it does.
    pub run: Option<String>,
    /// The ids of the calls that the client shows, in protocols whose encoder needs them: see
    /// [`AgUiStream::with_client_calls`](crate::ag_ui::AgUiStream::with_client_calls).
    pub calls: Vec<String>,
    /// What the user says.
    pub input: ClientInput,
}

/// What a user says in a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientInput {
    /// A new message.
    Message(Message),
    /// Answers to calls that wait, for [`resume_answered`](super::resume_answered). The list may have answers of earlier requests,
    /// and be empty.
    Answers(Vec<ClientAnswer>),
}

/// A request that cannot be read.
pub(crate) fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, what)
}

/// A message of the user of these blocks.
pub(crate) fn user_message(blocks: Vec<Block>) -> Result<Message, Error> {
    match blocks.is_empty() {
        true => Err(wrong("the newest message of the user has no text and no file")),
        false => Ok(Message::new(Role::User, blocks)),
    }
}

/// A file of the user.
pub(crate) fn file_block(media: Media, mime: &str) -> Block {
    match mime.split('/').next() {
        Some("image") => Block::Image(media),
        Some("audio") => Block::Audio(media),
        _ => Block::Document(media),
    }
}

/// A file that is behind an address which the vendor of the model can open.
pub(crate) fn remote_file(url: &str) -> Result<Media, Error> {
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(Media::from_url(url)),
        false => Err(wrong("a file of the user is neither in a `data:` address nor at `https://`")),
    }
}

/// A member of an object that is a text.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}
