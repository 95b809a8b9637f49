//! The result of a run: a reply, or the reason why it stopped.

use std::fmt;

use crate::{
    Event, Outcome, Provenance,
    machine::AnswerProvenances,
    watcher_texts::{reason, what_happened},
};
use harness_core::{
    error::Error,
    journal::{LimitKind, LimitScope},
    message::{Message, Results, Role, Transcript},
    policy::{BudgetUsage, LimitReached},
    provider::{ContextTokens, Usage},
    secret::beginning,
    trace::RunTrace,
};

/// The data of a run that can be read after its end, with or without an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunRecord {
    text: String,
    pub(crate) usage: Usage,
    pub(crate) turns: u32,
    pub(crate) cost: Option<f64>,
    pub(crate) spent: BudgetUsage,
    pub(crate) context: ContextTokens,
    pub(crate) trace: RunTrace,
    /// The faults of the last answer, if no answer was accepted.
    pub(crate) faults: Vec<String>,
    /// The index of the run's first message in the transcript.
    begun_at: usize,
    transcript: Transcript,
    pub(crate) provenances: AnswerProvenances,
}

impl RunRecord {
    /// The record of a run that did not begin.
    pub(crate) fn of_nothing() -> Self {
        Self { spent: BudgetUsage::nothing(), ..Self::default() }
    }

    /// The record of a run whose first message has this index in the transcript.
    pub(crate) fn of(transcript: Transcript, begun_at: usize) -> Self {
        let said = transcript.messages().range(begun_at..);
        let last = said.iter().rev().find(|message| message.role() == Role::Assistant);
        let text = last.map(Message::text).unwrap_or_default();
        Self { text, begun_at, transcript, ..Self::default() }
    }

    fn results(&self) -> Results {
        // The message before the run's first message may have results of calls that this run finished.
        let from = self.begun_at.saturating_sub(1);
        Results::of_messages(self.transcript.messages().range(from..))
    }
}

/// The result of a run that the model has answered.
#[derive(Clone, Debug)]
pub struct Reply {
    run_record: RunRecord,
    provider: String,
    model: String,
}

impl Reply {
    pub(crate) fn new(run_record: RunRecord) -> Self {
        Self { run_record, provider: String::new(), model: String::new() }
    }

    pub(crate) fn answered_by(mut self, who: Option<(&str, &str)>) -> Self {
        let (provider, model) = who.unwrap_or_default();
        provider.clone_into(&mut self.provider);
        model.clone_into(&mut self.model);
        self
    }

    /// The provider that gave the answer, such as `anthropic`. This can be a fallback provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The vendor's name for the model that gave the answer.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The text of the answer.
    pub fn text(&self) -> &str {
        &self.run_record.text
    }

    /// The tokens of the run's own turns. Agents in calls are not included: see [`spent`](Self::spent).
    pub fn usage(&self) -> Usage {
        self.run_record.usage
    }

    /// The cost of the run's own turns, in the currency of the prices. `None` if the cost is not known: the
    /// model has no price in the [table](harness_core::models), or an answer had no token counts. Agents in
    /// calls are not included: see [`spent`](Self::spent).
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
        self.run_record.cost
    }

    /// What the run has spent, including the agents that [its calls](crate::Run::in_call) have started, and what it had
    /// spent before it was resumed.
    pub fn spent(&self) -> BudgetUsage {
        self.run_record.spent
    }

    /// The tokens of the last request, by part: system prompt, tools, messages and reasoning.
    pub fn context(&self) -> ContextTokens {
        self.run_record.context
    }

    /// The trace of the run: its operations, with times.
    pub fn trace(&self) -> &RunTrace {
        &self.run_record.trace
    }

    /// How many answers the model has completed in the run.
    pub fn turns(&self) -> u32 {
        self.run_record.turns
    }

    /// The results of the run's calls. [`Results::of`] reads them as typed values.
    pub fn results(&self) -> Results {
        self.run_record.results()
    }

    /// The conversation up to and including the answer.
    pub fn transcript(&self) -> &Transcript {
        &self.run_record.transcript
    }

    /// The origin of the message with this id: see [`Chat::provenance`](crate::Chat::provenance).
    pub fn provenance(&self, message: &str) -> Option<&Provenance> {
        self.run_record.provenances.get(message)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.run_record.text)
    }
}

/// A run that ended without an answer: the reason, and the data of the run so far. The conversation can be
/// continued.
pub struct Stopped(Box<StoppedInner>);

struct StoppedInner {
    outcome: Outcome,
    run_record: RunRecord,
    error: Option<Error>,
    limit: Option<LimitReached>,
}

impl Stopped {
    pub(crate) fn new(
        outcome: Outcome,
        error: Option<Error>,
        limit: Option<LimitReached>,
        run_record: RunRecord,
    ) -> Self {
        Self(Box::new(StoppedInner { outcome, run_record, error, limit }))
    }

    /// A copy for another caller that waits for the same run. The error of the copy has only the kind and the
    /// text.
    pub(crate) fn again(&self) -> Self {
        let StoppedInner { outcome, run_record, error, limit } = &*self.0;
        let error = error.as_ref().map(|error| Error::new(error.kind(), error.to_string()));
        Self::new(*outcome, error, limit.clone(), run_record.clone())
    }

