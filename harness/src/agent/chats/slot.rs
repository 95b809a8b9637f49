//! One conversation of the manager: what waits to be said, what goes on, and who watches.

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
    agent::{
        Event, Outcome, Reply, Sending, Steering, Stopped, outcome::Remains, sending::Opening,
    },
    error::{Error, ErrorKind},
    message::Message,
    provider::Usage,
};

/// What a program sets for one run.
pub(super) type Prepare = Box<dyn for<'a> FnOnce(Sending<'a>) -> Sending<'a> + Send>;

/// How a run ended.
pub(super) type End = Result<Reply, Stopped>;

/// The run that tells what becomes of a message, when it is known which one that is.
pub(super) type Told = Arc<OnceLock<Arc<RunLog>>>;

/// What is said to a run while it goes on, or before it begins.
#[derive(Default)]
pub(super) struct Steered {
    pub(super) steering: Steering,
    /// The messages in order, those that were heard and those that were not. Of the latter each becomes a run
    /// when this one has ended.
    jobs: Vec<Job>,
}

/// A conversation, whether it is open or not.
pub(super) struct Slot {
    pub(super) id: Arc<str>,
    state: Mutex<State>,
    /// Something has changed for the task that serves it.
    pub(super) work: Notify,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) jobs: VecDeque<Job>,
    /// Whether a task serves it.
    pub(super) serving: bool,
    /// Whether that task has the conversation open.
    pub(super) open: bool,
    pub(super) running: Option<Running>,
    /// The run that goes on, or the last one.
    pub(super) last: Option<Arc<RunLog>>,
    /// How many runs have begun.
    pub(super) runs: u64,
    /// How many watch.
    pub(super) watchers: usize,
    wakers: HashMap<u64, Waker>,
    named: u64,
    /// Since when nothing goes on, as the manager counts.
    pub(super) idle: Option<u64>,
    /// Whether its place is needed for others.
    pub(super) leave: bool,
    /// Whether the manager was closed or dropped.
    pub(super) closed: bool,
}

/// A run that goes on.
pub(super) struct Running {
    pub(super) stop: CancellationToken,
    /// Whether it stops when nobody watches.
    watched: bool,
    log: Arc<RunLog>,
    pub(super) steered: Steered,
    /// Told how it ended.
    end: oneshot::Sender<End>,
}

/// A run to come.
pub(super) struct Job {
    pub(super) opening: Opening,
    pub(super) prepare: Option<Prepare>,
    pub(super) log: Arc<RunLog>,
    pub(super) told: Told,
    pub(super) steered: Steered,
    pub(super) stop: CancellationToken,
    /// Whether it stops when nobody watches.
    pub(super) watched: bool,
    /// Told when the conversation is open.
    pub(super) opened: Option<oneshot::Sender<Result<(), Error>>>,
    /// Told how the run ended. Whoever takes the run has it.
    pub(super) end: Option<oneshot::Sender<End>>,
}

