//! The setting that limits spending: calls, tokens and cost.

use serde::{Deserialize, Deserializer, Serialize};

use super::Guardrails;
use crate::{
    error::{Error, ErrorKind},
    journal::RecordedLimits,
};

/// Limits what may be spent: money, tokens and tool calls. The same setting limits one run, a conversation, or an agent
/// with all its conversations:
///
/// | set by | applies to | default |
/// |---|---|---|
/// | `Run::limits` | this run | as set by the agent for each run |
/// | `AgentBuilder::run_limits` | each run of the agent | 100 calls, 5,000,000 tokens sent, 500,000 generated |
/// | `Chat::limits` | all runs of the conversation together | none |
/// | `AgentBuilder::limits` | all conversations of the agent together | none |
/// | [`Budget::new`](super::Budget::new) | all runs that are `within` it | none |
///
/// Each limit counts everything that is spent within its scope. This includes agents that tools run with the
/// [`Budget`](super::Budget) of the call. All limits apply at the same time. [`Guardrails`](super::Guardrails) limit
/// each run alone: how many requests it sends to the model, how long it takes and how often it repeats itself.
///
/// A limit that is not set is left open: it has no effect. `None` removes a limit. When limits are read from a file, an
/// unknown member is an error, so that a misspelt limit is not ignored.
///
/// ```
/// use harness::Limits;
///
/// let limits = Limits::new().cost(0.50).tool_calls(None);
/// let written = serde_json::to_string(&limits)?;
/// assert_eq!(written, r#"{"tool_calls":null,"cost":0.5}"#);
/// assert_eq!(serde_json::from_str::<Limits>(&written)?, limits);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "named")]
    tool_calls: LimitSetting<u32>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "named")]
    input_tokens: LimitSetting<u64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "named")]
    output_tokens: LimitSetting<u64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "named")]
    cost: LimitSetting<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refuse_unknown_cost: bool,
}

/// Stands for a cost of NaN, which JSON cannot express. [`Limits::check`] rejects NaN and this number.
const NO_AMOUNT: f64 = -1.0;

/// A limit that can be left open (`None`), removed (`Some(None)`) or set.
type LimitSetting<T> = Option<Option<T>>;

/// Reads `null` as a removed limit. Only a missing member leaves the limit open.
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<LimitSetting<T>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

impl Limits {
    /// Creates limits of which none is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes every limit, for a program that has limits of its own.
    pub fn unlimited() -> Self {
        Self {
            tool_calls: Some(None),
            input_tokens: Some(None),
            output_tokens: Some(None),
            cost: Some(None),
            refuse_unknown_cost: false,
        }
    }

    /// The default limits of a run.
    pub(crate) fn of_a_run() -> Self {
        Self::new().tool_calls(100).input_tokens(5_000_000).output_tokens(500_000)
    }

    /// Sets how many calls may run. This number is never exceeded. A call that started before the model's answer was
    /// complete counts even if the final answer does not contain it.
    ///
    /// If an answer has more calls than are left, no call of the answer runs. Read-only calls may start early,
    /// before the number of the answer's calls is known. They start early only while at least
    /// [`calls_per_turn`](super::Guardrails::calls_per_turn) calls are left, since one answer cannot run more calls.
    #[must_use]
    pub fn tool_calls(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.tool_calls = Some(calls.into());
        self
    }

