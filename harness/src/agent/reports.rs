//! What running calls say while they run: how far a tool has come, at a bounded rate, and what the agents
//! do that they run. Of each call the last report counts, and it is told at most ten times a second;
//! events of agents are all told, in order.

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

use super::{AgentCall, Event, EventBuf};

/// The least time between two reports of one call.
const APART: Duration = Duration::from_millis(100);

/// What a running call says.
pub(super) enum Report {
    /// How far its tool has come: the id of the call, and the words.
    Progress(String, String),
    /// What an agent does that it runs.
    Agent(Box<OfAgent>),
}

/// What is heard of running calls when the answer that asks for them is complete.
pub(super) enum Heard {
    /// What one says.
    Report(Report),
    /// One has begun without a word in the journal, and wants to run an agent.
    Wants(Wanting),
}

/// A call that wants to run an agent is told by this when it may.
pub(super) type Wanting = oneshot::Sender<()>;

/// An event of an agent, and the calls on the way to it.
pub(super) struct OfAgent {
    path: Vec<AgentCall>,
    event: EventBuf,
}

impl OfAgent {
    /// Shows it as an event of the run.
    pub(super) fn show(&self, show: impl FnOnce(Event<'_>)) {
        show(Event::OfAgent { path: &self.path, event: &self.event });
    }
}

/// What running calls have said and nobody has heard.
#[derive(Default)]
pub(super) struct Reports {
    shared: Arc<Shared>,
    /// Until the next report is due.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Where a call says it.
#[derive(Clone)]
pub(super) struct Reporter(Arc<Shared>);

#[derive(Default)]
struct Shared(Mutex<Said>);

#[derive(Default)]
struct Said {
    /// The last report of each call, unless it was told.
    waiting: HashMap<String, String>,
    /// When a call was last told of.
    told: HashMap<String, Instant>,
    /// Events of agents.
    of_agents: VecDeque<OfAgent>,
    /// Calls that want to run an agent.
    wanting: Vec<Wanting>,
    waker: Option<Waker>,
    /// Whether the run is over, so that nobody hears of anything.
    is_over: bool,
    /// How many agents below wait for a person now, and since when one does.
    asking: usize,
    since: Option<Instant>,
    /// For how long one has, and nobody has taken account of it.
    asked: Duration,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reporter {
    /// Keeps the report until it is heard, in place of one of the same call that was not.
    pub(super) fn report(&self, call: &str, message: &str) {
        let mut said = self.0.lock();
        said.waiting.insert(call.to_owned(), message.to_owned());
        let waker = said.waker.take();
        drop(said);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Keeps an event of an agent that this call runs until it is heard.
    pub(super) fn tell(&self, call: &AgentCall, event: Event<'_>) {
        let mut path = vec![call.clone()];
        let event = match event {
            Event::OfAgent { path: below, event } => {
                path.extend_from_slice(below);
                event.clone()
            }
            event => event.into_owned(),
        };
        let mut said = self.0.lock();
        if said.is_over {
            return;
        }
        let last = said.of_agents.back_mut().filter(|last| last.path == path);
        if !last.is_some_and(|last| last.event.join(event.as_event())) {
            said.of_agents.push_back(OfAgent { path, event });
        }
        let waker = said.waker.take();
        drop(said);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// A call wants to run an agent. Unless the run is over, it is told when it may.
    pub(super) fn wants(&self, wanting: Wanting) {
        let mut said = self.0.lock();
        if said.is_over {
            return;
        }
        said.wanting.push(wanting);
        let waker = said.waker.take();
        drop(said);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Until this is dropped, an agent below waits for a person.
    pub(super) fn pause(&self) -> Pause {
        let mut said = self.0.lock();
        said.asking = said.asking.saturating_add(1);
        said.since.get_or_insert_with(Instant::now);
        Pause(self.clone())
    }

    /// For how long an agent below has waited for a person since this was asked last.
    pub(super) fn asked(&self) -> Duration {
        let mut said = self.0.lock();
        if let Some(since) = &mut said.since {
            let now = Instant::now();
            let more = now.saturating_duration_since(mem::replace(since, now));
            said.asked = said.asked.saturating_add(more);
        }
        mem::take(&mut said.asked)
    }
}

/// An agent below waits for a person.
pub(super) struct Pause(Reporter);

impl Drop for Pause {
    fn drop(&mut self) {
        let mut said = self.0.0.lock();
        said.asking = said.asking.saturating_sub(1);
        if said.asking == 0
            && let Some(since) = said.since.take()
        {
            said.asked = said.asked.saturating_add(since.elapsed());
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let mut said = self.shared.lock();
        said.is_over = true;
        said.of_agents.clear();
        said.waiting.clear();
        said.wanting.clear();
    }
}

impl Reports {
    /// Where a call says it.
    pub(super) fn reporter(&self) -> Reporter {
        Reporter(Arc::clone(&self.shared))
    }

    /// Hears the next one that is due.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Report> {
        loop {
            let mut said = self.shared.lock();
            if let Some(event) = said.of_agents.pop_front() {
                return Poll::Ready(Report::Agent(Box::new(event)));
            }
            said.waker = Some(context.waker().clone());
            let now = Instant::now();
            let due = |call: &String| said.told.get(call).map_or(now, |told| *told + APART);
            let Some((at, call)) = said.waiting.keys().map(|call| (due(call), call)).min() else {
                return Poll::Pending;
            };
            let call = call.clone();
            if at <= now {
                said.told.insert(call.clone(), now);
                let message = said.waiting.remove(&call).unwrap_or_default();
                return Poll::Ready(Report::Progress(call, message));
            }
            drop(said);
            let alarm = self.alarm.insert(Box::pin(sleep_until(at)));
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the next one, or for the next call that wants to run an agent.
    pub(super) async fn next(&mut self) -> Heard {
        std::future::poll_fn(|context| {
            let wanting = self.shared.lock().wanting.pop();
            match wanting {
                Some(wanting) => Poll::Ready(Heard::Wants(wanting)),
                None => self.poll(context).map(Heard::Report),
            }
        })
        .await
    }

    /// Takes the next event of an agent that was not heard.
    pub(super) fn of_agents(&mut self) -> Option<OfAgent> {
        self.shared.lock().of_agents.pop_front()
    }

    /// Takes the last report of a call that has ended, whether it is due or not.
    pub(super) fn last_of(&mut self, call: &str) -> Option<String> {
        let mut said = self.shared.lock();
        said.told.remove(call);
        said.waiting.remove(call)
    }

    /// Forgets what was not heard of how far tools have come.
    pub(super) fn clear(&mut self) {
        let mut said = self.shared.lock();
        said.waiting.clear();
        said.told.clear();
    }
}
