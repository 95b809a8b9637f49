//! Builds a message that `Chats` sends to a conversation.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

use tokio::sync::oneshot;

use super::{
    chats::{AddedRun, Chats},
    log::RunLog,
    slot::{PrepareRun, QueuedRun, SteeringMessages},
    slots::closed,
    watch::ChatRun,
};
use crate::{Run, run::input::RunInput};
use harness_core::{
    error::Error,
    journal::{Metadata, check_id},
};

/// What happens to a message if its conversation already has a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// The message waits until the runs of all earlier messages have ended. At most 32 messages can wait in a
    /// conversation. Further messages are refused.
    #[default]
    Wait,
    /// The message is refused with [`ErrorKind::Busy`](harness_core::error::ErrorKind).
    Refuse,
    /// The current run takes the message in before its next request to the model: see
    /// [`Steering`](crate::Steering). The [`ChatRun`] then streams the current run from its beginning. If the
    /// run ends before it has taken the message in, or ends because a call waits for an approval, the message
    /// gets a run of its own. That run comes next, before all waiting messages. After a [stop](Chats::stop),
    /// the message also gets a run of its own. The settings [`with`](ChatRunBuilder::with),
    /// [`describe`](ChatRunBuilder::describe) and [`stop_unwatched`](ChatRunBuilder::stop_unwatched) of the
    /// message apply only if the message gets a run of its own.
    ///
    /// If a call waits for an approval, a new message ends that wait, and the call does not run. To let the
    /// call run, send the message after the decision. At most 32 messages of a conversation may wait or be on
    /// their way to a run. Until a run has taken the message in, the message is only in memory, like a waiting
    /// message: [`Chats::close`] refuses it with [`ErrorKind::Closed`](harness_core::error::ErrorKind), and the
    /// message is lost if the process is killed.
    ///
    /// A [`resume`](Chats::resume) has no message that a run could take in, so it is done as with
    /// [`Wait`](Self::Wait).
    Steer,
}

/// A message for a conversation of [`Chats`]. Nothing happens before this value is awaited. The future returns
/// the run of the message.
///
/// # Errors
/// The future fails, and nothing is sent:
/// - with [`ErrorKind::Busy`](harness_core::error::ErrorKind) if the conversation is open elsewhere, in this
///   process or in another one, or if the message is [refused](WhenBusy),
/// - with [`ErrorKind::Transcript`](harness_core::error::ErrorKind) if the message should
///   [steer](WhenBusy::Steer) a run but is not a message that a user can send,
/// - with [`ErrorKind::Configuration`](harness_core::error::ErrorKind) if the name is not valid (see
///   [`check_id`]) or there is no tokio runtime with a timer,
/// - with [`ErrorKind::Journal`](harness_core::error::ErrorKind) if the conversation cannot be read,
/// - with [`ErrorKind::Closed`](harness_core::error::ErrorKind) if the manager was closed.
///
/// If the run fails later, [`ChatRun::finish`] returns the error.
#[must_use = "nothing is said before it is awaited"]
pub struct ChatRunBuilder {
    chats: Chats,
    conversation: String,
    input: RunInput,
    prepare: Option<PrepareRun>,
    metadata: Option<Metadata>,
    busy: WhenBusy,
    watched: bool,
}

impl ChatRunBuilder {
    pub(super) fn new(chats: Chats, conversation: String, input: RunInput) -> Self {
        let (prepare, metadata, busy, watched) = (None, None, WhenBusy::default(), false);
        Self { chats, conversation, input, prepare, metadata, busy, watched }
    }

    /// Sets the options of the run besides its message, such as its state, approver, settings and limits.
    /// `prepare` is called when the run begins.
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
        prepare: impl for<'a> FnOnce(Run<'a>) -> Run<'a> + Send + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Sets the owner, title and tags of the conversation, as [`Chat::describe`](crate::Chat::describe) does.
    /// The run writes this metadata before the message, so a new conversation has an owner from its first fact.
    /// Other code must not call [`Journal::describe`](harness_core::journal::Journal::describe) for the new
    /// conversation meanwhile. Otherwise the message is refused, because the conversation may have another
    /// owner.
    pub fn describe(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets what happens to the message if the conversation already has a run. The default is to wait.
    pub fn when_busy(mut self, busy: WhenBusy) -> Self {
        self.busy = busy;
        self
    }

    /// Stops the run when the conversation has no watcher any more, for example because a browser tab was
    /// closed and its stream was dropped. If there are no watchers when the run would begin, the message is not
    /// sent. Without this setting, the run goes on to its end.
    pub fn stop_unwatched(mut self) -> Self {
        self.watched = true;
        self
    }
}

impl IntoFuture for ChatRunBuilder {
    type Output = Result<ChatRun, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { chats, conversation, input, prepare, metadata, busy, watched } = self;
        Box::pin(async move {
            check_id(&conversation)?;
            let (log, pending_log) = (RunLog::new(), Arc::default());
            let stop = chats.shared.closing.child_token();
            let (open, opened) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            let job = QueuedRun {
                input,
                prepare,
                metadata,
                log,
                pending_log: Arc::clone(&pending_log),
                steered: SteeringMessages::default(),
                stop,
                watched,
                opened: Some(open),
                end: Some(end),
            };
            let AddedRun { subscription, joined, is_open } = chats.add(&conversation, job, busy)?;
            let run = ChatRun::new(subscription, pending_log, joined, ended);
            drop(chats);
            if !is_open {
                opened.await.unwrap_or_else(|_| Err(closed()))?;
            }
            Ok(run)
        })
    }
}

impl fmt::Debug for ChatRunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatRunBuilder")
            .field("conversation", &self.conversation)
            .field("opening", &self.input)
            .field("busy", &self.busy)
            .finish_non_exhaustive()
    }
}