    /// Sets how many tokens may be sent, cached tokens included. Each turn sends the whole conversation again, and all
    /// of its tokens count again.
    ///
    /// If an answer does not report its tokens, as with some local servers, this limit cannot be enforced in full, and
    /// the watcher receives `Event::LimitUnknown`. The default limit of a run causes no such event, since turns, calls
    /// and time limit the run too.
    #[must_use]
    pub fn input_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.input_tokens = Some(tokens.into());
        self
    }

    /// Sets how many tokens models may generate, thinking included. For answers that do not report their tokens, see
    /// [`input_tokens`](Self::input_tokens).
    #[must_use]
    pub fn output_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.output_tokens = Some(tokens.into());
        self
    }

    /// Sets how much money may be spent, in the currency of the prices: US dollars, unless the
    /// [`Models`](crate::models::Models) of the agents use another currency. All agents within one limit must use the
    /// same currency.
    ///
    /// If a model has no price, or an answer does not report its tokens, the limit applies only to the known part of
    /// the cost, and the watcher receives `Event::LimitUnknown`. See
    /// [`refuse_unknown_cost`](Self::refuse_unknown_cost).
    ///
    /// If the amount is below 0 or not a number, building the agent or starting the run fails.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Option<f64>>) -> Self {
        // As JSON, NaN would become `null`, and be read back as no limit.
        self.cost = Some(cost.into().map(|cost| if cost.is_nan() { NO_AMOUNT } else { cost }));
        self
    }

    /// Fails if the limit of cost is below 0 or not a number.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Error> {
        match self.money() {
            Some(cost) if cost < 0.0 => Err(Error::new(
                ErrorKind::Configuration,
                "a limit of cost is below 0 or not a number: set what may be spent with `Limits::cost(0.50)`, or \
                 `cost(None)` for no limit",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses models of unknown cost. If the model has no price, a run ends with
    /// [`LimitKind::UnknownCost`](crate::journal::LimitKind::UnknownCost) before its first request. The cost of an answer is
    /// also unknown if a fallback answered with a model without a price, or if the server counts no tokens. The run
    /// then ends before the next request.
    ///
    /// An interrupted answer does not count as unknown here, although it has cost more than was reported.
    #[must_use]
    pub fn refuse_unknown_cost(mut self) -> Self {
        self.refuse_unknown_cost = true;
        self
    }

    /// A copy of these limits, in which open limits are taken from `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let Self { tool_calls, input_tokens, output_tokens, cost, refuse_unknown_cost } = self;
        Self {
            tool_calls: tool_calls.or(base.tool_calls),
            input_tokens: input_tokens.or(base.input_tokens),
            output_tokens: output_tokens.or(base.output_tokens),
            cost: cost.or(base.cost),
            refuse_unknown_cost: *refuse_unknown_cost || base.refuse_unknown_cost,
        }
    }

    /// These limits and these guardrails, as plain data for a fact.
    pub(super) fn of_run(&self, rails: &Guardrails) -> RecordedLimits {
        let mut limits = rails.of_run();
        limits.tool_calls = self.calls();
        limits.input_tokens = self.input();
        limits.output_tokens = self.output();
        limits.cost = self.money();
        limits.refuse_unknown_cost = self.refuse_unknown_cost;
        limits
    }

    /// Restores the limits from a run's facts.
    #[doc(hidden)]
    pub fn said_of_run(limits: &RecordedLimits) -> Self {
        let set = Self::new()
            .tool_calls(limits.tool_calls)
            .input_tokens(limits.input_tokens)
            .output_tokens(limits.output_tokens)
            .cost(limits.cost);
        Self { refuse_unknown_cost: limits.refuse_unknown_cost, ..set }
    }

    /// The limit of calls; `None` without a limit.
    pub(super) fn calls(&self) -> Option<u32> {
        self.tool_calls.flatten()
    }

    /// The limit of sent tokens; `None` without a limit.
    pub(super) fn input(&self) -> Option<u64> {
        self.input_tokens.flatten()
    }

    /// The limit of generated tokens; `None` without a limit.
    pub(super) fn output(&self) -> Option<u64> {
        self.output_tokens.flatten()
    }

    /// The limit of cost; `None` without a limit.
    pub(super) fn money(&self) -> Option<f64> {
        self.cost.flatten()
    }

    pub(super) fn can_refuse_unknown_cost(&self) -> bool {
        self.refuse_unknown_cost
    }
}
