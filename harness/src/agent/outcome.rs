//! How a run ends: with an answer, or stopped for a reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    journal::{Limit, LimitScope},
    message::{Message, Results, Role, Transcript},
    policy::{LimitReached, Spent},
    provider::{ContextTokens, Usage, WantedItem},
    secret::beginning,
    trace::RunTrace,
};

/// How a run ended.
///
/// As JSON it is its name in snake case, such as `"answered"`; a limit is `{"limit": "turns"}`, and an item
/// that cannot be executed `{"unsupported": "computer_call"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The model said what it had to say.
    Answered,
    /// A guard stopped it: it had reached this limit.
    Limit(Limit),
    /// The model's answer was cut off by a limit of length.
    Truncated,
    /// The model or a filter refused.
    Refused,
    /// The model has answered, and not even its last try is [what was wanted](super::Sending::answer): see
    /// [`Stopped::faults`].
    Unfit,
    /// The model waits until the program has executed an item of this type, which the library cannot.
    /// [`Chat::resume`](crate::Chat::resume) tells the model that it was not executed, and goes on.
    Unsupported(WantedItem),
    /// The program cancelled it.
    Cancelled,
    /// Calls wait for what somebody decides or answers later: see
    /// [`Chat::waiting`](super::Chat::waiting). It goes on with [`Chat::resume`](super::Chat::resume).
    Waiting,
    /// A call was denied, and a denial ends the run.
    Denied,
    /// Something that it needed failed.
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "the model answered",
            Self::Limit(Limit::UnknownCost) => {
                "nobody knows what the model costs, and that is refused"
            }
            Self::Limit(limit) => {
                return write!(
                    f,
                    "the limit of {limit} was reached before the model had an answer"
                );
            }
            Self::Truncated => {
                "the answer was cut off by a limit of length: `max_tokens` of the provider, or the most \
                 that the model can say"
            }
            Self::Refused => "the model refused",
            Self::Unfit => "no answer of the model is what was wanted",
            Self::Unsupported(item) => {
                return write!(
                    f,
                    "the model asked for an item `{item}` to be executed, which the library cannot do: \
                     `resume` tells the model so, and without the vendor's tool it does not ask"
                );
            }
            Self::Cancelled => "the run was stopped",
            Self::Waiting => {
                "calls wait to be decided or answered: `resume` goes on when somebody has done so"
            }
            Self::Denied => "a call was denied, which ends the run",
            Self::Failed => "the run failed",
        })
    }
}

/// What a run leaves behind, however it ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Remains {
    text: String,
    pub(super) usage: Usage,
    pub(super) turns: u32,
    pub(super) cost: Option<f64>,
    pub(super) spent: Spent,
    pub(super) context: ContextTokens,
    pub(super) trace: RunTrace,
    /// What is wrong with the last answer, where none was accepted.
    pub(super) faults: Vec<String>,
    /// Where the run begins in the transcript.
    begun_at: usize,
    transcript: Transcript,
}

impl Remains {
    /// What is left of a run that began at this message of the transcript.
    pub(super) fn of(transcript: Transcript, begun_at: usize) -> Self {
        let said = transcript.messages().range(begun_at..);
        let last = said.iter().rev().find(|message| message.role() == Role::Assistant);
        let text = last.map(Message::text).unwrap_or_default();
        Self { text, begun_at, transcript, ..Self::default() }
    }

