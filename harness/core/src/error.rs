//! The error type of the library. A program calls its predicate methods, because its fields are private. This module
//! depends on no message, tool or vendor. A tool returns another type, `ToolError`, whose text the model may read.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc, time::Duration};

use crate::secret::{Secrets, beginning};

mod full_window;
mod public_text;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The program's setup is wrong: a missing key, two tools with one name, a blocking call inside
    /// a running runtime.
    Configuration,
    /// The transcript cannot be sent, or the fact is not allowed at this point of the transcript.
    Transcript,
    /// No connection was made, or the connection broke before the response began.
    Connect,
    /// A timeout: for connecting, for the first event, between events, or for the whole call.
    Timeout,
    /// The provider answered with an unsuccessful status, or with an error inside a stream.
    Api,
    /// The conversation does not fit into the model's context window. A retry of the same request cannot help. Shorten
    /// the conversation, or use a model with a larger window.
    ContextFull,
    /// The response ended before it was complete, because of the connection or the vendor.
    CutOff,
    /// The response does not follow the protocol.
    Protocol,
    /// The model, the protocol or the vendor does not accept a file in the user's message. Nothing was sent.
    Content,
    /// The response exceeds a size limit.
    TooLarge,
    /// A limit on money, tokens or calls is reached, so no request was sent to the model.
    Limit,
    /// A journal could not be read or written.
    Journal,
    /// Another process or handle has appended to the conversation, so the new entries do not follow the stored ones.
    Conflict,
    /// The conversation is open elsewhere, in this process or in another one.
    Busy,
    /// The program answered a tool call that does not wait for this answer: the call is already answered, the answer is
    /// too late, or the answer belongs to another request. Nothing has changed.
    NotWaiting,
    /// Code of the program, such as an event handler or a provider, panicked when the library called it.
    Panicked,
    /// An object, such as `Chats`, was closed before this call.
    Closed,
}

/// Why a call into the library failed.
///
/// Use the predicates of the error; do not match on its text:
///
/// ```
/// fn advise(err: &harness::Error) -> String {
///     if err.is_retryable() {
///         format!("again in {:?}", err.retry_after())
///     } else if err.is_configuration() {
///         format!("change the program: {err}")
///     } else {
///         err.to_string()
///     }
/// }
/// # let _ = advise(&harness::Error::new(harness::ErrorKind::Connect, "no connection"));
/// ```
///
/// The value is one pointer wide. The message and the sources of a provider's error never contain a secret that the
/// provider holds, whatever the server sent (see [`Secrets`]).
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    api: ApiDetail,
    provider: Option<String>,
    /// Whether a fallback provider, rather than the first provider, produced this error.
    by_fallback: bool,
    url: Option<Arc<str>>,
    /// The words in the error text that name the proxy for the URL.
    proxy: Option<Arc<str>>,
    note: Option<String>,
    /// Whether the request was retried until the allowed attempts or the allowed time were used up.
    retry_budget_exhausted: bool,
    later: Vec<Error>,
}

#[derive(Default)]
struct ApiDetail {
    status: Option<u16>,
    code: Option<String>,
    /// The member of the request that the vendor names as the cause of the error.
    param: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    should_retry: Option<bool>,
}

