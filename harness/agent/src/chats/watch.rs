//! Streams of events: of one run to its end, or of all runs of a conversation.

use std::{
    collections::VecDeque,
    fmt,
    future::{pending, poll_fn},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use tokio::{sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    log::{LogCursor, RunLog},
    replay::{ReplayedEvents, UnendedRun, replay},
    slot::{ChatSlot, PendingRunLog, RunResult, not_begun},
    slots::{ChatsInner, closed, runtime},
};
use crate::{
    Agent, Event, Numbered, Reply, Stopped, conversation::durable::guarded, run::driver::LAST_WRITE,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::Journal,
};

/// The registration of a watcher with a conversation. Dropping it removes the watcher.
pub(super) struct ChatSubscription {
    shared: Weak<ChatsInner>,
    slot: Arc<ChatSlot>,
    name: u64,
}

impl ChatSubscription {
    /// The registration of the watcher with this number. The [`ChatSlot`] already counts this watcher.
    pub(super) fn new(shared: Weak<ChatsInner>, slot: Arc<ChatSlot>, name: u64) -> Self {
        Self { shared, slot, name }
    }
}

impl Drop for ChatSubscription {
    fn drop(&mut self) {
        self.slot.remove_watcher(self.name);
        if let Some(shared) = self.shared.upgrade() {
            shared.forget(&self.slot);
        }
    }
}

/// A run of [`Chats`](crate::Chats) as a stream of its events, from its beginning to its end. For a message
/// that [steers](crate::WhenBusy::Steer), this is the run that takes the message in. For a
/// [resume](crate::Chats::resume) during a run, this is that run, and the run that continues it if calls waited.
///
/// The run goes on even if the stream is not polled or is dropped, unless the message was sent with
/// [`stop_unwatched`](crate::ChatRunBuilder::stop_unwatched). If the stream is not polled for a while, the
/// pieces of text from that time come as one event. So an unpolled stream needs no more memory than the text
/// itself.
#[must_use = "it tells what happens in the run"]
pub struct ChatRun {
    subscription: ChatSubscription,
    pending_log: PendingRunLog,
    /// The run that was going on when a resume came, as long as its events are not all read.
    joined: Option<Arc<RunLog>>,
    cursor: LogCursor,
    end: oneshot::Receiver<RunResult>,
}

impl ChatRun {
    pub(super) fn new(
        subscription: ChatSubscription,
        pending_log: PendingRunLog,
        joined: Option<Arc<RunLog>>,
        end: oneshot::Receiver<RunResult>,
    ) -> Self {
        Self { subscription, pending_log, joined, cursor: LogCursor::default(), end }
    }

    /// Waits for the first event of the run: [`Event::RunStarted`], unless the run has failed to begin. The stream
    /// has this event, too. `None` if the run has ended without an event.
    pub async fn first(&self) -> Option<Numbered> {
        poll_fn(|context| {
            let ChatSubscription { slot, name, .. } = &self.subscription;
            slot.set_waker(*name, context.waker());
            let Some(log) = self.joined.as_ref().or(self.pending_log.get()) else {
                return Poll::Pending;
            };
            let ended = log.has_ended();
            match LogCursor::default().next(log) {
                None if !ended => Poll::Pending,
                first => Poll::Ready(first),
            }
        })
        .await
    }

    /// Waits for the end of the run and returns the answer.
    ///
    /// # Errors
    /// Fails if the run ended without an answer: see [`Stopped`]. If the run never began, nothing was sent, and
    /// the error has the reason. If the [`Chats`](crate::Chats) were closed before the run began, the kind of
    /// the error is [`ErrorKind::Closed`](harness_core::error::ErrorKind).
    pub async fn finish(mut self) -> Result<Reply, Stopped> {
        let end = &mut self.end;
        end.await.unwrap_or_else(|_| Err(not_begun(closed())))
    }
}

impl Stream for ChatRun {
    type Item = Numbered;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Numbered>> {
        let this = self.get_mut();
        // From now on, each event wakes the task that polls this stream.
        this.subscription.slot.set_waker(this.subscription.name, context.waker());
        let assigned = this.pending_log.get();
        if let Some(joined) = &this.joined
            && assigned.is_none_or(|log| !Arc::ptr_eq(log, joined))
        {
            let is_end = |it: &Numbered| matches!(it.event.as_event(), Event::RunEnded { .. });
            let before = this.cursor;
            match this.cursor.next(joined) {
                // Another run may follow instead of the end.
                Some(numbered) if !is_end(&numbered) => return Poll::Ready(Some(numbered)),
                _ => this.cursor = before,
            }
            if assigned.is_some() {
                (this.joined, this.cursor) = (None, LogCursor::default());
            }
        }
        // There are no other events before the run that answers the message is known.
        let Some(log) = assigned else { return Poll::Pending };
        let ended = log.has_ended();
        match this.cursor.next(log) {
            Some(numbered) => Poll::Ready(Some(numbered)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for ChatRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatRun")
            .field("conversation", &self.subscription.slot.id)
            .finish_non_exhaustive()
    }
}

type ReplayFuture = Pin<Box<dyn Future<Output = Result<ReplayedEvents, Error>> + Send>>;

/// A stream of the events of a conversation of [`Chats`](crate::Chats). The stream begins with the last run,
/// even if that run has ended, and continues with each later run. The stream ends when the manager is closed or
/// dropped, or when the [journal fails](Self::error).
///
/// A slow reader also gets each event once and in order. Neighbouring pieces of text are joined, and a progress
/// event may be left out if the same call has a later progress event. Runs that began and ended while the
/// stream was not polled are read from the journal. These runs lack the events that the journal does not keep.
/// So a stream that is never polled holds the events of only one run.
#[must_use = "it tells what happens in the conversation"]
pub struct ChatWatcher {
    subscription: ChatSubscription,
    agent: Agent,
    journal: Arc<dyn Journal>,
    /// Events that were made from facts and not returned yet.
    ready: VecDeque<Numbered>,
    run: Option<(Arc<RunLog>, LogCursor)>,
    /// How many runs of this process the watcher has shown or skipped.
    seen: u64,
    facts: u64,
    /// How many facts come before the run with which the watcher begins.
    earlier: u64,
    /// The last shown run, if the facts do not contain its end. The run may continue in another process.
    unended: Option<UnendedRun>,
    /// The future that reads the facts between the last shown run and the next run. The log belongs to the next
    /// run.
    reading: Option<(ReplayFuture, Arc<RunLog>)>,
    closing: CancellationToken,
    error: Option<Error>,
}

impl ChatWatcher {
    /// A watcher that has already seen this number of runs of this process, and this number of facts.
    pub(super) fn new(
        subscription: ChatSubscription,
        (agent, journal): (Agent, Arc<dyn Journal>),
        closing: CancellationToken,
        (seen, facts): (u64, u64),
    ) -> Self {
        let ready = VecDeque::new();
        let (run, unended, reading, error) = (None, None, None, None);
        let earlier = facts;
        Self {
            subscription,
            agent,
            journal,
            ready,
            run,
            seen,
            facts,
            earlier,
            unended,
            reading,
            closing,
            error,
        }
    }

    /// Sets the events with which the stream begins, and how many facts come before them.
    pub(super) fn with(mut self, replayed: ReplayedEvents, earlier: u64) -> Self {
        (self.ready, self.unended) = (replayed.events.into(), replayed.unended);
        self.earlier = earlier;
        self
    }

    /// The events of the runs before the watcher's first run, made from the facts of the conversation. Together
    /// with the events of the watcher, they show each run of the conversation once. Each text is one event, and
    /// events that no fact records are missing. A run without an end in the facts has no
    /// [`RunEnded`](crate::Event::RunEnded).
    ///
    /// ```
    /// use futures_util::StreamExt as _;
    /// use harness::{
    ///     Agent,
    ///     agent::{Chats, Event},
    ///     journal::MemoryJournal,
    ///     testing::{ScriptedProvider, reply},
    /// };
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("One."), reply().text("Two.")]);
    /// let chats = Chats::new(&Agent::builder(model).build()?, &MemoryJournal::new());
    /// chats.send("chat-17", "First.").await?.finish().await?;
    /// chats.send("chat-17", "Second.").await?.finish().await?;
    ///
    /// let mut watcher = chats.watch("chat-17").await?;
    /// let earlier = watcher.earlier().await?;
    /// assert!(earlier.iter().any(|it| matches!(it.event.as_event(), Event::Text("One."))));
    /// assert!(!earlier.iter().any(|it| matches!(it.event.as_event(), Event::Text("Two."))));
    /// let first = watcher.next().await.expect("that the last run began");
    /// assert!(matches!(first.event.as_event(), Event::RunStarted { said: Some(_) }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the journal cannot be read.
    pub fn earlier(&self) -> impl Future<Output = Result<Vec<Numbered>, Error>> + Send + use<> {
        let (journal, slot) = (Arc::clone(&self.journal), Arc::clone(&self.subscription.slot));
        let agent = self.agent.clone();
        let count = usize::try_from(self.earlier).unwrap_or(usize::MAX);
        async move {
            if count == 0 {
                return Ok(Vec::new());
            }
            let mut facts = guarded(|| journal.read(&slot.id, 0)).await?.facts;
            facts.truncate(count);
            Ok(replay(&agent, &facts, 0, None, false).await?.events)
        }
    }

    /// Begins after the event with this [id](Numbered::id). For example, a browser that connects again sends
    /// the id of the last event that it received. The browser then gets each later event once and in order. The
    /// browser gets only the new part of a joined text.
    ///
    /// The id must belong to the last run of the conversation. The conversation must still be open or watched
    /// in this process, because only then the process has the events of that run. Otherwise the stream begins
    /// at the beginning of the last run. The new ids then contain another run name.
    ///
    /// ```
    /// use futures_util::StreamExt as _;
    /// use harness::{
    ///     Agent,
    ///     agent::Chats,
    ///     journal::MemoryJournal,
    ///     testing::{ScriptedProvider, reply},
    /// };
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
    /// let chats = Chats::new(&agent, &MemoryJournal::new());
    /// let mut run = chats.send("chat-17", "Hello?").await?;
    /// let first = run.next().await.expect("that it has begun");
    /// run.finish().await?;
    /// let mut watcher = chats.watch("chat-17").await?.after(&first.id());
    /// assert_eq!(watcher.next().await.expect("more").number, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(mut self, id: &str) -> Self {
        let Some((run, number)) = id.rsplit_once('/') else { return self };
        let Ok(number) = number.parse() else { return self };
        let last = self.subscription.slot.lock().last.clone();
        if let Some(log) = last.filter(|log| log.name() == run && log.place() > self.seen) {
            let cursor = LogCursor::after(&log, number);
            // The watcher has received all earlier events.
            (self.ready, self.unended) = (VecDeque::new(), None);
            self.run = Some((log, cursor));
        }
        self
    }

    /// The error if the stream has ended because the journal could not be read.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Goes to the next run, if there is one.
    fn next_run(&mut self) -> WatchStep {
        let state = self.subscription.slot.lock();
        let Some(last) = state.last.clone().filter(|last| last.place() > self.seen) else {
            return if state.closed { WatchStep::End } else { WatchStep::Wait };
        };
        drop(state);
        // Another process may have had runs between two runs of this process.
        let is_next = last.place() == self.seen.saturating_add(1) && last.facts().0 == self.facts;
        if is_next && self.unended.is_none() {
            self.run = Some((last, LogCursor::default()));
        } else {
            let (journal, slot) = (Arc::clone(&self.journal), Arc::clone(&self.subscription.slot));
            let (closing, unended) = (self.closing.clone(), self.unended.take());
            let (from, end) = (usize::try_from(self.facts).unwrap_or(usize::MAX), last.facts().0);
            let agent = self.agent.clone();
            let read = async move {
                let mut facts = tokio::select! {
                    biased;
                    read = guarded(|| journal.read(&slot.id, 0)) => read?.facts,
                    error = unanswered(closing) => return Err(error),
                };
                facts.truncate(usize::try_from(end).unwrap_or(usize::MAX));
                replay(&agent, &facts, from, unended, true).await
            };
            self.reading = Some((Box::pin(read), last));
        }
        WatchStep::Again
    }

    /// Adds the events of the runs that the watcher has missed. The watcher continues with the run `next`.
    fn add_missed_runs(&mut self, missed: Result<ReplayedEvents, Error>, next: Arc<RunLog>) {
        match missed {
            Ok(missed) => self.ready.extend(missed.events),
            Err(error) => self.error = Some(error),
        }
        self.run = Some((next, LogCursor::default()));
    }
}

