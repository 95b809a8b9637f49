//! How a run ends: with an answer, or stopped for a reason.

use std::fmt;

use crate::{
    error::Error,
    message::{Message, Role, Transcript},
    provider::Usage,
};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The model said what it had to say.
    Answered,
    /// It was the model's turn again, but the limit of turns was reached.
    TurnLimit,
    /// The model's answer was cut off by a limit of length.
    Truncated,
    /// The model or a filter refused.
    Refused,
    /// The program stopped it.
    Interrupted,
    /// A call was denied, and a denial ends the run.
    Denied,
    /// Something that it needed failed.
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "the model answered",
            Self::TurnLimit => "the limit of turns was reached before the model had an answer",
            Self::Truncated => "the answer was cut off by a limit of length",
            Self::Refused => "the model refused",
            Self::Interrupted => "the run was stopped",
            Self::Denied => "a call was denied, which ends the run",
            Self::Failed => "the run failed",
        })
    }
}

/// What a run leaves behind, however it ended.
#[derive(Clone, Debug)]
struct Remains {
    text: String,
    usage: Usage,
    turns: u32,
    transcript: Transcript,
}

impl Remains {
    fn of(run: Transcript, begun_at: usize, usage: Usage, turns: u32) -> Self {
        let said = run.messages().get(begun_at..).unwrap_or_default();
        let last = said.iter().rev().find(|message| message.role() == Role::Assistant);
        Self { text: last.map(Message::text).unwrap_or_default(), usage, turns, transcript: run }
    }
}

/// The model's answer.
#[derive(Clone, Debug)]
pub struct Reply {
    remains: Remains,
    provider: String,
    model: String,
}

impl Reply {
    pub(super) fn new(run: Transcript, begun_at: usize, usage: Usage, turns: u32) -> Self {
        let remains = Remains::of(run, begun_at, usage, turns);
        Self { remains, provider: String::new(), model: String::new() }
    }

    pub(super) fn answered_by(mut self, who: Option<(&str, &str)>) -> Self {
        let (provider, model) = who.unwrap_or_default();
        provider.clone_into(&mut self.provider);
        model.clone_into(&mut self.model);
        self
    }

    /// Who gave the answer, such as `anthropic`: behind a fallback, the one that was up.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The model that gave the answer, as the vendor names it.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The words of the answer.
    pub fn text(&self) -> &str {
        &self.remains.text
    }

    /// Tokens of all turns of the run.
    pub fn usage(&self) -> Usage {
        self.remains.usage
    }

    /// How many answers of the model came to their end.
    pub fn turns(&self) -> u32 {
        self.remains.turns
    }

    /// The conversation up to and with the answer.
    pub fn transcript(&self) -> &Transcript {
        &self.remains.transcript
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.remains.text)
    }
}

/// A run that ended without an answer: why, and all that there is so far. The conversation can
/// go on.
pub struct Stopped(Box<Inner>);

struct Inner {
    outcome: Outcome,
    remains: Remains,
    error: Option<Error>,
}

impl Stopped {
    pub(super) fn new(
        outcome: Outcome,
        error: Option<Error>,
        run: Transcript,
        begun_at: usize,
        usage: Usage,
        turns: u32,
    ) -> Self {
        let remains = Remains::of(run, begun_at, usage, turns);
        Self(Box::new(Inner { outcome, remains, error }))
    }

    /// Why it stopped; never [`Outcome::Answered`].
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// What failed, if something did.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.as_ref()
    }

    /// The last words of the model in this run; not an answer.
    pub fn text(&self) -> &str {
        &self.0.remains.text
    }

    /// Tokens of all turns of the run: a lower bound if it was interrupted.
    pub fn usage(&self) -> Usage {
        self.0.remains.usage
    }

    /// How many answers of the model came to their end.
    pub fn turns(&self) -> u32 {
        self.0.remains.turns
    }

    /// The conversation so far. It can be sent.
    pub fn transcript(&self) -> &Transcript {
        &self.0.remains.transcript
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.outcome)?;
        match self.turns() {
            0 => {}
            1 => write!(f, " (after 1 turn)")?,
            turns => write!(f, " (after {turns} turns)")?,
        }
        match &self.0.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopped")
            .field("outcome", &self.outcome())
            .field("error", &self.error())
            .field("text", &self.text())
            .field("usage", &self.usage())
            .field("turns", &self.turns())
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Stopped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The error itself is part of the text above; its causes are what is left to tell.
        self.0.error.as_ref().and_then(std::error::Error::source)
    }
}
