//! Reads the errors of vendors in all formats seen so far, from the body of an unsuccessful response or from an event
//! of a stream.

use std::time::Duration;

use serde::Deserialize;

use super::{
    reader, retry_delay, surrogates,
    tolerant::{ObjectMembers, TolerantObject, TolerantText, elements},
};
use harness_core::{
    error::{Error, ErrorKind},
    message::without_lone_surrogates,
    secret::beginning,
};

/// The content of an error body.
#[derive(Debug, Default)]
struct ErrorBody {
    message: Option<String>,
    code: Option<String>,
    /// A numeric code, often the HTTP status.
    number: Option<u16>,
    kind: Option<String>,
    /// The member of the request that caused the error.
    param: Option<String>,
    request_id: Option<String>,
    /// The waiting time from a separate member of the error body.
    wait: Option<Duration>,
}

/// The maximum length of a quoted error, in bytes. The error of a router quotes the error of another server.
const QUOTED: usize = 1024;

fn is_of_a_constant(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'_'
}

/// The error in `body`; `None` if the body contains no error.
///
/// Known formats: `{"error": {"message", "type", "code"}}` with the code as text, number or null,
/// `{"error": "text"}`, `{"code", "error": "text"}`, `{"detail": "text"}`, `{"message", "type",
/// "code"}`, and Google's, which may be in a list: `[{"error": {"message", "code": 429, "status":
/// "RESOURCE_EXHAUSTED", "details": []}}]`.
pub(super) fn in_json(body: &str) -> Option<Error> {
    let body = surrogates::joined(body);
    let body = without_lone_surrogates(&body);
    let members = members_of(&body)?;
    let mut said = ErrorBody::default();
    for name in ["error", "detail", "errors", "error_message"] {
        let Some(json) = members.get(name).filter(|json| is_told(json)) else { continue };
        if json.starts_with('{') {
            said.read(&ObjectMembers::of(json));
            if said.message.is_none() {
                said.message = Some(json.to_owned());
            }
        } else if json.starts_with('[') {
            said.message = Some(json.to_owned());
        } else if let Some(text) = text(Some(json)) {
            said.message = Some(text);
        } else {
            continue;
        }
        break;
    }
    let said_inside = said.message.is_some();
    said.read(&members);
    // The other members describe an error only if the body contains an error.
    if !said_inside && said.message.is_none() {
        return None;
    }
    Some(said.into_error())
}

/// The members of an object, or of the first object in a list.
fn members_of(body: &str) -> Option<ObjectMembers<'_>> {
    let body = match body.trim_start().starts_with('[') {
        true => elements(body).first()?,
        false => body,
    };
    reader::from_str::<TolerantObject<ObjectMembers<'_>>>(body).ok()?.0
}

impl ErrorBody {
    /// Fills the fields that are still empty.
    fn read(&mut self, members: &ObjectMembers<'_>) {
        set(&mut self.message, text(members.get("message")));
        let kind = text(members.get("type")).filter(|kind| kind != "error");
        set(&mut self.kind, kind);
        set(&mut self.param, text(members.get("param")).filter(|param| !param.is_empty()));
        set(&mut self.request_id, text(members.get("request_id")));
        match members.get("details") {
            Some(json) if json.starts_with('{') => {
                set(&mut self.code, text(ObjectMembers::of(json).get("error_code")));
            }
            Some(json) if json.starts_with('[') => {
                let delay = |json: &str| text(ObjectMembers::of(json).get("retryDelay"));
                let delay = elements(json).into_iter().find_map(delay);
                self.wait = self.wait.or_else(|| retry_delay::duration(&delay?));
            }
            Some(_) | None => {}
        }
        // A router quotes the response of the model's server in the member `metadata`.
        let metadata = members.get("metadata").map(ObjectMembers::of);
        let quoted = metadata.as_ref().and_then(|members| match members.get("raw") {
            Some(json) if json.starts_with('{') => Some(json.to_owned()),
            json => text(json),
        });
        if let (Some(message), Some(quoted)) = (&mut self.message, quoted) {
            let inner = in_json(&quoted);
            let words = inner.as_ref().map_or(quoted.as_str(), Error::message);
            if !message.contains(words) {
                *message = format!("{message}: {}", beginning(words, QUOTED));
            }
            set(&mut self.code, inner.and_then(|inner| inner.code().map(str::to_owned)));
        }
        for name in ["code", "status_code", "raw_status_code", "status"] {
            let Some(code) = text(members.get(name)) else { continue };
            match code.parse::<u16>() {
                Ok(number) => self.number = self.number.or(Some(number)),
                Err(_) if name == "code" => set(&mut self.code, Some(code)),
                // Google's status of an error, such as `INVALID_ARGUMENT`.
                Err(_) if name == "status" && code.bytes().all(is_of_a_constant) => {
                    set(&mut self.kind, Some(code));
                }
                Err(_) => {}
            }
        }
    }

