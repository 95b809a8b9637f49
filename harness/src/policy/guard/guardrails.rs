//! The limits of a run, as a setting.

use std::{collections::HashSet, time::Duration};

use super::Prices;
use crate::journal::Limit;

/// What one run may spend and how long it may go in circles. All limits but the one on cost are
/// set unless the program says otherwise; `None` takes one away.
///
/// A run that reaches a limit ends as [`Outcome::Limit`](crate::Outcome::Limit), never as an
/// answer, and its conversation can go on. Every message of the user begins a run with everything
/// still to spend.
///
/// | limit | unless set | checked |
/// |---|---|---|
/// | turns | 20 | before the model is asked |
/// | tool calls | 100 | before the calls of an answer, all together |
/// | input tokens | 5,000,000 | before the model is asked and before calls |
/// | output tokens | 500,000 | before the model is asked and before calls |
/// | cost | none | before the model is asked and before calls |
/// | time | 1 h | always; it stops what is running |
/// | failed calls in a row | 10 | before the model is asked |
/// | repetitions | 3 | before the model is asked |
///
/// An answer whose calls would pass the limit of tool calls runs none of them. How many calls of one
/// answer may run is no limit of the run but a setting beside it:
/// [`calls_per_turn`](Self::calls_per_turn).
///
/// Tokens and cost are known only when an answer is complete, so a run can pass such a limit by
/// one answer. Its calls then do not run, but those that only read may have begun early; what
/// began is told as it was.
///
/// ```
/// use std::time::Duration;
/// use harness::policy::Guardrails;
///
/// let rails = Guardrails::default()
///     .turns(40)
///     .cost(0.50)
///     .time(Duration::from_secs(300))
///     .polling("job_status")
///     .failed_calls(None);
/// # let _ = rails;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Guardrails {
    pub(super) turns: Option<u32>,
    pub(super) tool_calls: Option<u32>,
    pub(super) calls_per_turn: Option<u32>,
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    /// The limits of tokens that the program has set itself.
    pub(super) wanted: Vec<Limit>,
    pub(super) cost: Option<f64>,
    pub(super) time: Option<Duration>,
    pub(super) failed_calls: Option<u32>,
    pub(super) repetitions: Option<u32>,
    pub(super) polling: HashSet<String>,
    pub(super) prices: Prices,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            turns: Some(20),
            tool_calls: Some(100),
            calls_per_turn: Some(32),
            input_tokens: Some(5_000_000),
            output_tokens: Some(500_000),
            wanted: Vec::new(),
            cost: None,
            time: Some(Duration::from_secs(3600)),
            failed_calls: Some(10),
            repetitions: Some(3),
            polling: HashSet::new(),
            prices: Prices::default(),
        }
    }
}

impl Guardrails {
    /// No limit at all: for a program that has its own.
    pub fn none() -> Self {
        Self {
            turns: None,
            tool_calls: None,
            calls_per_turn: None,
            input_tokens: None,
            output_tokens: None,
            wanted: Vec::new(),
            cost: None,
            time: None,
            failed_calls: None,
            repetitions: None,
            polling: HashSet::new(),
            prices: Prices::default(),
        }
    }

    /// Sets how many times the model may be asked.
    #[must_use]
    pub fn turns(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.turns = turns.into();
        self
    }

    /// Sets how many calls may run. Never do more; one that began early and was not wanted in the
    /// end counts too.
    ///
    /// Of an answer that asks for more than are left, none runs. Calls that only read may start
    /// while the model still speaks, before it is known how many the answer asks for; they do so
    /// only while as many are left as one answer may have at all, which is
    /// [`calls_per_turn`](Self::calls_per_turn).
    #[must_use]
    pub fn tool_calls(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.tool_calls = calls.into();
        self
    }

    /// Sets how many calls of one answer run, the first ones: 32 unless set. The others do not, and
    /// in place of a result the model reads that it may ask for them in its next answer. This ends
    /// no run.
    ///
    /// Where few [`tool_calls`](Self::tool_calls) are left, a smaller number here lets more of them
    /// start while the model still speaks. Without one, and with a limit of tool calls, none does.
    #[must_use]
    pub fn calls_per_turn(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.calls_per_turn = calls.into();
        self
    }

    /// Sets how many tokens may be sent, those from a cache included. Each turn sends the whole
    /// conversation again, and counts it again.
    ///
    /// If an answer comes without its tokens, as from some local servers, this limit cannot be
    /// held in full, and the watcher sees [`Event::LimitUnknown`](crate::Event::LimitUnknown). Of
    /// the limit that is there unless set nothing is said: turns, calls and time are limits too.
    #[must_use]
    pub fn input_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.input_tokens = tokens.into();
        self.wanted.push(Limit::InputTokens);
        self
    }

    /// Sets how many tokens the model may say, thinking included. If nobody says how many it
    /// said, it is as with [`input_tokens`](Self::input_tokens).
    #[must_use]
    pub fn output_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.output_tokens = tokens.into();
        self.wanted.push(Limit::OutputTokens);
        self
    }

    /// Sets what the run may cost, in the currency of the prices: US dollars, unless
    /// [`prices`](Self::prices) are given in another.
    ///
    /// If the provider reports no tokens, or the model has no price, the cost is unknown and this
    /// limit cannot be held: the watcher then sees
    /// [`Event::LimitUnknown`](crate::Event::LimitUnknown).
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Option<f64>>) -> Self {
        self.cost = cost.into();
        self
    }

    /// Sets what tokens cost.
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
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

    /// Whether not even one turn is allowed.
    pub(crate) fn allows_nothing(&self) -> bool {
        self.turns == Some(0)
    }

    /// How long the run may take.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time
    }
}
