//! One conversation of the manager: its waiting messages, its current run and its watchers.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Waker,
};

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::log::RunLog;
use crate::{
    Outcome, Reply, Run, Steering, Stopped,
    run::{
        input::RunInput,
        reply::{RunRecord, end_event},
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::Metadata,
    message::Message,
};

/// The function by which the program sets the options of one run.
pub(super) type PrepareRun = Box<dyn for<'a> FnOnce(Run<'a>) -> Run<'a> + Send>;

pub(super) type RunResult = Result<Reply, Stopped>;

/// The log of the run that answers a message, set when that run is known.
pub(super) type PendingRunLog = Arc<OnceLock<Arc<RunLog>>>;

/// The messages that steer a run, collected until the run ends.
#[derive(Default)]
pub(super) struct SteeringMessages {
    pub(super) steering: Steering,
    /// One run for each message, in order. The run begins only if the current run ends before it takes the
    /// message in.
    jobs: Vec<QueuedRun>,
}

/// A conversation of the manager, open or closed.
pub(super) struct ChatSlot {
    pub(super) id: Arc<str>,
    state: Mutex<ChatSlotState>,
    /// Wakes the task of the conversation when the task has something to do.
    pub(super) work: Notify,
}

#[derive(Default)]
pub(super) struct ChatSlotState {
    pub(super) jobs: VecDeque<QueuedRun>,
    /// Whether the conversation has a task.
    pub(super) serving: bool,
    /// Whether the task has opened the conversation.
    pub(super) open: bool,
    pub(super) running: Option<CurrentRun>,
    /// The log of the current run, or of the last run.
    pub(super) last: Option<Arc<RunLog>>,
    /// How many runs have begun in this process.
    pub(super) runs: u64,
    pub(super) watchers: usize,
    wakers: HashMap<u64, Waker>,
    named: u64,
    /// The conversation's number in the manager's list of conversations without a run. `None` if the
    /// conversation is not in the list.
    pub(super) idle: Option<u64>,
    /// Whether the task has to close the conversation, because too many conversations are open.
    pub(super) leave: bool,
    /// Whether the manager was closed or dropped.
    pub(super) closed: bool,
}

pub(super) struct CurrentRun {
    pub(super) stop: CancellationToken,
    /// Whether the run stops when there are no watchers.
    watched: bool,
    log: Arc<RunLog>,
    pub(super) steered: SteeringMessages,
    /// The channel for the result of the run.
    end: oneshot::Sender<RunResult>,
}

/// A run that waits for its turn.
pub(super) struct QueuedRun {
    pub(super) input: RunInput,
    pub(super) prepare: Option<PrepareRun>,
    pub(super) metadata: Option<Metadata>,
    pub(super) log: Arc<RunLog>,
    pub(super) pending_log: PendingRunLog,
    pub(super) steered: SteeringMessages,
    pub(super) stop: CancellationToken,
    /// Whether the run stops when there are no watchers.
    pub(super) watched: bool,
    /// The channel that reports to the sender of the message whether the conversation could be opened.
    pub(super) opened: Option<oneshot::Sender<Result<(), Error>>>,
    /// The channel for the result of the run. It moves to [`CurrentRun`] when the run begins.
    pub(super) end: Option<oneshot::Sender<RunResult>>,
}

