//! The one error of the library, opaque, with predicates for what a host decides on.
//! It knows no message, tool or vendor; what a model may read of a failed call is `ToolError`.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc, time::Duration};

use crate::secret::{Secrets, beginning};

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
    /// The conversation does not fit into the model's context window. Sending it again cannot
    /// help; a shorter one, or a model with a larger window, can.
    ContextFull,
    /// The answer ended before it was complete: it was cut off, by the connection or at the vendor.
    CutOff,
    /// The answer could not be understood.
    Protocol,
    /// A file in the message of the user is one that the model, the protocol or the vendor cannot take.
    /// Nothing was sent.
    Content,
    /// The answer is larger than the limit set for it.
    TooLarge,
    /// Reading or writing what must survive failed.
    Journal,
    /// Somebody else has gone on with the conversation: what was to be written does not follow what
    /// is there.
    Conflict,
    /// The conversation is open elsewhere, in this process or in another one.
    Busy,
    /// A call of the conversation does not wait for this answer: it was answered before, the answer comes
    /// too late, or it was given for another question. Nothing has changed.
    NotWaiting,
    /// Code of the program that the library called has panicked: a watcher of events, a provider.
    Panicked,
    /// What was to do it was closed before: [`Chats`](crate::agent::Chats), for one.
    Closed,
}

