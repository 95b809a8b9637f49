//! The one error of the library, opaque, with predicates for what a host decides on.
//! It knows no message, tool or vendor; what a model may read of a failed call is `ToolError`.

use std::{fmt, time::Duration};

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The program asked for something that cannot be: a missing key, two tools with one name,
    /// a blocking call inside a running runtime.
    Configuration,
    /// The transcript cannot be sent or cannot take this fact.
    Transcript,
    /// No connection, or it broke before the answer began.
    Connect,
    /// A clock ran out: connecting, first event, between events, or the whole call.
    Timeout,
    /// The provider answered with a status that is no success, or with an error inside a stream.
    Api,
    /// The answer ended before it was complete.
    Interrupted,
    /// The answer could not be understood.
    Protocol,
    /// The answer is larger than the limit set for it.
    TooLarge,
    /// Somebody asked for the run to stop.
    Cancelled,
    /// Reading or writing what must survive failed.
    Journal,
}

/// Why a call into the library failed.
///
/// Ask it questions; do not match on its text:
///
/// ```
/// # fn demo(err: harness::Error) {
/// if err.is_retryable() {
///     println!("again in {:?}", err.retry_after());
/// }
/// # }
/// ```
///
/// It is one pointer wide and never holds a key.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    api: ApiDetail,
}

#[derive(Default)]
struct ApiDetail {
    status: Option<u16>,
    code: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    should_retry: Option<bool>,
}

impl Error {
    /// An error of this kind. The message names the place, the fault and the way out.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            message: message.into(),
            source: None,
            api: ApiDetail::default(),
        }))
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.api.status = Some(status);
        self
    }

    /// Adds the vendor's own word for the error, such as `overloaded_error`.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.api.code = Some(code.into());
        self
    }

    /// Adds the id under which the vendor keeps the request.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.api.request_id = Some(id.into());
        self
    }

    /// Adds how long the vendor asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.api.retry_after = Some(wait);
        self
    }

    /// Adds the vendor's own verdict on whether to try again (`x-should-retry`).
    #[must_use]
    pub fn with_should_retry(mut self, verdict: bool) -> Self {
        self.0.api.should_retry = Some(verdict);
        self
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text without its causes. For a vendor's error, these are the vendor's words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.api.status
    }

    /// The vendor's own word for the error, such as `rate_limit_error`.
    pub fn code(&self) -> Option<&str> {
        self.0.api.code.as_deref()
    }

    /// The id under which the vendor keeps the request.
    pub fn request_id(&self) -> Option<&str> {
        self.0.api.request_id.as_deref()
    }

    /// How long the vendor asks to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.api.retry_after
    }

    /// Whether somebody asked for the stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == ErrorKind::Cancelled
    }

    /// Whether a clock ran out.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// Whether the program itself must be changed: a key, an option, a name.
    pub fn is_configuration(&self) -> bool {
        self.0.kind == ErrorKind::Configuration
    }

    /// Whether the same request may succeed later. The vendor's own verdict wins; a spent quota
    /// or budget is not worth a second try whatever its status.
    pub fn is_retryable(&self) -> bool {
        if let Some(verdict) = self.0.api.should_retry {
            return verdict;
        }
        match self.0.kind {
            ErrorKind::Connect | ErrorKind::Timeout => true,
            ErrorKind::Api => {
                let code = self.code().unwrap_or_default();
                if SPENT.iter().any(|spent| code.contains(spent)) {
                    return false;
                }
                match self.0.api.status {
                    Some(status) => matches!(status, 408 | 409 | 429 | 500 | 502 | 503 | 504 | 529),
                    None => TRANSIENT.iter().any(|transient| code.contains(transient)),
                }
            }
            ErrorKind::Configuration
            | ErrorKind::Transcript
            | ErrorKind::Interrupted
            | ErrorKind::Protocol
            | ErrorKind::TooLarge
            | ErrorKind::Cancelled
            | ErrorKind::Journal => false,
        }
    }
}

/// Codes under which vendors report money that is gone; waiting does not bring it back.
const SPENT: [&str; 6] =
    ["quota", "billing", "credit_balance", "spend_limit", "usage_limit", "ramp_limit"];

/// Codes of errors inside a stream, which have no status, that pass by themselves.
const TRANSIENT: [&str; 7] = [
    "overloaded",
    "api_error",
    "timeout_error",
    "rate_limit",
    "server_error",
    "slow_down",
    "server_is_overloaded",
];

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let api = &self.0.api;
        match (api.status, &api.code) {
            (Some(status), Some(code)) => write!(f, "{status} {code}: ")?,
            (Some(status), None) => write!(f, "{status}: ")?,
            (None, Some(code)) => write!(f, "{code}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.0.message)?;
        if let Some(id) = &api.request_id {
            write!(f, " (request {id})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind).field("message", &self.0.message);
        let ApiDetail { status, code, request_id, retry_after, should_retry } = &self.0.api;
        if let Some(status) = status {
            out.field("status", status);
        }
        if let Some(code) = code {
            out.field("code", code);
        }
        if let Some(id) = request_id {
            out.field("request_id", id);
        }
        if let Some(wait) = retry_after {
            out.field("retry_after", wait);
        }
        if let Some(verdict) = should_retry {
            out.field("should_retry", verdict);
        }
        if let Some(source) = &self.0.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
