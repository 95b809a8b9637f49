//! The manager [`Chats`]: sends messages to conversations, watches conversations and stops their runs.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::watch as count;
use tokio_util::sync::CancellationToken;

use super::{
    log::RunLog,
    replay::{add_waiting_agents, last_run, replay},
    send::{ChatRunBuilder, WhenBusy},
    serve::ChatTask,
    slot::QueuedRun,
    slots::{ChatsInner, closed, runtime},
    watch::{ChatSubscription, ChatWatcher},
};
use crate::{Agent, Inbox, conversation::durable::guarded, run::input::RunInput};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Journal, check_id},
    message::Message,
};

/// How long a conversation without a run stays open, unless the program sets another time.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// How many conversations without a run stay open, unless the program sets another number.
const MOST_IDLE: usize = 1000;

/// How many messages may wait in one conversation.
const MOST_WAITING: usize = 32;

/// A manager that finds the conversations in a journal by name. Clones share one manager, so all handlers of a
/// web server can use it.
///
/// A [message](Self::send) opens its conversation, or begins a new one. A conversation has one run at a time.
/// The run is in a task that the manager owns, so it continues after the handler that has sent the message. Any
/// number of [watchers](Self::watch) get each event once and in order, even if they begin late. A conversation
/// without a run is closed after a while. The next message opens it again.
///
/// [`close`](Self::close) stops all runs and waits until their ends are written. If the last clone is dropped
/// without `close`, the tasks are stopped at once, and the journal has the facts that were written by then. In
/// both cases each conversation can be continued, in this process or in another one.
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
/// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello, Ada.")])).build()?;
/// let chats = Chats::new(&agent, &MemoryJournal::new());
///
/// let mut run = chats.send("chat-17", "I am Ada.").await?;
/// let mut words = String::new();
/// while let Some(numbered) = run.next().await {
///     if let Event::Text(text) = numbered.event.as_event() {
///         words.push_str(text);
///     }
/// }
/// assert_eq!(words, "Hello, Ada.");
/// assert_eq!(run.finish().await?.text(), words);
/// chats.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Chats {
    pub(super) shared: Arc<ChatsInner>,
}

