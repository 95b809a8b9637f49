//! The reports of running calls: the progress of tools, at a limited rate, and the events of agents that the
//! calls run. For each call, only the latest progress report is passed on, at most ten times a second. All
//! events of agents are passed on, in order.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, Sleep, sleep_until},
};

use crate::{AgentCall, Event, EventBuf};

/// The shortest time between two progress reports of one call.
const APART: Duration = Duration::from_millis(100);

/// A report of a running call.
pub(crate) enum ProgressEvent {
    /// The progress of the call's tool: the id of the call, and the text.
    Progress(String, String),
    /// An event of the call's agent.
    Agent(Box<OfAgent>),
}

/// A signal of a call that runs after the model's answer is complete.
pub(crate) enum CallSignal {
    Progress(ProgressEvent),
    /// A call is about to run an agent. Facts have to be written first.
    RunAgent(AgentRequest),
}

/// The request of a call for permission to run an agent.
pub(crate) struct AgentRequest {
    /// The id of the call, if its agent's conversation is in no journal. A fact has to record this id before
    /// the agent begins.
    pub(crate) unkept: Option<String>,
    /// Sends the permission to the call.
    pub(crate) permission: oneshot::Sender<()>,
}

/// An event of an agent, and the calls that lead to the agent.
pub(crate) struct OfAgent {
    path: Vec<AgentCall>,
    event: EventBuf,
}

impl OfAgent {
    /// Passes the event on as an event of the run.
    pub(crate) fn show(&self, show: impl FnOnce(Event<'_>)) {
        show(Event::OfAgent { path: &self.path, event: &self.event });
    }
}

/// Receives the reports of running calls.
#[derive(Default)]
pub(crate) struct ProgressReceiver {
    shared: Arc<SharedReports>,
    /// The timer for the next progress report that is due.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// The handle by which a call sends reports.
#[derive(Clone)]
pub(crate) struct ProgressSender(Arc<SharedReports>);

#[derive(Default)]
struct SharedReports(Mutex<PendingReports>);

#[derive(Default)]
struct PendingReports {
    /// The progress reports that were not passed on yet: the latest one of each call.
    waiting: HashMap<String, String>,
    /// When a progress report of each call was last passed on.
    reported_at: HashMap<String, Instant>,
    /// Events of agents that were not passed on yet.
    of_agents: VecDeque<OfAgent>,
    /// Calls that wait for permission to run an agent.
    wanting: Vec<AgentRequest>,
    waker: Option<Waker>,
    /// Whether the run is over. Then reports are dropped.
    is_over: bool,
    /// How many agents in calls wait for a person now.
    asking: usize,
    /// The beginning of the wait that `asked` does not include yet. `None` if no agent waits.
    since: Option<Instant>,
    /// How long agents in calls have waited for a person since the last call of
    /// [`take_wait_time`](ProgressSender::take_wait_time).
    asked: Duration,
}

impl SharedReports {
    fn lock(&self) -> MutexGuard<'_, PendingReports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressSender {
    /// Stores a progress report until the report is passed on. Replaces an earlier report of the same call.
    pub(crate) fn report(&self, call: &str, message: &str) {
        let mut pending = self.0.lock();
        pending.waiting.insert(call.to_owned(), message.to_owned());
        let waker = pending.waker.take();
        drop(pending);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Stores an event of an agent in this call until the event is passed on.
    pub(crate) fn tell(&self, call: &AgentCall, event: Event<'_>) {
        let mut path = vec![call.clone()];
        let event = match event {
            Event::OfAgent { path: below, event } => {
                path.extend_from_slice(below);
                event.clone()
            }
            event => event.into_owned(),
        };
        let mut pending = self.0.lock();
        if pending.is_over {
            return;
        }
        let last = pending.of_agents.back_mut().filter(|last| last.path == path);
        if !last.is_some_and(|last| last.event.join(event.as_event())) {
            pending.of_agents.push_back(OfAgent { path, event });
        }
        let waker = pending.waker.take();
        drop(pending);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Requests permission to run an agent. If the run is over, the permission never comes.
    pub(crate) fn request_agent(&self, wanting: AgentRequest) {
        let mut pending = self.0.lock();
        if pending.is_over {
            return;
        }
        pending.wanting.push(wanting);
        let waker = pending.waker.take();
        drop(pending);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Records that an agent in a call waits for a person, until the returned guard is dropped.
    pub(crate) fn pause(&self) -> PauseGuard {
        let mut pending = self.0.lock();
        pending.asking = pending.asking.saturating_add(1);
        pending.since.get_or_insert_with(Instant::now);
        PauseGuard(self.clone())
    }

    /// Takes the time for which agents in calls have waited for a person since the last call of this method.
    pub(crate) fn take_wait_time(&self) -> Duration {
        let mut pending = self.0.lock();
        if let Some(since) = &mut pending.since {
            let now = Instant::now();
            let more = now.saturating_duration_since(mem::replace(since, now));
            pending.asked = pending.asked.saturating_add(more);
        }
        mem::take(&mut pending.asked)
    }
}

/// Marks that an agent in a call waits for a person. Dropping the guard ends the wait.
pub(crate) struct PauseGuard(ProgressSender);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut pending = self.0.0.lock();
        pending.asking = pending.asking.saturating_sub(1);
        if pending.asking == 0
            && let Some(since) = pending.since.take()
        {
            pending.asked = pending.asked.saturating_add(since.elapsed());
        }
    }
}

impl Drop for ProgressReceiver {
    fn drop(&mut self) {
        let mut pending = self.shared.lock();
        pending.is_over = true;
        pending.of_agents.clear();
        pending.waiting.clear();
        pending.wanting.clear();
    }
}

impl ProgressReceiver {
    /// A new handle by which a call sends reports.
    pub(crate) fn progress_sender(&self) -> ProgressSender {
        ProgressSender(Arc::clone(&self.shared))
    }

