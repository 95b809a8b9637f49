//! What programs do with conversations, over the engine's ingress.

use std::{fmt, time::Duration};

use harness::{
    Error, ErrorKind, Message,
    agent::{Answer, Machine, OpenCall, Settlement},
    journal::Envelope,
    policy::Approval,
};
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::said::{Ended, Facts, Said, Words};

/// How often facts are asked for while a run goes on.
const OFTEN: Duration = Duration::from_millis(50);

/// The address at which the engine takes requests, and a client for it.
pub(crate) fn ingress(at: &str) -> Result<(reqwest::Client, Url), Error> {
    let wrong = |why: String| {
        let what = format!("`{at}` is not the address of the engine's ingress: {why}");
        Error::new(ErrorKind::Configuration, what)
    };
    let url = Url::parse(at).map_err(|err| wrong(err.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it begins with `http://` or `https://`".to_owned()));
    }
    // A client needs one even where it speaks without TLS; another that is there already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().build().map_err(|err| wrong(err.to_string()))?;
    Ok((http, url))
}

/// Reaches conversations from any process.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    ingress: Url,
}

impl Client {
    /// Reaches them through the address at which the engine takes requests, such as
    /// `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// Fails if it is no address that begins with `http`.
    pub fn new(ingress_at: &str) -> Result<Self, Error> {
        let (http, ingress) = ingress(ingress_at)?;
        Ok(Self { http, ingress })
    }

    /// The conversation of this name. It need not exist yet.
    pub fn conversation(&self, name: impl Into<String>) -> Conversation {
        Conversation { client: self.clone(), name: name.into(), kind: String::new() }
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.ingress.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// A conversation on the engine.
#[derive(Clone, Debug)]
pub struct Conversation {
    client: Client,
    name: String,
    kind: String,
}

/// What was refused or did not work.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The conversation refused it: nothing has changed.
    Refused(String),
    /// The run failed, or the engine did not take the request.
    Failed {
        /// The status of the response.
        status: u16,
        /// What the engine or the worker said.
        message: String,
    },
    /// The engine was not reached, or its answer could not be read. What was asked may have happened: ask again
    /// with the same key.
    Unreachable(reqwest::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) => write!(f, "the conversation refused it: {message}"),
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
struct Sent {
    #[serde(rename = "invocationId")]
    invocation: String,
}

impl Conversation {
    /// Says of what kind the runs are that begin here: see
    /// [`Conversations::each_run`](crate::Conversations::each_run).
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    fn words(&self, message: impl Into<Message>) -> Words {
        Words::Run { message: message.into(), kind: self.kind.clone() }
    }

    /// Says something and waits for the end of the run. It queues behind a run that goes on. What is said with
    /// the same `key` within a day is said once, and comes to the same end.
    ///
    /// # Errors
    /// Fails if the run cannot begin or the engine is not reached.
    pub async fn send(&self, message: impl Into<Message>, key: &str) -> Result<Ended, ClientError> {
        self.post(&["send"], Some(key), &self.words(message)).await
    }

    /// Says something and returns the engine's id of the run. See [`send`](Self::send) and
    /// [`ended`](Self::ended).
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn start(
        &self,
        message: impl Into<Message>,
        key: &str,
    ) -> Result<String, ClientError> {
        let sent: Sent = self.post(&["send", "send"], Some(key), &self.words(message)).await?;
        Ok(sent.invocation)
    }

    /// Waits for the end of a run that was [started](Self::start).
    ///
    /// # Errors
    /// Fails if the run failed or the engine does not know it any more.
    pub async fn ended(&self, run: &str) -> Result<Ended, ClientError> {
        let url = self.client.url(&["restate", "invocation", run, "attach"]);
        read(self.client.http.get(url).send().await?).await
    }

    /// A run that had stopped goes on; this waits for its end.
    ///
    /// # Errors
    /// Fails if there is nothing to go on with.
    pub async fn resume(&self) -> Result<Ended, ClientError> {
        self.post(&["resume"], None, &()).await
    }

    /// The facts from a place on, which is 0 or the [`next`](Facts::next) of what was read before.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn facts(&self, from: u32) -> Result<Facts, ClientError> {
        self.post(&["facts"], None, &from).await
    }

    /// The last answer as a value of this type, which the kind of the run has wanted.
    ///
    /// # Errors
    /// Fails if the facts cannot be read, the last run has not ended with an answer, or it is no such value.
    pub async fn answered<T: Answer>(&self) -> Result<T, ClientError> {
        let unfit = |err: Error| ClientError::Failed { status: 200, message: err.to_string() };
        let mut machine = Machine::new();
        for fact in self.facts(0).await?.facts {
            machine.apply(&fact.entry().map_err(unfit)?).map_err(unfit)?;
        }
        machine.answered().map_err(unfit)
    }

    /// Calls `seen` with each fact as it comes, from a place on, until no run goes on and all are seen, and
    /// returns the place after them. Between two steps nothing is seen of an answer that is being made.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn watch(
        &self,
        mut from: u32,
        mut seen: impl FnMut(Envelope),
    ) -> Result<u32, ClientError> {
        loop {
            let Facts { facts, next, runs } = self.facts(from).await?;
            facts.into_iter().for_each(&mut seen);
            from = next;
            if !runs {
                return Ok(from);
            }
            tokio::time::sleep(OFTEN).await;
        }
    }

    /// The calls that wait for somebody, or of which nobody knows how they ended.
    ///
    /// # Errors
    /// Fails if the engine cannot be reached.
    pub async fn open(&self) -> Result<Vec<OpenCall>, ClientError> {
        self.post(&["open"], None, &()).await
    }

    /// Decides about a call that waits; the run goes on. If two decide at once, the first counts.
    ///
    /// # Errors
    /// Fails with [`ClientError::Refused`] if it does not count.
    pub async fn decide(&self, approval: Approval) -> Result<(), ClientError> {
        self.post(&["answer"], None, &Said::Decided(approval)).await
    }

    /// Says what became of a call that waits or is in doubt; a run that waits goes on.
    ///
    /// # Errors
    /// Fails with [`ClientError::Refused`] if it does not count.
    pub async fn settle(&self, settlement: Settlement) -> Result<(), ClientError> {
        self.post(&["answer"], None, &Said::Settled(settlement)).await
    }

    /// Stops the run that goes on or waits. It returns before the run has ended.
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
        let mut request = self.client.http.post(self.client.url(&path));
        let json = serde_json::to_value(body).unwrap_or_default();
        if !json.is_null() {
            request = request.json(&json);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        read(request.send().await?).await
    }
}

async fn read<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, ClientError> {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    let status = response.status();
    if status.is_success() {
        let bytes = response.bytes().await?;
        let json: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        return serde_json::from_slice(json).map_err(|err| ClientError::Failed {
            status: status.as_u16(),
            message: format!("the answer cannot be read: {err}"),
        });
    }
    let text = response.text().await?;
    let message = serde_json::from_str::<Said>(&text).map_or(text, |said| said.message);
    Err(match status {
        StatusCode::UNPROCESSABLE_ENTITY => ClientError::Refused(message),
        _ => ClientError::Failed { status: status.as_u16(), message },
    })
}