/// Why a call into the library failed.
///
/// Ask it questions; do not match on its text:
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
/// It is one pointer wide. An error of a provider holds no secret that the provider knows, whatever
/// the server has answered: neither in its words nor in those of its sources (see
/// [`Secrets`]).
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    api: ApiDetail,
    provider: Option<String>,
    url: Option<Arc<str>>,
    note: Option<String>,
    later: Vec<Error>,
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
            provider: None,
            url: None,
            note: None,
            later: Vec::new(),
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

    /// Adds who failed, where several could: of this failure and of those that followed it, as
    /// far as it is not known.
    #[must_use]
    pub fn with_provider(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        for later in &mut self.0.later {
            later.0.provider.get_or_insert_with(|| name.clone());
        }
        self.0.provider.get_or_insert(name);
        self
    }

    /// Adds the address that was asked, as it may be shown, if none is known yet.
    #[must_use]
    pub(crate) fn with_url(mut self, url: &Arc<str>) -> Self {
        self.0.url.get_or_insert_with(|| Arc::clone(url));
        self
    }

    /// Adds why nothing more was tried. It is told after the error itself.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.0.note = Some(note.into());
        self
    }

    /// Adds a failure that came after this one, of another try or another provider. This one
    /// stays the first cause: kind, status, code and message are its own.
    #[must_use]
    pub fn followed_by(mut self, mut later: Self) -> Self {
        let after = std::mem::take(&mut later.0.later);
        let note = later.0.note.take();
        self.0.later.push(later);
        self.0.later.extend(after);
        if note.is_some() {
            self.0.note = note;
        }
        self
    }

    /// The same error without these secrets, in all that it says and that its sources say. A text
    /// of others that is longer than anybody reads is cut.
    #[must_use]
    pub(crate) fn cleaned(mut self, secrets: &Secrets) -> Self {
        self.clean(secrets);
        self
    }

    fn clean(&mut self, secrets: &Secrets) {
        let Repr { kind: _, message, source, api, provider, url, note, later } = &mut *self.0;
        let ApiDetail { code, request_id, status: _, retry_after: _, should_retry: _ } = api;
        let texts = [Some(message), code.as_mut(), request_id.as_mut(), provider.as_mut()];
        for text in texts.into_iter().chain([note.as_mut()]).flatten() {
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

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        if self.is_context_full() { ErrorKind::ContextFull } else { self.0.kind }
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

    /// Who failed, where several could.
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }

    /// The address that was asked, if a server was: without the user, the password and the query,
    /// which may be secret. Errors of the network name it when they are printed.
    pub fn url(&self) -> Option<&str> {
        self.0.url.as_deref()
    }

    /// The failures that came after this one, in order: of later tries, and of other providers.
    pub fn later(&self) -> &[Self] {
        &self.0.later
    }

    /// The last failure: of the last try, or this one if there was only one.
    pub fn last(&self) -> &Self {
        self.0.later.last().unwrap_or(self)
    }

    /// How long the vendor asks to wait before the next try; of several tries, the last one's.
    pub fn retry_after(&self) -> Option<Duration> {
        self.last().0.api.retry_after
    }

    /// Whether a clock ran out.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// Whether the conversation does not fit into the model's context window. Vendors say so under
    /// a code of their own, or under a general one and in words.
    pub fn is_context_full(&self) -> bool {
        match self.0.kind {
            ErrorKind::ContextFull => true,
            // A limit of the rate says much the same of tokens, and has a status of its own.
            ErrorKind::Api if !matches!(self.0.api.status, Some(429 | 500..)) => {
                let code = self.code().unwrap_or_default();
                let words = self.message().to_ascii_lowercase();
                TOO_LONG_CODES.iter().any(|known| code.contains(known))
                    || TOO_LONG_WORDS.iter().any(|known| words.contains(known))
            }
            _ => false,
        }
    }

    /// Whether somebody else has gone on with the conversation: open it again.
    pub fn is_conflict(&self) -> bool {
        self.0.kind == ErrorKind::Conflict
    }

    /// Whether the conversation is open elsewhere: it can be opened when that one lets go of it.
    pub fn is_busy(&self) -> bool {
        self.0.kind == ErrorKind::Busy
    }

    /// Whether no call waits for the answer that was given: it was answered before, the answer comes too
    /// late, or it was given for another question.
    pub fn is_not_waiting(&self) -> bool {
        self.0.kind == ErrorKind::NotWaiting
    }

    /// Whether a file in the message of the user is one that the model, the protocol or the vendor cannot
    /// take. Nothing was sent; in later requests a line of text stands in its place.
    pub fn is_content(&self) -> bool {
        self.0.kind == ErrorKind::Content
    }

    /// Whether the program itself must be changed: a key, an option, a name.
    pub fn is_configuration(&self) -> bool {
        self.0.kind == ErrorKind::Configuration
    }

    /// Whether the vendor says that money or a quota is gone: waiting does not bring it back.
    pub fn is_out_of_quota(&self) -> bool {
        let code = self.code().unwrap_or_default();
        self.status() == Some(402) || SPENT.iter().any(|spent| code.contains(spent))
    }

    /// Whether the same request may succeed later; of several tries, the last one decides. The
    /// vendor's own verdict wins; a spent quota or budget is not worth a second try whatever its
    /// status.
    pub fn is_retryable(&self) -> bool {
        self.last().passes()
    }

    fn passes(&self) -> bool {
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
                    // 501 and 505: the server cannot do such a thing, now or later. The others, also
                    // those that nobody has standardised, are what vendors' own clients repeat.
                    Some(501 | 505) => false,
                    Some(status) => matches!(status, 408 | 409 | 429 | 500..),
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
            | ErrorKind::Journal
            | ErrorKind::Conflict
            | ErrorKind::Busy
            | ErrorKind::NotWaiting
            | ErrorKind::Panicked
            | ErrorKind::Closed => false,
        }
    }
}

/// Codes under which a full context window is reported.
const TOO_LONG_CODES: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context_window_exceeded",
    "too_many_prompt_tokens",
    "max_prompt_tokens_exceeded",
];