impl Error {
    /// Creates an error of this kind. The message should name the location, the fault and the remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            message: message.into(),
            source: None,
            api: ApiDetail::default(),
            provider: None,
            by_fallback: false,
            url: None,
            proxy: None,
            note: None,
            retry_budget_exhausted: false,
            later: Vec::new(),
        }))
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.api.status = Some(status);
        self
    }

    /// Adds the vendor's error code, such as `overloaded_error`.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.api.code = Some(code.into());
        self
    }

    /// Adds the member of the request that the vendor names as the cause of the error.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.0.api.param = Some(param.into());
        self
    }

    /// Adds the vendor's id of the request.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.api.request_id = Some(id.into());
        self
    }

    /// Adds the time that the vendor asks the client to wait before a retry.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.api.retry_after = Some(wait);
        self
    }

    /// Adds the vendor's decision whether to retry (`x-should-retry`).
    #[must_use]
    pub fn with_should_retry(mut self, verdict: bool) -> Self {
        self.0.api.should_retry = Some(verdict);
        self
    }

    /// Sets the name of the failed provider, in this error and in its later errors. An error that already names a
    /// provider keeps that name.
    #[must_use]
    pub fn with_provider(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        for later in &mut self.0.later {
            later.0.provider.get_or_insert_with(|| name.clone());
        }
        self.0.provider.get_or_insert(name);
        self
    }

    /// Marks this error as the error of a fallback provider.
    #[must_use]
    pub(crate) fn by_fallback(mut self) -> Self {
        self.0.by_fallback = true;
        self
    }

    #[doc(hidden)]
    pub fn is_by_fallback(&self) -> bool {
        self.0.by_fallback
    }

    /// Adds the URL of the request for display, and the words that name the proxy for the URL. Keeps values that are
    /// already set.
    #[must_use]
    pub fn with_url(mut self, url: &Arc<str>, proxy: Option<&Arc<str>>) -> Self {
        self.0.url.get_or_insert_with(|| Arc::clone(url));
        self.0.proxy = self.0.proxy.or_else(|| proxy.cloned());
        self
    }

    /// Adds a note, for example why there was no further attempt, or which setting helps. The note is displayed after
    /// the error itself.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.0.note = Some(note.into());
        self
    }

    /// Marks this error as final because the attempts or the time for retries are used up.
    #[must_use]
    pub(crate) fn with_retry_budget_exhausted(mut self) -> Self {
        self.0.retry_budget_exhausted = true;
        self
    }

    /// Adds a later failure, from a retry or from another provider. This error keeps its own kind, status, code and
    /// message.
    #[must_use]
    pub fn with_later(mut self, mut later: Self) -> Self {
        let after = std::mem::take(&mut later.0.later);
        let note = later.0.note.take();
        let later_exhausted = later.0.retry_budget_exhausted;
        self.0.later.push(later);
        self.0.later.extend(after);
        if note.is_some() {
            self.0.note = note;
        }
        self.0.retry_budget_exhausted = later_exhausted;
        self
    }

    /// The same error with these secrets removed from its texts and from the texts of its sources. Texts from outside
    /// are cut to 8 KiB.
    #[must_use]
    pub fn cleaned(mut self, secrets: &Secrets) -> Self {
        self.clean(secrets);
        self
    }

    fn clean(&mut self, secrets: &Secrets) {
        let Repr { message, source, api, provider, url, note, later, .. } = &mut *self.0;
        let ApiDetail { code, param, request_id, status: _, retry_after: _, should_retry: _ } = api;
        let texts = [Some(message), code.as_mut(), request_id.as_mut(), provider.as_mut()];
        for text in texts.into_iter().chain([param.as_mut(), note.as_mut()]).flatten() {
            if let Cow::Owned(clean) = clean(text, secrets) {
                *text = clean;
            }
        }
        if let Some(Cow::Owned(clean)) = url.as_deref().map(|url| clean(url, secrets)) {
            *url = Some(clean.into());
        }
        if let Some(quoted) = source.as_deref().and_then(|source| Quoted::of(source, secrets)) {
            *source = Some(Box::new(quoted));
        }
        later.iter_mut().for_each(|error| error.clean(secrets));
    }

    /// The kind of the error. An API error that reports a full context window has the kind `ContextFull`.
    pub fn kind(&self) -> ErrorKind {
        if self.is_context_full() { ErrorKind::ContextFull } else { self.0.kind }
    }

    /// The message without causes. An API error has the vendor's message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        self.0.api.status
    }

    /// The vendor's error code, such as `rate_limit_error`.
    pub fn code(&self) -> Option<&str> {
        self.0.api.code.as_deref()
    }

    /// The member of the request that the server refused, if the server named one.
    pub fn param(&self) -> Option<&str> {
        self.0.api.param.as_deref()
    }

    /// The vendor's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        self.0.api.request_id.as_deref()
    }

    /// The name of the provider that failed, if several providers were possible.
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }

    /// The URL of the request, if the failure belongs to a request. User, password and query are removed, because they
    /// may be secret. The text of a network error contains this URL.
    pub fn url(&self) -> Option<&str> {
        self.0.url.as_deref()
    }

    /// The failures after this one, in order, from retries and from other providers.
    pub fn later(&self) -> &[Self] {
        &self.0.later
    }

    /// The last failure. This error itself if no later failure was added.
    pub fn last(&self) -> &Self {
        self.0.later.last().unwrap_or(self)
    }

    /// How long the vendor asks the client to wait before a retry, as stated in the last failure.
    pub fn retry_after(&self) -> Option<Duration> {
        self.last().0.api.retry_after
    }

    /// Whether a timeout expired.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// Whether the conversation does not fit into the model's context window. Some vendors report a full window with a
    /// special error code, others only in the message.
    pub fn is_context_full(&self) -> bool {
        match self.0.kind {
            ErrorKind::ContextFull => true,
            ErrorKind::Api => {
                full_window::is_told(self.status(), self.code().unwrap_or_default(), self.message())
            }
            _ => false,
        }
    }

    /// Whether another process or handle has appended to the conversation. Open the conversation again.
    pub fn is_conflict(&self) -> bool {
        self.0.kind == ErrorKind::Conflict
    }

    /// Whether the conversation is open elsewhere. Opening succeeds after the other holder has closed the conversation.
    pub fn is_busy(&self) -> bool {
        self.0.kind == ErrorKind::Busy
    }

    /// Whether the program answered a tool call that does not wait for this answer: the call is already answered, the
    /// answer is too late, or the answer belongs to another request.
    pub fn is_not_waiting(&self) -> bool {
        self.0.kind == ErrorKind::NotWaiting
    }

    /// Whether the model, the protocol or the vendor does not accept a file in the user's message. Nothing was sent;
    /// later requests contain a line of text in place of the file.
    pub fn is_content(&self) -> bool {
        self.0.kind == ErrorKind::Content
    }

    /// Whether the program's setup must be changed: a key, an option, a name.
    pub fn is_configuration(&self) -> bool {
        self.0.kind == ErrorKind::Configuration
    }

    /// Whether the vendor reports that credit or quota is used up. Waiting does not help.
    pub fn is_out_of_quota(&self) -> bool {
        let code = self.code().unwrap_or_default();
        self.status() == Some(402)
            || SPENT.iter().any(|spent| code.contains(spent))
            // Anthropic says this with status 400 and the code of an invalid request.
            || self.message().contains("credit balance is too low")
    }

    /// Whether the same request may succeed later, judged by the last failure. The vendor's own retry header has
    /// precedence. Used-up credit or quota is never retryable, whatever the status.
    pub fn is_retryable(&self) -> bool {
        self.last().passes_with(is_transient_status)
    }

    /// Whether the library stopped retrying because no attempts or no time were left. Another attempt might have
    /// succeeded. The [`RetryPolicy`](crate::policy::RetryPolicy) limits the attempts and the time, for the call and
    /// for the whole run. If a fallback provider failed afterwards, only the fallback's failure counts.
    pub fn is_retry_budget_exhausted(&self) -> bool {
        self.0.retry_budget_exhausted
    }

    /// Whether the same request may succeed later. `is_retried` returns whether an HTTP status is retried.
    pub(crate) fn passes_with(&self, is_retried: impl Fn(u16) -> bool) -> bool {
        if let Some(verdict) = self.0.api.should_retry {
            return verdict;
        }
        match self.kind() {
            ErrorKind::Connect | ErrorKind::Timeout => true,
            ErrorKind::Api => {
                if self.is_out_of_quota() {
                    return false;
                }
                let code = self.code().unwrap_or_default();
                match self.0.api.status {
                    Some(status) => is_retried(status),
                    None => TRANSIENT.iter().any(|transient| code.contains(transient)),
                }
            }
            ErrorKind::Configuration
            | ErrorKind::Transcript
            | ErrorKind::ContextFull
            | ErrorKind::CutOff
            | ErrorKind::Protocol
            | ErrorKind::Content
            | ErrorKind::TooLarge
            | ErrorKind::Limit
            | ErrorKind::Journal
            | ErrorKind::Conflict
            | ErrorKind::Busy
            | ErrorKind::NotWaiting
            | ErrorKind::Panicked
            | ErrorKind::Closed => false,
        }
    }
}

