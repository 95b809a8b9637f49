//! What a person who uses the program may read of an error, for example in a browser.

use super::{Error, ErrorKind};
use crate::secret::beginning;

impl Error {
    /// The text of the error for a person who uses the program, for example in a browser. The other texts of an error
    /// are for the people who run the program.
    ///
    /// If a vendor's server has refused a request as wrong or has failed, or a model cannot read a file, this is the
    /// message, without the name of the provider, the request id, addresses, and advice about settings, and at most 300
    /// bytes of it. For every other
    /// kind of error it is one sentence that is the same for all errors of the kind: their messages can name servers,
    /// types, settings and files of the program.
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

    /// The text of the error of an agent for the model that has called the agent, and for people who can read the
    /// results of calls. Unlike [`public_text`](Self::public_text), it has the messages that say how the program uses
    /// its agents wrongly.
    #[doc(hidden)]
    pub fn text_for_caller(&self) -> String {
        self.with_later_as(|kind| match kind {
            ErrorKind::Configuration | ErrorKind::Transcript | ErrorKind::Conflict => None,
            kind => kind.sentence(),
        })
    }

    /// The text of this error and its later failures. `sentence` is the text of an error whose message is not shown.
    fn with_later_as(&self, sentence: impl Fn(ErrorKind) -> Option<&'static str>) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = self.write_with_later(&mut text, |error| {
            match sentence(error.kind()).or_else(|| error.sentence_of_status()) {
                Some(sentence) => sentence.to_owned(),
                None => beginning(&without_addresses(&error.answer_text()), LONGEST).into_owned(),
            }
        });
        text
    }
}

impl Error {
    /// What a person reads of a vendor's refusal whose message is about the account of the program.
    fn sentence_of_status(&self) -> Option<&'static str> {
        match self.status()? {
            _ if self.is_out_of_quota() => Some("the service has no more credit for the model"),
            401..=404 => Some("the model refuses the service: tell the people who run it"),
            429 => Some("too many people ask the model now: try again later"),
            _ => None,
        }
    }
}

/// The largest number of bytes of a message that a person reads.
const LONGEST: usize = 300;

impl ErrorKind {
    /// What a person who uses the program reads of an error of this kind. `None` if the person reads its message.
    fn sentence(self) -> Option<&'static str> {
        Some(match self {
            Self::Api | Self::Content => return None,
            Self::Connect => "the model cannot be reached: try again later",
            Self::Timeout => "the model did not answer in time: try again later",
            Self::CutOff => "the answer broke off: try again",
            Self::Protocol => "the answer of the model could not be read: try again later",
            Self::ContextFull => {
                "the conversation is too long for the model: begin a new conversation"
            }
            Self::TooLarge => "the answer of the model is too large: ask for less",
            Self::Limit => "a limit of money, tokens or calls is reached: try again later",
            Self::Transcript => "this cannot be done at this point of the conversation",
            Self::Conflict => "the conversation has changed meanwhile: load it again",
            Self::Busy => "the conversation is busy: try again in a moment",
            Self::NotWaiting => "this answer came too late: nothing waits for it any more",
            Self::Closed => "the service is closing: try again in a moment",
            Self::Journal => "the conversation could not be read or stored: try again later",
            Self::Configuration => "the service is not set up for this: tell the people who run it",
            Self::Panicked => "the service has a fault: tell the people who run it",
        })
    }
}

/// The text with `[address]` in place of each word that has the address of a server: a URL, a number with dots such as
/// `10.0.3.7` or `fd00::12`, or a name with a port such as `models.internal:8443` or `vllm:8000`.
fn without_addresses(text: &str) -> String {
    let word =
        |word: &str| if has_address(word) { "[address]".to_owned() } else { word.to_owned() };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn has_address(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let host = |part: &str| {
        let part = part.trim_matches(['.', ':']);
        let (name, port) = part.split_once(':').unwrap_or((part, ""));
        let dots = name.matches('.').count();
        let has_port = is_number(port) && (2..=5).contains(&port.len());
        let is_name = name.starts_with(char::is_alphabetic);
        (dots == 3 && name.split('.').all(is_number))
            || (has_port && (dots > 0 || is_name))
            || ((part.contains("::") || part.matches(':').count() > 3)
                && part.chars().all(|c| c == ':' || c.is_ascii_hexdigit()))
    };
    word.contains("://") || word.contains(r":\/\/") || word.split(|c| !is_part(c)).any(host)
}
