//! The runs of a conversation up to now.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use futures_core::Stream as _;

use harness_agent::{ChatWatcher, Chats, Event, Numbered};
use harness_core::error::Error;

/// The runs of a conversation up to now, for a page that is loaded: of the last run it gets what is written after it, too.
///
/// A watcher begins with the last message of the user. What follows it can be several runs, if a run was stopped, has failed or was
/// cut off and was then resumed, and a front end reads each run as a stream of its own.
///
/// ```
/// use harness::{
///     Agent,
///     agent::Chats,
///     journal::MemoryJournal,
///     testing::{ScriptedProvider, reply},
///     web::{RunsSoFar, ui_message::UiMessageStream},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
/// let chats = Chats::new(&agent, &MemoryJournal::new());
/// chats.send("chat-17", "Hello?").await?.finish().await?;
///
/// let (runs, _watcher) = RunsSoFar::read(&chats, "chat-17").await?;
/// assert!(runs.earlier.is_empty() && !runs.goes_on);
/// let messages = UiMessageStream::new().messages(runs.earlier.iter().chain(&runs.last));
/// assert_eq!(messages[1]["parts"][1]["text"], "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunsSoFar {
    /// The runs before the last one, from the beginning of the conversation.
    pub earlier: Vec<Numbered>,
    /// The events of the last run so far. Its later events come from the watcher. Empty if the run waits to begin, or if
    /// the conversation has no message yet.
    pub last: Vec<Numbered>,
    /// Whether the last run goes on or waits to begin.
    pub goes_on: bool,
}

impl RunsSoFar {
    /// The runs of this conversation up to now, and the watcher that has what comes after them.
    ///
    /// # Errors
    /// Fails as [`Chats::watch`] and [`ChatWatcher::earlier`] do.
    pub async fn read(chats: &Chats, conversation: &str) -> Result<(Self, ChatWatcher), Error> {
        let mut watcher = chats.watch(conversation).await?;
        let mut runs = Self::default();
        // The watcher keeps the run that it has begun to read, also if another one begins while the journal is read.
        runs.take_ready(&mut watcher);
        let earlier = watcher.earlier().await?;
        runs.take_ready(&mut watcher);
        runs.earlier.splice(0..0, earlier);
        let last = runs.last.last().map(|last| last.event.as_event());
        let has_ended = matches!(last, Some(Event::RunEnded { .. }));
        runs.goes_on = !has_ended && chats.is_busy(conversation);
        Ok((runs, watcher))
    }

    /// Takes what the watcher has now.
    fn take_ready(&mut self, watcher: &mut ChatWatcher) {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(event)) = Pin::new(&mut *watcher).poll_next(&mut context) {
            if matches!(event.event.as_event(), Event::RunStarted { .. }) {
                self.earlier.append(&mut self.last);
            }
            self.last.push(event);
        }
    }
}
