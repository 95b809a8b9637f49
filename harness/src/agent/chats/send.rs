//! A message about to be said in a conversation of the manager.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

use tokio::sync::oneshot;

use super::{
    Added, ChatRun, Chats, closed,
    log::RunLog,
    slot::{Job, Prepare, Steered},
};
use crate::{
    agent::{Sending, sending::Opening},
    error::Error,
    journal::check_id,
};

/// What becomes of a message while a run goes on in its conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// It waits until the runs of all messages before it have ended. At most 32 messages wait in a
    /// conversation; more are refused.
    #[default]
    Wait,
    /// It is refused with [`ErrorKind::Busy`](crate::ErrorKind).
    Refuse,
    /// It is told to the run that goes on, before the model is asked again: see
    /// [`Steering`](crate::agent::Steering). The [`ChatRun`] is then that run, from its beginning. If the run
    /// ends before it has heard the message, or waits for an approval, the message is sent next, before all
    /// messages that wait, with a run of its own; so it is after a [stop](Chats::stop), too. What is set by
    /// [`with`](ChatSending::with) and [`stop_unwatched`](ChatSending::stop_unwatched) holds only for a run of
    /// its own.
    ///
    /// A call that waits for an approval does not run any more once a new message is sent. To have it decided
    /// first, send the message after the decision. At most 32 messages wait or have not been heard yet in a
    /// conversation. Until the run has heard the message, it is in memory only, as one that waits:
    /// [`Chats::close`] refuses it with [`ErrorKind::Closed`](crate::ErrorKind), and if the process is killed, it
    /// is lost.
    ///
    /// A [`resume`](Chats::resume) says nothing, so it waits.
    Steer,
}

/// A message about to be said in a conversation of [`Chats`]: await it for its run. Nothing happens before.
///
/// # Errors
/// The future fails, and nothing is said, with [`ErrorKind::Busy`](crate::ErrorKind) if the conversation is open
/// elsewhere, in this process or in another one, or if the message is [refused](WhenBusy); with
/// [`ErrorKind::Transcript`](crate::ErrorKind) if it is to [steer](WhenBusy::Steer) a run and is no message that
/// the user can send; with
/// [`ErrorKind::Configuration`](crate::ErrorKind) if the name cannot be one (see [`check_id`]) or there is no
/// tokio runtime; with [`ErrorKind::Journal`](crate::ErrorKind) if the conversation cannot be read; with
/// [`ErrorKind::Closed`](crate::ErrorKind) if the manager was closed. What fails afterwards is told by
/// [`ChatRun::finish`].
#[must_use = "nothing is said before it is awaited"]
pub struct ChatSending {
    chats: Chats,
    conversation: String,
    opening: Opening,
    prepare: Option<Prepare>,
    busy: WhenBusy,
    watched: bool,
}

impl ChatSending {
    pub(super) fn new(chats: Chats, conversation: String, opening: Opening) -> Self {
        let (prepare, busy, watched) = (None, WhenBusy::default(), false);
        Self { chats, conversation, opening, prepare, busy, watched }
    }

    /// Sets what the run brings beside its message, such as its state, approver, settings and limits. The
    /// function is called when the run begins.
    ///
    /// ```
    /// use harness::{
    ///     Agent, Limits,
    ///     agent::Chats,
    ///     journal::MemoryJournal,
    ///     testing::{ScriptedProvider, reply},
    /// };
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
    /// let chats = Chats::new(&agent, &MemoryJournal::new());
    /// let limits = Limits::new().output_tokens(1_000);
    /// let run = chats.send("chat-17", "Hello?").with(|run| run.limits(limits)).await?;
    /// assert_eq!(run.finish().await?.text(), "Hello.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with(
        mut self,
        prepare: impl for<'a> FnOnce(Sending<'a>) -> Sending<'a> + Send + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Sets what becomes of the message while a run goes on in the conversation. It waits unless this is set.
    pub fn when_busy(mut self, busy: WhenBusy) -> Self {
        self.busy = busy;
        self
    }

    /// Stops the run when the last one who watches the conversation leaves: the tab is closed, and the stream
    /// dropped. If nobody watches any more when its turn comes, nothing is said. Without this the run goes on
    /// to its end.
    pub fn stop_unwatched(mut self) -> Self {
        self.watched = true;
        self
    }
}

impl IntoFuture for ChatSending {
    type Output = Result<ChatRun, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { chats, conversation, opening, prepare, busy, watched } = self;
        Box::pin(async move {
            check_id(&conversation)?;
            let (log, told) = (RunLog::new(), Arc::default());
            let stop = chats.shared.closing.child_token();
            let (open, opened) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            let job = Job {
                opening,
                prepare,
                log,
                told: Arc::clone(&told),
                steered: Steered::default(),
                stop,
                watched,
                opened: Some(open),
                end: Some(end),
            };
            let Added { seat, is_open } = chats.add(&conversation, job, busy)?;
            let run = ChatRun::new(seat, told, ended);
            drop(chats);
            if !is_open {
                opened.await.unwrap_or_else(|_| Err(closed()))?;
            }
            Ok(run)
        })
    }
}

impl fmt::Debug for ChatSending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSending")
            .field("conversation", &self.conversation)
            .field("opening", &self.opening)
            .field("busy", &self.busy)
            .finish_non_exhaustive()
    }
}
