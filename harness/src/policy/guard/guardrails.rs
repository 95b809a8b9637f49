//! What guards one run, as a setting.

use std::{collections::HashSet, time::Duration};

use crate::journal::RunLimits;

/// How long one run may go on, and how often it may fail or hear the same. All of them are set
/// unless the program says otherwise; `None` takes one away. What a run may spend is limited by
/// [`Limits`](super::Limits).
///
/// A run that reaches a limit ends as [`Outcome::Limit`](crate::Outcome::Limit), never as an
/// answer, and its conversation can go on. Every message of the user begins all of them anew.
///
/// | limit | unless set | checked |
/// |---|---|---|
/// | turns, with answers that broke off | 20 | before the model is asked |
/// | time | 1 h | always; it stops what is running |
/// | failed calls in a row | 10 | before the model is asked |
/// | repetitions | 3 | before the model is asked |
///
/// How many calls of one answer may run is no limit of the run but a setting beside it:
/// [`calls_per_turn`](Self::calls_per_turn).
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
    pub(super) polling: HashSet<String>,
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
            polling: HashSet::new(),
            agents: Some(64),
            agent_depth: Some(8),
        }
    }
}

impl Guardrails {
    /// No limit at all: for a program that has its own. Calls then start while the model still
    /// speaks only if their number has [no limit](super::Limits::tool_calls) either.
    pub fn none() -> Self {
        Self {
            turns: None,
            calls_per_turn: None,
            time: None,
            failed_calls: None,
            repetitions: None,
            polling: HashSet::new(),
            agents: None,
            agent_depth: None,
        }
    }

    /// Sets how many times the model may be asked.
    #[must_use]
    pub fn turns(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.turns = turns.into();
        self
    }

    /// Sets how many calls of one answer run, the first ones: 32 unless set. The others do not, and
    /// in place of a result the model reads that it may ask for them in its next answer. This ends
    /// no run.
    ///
    /// Where few [`tool_calls`](super::Limits::tool_calls) are left, a smaller number here lets more of them
    /// start while the model still speaks. Without one, and with a limit of tool calls, none does.
    #[must_use]
    pub fn calls_per_turn(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.calls_per_turn = calls.into();
        self
    }

    /// Sets how long the run may take. The time in which a person decides on a call does not
    /// count.
    #[must_use]
    pub fn time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.time = time.into();
        self
    }

    /// Sets how many calls in a row may fail or be denied, whatever their names and arguments.
    /// A call that succeeds begins the count again.
    #[must_use]
    pub fn failed_calls(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.failed_calls = calls.into();
        self
    }

    /// Sets in how many turns the model may hear the same: the same result of the same call, or
    /// the same error of a tool whatever the arguments. One turn before that, the model is warned
    /// inside the result. Anything new that succeeds begins the count again.
    #[must_use]
    pub fn repetitions(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.repetitions = turns.into();
        self
    }

    /// Lets the tool of this name say the same for ever: it waits for something.
    #[must_use]
    pub fn polling(mut self, tool: impl Into<String>) -> Self {
        self.polling.insert(tool.into());
        self
    }

    /// Sets how many agents the tools of a run may run, 64 unless set: see
    /// [`Agent::as_tool`](crate::Agent::as_tool). Of one that is too many the model reads that it did not
    /// run. It counts those that the run starts in this process, and not those that these start.
    #[must_use]
    pub fn agents(mut self, agents: impl Into<Option<u32>>) -> Self {
        self.agents = agents.into();
        self
    }

    /// Sets how many agents may stand below each other, 8 unless set: those that the tools of a run run,
    /// those that the tools of these run, and so on. Of those that are set by the agents above each other,
    /// the one that allows least holds.
    #[must_use]
    pub fn agent_depth(mut self, depth: impl Into<Option<u32>>) -> Self {
        self.agent_depth = depth.into();
        self
    }

    /// How many agents the tools of a run may run.
    pub(crate) fn agents_of_run(&self) -> Option<u32> {
        self.agents
    }

    /// How many agents may stand below each other.
    pub(crate) fn depth_of_agents(&self) -> Option<u32> {
        self.agent_depth
    }

    /// These, as plain data.
    pub(super) fn of_run(&self) -> RunLimits {
        let Self { turns, calls_per_turn, time, failed_calls, repetitions, polling, .. } = self;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        RunLimits {
            turns: *turns,
            calls_per_turn: *calls_per_turn,
            time: time.map(millis),
            failed_calls: *failed_calls,
            repetitions: *repetitions,
            polling: polling.iter().cloned().collect(),
            ..RunLimits::default()
        }
    }

    /// Those of such a run.
    pub(crate) fn said_of_run(limits: &RunLimits) -> Self {
        Self {
            turns: limits.turns,
            calls_per_turn: limits.calls_per_turn,
            time: limits.time.map(Duration::from_millis),
            failed_calls: limits.failed_calls,
            repetitions: limits.repetitions,
            polling: limits.polling.iter().cloned().collect(),
            // They are those of the agent, whoever has begun the run.
            ..Self::default()
        }
    }

    /// Whether not even one turn is allowed.
    pub(crate) fn allows_nothing(&self) -> bool {
        self.turns == Some(0)
    }

    /// How long the run may take.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time
    }
}