impl Chats {
    /// A manager of the conversations in this journal, with this agent and the default settings.
    pub fn new<J: Journal + Clone + 'static>(agent: &Agent, journal: &J) -> Self {
        Self::builder(agent, journal).build()
    }

    /// Begins to build a manager of the conversations in this journal.
    pub fn builder<J: Journal + Clone + 'static>(agent: &Agent, journal: &J) -> ChatsBuilder {
        ChatsBuilder {
            agent: agent.clone(),
            journal: Arc::new(journal.clone()),
            idle_after: IDLE_AFTER,
            most_idle: MOST_IDLE,
        }
    }

    /// Sends a message of the user to a conversation. A conversation that does not exist is created. Await the
    /// returned value to get the run, which is a stream of events. Dropping that stream does not stop the run,
    /// unless the message was sent with [`stop_unwatched`](ChatRunBuilder::stop_unwatched).
    ///
    /// If the conversation already has a run, the message [waits](WhenBusy).
    pub fn send(
        &self,
        conversation: impl Into<String>,
        message: impl Into<Message>,
    ) -> ChatRunBuilder {
        ChatRunBuilder::new(
            self.clone(),
            conversation.into(),
            RunInput::Say(message.into().renewed()),
        )
    }

    /// Continues the last run of a conversation: see [`Chat::resume`](crate::Chat::resume).
    ///
    /// If the conversation has a run, or a run that waits to begin, the returned run is that one, from its
    /// beginning: it reads what was decided meanwhile. So two answers to two calls at once, each with a resume,
    /// both get the run that goes on. If that run ends because calls wait, it may not have read the last answer.
    /// Then it is continued before all messages that wait, and the returned run has the events of both.
    pub fn resume(&self, conversation: impl Into<String>) -> ChatRunBuilder {
        ChatRunBuilder::new(self.clone(), conversation.into(), RunInput::Resume)
    }

    /// Streams the events of a conversation. The stream begins with the last run, even if that run has ended,
    /// and continues with each later run. If a run waits to begin, for example while its conversation is opened,
    /// the stream begins with that run. Earlier messages are in
    /// [`agent.inbox(&journal).look(..)`](crate::Inbox::look). Watching does not open the conversation, so
    /// another process may have it open. If the last run belongs to another process, the stream begins with the
    /// events that the journal has now. The remaining events of that run follow when this process begins its
    /// next run. A run that adds nothing to the journal, such as a [`resume`](Self::resume) without anything to
    /// continue, is shown only to watchers that exist during that run.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the name is not valid, with [`ErrorKind::Closed`] if the
    /// manager was closed, and with [`ErrorKind::Journal`] if the journal cannot be read.
    pub async fn watch(&self, conversation: impl AsRef<str>) -> Result<ChatWatcher, Error> {
        let id = conversation.as_ref();
        check_id(id)?;
        let shared = &self.shared;
        let (slot, subscription) = {
            let mut slots = shared.lock();
            if shared.closing.is_cancelled() {
                return Err(closed());
            }
            let slot = slots.slot(id);
            let name = slot.add_watcher();
            (Arc::clone(&slot), ChatSubscription::new(Arc::downgrade(shared), slot, name))
        };
        let read = (shared.agent.clone(), Arc::clone(&shared.journal));
        let watcher = |seen| ChatWatcher::new(subscription, read, shared.closing.clone(), seen);
        // The number of runs of this process before the given run, and the number of facts before it.
        let before = |run: &RunLog| (run.place().saturating_sub(1), run.facts().0);
        let (last, open, beginning) = {
            let state = slot.lock();
            (state.last.clone(), state.open, state.is_beginning())
        };
        if let Some(last) = last.as_ref().filter(|last| open && !last.was_empty()) {
            let after = || (last.place(), last.facts().1);
            return Ok(watcher(if beginning { after() } else { before(last) }));
        }
        // Another process may have continued the conversation since the last run of this process.
        let facts = tokio::select! {
            biased;
            () = shared.closing.cancelled() => return Err(closed()),
            read = guarded(|| shared.journal.read(id, 0)) => read?.facts,
        };
        let (seen, known) = last.map_or((0, 0), |last| (last.place(), last.facts().1));
        let (from, count) = (last_run(&facts).await, facts.len() as u64);
        // Replaying facts can fail and can take long, so the lock is not held meanwhile.
        let (last, beginning) = {
            let state = slot.lock();
            (state.last.clone(), state.is_beginning())
        };
        match last {
            // A run that began while the facts were read is shown from its beginning.
            Some(last) if last.place() > seen => Ok(watcher(before(&last))),
            _ if beginning => Ok(watcher((seen, count))),
            Some(last) if !last.was_empty() && (count == known || (from as u64) < known) => {
                Ok(watcher(before(&last)))
            }
            _ => {
                let mut told = replay(&shared.agent, &facts, from, None, false).await?;
                let (agent, journal) = (shared.agent.clone(), Arc::clone(&shared.journal));
                add_waiting_agents(&Inbox { agent, journal }, id, &mut told.events).await;
                Ok(watcher((seen, count)).with(told, from as u64))
            }
        }
    }

    /// Stops the current run of a conversation. If the conversation has no current run, cancels the next run
    /// that waits. The run ends as [`Outcome::Cancelled`](crate::Outcome::Cancelled), and the next waiting
    /// message is sent. Returns whether a run was stopped or cancelled.
    pub fn stop(&self, conversation: impl AsRef<str>) -> bool {
        let Some(slot) = self.shared.lock().by_id.get(conversation.as_ref()).cloned() else {
            return false;
        };
        let state = slot.lock();
        let first = || state.jobs.front().map(|job| &job.stop);
        let stop = state.running.as_ref().map(|running| &running.stop).or_else(first).cloned();
        // Cancelling wakes tasks that may lock the state, so the lock is released first.
        drop(state);
        stop.inspect(CancellationToken::cancel).is_some()
    }

    /// Whether a conversation has a run or a message that waits.
    pub fn is_busy(&self, conversation: impl AsRef<str>) -> bool {
        let slots = self.shared.lock();
        slots.by_id.get(conversation.as_ref()).is_some_and(|slot| slot.lock().is_busy())
    }

    /// How many conversations are open or are being opened.
    pub fn open_conversations(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Stops all runs. Waits until the end of each run is written and all conversations are closed. Messages
    /// that wait, and all later messages, are refused with [`ErrorKind::Closed`]. The streams of all watchers
    /// end.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        let unserved = self.shared.lock().close();
        unserved.iter().for_each(|slot| slot.wake());
        let mut count = self.shared.count.subscribe();
        // The wait cannot fail: `self` holds the sender of the channel.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// Adds a run to a conversation, and starts a task for the conversation if it has no task.
    pub(super) fn add(&self, id: &str, job: QueuedRun, busy: WhenBusy) -> Result<AddedRun, Error> {
        // A refused run holds values of the program, and their `drop` may use the manager. So the run is
        // dropped after the locks are released.
        let mut job = Some(job);
        let shared = &self.shared;
        let runtime = runtime()?;
        let mut slots = shared.lock();
        if shared.closing.is_cancelled() {
            return Err(closed());
        }
        let slot = slots.slot(id);
        let mut state = slot.lock();
        let mut steers = false;
        if state.is_busy() {
            match busy {
                WhenBusy::Wait if state.waiting() < MOST_WAITING => {}
                WhenBusy::Steer if state.waiting() < MOST_WAITING => {
                    steers = job.as_ref().is_some_and(|job| matches!(job.input, RunInput::Say(_)));
                }
                WhenBusy::Wait | WhenBusy::Steer => {
                    let what = format!(
                        "{MOST_WAITING} messages wait in the conversation `{id}`: send this one when some \
                         of them were answered"
                    );
                    return Err(Error::new(ErrorKind::Busy, what));
                }
                WhenBusy::Refuse => {
                    let what = format!(
                        "a run goes on in the conversation `{id}`: stop it, or send when it has ended"
                    );
                    return Err(Error::new(ErrorKind::Busy, what));
                }
            }
        }
        let is_open = state.open;
        if let Some(job) = job.as_mut().filter(|_| is_open) {
            job.opened = None;
        }
        let resumes = matches!(&job, Some(QueuedRun { input: RunInput::Resume, .. }));
        let joined = match job.take_if(|_| resumes) {
            Some(job) => state.join(job),
            None if steers => {
                state.steer(&mut job)?;
                None
            }
            None => {
                state.wait(job.take());
                None
            }
        };
        // The watcher is counted only after the message was accepted.
        let name = state.add_watcher();
        let begins = !mem::replace(&mut state.serving, true);
        drop(state);
        drop(slots);
        if begins {
            let count = Arc::clone(&shared.count);
            count.send_modify(|count| *count = count.saturating_add(1));
            let serving = ChatTask {
                shared: Arc::downgrade(shared),
                slot: Arc::clone(&slot),
                agent: shared.agent.clone(),
                journal: Arc::clone(&shared.journal),
                closing: shared.closing.clone(),
                idle_after: shared.idle_after,
                count,
                left: false,
            };
            // If the runtime has been shut down, the task is dropped at once. Dropping the task removes it from
            // `slots`, so no lock on `slots` is held here.
            let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            while tasks.try_join_next().is_some() {}
            tasks.spawn_on(serving.serve(), &runtime);
        } else {
            slot.work.notify_one();
        }
        Ok(AddedRun {
            subscription: ChatSubscription::new(Arc::downgrade(shared), slot, name),
            joined,
            is_open,
        })
    }
}