/// Completes with an error if the journal does not answer for a while after the manager was closed.
async fn unanswered(closing: CancellationToken) -> Error {
    closing.cancelled().await;
    match runtime() {
        Ok(_) => sleep(LAST_WRITE).await,
        // Without a runtime there is no timer.
        Err(_) => pending().await,
    }
    let what = format!(
        "the journal has not answered for {LAST_WRITE:?} after the conversations were closed: runs that the \
         watcher has missed are not shown. They are in the journal"
    );
    Error::new(ErrorKind::Journal, what)
}

enum WatchStep {
    Again,
    Wait,
    End,
}

impl Stream for ChatWatcher {
    type Item = Numbered;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Numbered>> {
        let this = self.get_mut();
        // From now on, each event wakes the task that polls this stream.
        this.subscription.slot.set_waker(this.subscription.name, context.waker());
        loop {
            if this.error.is_some() {
                return Poll::Ready(None);
            }
            if let Some(numbered) = this.ready.pop_front() {
                return Poll::Ready(Some(numbered));
            }
            if let Some((reading, _)) = &mut this.reading {
                let facts = ready!(reading.as_mut().poll(context));
                if let Some((_, next)) = this.reading.take() {
                    this.add_missed_runs(facts, next);
                }
                continue;
            }
            if let Some((log, cursor)) = &mut this.run {
                let ended = log.has_ended();
                if let Some(numbered) = cursor.next(log) {
                    return Poll::Ready(Some(numbered));
                }
                if !ended {
                    return Poll::Pending;
                }
                (this.seen, this.facts) = (log.place(), log.facts().1);
                this.run = None;
            }
            match this.next_run() {
                WatchStep::Again => {}
                WatchStep::Wait => return Poll::Pending,
                WatchStep::End => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for ChatWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatWatcher")
            .field("conversation", &self.subscription.slot.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Weak},
        task::{Context, Poll, Waker},
    };

    use futures_core::Stream as _;
    use tokio_util::sync::CancellationToken;

    use super::{ChatSubscription, ChatWatcher};
    use crate::{
        Agent, Event,
        chats::{log::RunLog, slot::ChatSlot},
    };
    use harness::testing::ScriptedProvider;
    use harness_core::journal::MemoryJournal;

    #[test]
    fn a_watcher_that_sleeps_holds_one_run() {
        let slot = ChatSlot::new("a");
        let subscription =
            ChatSubscription::new(Weak::new(), Arc::clone(&slot), slot.add_watcher());
        let agent = Agent::builder(ScriptedProvider::new([])).build().expect("an agent");
        let (journal, closing) = (Arc::new(MemoryJournal::new()), CancellationToken::new());
        let watcher = ChatWatcher::new(subscription, (agent, journal), closing, (0, 0));
        let mut watcher = Box::pin(watcher);
        let mut take = || watcher.as_mut().poll_next(&mut Context::from_waker(Waker::noop()));
        let mut logs = Vec::new();
        for _ in 0..100 {
            let log = RunLog::new();
            slot.begin_run(&log, 0);
            log.push(Event::Text("one"));
            if logs.is_empty() {
                assert!(matches!(take(), Poll::Ready(Some(_))));
            }
            log.push(Event::TurnStarted { turn: 2 });
            log.close();
            logs.push(Arc::downgrade(&log));
        }
        let held = logs.iter().filter(|log| log.upgrade().is_some()).count();
        assert_eq!(held, 2, "the one in which it sleeps, and the last one");
        let left = (0..4).map(|_| take()).filter(|it| matches!(it, Poll::Ready(Some(_))));
        assert_eq!(left.count(), 3);
    }
}
