//! The client for conversations on the engine. All requests go through the engine's ingress.

use std::{fmt, fmt::Write as _, time::Duration};

use harness::{
    Error, ErrorKind, Message,
    agent::{Answer, Machine, OpenCall, Settlement},
    journal::Envelope,
    policy::Approval,
};
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    protocol::{Command, Facts, Input, RunEnd},
    size::{check_command, check_message},
};

/// The interval at which facts are read while a run is active.
const OFTEN: Duration = Duration::from_millis(50);
/// The interval of TCP keepalives on a silent connection.
const ALIVE: Duration = Duration::from_secs(30);
/// The HTTP status of a request for the output of a run that has not ended.
pub(crate) const NOT_OVER: u16 = 470;
/// The HTTP status of a request for a run that the engine does not know.
pub(crate) const UNKNOWN: u16 = 404;
/// The maximum length of a conversation's name and of a message's key, in bytes. Both are sent in headers, and the
/// engine and the workers accept about 16 KiB of headers.
const LONGEST: usize = 1024;

/// Parses the URL of the engine's ingress, and creates an HTTP client.
pub(crate) fn ingress(at: &str) -> Result<(reqwest::Client, Url), Error> {
    let wrong = |why: String| {
        let what = format!("`{at}` is not the address of the engine's ingress: {why}");
        Error::new(ErrorKind::Configuration, what)
    };
    let url = Url::parse(at).map_err(|err| wrong(err.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it begins with `http://` or `https://`".to_owned()));
    }
    // The client needs a crypto provider even without TLS. If the program has installed one, that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A client that waits for the end of a run sends nothing, so without keepalives it would not notice that the
    // engine's machine is gone.
    let http = reqwest::Client::builder().tcp_keepalive(ALIVE);
    let http = http.build().map_err(|err| wrong(err.to_string()))?;
    Ok((http, url))
}

/// The source that the engine names in an error, or `None` if the error does not come from the engine.
pub(crate) fn source(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ErrorSource {
        source: String,
    }
    serde_json::from_str::<ErrorSource>(text).ok().map(|error| error.source)
}

/// Refuses names that would change in a URL, such as `..`.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |why: &str| {
        let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
        let what = format!("`{shown}` cannot be the name of a conversation: {why}");
        Err(Error::new(ErrorKind::Configuration, what))
    };
    match name {
        "" => wrong("it is empty"),
        "." | ".." => wrong("in an address it leads to another one"),
        _ if name.len() > LONGEST => wrong("it has more than 1024 bytes"),
        _ if name.chars().any(char::is_control) => wrong("it has a control character"),
        _ => Ok(()),
    }
}

/// Refuses a kind that is too long to be stored beside the facts.
pub(crate) fn check_kind(kind: &str) -> Result<(), String> {
    match kind.len() {
        ..=LONGEST => Ok(()),
        length => Err(format!("a kind has at most {LONGEST} bytes, and this one {length}")),
    }
}

/// The URL of a path at the ingress.
pub(crate) fn address(ingress: &Url, path: &[&str]) -> Url {
    let mut url = ingress.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Encodes a key as a header. Different keys get different headers, although HTTP removes spaces at both ends and
/// accepts only ASCII.
fn header_of(key: &str) -> Result<String, ClientError> {
    if key.is_empty() || key.len() > LONGEST {
        let what = format!("a key has 1 to {LONGEST} bytes, and this one {}", key.len());
        return Err(ClientError::Refused(what));
    }
    let mut header = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'%' | ..=b' ' | 0x7f.. => drop(write!(header, "%{byte:02X}")),
            _ => header.push(byte.into()),
        }
    }
    Ok(header)
}

/// Accesses conversations on the engine from any process.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    ingress: Url,
}

impl Client {
    /// Creates a client for the engine's ingress, at a URL such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// Fails if the URL does not begin with `http`.
    pub fn new(ingress_at: &str) -> Result<Self, Error> {
        let (http, ingress) = ingress(ingress_at)?;
        Ok(Self { http, ingress })
    }