/// Whether a request that was answered with this status may succeed later. 501 and 505 mean that the server does not
/// support the request. The vendors' own clients retry the same statuses. Some of these statuses are non-standard.
pub(crate) fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 429 | 500..) && !matches!(status, 501 | 505)
}

/// An error code that contains one of these texts means that credit or quota is used up.
const SPENT: [&str; 6] =
    ["quota", "billing", "credit_balance", "spend_limit", "usage_limit", "ramp_limit"];

/// An error code that contains one of these texts means a temporary error. Errors inside a stream have a code but no
/// HTTP status.
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
        self.write_with_later(f, Self::tell)?;
        match &self.0.note {
            Some(note) => write!(f, "; {note}"),
            None => Ok(()),
        }
    }
}

/// The maximum number of bytes of an external text that an error keeps.
const LONGEST: usize = 8 * 1024;

/// The maximum number of nested sources that are read. Without this limit, an error that is its own source would cause
/// an endless loop.
const DEEPEST: usize = 32;

/// The text without these secrets, cut to [`LONGEST`] bytes.
fn clean<'a>(text: &'a str, secrets: &Secrets) -> Cow<'a, str> {
    match secrets.hide(text) {
        Cow::Borrowed(text) => beginning(text, LONGEST),
        Cow::Owned(text) => Cow::Owned(beginning(&text, LONGEST).into_owned()),
    }
}