    /// Returns the next event of an agent, or the next progress report that is due.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ProgressEvent> {
        loop {
            let mut pending = self.shared.lock();
            if let Some(event) = pending.of_agents.pop_front() {
                return Poll::Ready(ProgressEvent::Agent(Box::new(event)));
            }
            pending.waker = Some(context.waker().clone());
            let now = Instant::now();
            let due = |call: &String| pending.reported_at.get(call).map_or(now, |at| *at + APART);
            let Some((at, call)) = pending.waiting.keys().map(|call| (due(call), call)).min()
            else {
                return Poll::Pending;
            };
            let call = call.clone();
            if at <= now {
                pending.reported_at.insert(call.clone(), now);
                let message = pending.waiting.remove(&call).unwrap_or_default();
                return Poll::Ready(ProgressEvent::Progress(call, message));
            }
            drop(pending);
            let alarm = self.alarm.insert(Box::pin(sleep_until(at)));
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the next report, or for the next request to run an agent.
    pub(crate) async fn next(&mut self) -> CallSignal {
        std::future::poll_fn(|context| {
            let wanting = self.shared.lock().wanting.pop();
            match wanting {
                Some(wanting) => Poll::Ready(CallSignal::RunAgent(wanting)),
                None => self.poll(context).map(CallSignal::Progress),
            }
        })
        .await
    }

    /// Takes the next event of an agent that was not passed on yet.
    pub(crate) fn of_agents(&mut self) -> Option<OfAgent> {
        self.shared.lock().of_agents.pop_front()
    }

    /// Takes the latest progress report of a call that has ended, even if it is not due yet.
    pub(crate) fn last_of(&mut self, call: &str) -> Option<String> {
        let mut pending = self.shared.lock();
        pending.reported_at.remove(call);
        pending.waiting.remove(call)
    }

    /// Drops the progress reports that were not passed on yet.
    pub(crate) fn clear(&mut self) {
        let mut pending = self.shared.lock();
        pending.waiting.clear();
        pending.reported_at.clear();
    }
}
