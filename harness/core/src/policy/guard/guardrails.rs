//! The setting of a run's guardrails.

use std::{collections::BTreeSet, time::Duration};

use crate::journal::RecordedLimits;

/// Limits how long one run may go on, and how often it may fail or repeat itself. Each limit has a default; `None`
/// removes a limit. [`Limits`](super::Limits) limit what a run may spend.
///
/// A run that reaches a limit ends as `Outcome::Limit`, never with an answer. Its conversation can continue: every
/// message of the user resets all counts.
///
/// | limit | default | checked |
/// |---|---|---|
/// | turns, including answers that broke off | 20 | before each request to the model |
/// | time | 1 h | always; running calls and requests are stopped |
/// | failed calls in a row | 10 | before each request to the model |
/// | repetitions of a result | 3 | before each request to the model |
/// | repetitions of a call, whatever its results | 10 | before each request to the model |
///
/// [`calls_per_turn`](Self::calls_per_turn) does not end the run: it limits how many calls of one answer run.
///
/// ```
/// use std::time::Duration;
/// use harness::policy::Guardrails;
///
/// let rails = Guardrails::default()
///     .turns(40)
///     .time(Duration::from_secs(300))
///     .polling("job_status")
///     .failed_calls(None);
/// # let _ = rails;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Guardrails {
    pub(super) turns: Option<u32>,
    pub(super) calls_per_turn: Option<u32>,
    pub(super) time: Option<Duration>,
    pub(super) failed_calls: Option<u32>,
    pub(super) repetitions: Option<u32>,
    pub(super) repeated_calls: Option<u32>,
    pub(super) polling: BTreeSet<String>,
    pub(super) agents: Option<u32>,
    pub(super) agent_depth: Option<u32>,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            turns: Some(20),
            calls_per_turn: Some(32),
            time: Some(Duration::from_secs(3600)),
            failed_calls: Some(10),
            repetitions: Some(3),
            repeated_calls: Some(10),
            polling: BTreeSet::new(),
            agents: Some(64),
            agent_depth: Some(8),
        }
    }
}

impl Guardrails {
    /// Sets no limit at all, for a program that has limits of its own. If
    /// [`Limits::tool_calls`](super::Limits::tool_calls) still sets a limit, no call starts before the model's answer
    /// is complete.
    pub fn none() -> Self {
        Self {
            turns: None,
            calls_per_turn: None,
            time: None,
            failed_calls: None,
            repetitions: None,
            repeated_calls: None,
            polling: BTreeSet::new(),
            agents: None,
            agent_depth: None,
        }
    }

    /// Sets how many requests a run may send to the model.
    #[must_use]
    pub fn turns(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.turns = turns.into();
        self
    }

    /// Sets how many calls of one answer run: the first 32 unless set. Each further call gets a result that tells the
    /// model to make the call again in its next answer. The run continues.
    ///
    /// A call can start before the answer is complete only while at least this number of
    /// [`tool_calls`](super::Limits::tool_calls) is left. With `None` here and a limit of tool calls, no call starts
    /// early.
    #[must_use]
    pub fn calls_per_turn(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.calls_per_turn = calls.into();
        self
    }

    /// Sets the time that the run may take. Time during which the run waits for a person's decision does not count.
    #[must_use]
    pub fn time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.time = time.into();
        self
    }

    /// Sets how many calls in a row may fail or be denied, whatever their names and arguments. A successful call resets
    /// the count.
    #[must_use]
    pub fn failed_calls(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.failed_calls = calls.into();
        self
    }

    /// Sets in how many turns the model may get the same result of the same call. Equal errors of one tool count as the
    /// same result, even if the arguments differ. One turn before the limit, a note in the result warns the model. A
    /// new successful result resets the count.
    #[must_use]
    pub fn repetitions(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.repetitions = turns.into();
        self
    }

    /// Sets in how many turns the model may make the same call, with the same tool and arguments, even if the results
    /// differ. An example is a test run whose output contains its duration. Notes in two of the results warn the model:
    /// at half of the limit, and one turn before the run ends. A successful call that the run has not made before
    /// resets the count, so that a model may run the tests after each of its edits. Calls without arguments do not
    /// count, since each may return something else, such as the next page.
    #[must_use]
    pub fn repeated_calls(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.repeated_calls = turns.into();
        self
    }

    /// Exempts the tool of this name from the limits of repetitions, for example a tool that waits for something.
    /// The model may repeat a call of this tool, and get the same result, any number of times.
    #[must_use]
    pub fn polling(mut self, tool: impl Into<String>) -> Self {
        self.polling.insert(tool.into());
        self
    }

    /// Sets how many agents the tools of a run may run, 64 unless set: see `Agent::as_tool`. For each further agent,
    /// the model reads that the agent did not run. Agents that this run starts in this process count. Agents that those
    /// agents start do not count.
    #[must_use]
    pub fn agents(mut self, agents: impl Into<Option<u32>>) -> Self {
        self.agents = agents.into();
        self
    }

    /// Sets how deeply agents may be nested, 8 unless set. The agents that a run's tools start have the depth 1, the
    /// agents that these agents' tools start have the depth 2, and so on. If several nested agents set a depth, the
    /// smallest depth applies.
    #[must_use]
    pub fn agent_depth(mut self, depth: impl Into<Option<u32>>) -> Self {
        self.agent_depth = depth.into();
        self
    }

    /// The maximum number of agents that the tools of a run may run.
    #[doc(hidden)]
    pub fn agents_of_run(&self) -> Option<u32> {
        self.agents
    }

    /// The maximum depth of nested agents.
    #[doc(hidden)]
    pub fn depth_of_agents(&self) -> Option<u32> {
        self.agent_depth
    }

    /// These guardrails, as plain data for a fact.
    pub(super) fn of_run(&self) -> RecordedLimits {
        let Self { turns, calls_per_turn, time, failed_calls, .. } = self;
        let Self { repetitions, repeated_calls, polling, .. } = self;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        RecordedLimits {
            turns: *turns,
            calls_per_turn: *calls_per_turn,
            time: time.map(millis),
            failed_calls: *failed_calls,
            repetitions: *repetitions,
            repeated_calls: *repeated_calls,
            polling: polling.clone(),
            ..RecordedLimits::default()
        }
    }

    /// Restores the guardrails from the limits in a run's facts.
    #[doc(hidden)]
    pub fn said_of_run(limits: &RecordedLimits) -> Self {
        Self {
            turns: limits.turns,
            calls_per_turn: limits.calls_per_turn,
            time: limits.time.map(Duration::from_millis),
            failed_calls: limits.failed_calls,
            repetitions: limits.repetitions,
            repeated_calls: limits.repeated_calls,
            polling: limits.polling.clone(),
            // The facts do not record these settings. The library reads them from the agent in this process.
            ..Self::default()
        }
    }

    /// Whether no turn at all is allowed.
    #[doc(hidden)]
    pub fn allows_nothing(&self) -> bool {
        self.turns == Some(0)
    }

    /// The time that the run may take; `None` without a limit.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time
    }
}