    fn into_error(self) -> Error {
        let Self { message, code, number, kind, param, request_id, wait } = self;
        let message = message.unwrap_or_else(|| "the vendor gives no reason".to_owned());
        // An error in a stream has no headers, so the message may be the only source of the waiting time.
        let wait = wait.or_else(|| retry_delay::in_words(&message));
        let exceeds = exceeds_limit(&message);
        let mut err = Error::new(ErrorKind::Api, message);
        if exceeds {
            let note = "this one request is larger than the limit, so a further try would fail too: send less, or have the limit raised";
            err = err.with_should_retry(false).with_note(note);
        }
        if let Some(wait) = wait {
            err = err.with_retry_after(wait);
        }
        if let Some(number) = number.filter(|number| (400..600).contains(number)) {
            err = err.with_status(number);
        }
        if let Some(code) = code.or(kind).or_else(|| number.map(|number| number.to_string())) {
            err = err.with_code(code);
        }
        if let Some(param) = param {
            err = err.with_param(param);
        }
        if let Some(id) = request_id {
            err = err.with_request_id(id);
        }
        err
    }
}

/// Whether the message says that this request alone is above a limit: "Limit 30000, Requested 40000".
fn exceeds_limit(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let number = |name: &str| {
        message.split(name).skip(1).find_map(|rest| {
            let rest = rest.trim_start_matches([' ', ':', '=']);
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
            rest.get(..end)?.replace(',', "").parse::<u64>().ok()
        })
    };
    match (number("limit"), number("requested")) {
        (Some(limit), Some(requested)) => requested > limit,
        _ => false,
    }
}

/// Whether a member such as `error` contains an error. Some servers also send this member, as empty or `null`, without
/// an error.
pub(super) fn is_told(json: &str) -> bool {
    let is_nothing = |json: &str| matches!(json, "null" | "false" | "0" | "\"\"" | "{}" | "[]");
    match json.starts_with('{') {
        true => !ObjectMembers::of(json).0.iter().all(|(_, value)| is_nothing(value.get())),
        false => !is_nothing(json),
    }
}

/// The error in an event that the server sent as an error.
pub(super) fn in_event(data: &str) -> Error {
    in_json(data).unwrap_or_else(|| Error::new(ErrorKind::Api, surrogates::joined(data.trim())))
}

/// The error of an unsuccessful response with this body, in any format.
pub(crate) fn of_body(status: u16, body: &[u8]) -> Error {
    let body = String::from_utf8_lossy(body);
    let body = body.trim_start_matches('\u{feff}').trim();
    // A proxy may send an error as an event stream.
    let data = body.lines().find_map(|line| line.strip_prefix("data:")).map(str::trim);
    let found = in_json(body).or_else(|| data.and_then(in_json));
    found.unwrap_or_else(|| Error::new(ErrorKind::Api, plain(status, body))).with_status(status)
}

/// Whether the vendor refuses the thinking in a request: the vendor cannot verify the thinking, or a related item is
/// missing.
///
/// Source of the error texts, in addition to the vendors' pages: openclaw/openclaw#107221, bastani-inc/atomic#1720,
/// openai/codex#8119 and openai/codex#1227.
pub(crate) fn is_thinking_refused(err: &Error) -> bool {
    let words = err.message().to_ascii_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let of_thinking = says(&["thinking", "reasoning", "encrypted"]);
    let of_proof = says(&["signature", "encrypted content", "encrypted_content"]);
    let is_broken = says(&["invalid", "verif", "decrypt", "corrupt", "bound to"]);
    let is_lasting = err.kind() == ErrorKind::Api && !err.is_retryable();
    is_lasting
        && (of_thinking && of_proof && is_broken
            || of_thinking && says(&["cannot be modified", "provided without its required"])
            || says(&["'rs_"]) && says(&["not found"]))
}

/// The error in the body of a response with a status of success; `None` if the body contains no error.
pub(crate) fn in_success(body: &[u8]) -> Option<Error> {
    let body = String::from_utf8_lossy(body);
    let members = members_of(&body)?;
    let named = ["error", "detail"].iter().find_map(|name| members.get(name));
    named.filter(|json| is_told(json)).and_then(|_| in_json(&body))
}

/// The message for a body that is no error object.
fn plain(status: u16, body: &str) -> String {
    words(body).unwrap_or_else(|| format!("the server answered with status {status} and no text"))
}

/// The beginning of a text, without markup; `None` if there is only markup.
pub(crate) fn words(body: &str) -> Option<String> {
    let mut words = String::new();
    let mut inside_tag = false;
    for part in body.chars().take(4096) {
        match part {
            '<' => inside_tag = true,
            '>' if inside_tag => {
                inside_tag = false;
                words.push(' ');
            }
            _ if inside_tag => {}
            part => words.push(part),
        }
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    (!words.is_empty()).then(|| beginning(&words.join(" "), 300).into_owned())
}

fn set(field: &mut Option<String>, value: Option<String>) {
    if field.is_none() {
        *field = value;
    }
}

fn text(json: Option<&str>) -> Option<String> {
    let text = TolerantText::deserialize(&mut serde_json::Deserializer::from_str(json?)).ok()?;
    text.owned()
}
