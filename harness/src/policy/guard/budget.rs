//! What a run has spent and what is left of it: for the program, for watchers and for tools.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Guardrails;
use crate::provider::Usage;

/// What a run has spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// How many times the model was asked.
    pub turns: u32,
    /// How many calls have started.
    pub tool_calls: u32,
    /// Tokens, as far as they are known.
    pub usage: Usage,
    /// Whether every answer came with its tokens. If not, `usage` is a lower bound.
    pub usage_is_whole: bool,
    /// What it cost, in the currency of the prices; `None` if an answer came without its tokens
    /// or from a model without a price.
    pub cost: Option<f64>,
    /// How many calls in a row have failed or were denied, up to now.
    pub failed_calls: u32,
}

impl Spent {
    pub(super) const NOTHING: Self = Self {
        turns: 0,
        tool_calls: 0,
        usage: Usage {
            input: None,
            cache_read: None,
            cache_write: None,
            output: None,
            reasoning: None,
            compaction: None,
        },
        usage_is_whole: true,
        cost: Some(0.0),
        failed_calls: 0,
    };
}

/// What is left of a run's limits. `None` where there is no limit; of tokens and cost also where
/// the provider does not say how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Left {
    /// Times that the model may still be asked.
    pub turns: Option<u32>,
    /// Calls that may still run.
    pub tool_calls: Option<u32>,
    /// Tokens that may still be sent.
    pub input_tokens: Option<u64>,
    /// Tokens that the model may still say.
    pub output_tokens: Option<u64>,
    /// What it may still cost.
    pub cost: Option<f64>,
    /// How long it may still take.
    pub time: Option<Duration>,
}

/// In words for a person or a model, such as `12 turns, 80 tool calls, 4 min`.
impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turns, tool_calls, input_tokens, output_tokens, cost, time } = self;
        let told = [
            turns.map(|left| format!("{left} turns")),
            tool_calls.map(|left| format!("{left} tool calls")),
            input_tokens.map(|left| format!("{left} input tokens")),
            output_tokens.map(|left| format!("{left} output tokens")),
            cost.map(|left| format!("{left:.4} of the cost")),
            time.map(|left| format!("{left:.0?}")),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        f.write_str(&if told.is_empty() { "no limit".to_owned() } else { told.join(", ") })
    }
}

/// What a run has spent and what is left of it, as of now. A clone is the same run's.
///
/// The program gets it from [`Chat::budget`](crate::Chat::budget) before or while a run goes on; a
/// tool takes it as a parameter `State<Budget>`:
///
/// ```
/// use harness::{Agent, State, policy::Budget, testing::{ScriptedProvider, reply}, tool, tools};
/// use serde_json::json;
///
/// /// What is left of this run.
/// #[tool(side_effects = "none")]
/// fn budget(budget: State<Budget>) -> String {
///     format!("{} turns left", budget.left().turns.unwrap_or(u32::MAX))
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([reply().call("budget", json!({})), reply().text("Enough.")]);
/// let agent = Agent::builder(model.clone()).tools(tools![budget]).build()?;
/// agent.run("Is there time?").await?;
/// assert_eq!(model.requests()[1].last_text(), "19 turns left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    rails: Arc<Guardrails>,
    now: Mutex<Now>,
}

#[derive(Clone, Copy)]
struct Now {
    spent: Spent,
    /// Whether the model is being asked: that turn counts, but its tokens are not known.
    asking: bool,
    ends: Option<Instant>,
}

impl Budget {
    pub(super) fn new(rails: Arc<Guardrails>) -> Self {
        let now = Now { spent: Spent::NOTHING, asking: false, ends: None };
        Self(Arc::new(Inner { rails, now: Mutex::new(now) }))
    }

    /// What was spent so far in the run that goes on, or in the last one.
    pub fn spent(&self) -> Spent {
        let Now { spent, asking, .. } = self.now();
        Spent { turns: spent.turns.saturating_add(asking.into()), ..spent }
    }

    /// What is left of the limits.
    pub fn left(&self) -> Left {
        let Now { spent, ends, .. } = self.now();
        let rails = &*self.0.rails;
        let of_tokens = |limit: Option<u64>, used: Option<u64>| {
            let known = used.is_some() || spent.turns == 0;
            limit.filter(|_| known).map(|limit| limit.saturating_sub(used.unwrap_or(0)))
        };
        let cost = rails.cost.zip(spent.cost).map(|(limit, used)| (limit - used).max(0.0));
        let time = match ends {
            Some(ends) => Some(ends.saturating_duration_since(Instant::now())),
            None => rails.time,
        };
        Left {
            turns: rails.turns.map(|limit| limit.saturating_sub(self.spent().turns)),
            tool_calls: rails.tool_calls.map(|limit| limit.saturating_sub(spent.tool_calls)),
            input_tokens: of_tokens(rails.input_tokens, spent.usage.input),
            output_tokens: of_tokens(rails.output_tokens, spent.usage.output),
            cost,
            time,
        }
    }

    /// Sets when the run ends at the latest.
    pub(crate) fn ends(&self, at: Option<Instant>) {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner).ends = at;
    }

    pub(super) fn set(&self, spent: Spent, asking: bool) {
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        (now.spent, now.asking) = (spent, asking);
    }

    fn now(&self) -> Now {
        *self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("spent", &self.spent()).field("left", &self.left()).finish()
    }
}