/// A source of an error, with its texts cleaned: without secrets and cut to the limit. `source` is the next cause in
/// the chain.
struct Quoted {
    shown: String,
    debug: String,
    source: Option<Box<Quoted>>,
}

impl Quoted {
    /// Cleans the texts of this source and of its causes. `None` if no text has to change.
    fn of(source: &(dyn StdError + 'static), secrets: &Secrets) -> Option<Self> {
        let mut chain = Vec::new();
        let mut next = Some(source);
        let mut changed = false;
        while let Some(source) = next.filter(|_| chain.len() < DEEPEST) {
            let words = [source.to_string(), format!("{source:?}")].map(|words| {
                let clean = clean(&words, secrets);
                changed |= clean != words;
                clean.into_owned()
            });
            chain.push(words);
            next = source.source();
        }
        if !changed && next.is_none() {
            return None;
        }
        chain.into_iter().rev().fold(None, |source, [shown, debug]| {
            Some(Self { shown, debug, source: source.map(Box::new) })
        })
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.debug)
    }
}

impl StdError for Quoted {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl Error {
    /// Writes the text of this error and of its later failures, each made by `tell`. Equal consecutive texts are
    /// written once, with their count.
    fn write_with_later(
        &self,
        to: &mut dyn fmt::Write,
        tell: impl Fn(&Self) -> String,
    ) -> fmt::Result {
        let mut all = std::iter::once(self).chain(&self.0.later).map(tell).peekable();
        let mut then = "";
        while let Some(words) = all.next() {
            let mut times = 1;
            while all.next_if_eq(&words).is_some() {
                times += 1;
            }
            write!(to, "{then}{words}")?;
            if times > 1 {
                write!(to, " ({times} times)")?;
            }
            then = "; then ";
        }
        Ok(())
    }

    /// The text of this error without its later failures.
    fn tell(&self) -> String {
        let mut text = self.provider().map(|name| format!("{name}: ")).unwrap_or_default();
        text.push_str(&self.answer_text());
        let proxy = self.0.proxy.as_deref().unwrap_or_default();
        let url = self.0.url.as_deref().filter(|_| self.is_of_the_way());
        text.push_str(&match (self.request_id(), url.map(|url| format!("{url}{proxy}"))) {
            (Some(id), Some(url)) => format!(" (request {id}, {url})"),
            (Some(id), None) => format!(" (request {id})"),
            (None, Some(url)) => format!(" ({url})"),
            (None, None) => String::new(),
        });
        text
    }

    /// The status, the code and the message.
    fn answer_text(&self) -> String {
        let message = self.message();
        match (self.status(), self.code()) {
            (Some(status), Some(code)) => format!("{status} {code}: {message}"),
            (Some(status), None) => format!("{status}: {message}"),
            (None, Some(code)) => format!("{code}: {message}"),
            (None, None) => message.to_owned(),
        }
    }

    /// Whether the error text should show the URL, because the URL or the network may be the cause. If the vendor
    /// refused the request, the URL does not matter. An API error without status and code may come from a server
    /// between the program and the vendor.
    fn is_of_the_way(&self) -> bool {
        match self.0.kind {
            ErrorKind::Api => match (self.0.api.status, &self.0.api.code) {
                // With these statuses, the proxy may have answered instead of the server.
                (Some(407 | 502..=504), _) if self.0.proxy.is_some() => true,
                (Some(status), _) => matches!(status, 300..400 | 404 | 405),
                (None, code) => code.is_none(),
            },
            ErrorKind::ContextFull => false,
            _ => true,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind).field("message", &self.0.message);
        let ApiDetail { status, code, param, request_id, retry_after, should_retry } = &self.0.api;
        if let Some(status) = status {
            out.field("status", status);
        }
        if let Some(code) = code {
            out.field("code", code);
        }
        if let Some(param) = param {
            out.field("param", param);
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
        if let Some(provider) = &self.0.provider {
            out.field("provider", provider);
        }
        if let Some(url) = &self.0.url {
            out.field("url", url);
        }
        if let Some(proxy) = &self.0.proxy {
            out.field("proxy", proxy);
        }
        if let Some(note) = &self.0.note {
            out.field("note", note);
        }
        if self.0.retry_budget_exhausted {
            out.field("retry_budget_exhausted", &true);
        }
        if !self.0.later.is_empty() {
            out.field("later", &self.0.later);
        }
        out.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