    /// Returns the conversation with this name. It need not exist yet.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the name is empty, `.` or `..`, contains a control character, or has
    /// more than 1,024 bytes.
    pub fn conversation(&self, name: impl Into<String>) -> Result<Conversation, Error> {
        let name = name.into();
        check_name(&name)?;
        Ok(Conversation { client: self.clone(), name, kind: String::new() })
    }
}

/// A conversation on the engine.
#[derive(Clone, Debug)]
pub struct Conversation {
    client: Client,
    name: String,
    kind: String,
}

/// Why a request failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The request does not count or is not allowed. Nothing has changed.
    Refused(String),
    /// The run failed, or the engine did not accept the request. With a status of a gateway, such as 504, the request
    /// may have been executed: see [`Unreachable`](Self::Unreachable).
    Failed {
        /// The HTTP status of the response.
        status: u16,
        /// The message of the engine or the worker.
        message: String,
    },
    /// The engine could not be reached, or its response could not be read. The request may have been executed. Repeat a
    /// message with the same key. Requests without a key can be repeated, too: a second [`Conversation::decide`] or
    /// [`Conversation::settle`] is refused if the first call had an effect. If [`Conversation::stop`] is repeated, both
    /// stops may have an effect, and a worker may execute the first stop at any later time.
    Unreachable(reqwest::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) => write!(f, "it was refused: {message}"),
            Self::Failed { status, message } => {
                write!(f, "it failed with status {status}: {message}")
            }
            Self::Unreachable(_) => {
                f.write_str("the engine was not reached, or its answer was broken")
            }
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(error) => Some(error),
            Self::Refused(_) | Self::Failed { .. } => None,
        }
    }
}

impl From<reqwest::Error> for ClientError {
    fn from(error: reqwest::Error) -> Self {
        Self::Unreachable(error)
    }
}

#[derive(Deserialize)]
struct StartedRun {
    #[serde(rename = "invocationId")]
    invocation: String,
}

impl Conversation {
    /// Sets the kind of the runs that this value begins: see
    /// [`Conversations::each_run`](crate::Conversations::each_run). A kind has at most 1,024 bytes.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// The request body for a message. Faults that the engine or a worker would refuse are refused here, because the
    /// engine does not respond to a body that is far too large.
    fn input(&self, message: impl Into<Message>) -> Result<Input, ClientError> {
        check_kind(&self.kind).map_err(ClientError::Refused)?;
        let input = Input::Run { message: message.into(), kind: self.kind.clone() };
        check_message(&input).map_err(ClientError::Refused)?;
        Ok(input)
    }

    /// Sends a message and waits for the end of its run. The message queues behind a run that is active. If several
    /// messages within a day have the same `key`, only the first message begins a run, and all of them return its end.
    /// This is true even if the conversation was deleted meanwhile. A key has 1 to 1,024 bytes.
    ///
    /// # Errors
    /// Fails if the run cannot begin or the engine cannot be reached. Fails with [`ClientError::Refused`], before
    /// anything is sent, if the message has more than 8 MiB.
    pub async fn send(
        &self,
        message: impl Into<Message>,
        key: &str,
    ) -> Result<RunEnd, ClientError> {
        self.post(&["send"], Some(key), &self.input(message)?).await
    }

    /// Sends a message and returns the engine's id of its run. See [`send`](Self::send) and [`ended`](Self::ended).
    ///
    /// # Errors
    /// Fails if the engine cannot be reached, and like [`send`](Self::send) if the message is too large.
    pub async fn start(
        &self,
        message: impl Into<Message>,
        key: &str,
    ) -> Result<String, ClientError> {
        let started: StartedRun =
            self.post(&["send", "send"], Some(key), &self.input(message)?).await?;
        Ok(started.invocation)
    }

    /// Waits for the end of a run that was [started](Self::start) or continued by a [decision](Self::decide).
    ///
    /// # Errors
    /// Fails if the run failed or the engine no longer knows it.
    pub async fn ended(&self, run: &str) -> Result<RunEnd, ClientError> {
        read(self.of_run(run, "attach").await?).await
    }