impl fmt::Debug for Chats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chats")
            .field("agent", &self.shared.agent)
            .field("open", &self.open_conversations())
            .finish_non_exhaustive()
    }
}

/// Builds [`Chats`].
#[must_use = "nothing is made before `build`"]
pub struct ChatsBuilder {
    agent: Agent,
    journal: Arc<dyn Journal>,
    idle_after: Duration,
    most_idle: usize,
}

impl ChatsBuilder {
    /// Sets how long a conversation without a run stays open. The default is five minutes. While a conversation
    /// is open here, other processes cannot open it.
    pub fn idle_after(mut self, time: Duration) -> Self {
        self.idle_after = time;
        self
    }

    /// Sets how many conversations without a run stay open. The default is 1,000. If there are more, the
    /// conversation with the longest time since its last run is closed.
    pub fn most_idle(mut self, count: usize) -> Self {
        self.most_idle = count;
        self
    }

    /// Builds the manager without opening a conversation.
    pub fn build(self) -> Chats {
        let Self { agent, journal, idle_after, most_idle } = self;
        let shared = ChatsInner {
            agent,
            journal,
            idle_after,
            most_idle,
            slots: Mutex::default(),
            tasks: Mutex::default(),
            closing: CancellationToken::new(),
            count: Arc::new(count::Sender::new(0)),
        };
        Chats { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for ChatsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatsBuilder")
            .field("idle_after", &self.idle_after)
            .field("most_idle", &self.most_idle)
            .finish_non_exhaustive()
    }
}

pub(super) struct AddedRun {
    pub(super) subscription: ChatSubscription,
    /// The run that goes on, if this is a resume.
    pub(super) joined: Option<Arc<RunLog>>,
    /// Whether the conversation was already open.
    pub(super) is_open: bool,
}
