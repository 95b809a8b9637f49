//! A run in the making: who watches it and what may stop it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{Chat, Event, Reply, Stopped, run::Run, watcher::Watch};
use crate::{
    message::Message,
    policy::{Budget, Limits},
    tool::Values,
};

/// A message about to be sent: await it for the reply.
///
/// ```
/// use harness::{Agent, agent::Event, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
/// let mut shown = String::new();
/// agent
///     .run("Say hello.")
///     .on_event(|event| {
///         if let Event::Text(text) = event {
///             shown.push_str(text);
///         }
///     })
///     .await?;
/// assert_eq!(shown, "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is sent before it is awaited"]
pub struct Sending<'a> {
    chat: Holder<'a>,
    opening: Opening,
    watch: Option<Box<Watch<'a>>>,
    stops: Stops,
    tool_time: Option<Duration>,
    budget: Budget,
    /// Whether what the run has spent is counted from nothing.
    anew: bool,
    /// What the run brings for its tools.
    values: Values,
}

/// How the program stops a run.
#[derive(Clone, Default)]
pub(super) struct Stops {
    /// At once.
    pub(super) now: CancellationToken,
    /// When the model's turn and its calls are over.
    pub(super) after_turn: CancellationToken,
}

/// What a run begins with.
#[derive(Debug)]
pub(super) enum Opening {
    /// The user says something.
    Say(Message),
    /// A run that had stopped goes on.
    Resume,
}

enum Holder<'a> {
    Borrowed(&'a mut Chat),
    Owned(Box<Chat>),
}

impl Sending<'static> {
    pub(super) fn owned(chat: Chat, message: Message) -> Self {
        Self::new(Holder::Owned(Box::new(chat)), Opening::Say(message.renewed()))
    }
}

impl<'a> Sending<'a> {
    pub(super) fn borrowed(chat: &'a mut Chat, message: Message) -> Self {
        Self::new(Holder::Borrowed(chat), Opening::Say(message.renewed()))
    }

    pub(super) fn resuming(chat: &'a mut Chat) -> Self {
        Self::new(Holder::Borrowed(chat), Opening::Resume)
    }

    fn new(chat: Holder<'a>, opening: Opening) -> Self {
        let anew = matches!(opening, Opening::Say(_));
        let budget = match (&chat, anew) {
            (Holder::Borrowed(chat), true) => chat.budget_of_run(),
            (Holder::Borrowed(chat), false) => chat.budget_of_last_run(),
            (Holder::Owned(chat), _) => chat.budget_of_run(),
        };
        Self {
            chat,
            opening,
            watch: None,
            stops: Stops::default(),
            tool_time: None,
            budget,
            anew,
            values: Values::default(),
        }
    }

    /// Shows every event to `watch` as it happens.
    pub fn on_event<'b>(self, watch: impl FnMut(Event<'_>) + Send + 'b) -> Sending<'b>
    where
        'a: 'b,
    {
        let Self { chat, opening, watch: _, stops, tool_time, budget, anew, values } = self;
        let watch = Some(Box::new(watch) as Box<Watch<'b>>);
        Sending { chat, opening, watch, stops, tool_time, budget, anew, values }
    }

    /// Lets no call of this run take longer than this, tries and waits included, whatever its tool
    /// and the agent's [`ToolLimits`](crate::ToolLimits) say.
    pub fn tool_time(mut self, limit: Duration) -> Self {
        self.tool_time = Some(limit);
        self
    }

    /// Shares a value with the tools of this run, which take it as a parameter
    /// [`State<T>`](crate::State): the user whom it serves, for one. It takes the place of a value of
    /// the same type that the agent has. See
    /// [`AgentBuilder::state_per_run`](super::AgentBuilder::state_per_run).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(Arc::new(value));
        self
    }

    /// Sets what this run may spend, with all that the agents spend that its tools call: see
    /// [`Limits`]. An amount that `limits` does not name keeps the limit that the agent has for
    /// [each run](super::AgentBuilder::run_limits). How often the model may be asked is set for all
    /// runs of an agent, by [`AgentBuilder::guardrails`](super::AgentBuilder::guardrails).
    ///
    /// A run that [goes on](Chat::resume) has spent what it had spent when it stopped. With new limits,
    /// also with `Limits::new()`, all that limits it is counted anew, its turns and its time too.
    ///
    /// ```
    /// use harness::{Agent, Limits, Outcome, journal::Limit, testing::{ScriptedProvider, reply}};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().call("look", json!({})).tokens(900, 20)]);
    /// let agent = Agent::builder(model).build()?;
    /// let stopped = agent.run("Go.").limits(Limits::new().input_tokens(500)).await.unwrap_err();
    /// assert_eq!(stopped.outcome(), Outcome::Limit(Limit::InputTokens));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        if !self.anew {
            if let Holder::Borrowed(chat) = &self.chat {
                self.budget = chat.budget_anew(&self.budget);
            }
            self.anew = true;
        }
        self.budget.limit(&limits);
        self
    }

    /// Lets the run spend from another budget too: that of the run whose tool starts this one, or one
    /// that the program made. What the run spends is counted there as well, and the run stops when
    /// that budget is used up, or any budget that it stands within itself at the time of this call.
    /// So begin with the outermost budget. Call it several times for several budgets. See [`Budget`].
    pub fn within(self, budget: &Budget) -> Self {
        self.budget.within(budget);
        self
    }

    /// What the run will have spent, with all that is below it, and what is left of its limits and
    /// of those that it stands within: to be asked while it goes on.
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Stops the run when this token is cancelled: it then ends as
    /// [`Outcome::Cancelled`](super::Outcome::Cancelled) with what there is so far.
    pub fn cancel_with(mut self, token: CancellationToken) -> Self {
        self.stops.now = token;
        self
    }

    /// Stops the run when this token is cancelled, but not before the current turn is over: the
    /// model finishes its answer, its calls run to their ends, and it is not asked again.
    pub fn stop_after_turn(mut self, token: CancellationToken) -> Self {
        self.stops.after_turn = token;
        self
    }
}

impl<'a> IntoFuture for Sending<'a> {
    type Output = Result<Reply, Stopped>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { chat, opening, watch, stops, tool_time, budget, anew, values } = self;
        Box::pin(async move {
            match chat {
                Holder::Borrowed(chat) => {
                    let before = chat.begins(budget, anew);
                    let run = Run::new(chat, watch, stops, tool_time);
                    run.after(before).drive(opening, anew, &values).await
                }
                Holder::Owned(mut chat) => {
                    let before = chat.begins(budget, anew);
                    let run = Run::new(&mut chat, watch, stops, tool_time);
                    run.after(before).drive(opening, anew, &values).await
                }
            }
        })
    }
}

impl fmt::Debug for Sending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("opening", &self.opening).finish_non_exhaustive()
    }
}