    /// Continues a run that was stopped, and waits for its end.
    ///
    /// # Errors
    /// Fails if there is no run to continue.
    pub async fn resume(&self) -> Result<RunEnd, ClientError> {
        self.post(&["resume"], None, &()).await
    }

    /// Returns the facts that begin at the position `from`. `from` is 0 or the [`next`](Facts::next) of earlier facts.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn facts(&self, from: u32) -> Result<Facts, ClientError> {
        let mut over = None;
        loop {
            let mut read = self.facts_as_kept(from).await?;
            match &read.run {
                // The run has ended without storing its end, so it was killed.
                Some(run) if over.as_ref() == Some(run) => read.run = None,
                Some(run) if self.is_over(run).await?.unwrap_or(true) => {
                    // The run may have stored its last facts after these were read, so they are read again.
                    over = read.run;
                    continue;
                }
                _ => {}
            }
            return Ok(read);
        }
    }

    async fn facts_as_kept(&self, from: u32) -> Result<Facts, ClientError> {
        self.post(&["facts"], None, &from).await
    }

    /// Whether a run has ended; `None` if the engine does not know the run. An error counts only if the engine itself
    /// has sent it, because a proxy in front of the engine may fail, too.
    async fn is_over(&self, run: &str) -> Result<Option<bool>, ClientError> {
        let response = self.of_run(run, "output").await?;
        let (status, text) = (response.status(), response.text().await?);
        match source(&text) {
            None if status.is_success() && serde_json::from_str::<RunEnd>(&text).is_ok() => {
                Ok(Some(true))
            }
            Some(_) if status == UNKNOWN => Ok(None),
            Some(_) if status == NOT_OVER => Ok(Some(false)),
            Some(source) if source == "invocation" => Ok(Some(true)),
            _ => Err(ClientError::Failed { status: status.as_u16(), message: text }),
        }
    }

    async fn of_run(&self, run: &str, what: &str) -> Result<reqwest::Response, ClientError> {
        let url = address(&self.client.ingress, &["restate", "invocation", run, what]);
        Ok(self.client.http.get(url).send().await?)
    }

    /// Returns the last answer as a value of this type. The kind of the run must have requested an answer of this type.
    ///
    /// # Errors
    /// Fails if the facts cannot be read, if the last run did not end with an answer, or if the answer is not a value
    /// of this type.
    pub async fn answered<T: Answer>(&self) -> Result<T, ClientError> {
        let unfit = |err: Error| ClientError::Failed { status: 200, message: err.to_string() };
        let mut machine = Machine::new();
        for fact in self.facts(0).await?.facts {
            machine.apply(&fact.fact().map_err(unfit)?).map_err(unfit)?;
        }
        machine.answered().map_err(unfit)
    }

    /// Calls `seen` with each fact from the position `from` on, soon after the fact is stored. Ends when the run has
    /// ended and `seen` got all its facts. Returns the position after these facts. `run` is the id that
    /// [`start`](Self::start), [`decide`](Self::decide) or [`settle`](Self::settle) has returned, or the id of the
    /// [current run](Facts::run). The run need not have begun. Facts are stored step by step, so an answer is not
    /// visible while the model generates it. If `run` belongs to another conversation, this function still returns the
    /// facts of its own conversation, and ends when that run ends.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached or does not know this run. Runs of `start`, `send`, `decide` and `settle`
    /// have a key: the engine remembers their end for a day. The engine knows a run of a timer or of
    /// [`resume`](Self::resume) only until the run ends. If an operator ends a run before it begins, the engine does
    /// not know the run. A failed run is no error here: [`ended`](Self::ended) returns how it ended.
    pub async fn watch(
        &self,
        run: &str,
        mut from: u32,
        mut seen: impl FnMut(Envelope),
    ) -> Result<u32, ClientError> {
        let (mut over, mut is_over) = (Box::pin(self.ended(run)), false);
        loop {
            let Facts { facts, next, .. } = self.facts_as_kept(from).await?;
            facts.into_iter().for_each(&mut seen);
            from = next;
            if is_over {
                return Ok(from);
            }
            tokio::select! {
                ended = &mut over => match ended {
                    Ok(_) => is_over = true,
                    Err(error @ ClientError::Unreachable(_)) => return Err(error),
                    // Either the run has failed, or only the request for its end has failed.
                    Err(error) => match self.is_over(run).await? {
                        Some(true) => is_over = true,
                        Some(false) => {
                            tokio::time::sleep(OFTEN).await;
                            over.set(self.ended(run));
                        }
                        None => return Err(error),
                    },
                },
                () = tokio::time::sleep(OFTEN) => {}
            }
        }
    }

    /// Returns the calls that wait for a decision, a result or an answer.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn open(&self) -> Result<Vec<OpenCall>, ClientError> {
        self.post(&["open"], None, &()).await
    }

    /// Decides about a waiting call, and returns the engine's id of the run that continues: see [`watch`](Self::watch).
    /// When this function returns, the decision is stored. The decision queues behind the current run and behind
    /// earlier messages, and this function waits for them. Of two concurrent decisions, only one has an effect.
    ///
    /// # Errors
    /// Fails with [`ClientError::Refused`] if the decision does not count, or has more than 30 MiB.
    pub async fn decide(&self, approval: Approval) -> Result<String, ClientError> {
        self.post_command(&Command::Decided(approval)).await
    }

    /// Gives the outcome of a call that waits for a result or an answer, and continues the run. For a call that waits
    /// for a decision, use [`decide`](Self::decide). Like `decide`, this function returns when the outcome is stored.
    ///
    /// # Errors
    /// Fails with [`ClientError::Refused`] if the call no longer waits for this outcome, or if the outcome has more
    /// than 30 MiB.
    pub async fn settle(&self, settlement: Settlement) -> Result<String, ClientError> {
        self.post_command(&Command::Settled(settlement)).await
    }

    async fn post_command(&self, command: &Command) -> Result<String, ClientError> {
        check_command(command).map_err(ClientError::Refused)?;
        self.post(&["answer"], None, command).await
    }

    /// Stops the current run, which may be active or waiting. If there is no current run, this stops a run that was
    /// started and has not begun: its message is stored and not answered. Messages in the queue behind a stopped run
    /// are not stopped. This function returns before the run has ended. A second stop then has an effect on a run that
    /// was started after the first stop.
    ///
    /// This function returns after a worker has executed the stop. From then on, the order of the stop and the messages
    /// is fixed. So wait for this function before you send a message that should not be stopped. If you stop waiting
    /// while there is no worker, the stop may take effect on a later message.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn stop(&self) -> Result<(), ClientError> {
        self.post(&["stop"], None, &()).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        what: &[&str],
        key: Option<&str>,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        let path = [&["Conversations", &*self.name], what].concat();
        let mut request = self.client.http.post(address(&self.client.ingress, &path));
        let json = serde_json::to_value(body).unwrap_or_default();
        if !json.is_null() {
            request = request.json(&json);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", header_of(key)?);
        }
        read(request.send().await?).await
    }
}

async fn read<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, ClientError> {
    #[derive(Deserialize)]
    struct ErrorMessage {
        message: String,
    }
    let status = response.status();
    if status.is_success() {
        // A proxy in front of the engine may have responded.
        return serde_json::from_slice(&response.bytes().await?).map_err(|err| {
            ClientError::Failed {
                status: status.as_u16(),
                message: format!("the answer cannot be read: {err}"),
            }
        });
    }
    let text = response.text().await?;
    let message = serde_json::from_str::<ErrorMessage>(&text).map_or(text, |error| error.message);
    Err(match status {
        StatusCode::UNPROCESSABLE_ENTITY => ClientError::Refused(message),
        _ => ClientError::Failed { status: status.as_u16(), message },
    })
}
