//! What a person who uses the program may read of an error, for example in a browser.

use super::{Error, ErrorKind};

impl Error {
    /// The text of the error for a person who uses the program, for example in a browser. The other texts of an error
    /// are for the people who run the program.
    ///
    /// If the request to a model has failed, this is the message of the failure, without the name of the provider, the
    /// request id, URLs, the proxy, and advice about settings. For every other kind of error it is one sentence that is
    /// the same for all errors of the kind: their messages can name types, settings and files of the program.
    ///
    /// ```
    /// use harness::{Error, ErrorKind};
    ///
    /// let error = Error::new(ErrorKind::Api, "Overloaded").with_status(529).with_provider("anthropic");
    /// assert_eq!(error.public_text(), "529: Overloaded");
    /// let error = Error::new(ErrorKind::Journal, "`/srv/chats.db` is damaged");
    /// assert_eq!(error.public_text(), "the conversation could not be read or stored: try again later");
    /// ```
    pub fn public_text(&self) -> String {
        self.with_later_as(ErrorKind::sentence)
    }

    /// The text of the error of an agent for the model that has called the agent. People who use the program can read
    /// it, too, so it has no names of servers and no files of the program.
    #[doc(hidden)]
    pub fn text_for_caller(&self) -> String {
        self.with_later_as(|kind| match kind {
            // The message of a full window can have the text of a summary's failure, with the name of the provider.
            ErrorKind::ContextFull | ErrorKind::Journal | ErrorKind::Panicked => kind.sentence(),
            _ => None,
        })
    }

    /// The text of this error and its later failures. `sentence` is the text of an error whose message is not shown.
    fn with_later_as(&self, sentence: impl Fn(ErrorKind) -> Option<&'static str>) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = self.write_with_later(&mut text, |error| match sentence(error.kind()) {
            Some(sentence) => sentence.to_owned(),
            None => without_urls(&error.answer_text()),
        });
        text
    }
}

impl ErrorKind {
    /// What a person who uses the program reads of an error of this kind. `None` if the person reads its message.
    fn sentence(self) -> Option<&'static str> {
        Some(match self {
            Self::Connect
            | Self::Timeout
            | Self::Api
            | Self::CutOff
            | Self::Protocol
            | Self::Content => return None,
            Self::ContextFull => {
                "the conversation is too long for the model: begin a new conversation"
            }
            Self::TooLarge => "the answer of the model is too large: ask for less",
            Self::Limit => "a limit of money, tokens or calls is reached: try again later",
            Self::Transcript => "this cannot be done at this point of the conversation",
            Self::Conflict => "the conversation has changed meanwhile: load it again",
            Self::Busy => "the conversation is busy: try again in a moment",
            Self::NotWaiting => "nothing waits for this answer any more",
            Self::Closed => "the service is closing: try again in a moment",
            Self::Journal => "the conversation could not be read or stored: try again later",
            Self::Configuration => "the service is not set up for this: tell the people who run it",
            Self::Panicked => "the service has a fault: tell the people who run it",
        })
    }
}

/// The text with `[address]` in place of each URL.
fn without_urls(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        clean.push_str(before.trim_end_matches(is_scheme));
        clean.push_str("[address]");
        let is_end = |c: char| c.is_whitespace() || "`'\"<>(),;".contains(c);
        rest = after.find(is_end).and_then(|end| after.get(end..)).unwrap_or_default();
    }
    clean + rest
}
