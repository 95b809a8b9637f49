//! A run in the making: who watches it and what may stop it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{Chat, Event, Reply, Stopped, run::Run};
use crate::{message::Message, policy::Budget};

/// Reads each event of a run as it happens.
pub(super) type Watch<'a> = dyn FnMut(Event<'_>) + Send + 'a;

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
        Self::new(Holder::Owned(Box::new(chat)), Opening::Say(message))
    }
}

impl<'a> Sending<'a> {
    pub(super) fn borrowed(chat: &'a mut Chat, message: Message) -> Self {
        Self::new(Holder::Borrowed(chat), Opening::Say(message))
    }

    pub(super) fn resuming(chat: &'a mut Chat) -> Self {
        Self::new(Holder::Borrowed(chat), Opening::Resume)
    }

    fn new(chat: Holder<'a>, opening: Opening) -> Self {
        Self { chat, opening, watch: None, stops: Stops::default(), tool_time: None }
    }

    /// Shows every event to `watch` as it happens.
    pub fn on_event<'b>(self, watch: impl FnMut(Event<'_>) + Send + 'b) -> Sending<'b>
    where
        'a: 'b,
    {
        let Self { chat, opening, watch: _, stops, tool_time } = self;
        Sending { chat, opening, watch: Some(Box::new(watch)), stops, tool_time }
    }

    /// Lets no call of this run take longer than this, tries and waits included, whatever its tool
    /// and the agent's [`ToolLimits`](crate::ToolLimits) say.
    pub fn tool_time(mut self, limit: Duration) -> Self {
        self.tool_time = Some(limit);
        self
    }

    /// What the run will have spent and what is left of its limits, to be asked while it goes on.
    pub fn budget(&self) -> Budget {
        match &self.chat {
            Holder::Borrowed(chat) => chat.budget(),
            Holder::Owned(chat) => chat.budget(),
        }
    }

    /// Stops the run when this token is cancelled: it then ends as
    /// [`Outcome::Interrupted`](super::Outcome::Interrupted) with what there is so far.
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
        let Self { chat, opening, watch, stops, tool_time } = self;
        Box::pin(async move {
            match chat {
                Holder::Borrowed(chat) => {
                    Run::new(chat, watch, stops, tool_time).drive(opening).await
                }
                Holder::Owned(mut chat) => {
                    Run::new(&mut chat, watch, stops, tool_time).drive(opening).await
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
