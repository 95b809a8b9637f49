//! Detects whether a successful response is a stream of events, JSON in one piece, or neither. Some servers send wrong
//! content types, so the first bytes of the body decide.

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use crate::wire::fault;
use harness_core::error::{Error, ErrorKind};

/// The format of a body, detected from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    /// Server-sent events.
    Events,
    /// JSON in one piece.
    Json,
    /// Neither events nor JSON.
    Other,
    /// More bytes are needed to decide.
    Undecided,
}

/// The names of the fields of server-sent events. Source: the HTML standard, section 9.2.5.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

impl ResponseKind {
    /// The format of a body that begins with these bytes.
    pub(super) fn of(body: &[u8]) -> Self {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let body = match body.strip_prefix(MARK) {
            Some(body) => body,
            None if !body.is_empty() && MARK.starts_with(body) => return Self::Undecided,
            None => body,
        };
        match body.trim_ascii_start() {
            [] => Self::Undecided,
            [b'{' | b'[', ..] => Self::Json,
            [b':', ..] => Self::Events,
            line => {
                let ends = line.iter().position(|byte| b":\r\n".contains(byte));
                match ends.and_then(|end| line.get(..end)) {
                    Some(name) if FIELDS.contains(&name) => Self::Events,
                    None if FIELDS.iter().any(|field| field.starts_with(line)) => Self::Undecided,
                    Some(_) | None => Self::Other,
                }
            }
        }
    }
}

/// The encoding of a compressed body; `None` if the body is not compressed. Requests do not accept compression, but
/// some proxies compress the body anyway.
pub(super) fn compression(headers: &HeaderMap) -> Option<&str> {
    let encoding = headers.get(CONTENT_ENCODING)?.to_str().ok()?.trim();
    let plain = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
    (!plain).then_some(encoding)
}

/// The error message for a compressed body.
pub(super) fn compressed(encoding: &str) -> String {
    format!(
        "the server answered with a body that is compressed (`{encoding}`), although the request \
         accepts none: switch compression off in the server or proxy on the way"
    )
}

/// The error of a successful response that is not an answer. `body` is its beginning, with secrets removed.
pub(super) fn foreign(status: u16, headers: &HeaderMap, body: &str) -> Error {
    if let Some(encoding) = compression(headers) {
        return Error::new(ErrorKind::Protocol, compressed(encoding));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = match kind {
        Some(kind) => format!("`{}`", kind.chars().take(100).collect::<String>()),
        None => "a body without a content type".to_owned(),
    };
    let came = match fault::words(body) {
        None => "an empty body".to_owned(),
        Some(words) => format!("{kind} that begins with \"{words}\""),
    };
    Error::new(
        ErrorKind::Protocol,
        format!(
            "the server answered {status} with {came} in place of a model's answer: does the base \
             URL lead to a server that speaks this protocol?"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::ResponseKind;

    #[test]
    fn the_first_bytes_decide() {
        let table = [
            ("data: {}", ResponseKind::Events),
            ("data:{}", ResponseKind::Events),
            ("\u{feff}\n\r\nevent: message_start\n", ResponseKind::Events),
            (": ping", ResponseKind::Events),
            ("retry: 5", ResponseKind::Events),
            ("id\n", ResponseKind::Events),
            ("{\"id\": 1}", ResponseKind::Json),
            ("  [{", ResponseKind::Json),
            ("", ResponseKind::Undecided),
            ("\n", ResponseKind::Undecided),
            ("da", ResponseKind::Undecided),
            ("data", ResponseKind::Undecided),
            ("<!doctype html>", ResponseKind::Other),
            ("database: down", ResponseKind::Other),
            ("upstream: timed out", ResponseKind::Other),
            ("OK", ResponseKind::Other),
        ];
        for (body, form) in table {
            assert_eq!(ResponseKind::of(body.as_bytes()), form, "{body:?}");
        }
        assert_eq!(ResponseKind::of(&[0xef]), ResponseKind::Undecided);
        assert_eq!(ResponseKind::of(&[0x1f, 0x8b, 8]), ResponseKind::Other);
    }
}