    /// The result of a run whose reply cannot be read as the wanted type.
    pub(crate) fn unfit(reply: Reply, faults: Vec<String>) -> Self {
        let run_record = RunRecord { faults, ..reply.run_record };
        Self::new(Outcome::Unfit, None, None, run_record)
    }

    /// The faults of the last answer, if the run ended as [`Outcome::Unfit`]. Each fault has its location as
    /// a JSON pointer.
    pub fn faults(&self) -> &[String] {
        &self.0.run_record.faults
    }

    /// How the run ended. This is never [`Outcome::Answered`].
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The text of this value for watchers, which may be browsers.
    fn reason_for_watchers(&self) -> Option<String> {
        let failure = self.error().map(Error::public_text);
        reason(self.outcome(), self.limit().map(|reached| reached.scope), failure.as_deref())
    }

    /// The text of this value for the model that has called the agent of this run. Watchers read the result of the
    /// call, too.
    pub(crate) fn reason_for_caller(&self) -> String {
        let mut text = what_happened(self.outcome(), self.limit().map(|reached| reached.scope));
        // Writing to a string never fails.
        let _ = self.tell_turns(&mut text);
        let faults = Some(self.faults().join("; ")).filter(|faults| !faults.is_empty());
        for part in [faults, self.error().map(Error::text_for_caller)].into_iter().flatten() {
            text.extend([": ", &part]);
        }
        text
    }

    fn tell_turns(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        match self.turns() {
            0 => Ok(()),
            1 => write!(f, " (after 1 turn)"),
            turns => write!(f, " (after {turns} turns)"),
        }
    }

    /// The error, if something failed.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.as_ref()
    }

    /// The limit that has stopped the run: its kind, what it applies to, and how it was reached. `None` if no
    /// limit has stopped the run.
    pub fn limit(&self) -> Option<&LimitReached> {
        self.0.limit.as_ref()
    }

    /// The last text of the model in this run. It is not an answer.
    pub fn text(&self) -> &str {
        &self.0.run_record.text
    }

    /// The tokens of the run's own turns. If the run was interrupted, the numbers are lower bounds. Agents in
    /// calls are not included: see [`spent`](Self::spent).
    pub fn usage(&self) -> Usage {
        self.0.run_record.usage
    }

    /// The cost of the run's own turns, in the currency of the prices. `None` if the cost is not known: the
    /// model has no price in the [table](harness_core::models), or an answer had no token counts. Agents in
    /// calls are not included: see [`spent`](Self::spent).
    pub fn cost(&self) -> Option<f64> {
        self.0.run_record.cost
    }

    /// What the run has spent, including the agents that [its calls](crate::Run::in_call) have started, and what it had
    /// spent before it was resumed.
    pub fn spent(&self) -> BudgetUsage {
        self.0.run_record.spent
    }

    /// The tokens of the last request, by part: system prompt, tools, messages and reasoning.
    pub fn context(&self) -> ContextTokens {
        self.0.run_record.context
    }

    /// The trace of the run: its operations, with times.
    pub fn trace(&self) -> &RunTrace {
        &self.0.run_record.trace
    }

    /// How many answers the model has completed in the run.
    pub fn turns(&self) -> u32 {
        self.0.run_record.turns
    }

    /// The results of the run's calls: see [`Reply::results`].
    pub fn results(&self) -> Results {
        self.0.run_record.results()
    }

    /// All messages of the conversation so far. They can always be sent in a request.
    pub fn transcript(&self) -> &Transcript {
        &self.0.run_record.transcript
    }

    /// The origin of the message with this id: see [`Chat::provenance`](crate::Chat::provenance).
    pub fn provenance(&self, message: &str) -> Option<&Provenance> {
        self.0.run_record.provenances.get(message)
    }
}

/// Tells watchers the end of a run.
pub(crate) fn end_event(result: &Result<Reply, Stopped>, tell: impl FnOnce(Event<'_>)) {
    let (outcome, run_record) = match result {
        Ok(reply) => (Outcome::Answered, &reply.run_record),
        Err(stopped) => (stopped.outcome(), &stopped.0.run_record),
    };
    let reason = result.as_ref().err().and_then(Stopped::reason_for_watchers);
    let (usage, spent, reason) = (&run_record.usage, &run_record.spent, reason.as_deref());
    tell(Event::RunEnded { outcome, usage, spent, reason });
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit() {
            Some(LimitReached { limit, scope, .. })
                if *scope != LimitScope::Run && *limit != LimitKind::UnknownCost =>
            {
                let of = format_args!("the limit of {limit} of the {scope}");
                write!(f, "{of} was reached before the model had an answer")?;
            }
            Some(_) | None => write!(f, "{}", self.outcome())?,
        }
        self.tell_turns(f)?;
        if !self.faults().is_empty() {
            write!(f, ": {}", self.faults().join("; "))?;
        }
        match (self.error(), self.limit()) {
            (Some(error), _) => write!(f, ": {error}"),
            // The text of the outcome already says everything about this limit.
            (None, Some(LimitReached { limit: LimitKind::Turns, .. }) | None) => Ok(()),
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
        // The text above already contains the error, so the next error in the chain is the cause of that error.
        self.0.error.as_ref().and_then(std::error::Error::source)
    }
}