impl ChatSlot {
    pub(super) fn new(id: &str) -> Arc<Self> {
        Arc::new(Self { id: id.into(), state: Mutex::default(), work: Notify::new() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ChatSlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        let wakers = mem::take(&mut self.lock().wakers);
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Adds a watcher. Returns the number of the watcher.
    pub(super) fn add_watcher(&self) -> u64 {
        self.lock().add_watcher()
    }

    /// Sets the waker of the watcher with this number. The next event wakes the watcher.
    pub(super) fn set_waker(&self, name: u64, waker: &Waker) {
        let waker = waker.clone();
        // Dropping a waker may drop its task and the values in that task, so the old waker is dropped after the
        // lock is released.
        let _before = self.lock().wakers.insert(name, waker);
    }

    /// Removes a watcher. Stops the current run if it has `stop_unwatched` and no watcher is left.
    pub(super) fn remove_watcher(&self, name: u64) {
        let mut state = self.lock();
        let waker = state.wakers.remove(&name);
        state.watchers = state.watchers.saturating_sub(1);
        if state.watchers == 0
            && let Some(running) = state.running.as_ref().filter(|running| running.watched)
        {
            let stop = running.stop.clone();
            // Cancelling wakes tasks that may lock the state, so the lock is released first.
            drop(state);
            stop.cancel();
            return;
        }
        drop(state);
        drop(waker);
    }

    /// Records that the conversation is open, and notifies the senders of its messages.
    pub(super) fn set_open(&self) {
        let mut state = self.lock();
        state.open = true;
        for job in &mut state.jobs {
            job.is_open();
        }
    }

    /// Records that the run with this log begins, and how many facts the conversation has.
    pub(super) fn begin_run(&self, log: &Arc<RunLog>, facts: u64) {
        let mut state = self.lock();
        state.runs = state.runs.saturating_add(1);
        log.begin(state.runs, facts);
        state.last = Some(Arc::clone(log));
    }

    /// Records that the current run has taken in this message.
    pub(super) fn confirm_received(&self, message: &Message) {
        let state = self.lock();
        let Some(running) = &state.running else { return };
        let mut jobs = running.steered.jobs.iter();
        if let Some(job) = jobs.find(|job| job.has_message(message)) {
            // `pending_log` cannot be set already: a run takes each message in once.
            let _ = job.pending_log.set(Arc::clone(&running.log));
        }
    }

    /// Records the result of the current run. Messages that the run has not taken in become the next runs.
    pub(super) fn end_run(&self, end: RunResult) {
        let waits = matches!(&end, Err(stopped) if stopped.outcome() == Outcome::Waiting);
        let (running, received) = {
            let mut state = self.lock();
            let mut running = state.running.take();
            let resumed = running.as_mut().and_then(|running| running.take_resumed(waits));
            let (received, unreceived) =
                running.as_mut().map(CurrentRun::take_steering).unwrap_or_default();
            for job in unreceived.into_iter().rev() {
                job.assign_own_run();
                state.jobs.push_front(job);
            }
            if let Some(job) = resumed {
                state.jobs.push_front(job);
            }
            (running, received)
        };
        if let Some(running) = running {
            running.end_run(end, received);
        }
        self.wake();
    }

    /// Records that the task of the conversation has ended early. The current run ends with an error, and
    /// messages that wait are refused.
    pub(super) fn abandon(&self, waited: &Error, went_on: &Error) {
        let (jobs, running) = {
            let mut state = self.lock();
            (state.open, state.serving) = (false, false);
            (mem::take(&mut state.jobs), state.running.take())
        };
        if let Some(mut running) = running {
            let begun = running.log.place() > 0;
            let why = again(if begun { went_on } else { waited });
            let (received, unreceived) = running.take_steering();
            // What a run has spent that has begun is not known.
            let end = if begun { lost(why) } else { not_begun(why) };
            running.end_run(Err(end), received);
            for job in unreceived {
                job.refuse(waited);
            }
        }
        for job in jobs {
            job.refuse(waited);
        }
        self.wake();
    }

    /// Refuses all waiting messages without sending them.
    pub(super) fn refuse(&self, why: &Error) {
        let jobs = mem::take(&mut self.lock().jobs);
        for job in jobs {
            job.refuse(why);
        }
        self.wake();
    }
}

impl ChatSlotState {
    pub(super) fn add_watcher(&mut self) -> u64 {
        self.watchers = self.watchers.saturating_add(1);
        self.named = self.named.wrapping_add(1);
        self.named
    }

    /// Takes the next waiting run and makes it the current one.
    pub(super) fn take(&mut self) -> Option<QueuedRun> {
        let mut job = self.jobs.pop_front()?;
        let (stop, log) = (job.stop.clone(), Arc::clone(&job.log));
        let (watched, steered) = (job.watched, mem::take(&mut job.steered));
        self.running = job.end.take().map(|end| CurrentRun { stop, watched, log, steered, end });
        Some(job)
    }

    /// Adds a run to the waiting runs.
    pub(super) fn wait(&mut self, job: Option<QueuedRun>) {
        job.iter().for_each(QueuedRun::assign_own_run);
        self.jobs.extend(job);
    }

    /// Passes a message to the current run, or to the next waiting run if there is no current run. A refused
    /// message stays in `job`.
    pub(super) fn steer(&mut self, job: &mut Option<QueuedRun>) -> Result<(), Error> {
        let running = self.running.as_mut().map(|running| &mut running.steered);
        let Some(steered) = running.or(self.jobs.front_mut().map(|job| &mut job.steered)) else {
            self.wait(job.take());
            return Ok(());
        };
        if let Some(RunInput::Say(message)) = job.as_ref().map(|job| &job.input) {
            steered.steering.add(message.clone())?;
        }
        steered.jobs.extend(job.take());
        Ok(())
    }

    /// Makes a resume part of the current run, or of the next one. If there is none, the resume waits itself.
    /// Returns the log of the current run, which may end before it has read what was decided last.
    pub(super) fn join(&mut self, job: QueuedRun) -> Option<Arc<RunLog>> {
        if let Some(running) = &mut self.running {
            running.steered.jobs.push(job);
            return Some(Arc::clone(&running.log));
        }
        match self.jobs.front_mut() {
            Some(next) => next.add_resume(job),
            None => self.wait(Some(job)),
        }
        None
    }

    /// Whether the next event is that of a run that has not begun yet.
    pub(super) fn is_beginning(&self) -> bool {
        let begins = |running: &CurrentRun| running.log.place() == 0;
        self.running.as_ref().map_or(!self.jobs.is_empty(), begins)
    }

    /// How many messages wait, including steering messages that no run has taken in yet.
    pub(super) fn waiting(&self) -> usize {
        let waits = |job: &&QueuedRun| !job.is_assigned() || matches!(job.input, RunInput::Resume);
        let unreceived = |steered: &SteeringMessages| steered.jobs.iter().filter(waits).count();
        let of_jobs: usize = self.jobs.iter().map(|job| unreceived(&job.steered)).sum();
        let of_run = self.running.as_ref().map_or(0, |running| unreceived(&running.steered));
        self.jobs.len().saturating_add(of_jobs).saturating_add(of_run)
    }

    /// Whether the conversation has a current run or a run that waits.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || !self.jobs.is_empty()
    }

    /// Whether the conversation has no task, no watchers and no messages.
    pub(super) fn is_unused(&self) -> bool {
        !self.serving && self.watchers == 0 && self.jobs.is_empty()
    }
}

impl CurrentRun {
    /// Assigns a run to each resume that came during this run. It is this run, unless this run ends because calls
    /// wait: it may not have read what was decided last. Then it is the returned run, which comes next.
    fn take_resumed(&mut self, waits: bool) -> Option<QueuedRun> {
        let mut next: Option<QueuedRun> = None;
        for job in mem::take(&mut self.steered.jobs) {
            let resumes = matches!(job.input, RunInput::Resume) && !job.is_assigned();
            match &mut next {
                _ if !resumes => self.steered.jobs.push(job),
                _ if !waits => {
                    job.assign_run(&self.log);
                    self.steered.jobs.push(job);
                }
                Some(next) => next.add_resume(job),
                None => {
                    job.assign_own_run();
                    next = Some(job);
                }
            }
        }
        next
    }

    /// Takes the messages that steer the run. The first list has the messages that the run has taken in. The
    /// second list has the remaining messages.
    fn take_steering(&mut self) -> (Vec<QueuedRun>, Vec<QueuedRun>) {
        mem::take(&mut self.steered.jobs).into_iter().partition(QueuedRun::is_assigned)
    }

    /// Passes the result of the run to its sender, and to the senders of the steering messages that the run has
    /// taken in.
    fn end_run(self, end: RunResult, received: Vec<QueuedRun>) {
        over(&self.log, &end);
        for tell in received.into_iter().filter_map(|job| job.end) {
            let _ = tell.send(match &end {
                Ok(reply) => Ok(reply.clone()),
                Err(stopped) => Err(stopped.again()),
            });
        }
        let _ = self.end.send(end);
    }
}

impl QueuedRun {
    /// Gives the message a run of its own: the sender of the message gets the events of that run, even if the
    /// message was meant to steer another run.
    pub(super) fn assign_own_run(&self) {
        self.assign_run(&self.log);
    }

    /// Gives the message the run with this log.
    fn assign_run(&self, log: &Arc<RunLog>) {
        let _ = self.pending_log.set(Arc::clone(log));
    }

    /// Makes a resume part of this run. The run has not begun, so it reads everything that was decided before.
    fn add_resume(&mut self, job: Self) {
        job.assign_run(&self.log);
        self.steered.jobs.push(job);
    }

    /// Whether the run that answers the message is known. A steering message is answered by the run that takes
    /// the message in.
    fn is_assigned(&self) -> bool {
        self.pending_log.get().is_some()
    }

    fn has_message(&self, message: &Message) -> bool {
        matches!(&self.input, RunInput::Say(said) if said.id() == message.id())
    }

    /// Notifies the sender that the conversation is open.
    fn is_open(&mut self) {
        if let Some(opened) = self.opened.take() {
            let _ = opened.send(Ok(()));
        }
        for steered in &mut self.steered.jobs {
            steered.is_open();
        }
    }

    /// Ends the run with this error before it begins.
    pub(super) fn refuse(self, why: &Error) {
        self.assign_own_run();
        for steered in self.steered.jobs {
            steered.refuse(why);
        }
        let end = Err(not_begun(again(why)));
        over(&self.log, &end);
        match (self.opened, self.end) {
            (Some(opened), _) => drop(opened.send(Err(again(why)))),
            (None, Some(tell)) => drop(tell.send(end)),
            (None, None) => {}
        }
    }
}

/// A copy of an error for another receiver. The copy has only the kind and the text.
fn again(why: &Error) -> Error {
    Error::new(why.kind(), why.to_string())
}

/// The result of a run that did not begin.
pub(super) fn not_begun(why: Error) -> Stopped {
    stopped(why, RunRecord::of_nothing())
}

/// The result of a run that has begun and whose end is not known.
fn lost(why: Error) -> Stopped {
    stopped(why, RunRecord::default())
}

fn stopped(why: Error, run_record: RunRecord) -> Stopped {
    let outcome = match why.kind() {
        ErrorKind::Closed => Outcome::Cancelled,
        _ => Outcome::Failed,
    };
    Stopped::new(outcome, Some(why), None, run_record)
}

/// Closes the log of a run. If the log has no event for the end of the run, this function first adds that event.
fn over(log: &RunLog, end: &RunResult) {
    if !log.has_run_end() {
        end_event(end, |event| log.push(event));
    }
    log.close();
}