impl Slot {
    pub(super) fn new(id: &str) -> Arc<Self> {
        Arc::new(Self { id: id.into(), state: Mutex::default(), work: Notify::new() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all who watch.
    pub(super) fn wake(&self) {
        let wakers = mem::take(&mut self.lock().wakers);
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Somebody begins to watch. Gives the name under which to wait.
    pub(super) fn watched(&self) -> u64 {
        self.lock().watched()
    }

    /// Whoever has this name waits for what happens next.
    pub(super) fn waits(&self, name: u64, waker: &Waker) {
        self.lock().wakers.entry(name).or_insert_with(|| waker.clone()).clone_from(waker);
    }

    /// Somebody watches no more. A run that goes on only while it is watched stops with the last one.
    pub(super) fn unwatched(&self, name: u64) {
        let mut state = self.lock();
        state.wakers.remove(&name);
        state.watchers = state.watchers.saturating_sub(1);
        if state.watchers == 0
            && let Some(running) = state.running.as_ref().filter(|running| running.watched)
        {
            let stop = running.stop.clone();
            // Whatever it wakes may ask for the state.
            drop(state);
            stop.cancel();
        }
    }

    /// The conversation is open.
    pub(super) fn opened(&self) {
        let mut state = self.lock();
        state.open = true;
        for job in &mut state.jobs {
            job.is_open();
        }
    }

    /// The run that was taken begins, in a conversation that has so many facts.
    pub(super) fn begins(&self, log: &Arc<RunLog>, facts: u64) {
        let mut state = self.lock();
        state.runs = state.runs.saturating_add(1);
        log.begins(state.runs, facts);
        state.last = Some(Arc::clone(log));
    }

    /// The run that goes on has heard this message.
    pub(super) fn heard(&self, message: &Message) {
        let state = self.lock();
        let Some(running) = &state.running else { return };
        let mut jobs = running.steered.jobs.iter();
        if let Some(job) = jobs.find(|job| job.says(message)) {
            // It is set once: a message is heard once.
            let _ = job.told.set(Arc::clone(&running.log));
        }
    }

    /// The run that goes on has ended so. What it has not heard comes next.
    pub(super) fn ended(&self, end: End) {
        let (running, heard) = {
            let mut state = self.lock();
            let mut running = state.running.take();
            let (heard, unheard) = running.as_mut().map(Running::heard).unwrap_or_default();
            for job in unheard.into_iter().rev() {
                job.is_told();
                state.jobs.push_front(job);
            }
            (running, heard)
        };
        if let Some(running) = running {
            running.ended(end, heard);
        }
        self.wake();
    }

    /// Nobody serves it any more. The run that goes on is cut off, and what waits is refused.
    pub(super) fn abandoned(&self, waited: &Error, went_on: &Error) {
        let (jobs, running) = {
            let mut state = self.lock();
            (state.open, state.serving) = (false, false);
            (mem::take(&mut state.jobs), state.running.take())
        };
        if let Some(mut running) = running {
            let begun = running.log.place() > 0;
            let why = again(if begun { went_on } else { waited });
            let (heard, unheard) = running.heard();
            running.ended(Err(not_begun(why)), heard);
            for job in unheard {
                job.refuse(waited);
            }
        }
        for job in jobs {
            job.refuse(waited);
        }
        self.wake();
    }

    /// Refuses all that waits: nothing of it is said.
    pub(super) fn refuse(&self, why: &Error) {
        let jobs = mem::take(&mut self.lock().jobs);
        for job in jobs {
            job.refuse(why);
        }
        self.wake();
    }
}

impl State {
    /// Somebody begins to watch.
    pub(super) fn watched(&mut self) -> u64 {
        self.watchers = self.watchers.saturating_add(1);
        self.named = self.named.wrapping_add(1);
        self.named
    }

    /// Takes the next run, which goes on from now on.
    pub(super) fn take(&mut self) -> Option<Job> {
        let mut job = self.jobs.pop_front()?;
        let (stop, log) = (job.stop.clone(), Arc::clone(&job.log));
        let (watched, steered) = (job.watched, mem::take(&mut job.steered));
        self.running = job.end.take().map(|end| Running { stop, watched, log, steered, end });
        Some(job)
    }

    /// Says something to the run that goes on, or to the one that is about to begin.
    pub(super) fn steer(&mut self, job: Job) -> Result<(), Error> {
        let running = self.running.as_mut().map(|running| &mut running.steered);
        let Some(steered) = running.or(self.jobs.front_mut().map(|job| &mut job.steered)) else {
            job.is_told();
            self.jobs.push_back(job);
            return Ok(());
        };
        if let Opening::Say(message) = &job.opening {
            steered.steering.add(message.clone())?;
        }
        steered.jobs.push(job);
        Ok(())
    }

    /// How many messages wait, with those that no run has heard.
    pub(super) fn waiting(&self) -> usize {
        let steered = self.jobs.iter().map(|job| &job.steered);
        let steered = steered.chain(self.running.iter().map(|running| &running.steered));
        let unheard = steered.flat_map(|steered| &steered.jobs).filter(|job| !job.is_heard());
        self.jobs.len().saturating_add(unheard.count())
    }

    /// Whether a run goes on or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || !self.jobs.is_empty()
    }

    /// Whether nobody has anything to do with it.
    pub(super) fn is_unused(&self) -> bool {
        !self.serving && self.watchers == 0 && self.jobs.is_empty()
    }
}

impl Running {
    /// Takes what was said to it: what it has heard, and what it has not.
    fn heard(&mut self) -> (Vec<Job>, Vec<Job>) {
        mem::take(&mut self.steered.jobs).into_iter().partition(Job::is_heard)
    }

    /// It has ended so, and those who have steered it are told, too.
    fn ended(self, end: End, heard: Vec<Job>) {
        over(&self.log, &end);
        for tell in heard.into_iter().filter_map(|job| job.end) {
            let _ = tell.send(match &end {
                Ok(reply) => Ok(reply.clone()),
                Err(stopped) => Err(stopped.again()),
            });
        }
        let _ = self.end.send(end);
    }
}

impl Job {
    /// It has a run of its own.
    pub(super) fn is_told(&self) {
        let _ = self.told.set(Arc::clone(&self.log));
    }

    /// Whether it is known which run tells of it: of a message that steers, the one that has heard it.
    fn is_heard(&self) -> bool {
        self.told.get().is_some()
    }

    fn says(&self, message: &Message) -> bool {
        matches!(&self.opening, Opening::Say(said) if said.id() == message.id())
    }

    /// The conversation is open.
    fn is_open(&mut self) {
        if let Some(opened) = self.opened.take() {
            let _ = opened.send(Ok(()));
        }
        for steered in &mut self.steered.jobs {
            steered.is_open();
        }
    }

    /// It does not run, for this reason.
    pub(super) fn refuse(self, why: &Error) {
        self.is_told();
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

/// The same error for somebody else.
fn again(why: &Error) -> Error {
    Error::new(why.kind(), why.to_string())
}

/// A run that did not begin, or of whose end nothing more is known.
pub(super) fn not_begun(why: Error) -> Stopped {
    let outcome = match why.kind() {
        ErrorKind::Closed => Outcome::Cancelled,
        _ => Outcome::Failed,
    };
    Stopped::new(outcome, Some(why), None, Remains::default())
}

/// Nothing more comes of a run. Its end is told, if it was not.
fn over(log: &RunLog, end: &End) {
    if !log.tells_its_end() {
        let (outcome, usage): (_, Usage) = match end {
            Ok(reply) => (Outcome::Answered, reply.usage()),
            Err(stopped) => (stopped.outcome(), stopped.usage()),
        };
        log.push(Event::RunEnded { outcome, usage: &usage });
    }
    log.ends();
}