/// Words in which it is reported where the code is a general one, in lower case. Each is a part of
/// what a server has been seen to say; numbers stand around it.
const TOO_LONG_WORDS: [&str; 27] = [
    // Anthropic, Ollama, Fireworks.
    "prompt is too long",
    "prompt too long",
    "exceed context limit",
    // OpenAI, DeepSeek, OpenRouter, vLLM, Mistral, SGLang, Ollama.
    "maximum context length",
    "max context length",
    "exceeds the context window",
    "exceeds the context length",
    // vLLM, where the length was set by hand.
    "longer than the maximum model length",
    // SGLang.
    "longer than the model's context length",
    // Groq, Cerebras.
    "reduce the length of the messages",
    // Gemini, and Vertex.
    "exceeds the maximum number of tokens allowed",
    "input token count is",
    // Bedrock.
    "input is too long for requested model",
    // xAI.
    "maximum prompt length is",
    // Mistral, where only the size is named.
    "too large for model with",
    // llama.cpp.
    "exceeds the available context size",
    // LM Studio.
    "greater than the context length",
    "loaded with context length of only",
    // Text Generation Inference, Together.
    "`inputs` must have less than",
    "`inputs` tokens + `max_new_tokens` must be",
    // Moonshot.
    "exceeded model token limit",
    // MiniMax.
    "context window exceeds limit",
    // Zhipu.
    "prompt exceeds max length",
    // DashScope.
    "range of input length should be",
    // Cohere.
    "total number of tokens in the prompt cannot exceed",
    // GitHub's models.
    "prompt token count of",
    // SambaNova and others.
    "total length of all messages is too long",
];

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
        self.tell(f)?;
        // The same failure again, and again, is told once.
        let mut later = self.0.later.iter().map(|error| Told(error).to_string()).peekable();
        while let Some(words) = later.next() {
            let mut times = 1;
            while later.next_if_eq(&words).is_some() {
                times += 1;
            }
            write!(f, "; then {words}")?;
            if times > 1 {
                write!(f, " ({times} times)")?;
            }
        }
        match &self.0.note {
            Some(note) => write!(f, "; {note}"),
            None => Ok(()),
        }
    }
}

/// An error without what came after it.
struct Told<'a>(&'a Error);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.tell(f)
    }
}

/// So much of a text that somebody else wrote stands in an error.
const LONGEST: usize = 8 * 1024;

/// So many sources of sources are looked at; an error that is its own source has no end.
const DEEPEST: usize = 32;

/// A text without these secrets, and not too long.
fn clean<'a>(text: &'a str, secrets: &Secrets) -> Cow<'a, str> {
    match secrets.hide(text) {
        Cow::Borrowed(text) => beginning(text, LONGEST),
        Cow::Owned(text) => Cow::Owned(beginning(&text, LONGEST).into_owned()),
    }
}

/// The words of a source that held a secret or said too much, and of its own sources.
struct Quoted {
    shown: String,
    debug: String,
    source: Option<Box<Quoted>>,
}

impl Quoted {
    /// Nothing if this source can stay as it is.
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
    fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider) = &self.0.provider {
            write!(f, "{provider}: ")?;
        }
        let api = &self.0.api;
        match (api.status, &api.code) {
            (Some(status), Some(code)) => write!(f, "{status} {code}: ")?,
            (Some(status), None) => write!(f, "{status}: ")?,
            (None, Some(code)) => write!(f, "{code}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.0.message)?;
        match (&api.request_id, self.0.url.as_deref().filter(|_| self.is_of_the_way())) {
            (Some(id), Some(url)) => write!(f, " (request {id}, {url})"),
            (Some(id), None) => write!(f, " (request {id})"),
            (None, Some(url)) => write!(f, " ({url})"),
            (None, None) => Ok(()),
        }
    }

    /// Whether the cause may be the address or what lies on the way to it. A vendor's own refusal
    /// is not about the address; an error with neither a status nor a code may be anybody's.
    fn is_of_the_way(&self) -> bool {
        match self.0.kind {
            ErrorKind::Api => match (self.0.api.status, &self.0.api.code) {
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
        if let Some(provider) = &self.0.provider {
            out.field("provider", provider);
        }
        if let Some(url) = &self.0.url {
            out.field("url", url);
        }
        if let Some(note) = &self.0.note {
            out.field("note", note);
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