    fn results(&self) -> Results {
        // The calls may have been made before the run, and answered in it.
        let from = self.begun_at.saturating_sub(1);
        Results::of_messages(self.transcript.messages().range(from..))
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
    pub(super) fn new(remains: Remains) -> Self {
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

    /// Tokens of all turns of the run itself. What agents have used that its tools call is part of
    /// [`spent`](Self::spent).
    pub fn usage(&self) -> Usage {
        self.remains.usage
    }

    /// What the turns of the run itself cost, in the currency of the prices; `None` if that is not
    /// known: the model has no price in the [table](crate::models), or an answer came without its
    /// tokens. What agents have cost that its tools call is part of [`spent`](Self::spent).
    ///
    /// ```
    /// use harness::{Agent, models::{Models, Price}, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let answers = || [reply().text("Yes.").tokens(100_000, 10_000)];
    /// let model = ScriptedProvider::new(answers()).with_model("my-model");
    /// // 2 and 10 US dollars for a million tokens that are sent and said.
    /// let models = Models::default().with("my-model", Price::new(2.0, 10.0));
    /// let reply = Agent::builder(model).models(models).build()?.run("Is it?").await?;
    /// assert_eq!(reply.cost(), Some(0.3));
    ///
    /// let model = ScriptedProvider::new(answers()).with_model("nobody-knows");
    /// let reply = Agent::builder(model).build()?.run("Is it?").await?;
    /// assert_eq!(reply.cost(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cost(&self) -> Option<f64> {
        self.remains.cost
    }

    /// What the run has spent, with all that the agents have spent that
    /// [its calls](crate::agent::Sending::in_call) run.
    pub fn spent(&self) -> Spent {
        self.remains.spent
    }

    /// What the tokens are made of that the last answer was asked with.
    pub fn context(&self) -> ContextTokens {
        self.remains.context
    }

    /// What happened in the run, with its timing.
    pub fn trace(&self) -> &RunTrace {
        &self.remains.trace
    }

    /// How many answers of the model came to their end.
    pub fn turns(&self) -> u32 {
        self.remains.turns
    }

    /// The results of the calls of the run, typed where that is wanted: see [`Results::of`].
    pub fn results(&self) -> Results {
        self.remains.results()
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
    limit: Option<LimitReached>,
}

impl Stopped {
    pub(super) fn new(
        outcome: Outcome,
        error: Option<Error>,
        limit: Option<LimitReached>,
        remains: Remains,
    ) -> Self {
        Self(Box::new(Inner { outcome, remains, error, limit }))
    }

    /// The same for somebody else who waits for the run. Of what failed, this has the kind and the words.
    pub(super) fn again(&self) -> Self {
        let Inner { outcome, remains, error, limit } = &*self.0;
        let error = error.as_ref().map(|error| Error::new(error.kind(), error.to_string()));
        Self::new(*outcome, error, limit.clone(), remains.clone())
    }

    /// A reply that cannot be read as the type that is wanted.
    pub(super) fn unfit(reply: Reply, faults: Vec<String>) -> Self {
        let remains = Remains { faults, ..reply.remains };
        Self::new(Outcome::Unfit, None, None, remains)
    }

    /// All that is wrong with the last answer, each with its place as a JSON pointer, if the run has ended as
    /// [`Outcome::Unfit`].
    pub fn faults(&self) -> &[String] {
        &self.0.remains.faults
    }

    /// Why it stopped; never [`Outcome::Answered`].
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// What failed, if something did.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.as_ref()
    }

    /// The limit that was reached, whose it is and how, if a guard stopped the run.
    pub fn limit(&self) -> Option<&LimitReached> {
        self.0.limit.as_ref()
    }

    /// The last words of the model in this run; not an answer.
    pub fn text(&self) -> &str {
        &self.0.remains.text
    }

    /// Tokens of all turns of the run itself: a lower bound if it was interrupted. What agents have
    /// used that its tools call is part of [`spent`](Self::spent).
    pub fn usage(&self) -> Usage {
        self.0.remains.usage
    }

    /// What the turns of the run itself cost, in the currency of the prices; `None` if that is not
    /// known: the model has no price in the [table](crate::models), or an answer came without its
    /// tokens. What agents have cost that its tools call is part of [`spent`](Self::spent).
    pub fn cost(&self) -> Option<f64> {
        self.0.remains.cost
    }

    /// What the run has spent, with all that the agents have spent that
    /// [its calls](crate::agent::Sending::in_call) run.
    pub fn spent(&self) -> Spent {
        self.0.remains.spent
    }

    /// What the tokens are made of that the last answer was asked with.
    pub fn context(&self) -> ContextTokens {
        self.0.remains.context
    }

    /// What happened in the run, with its timing.
    pub fn trace(&self) -> &RunTrace {
        &self.0.remains.trace
    }

    /// How many answers of the model came to their end.
    pub fn turns(&self) -> u32 {
        self.0.remains.turns
    }

    /// The results of the calls of the run: see [`Reply::results`].
    pub fn results(&self) -> Results {
        self.0.remains.results()
    }

    /// The conversation so far. It can be sent.
    pub fn transcript(&self) -> &Transcript {
        &self.0.remains.transcript
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.limit {
            Some(LimitReached { limit, scope, .. })
                if *scope != LimitScope::Run && *limit != Limit::UnknownCost =>
            {
                let of = format_args!("the limit of {limit} of the {scope}");
                write!(f, "{of} was reached before the model had an answer")?;
            }
            Some(_) | None => write!(f, "{}", self.0.outcome)?,
        }
        match self.turns() {
            0 => {}
            1 => write!(f, " (after 1 turn)")?,
            turns => write!(f, " (after {turns} turns)")?,
        }
        if !self.faults().is_empty() {
            write!(f, ": {}", self.faults().join("; "))?;
        }
        match (&self.0.error, &self.0.limit) {
            (Some(error), _) => write!(f, ": {error}"),
            // That limit has said all.
            (None, Some(LimitReached { limit: Limit::Turns, .. }) | None) => Ok(()),
            (None, Some(reached)) => write!(f, ": {}", reached.detail),
        }
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopped")
            .field("outcome", &self.outcome())
            .field("error", &self.error())
            .field("limit", &self.limit())
            .field("faults", &self.faults())
            .field("text", &beginning(self.text(), 1000))
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
