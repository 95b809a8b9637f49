//! What running tools say of how far they have come, at a bounded rate: of each call the last report
//! counts, and it is told at most ten times a second.

use std::{
    collections::HashMap,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// The least time between two reports of one call.
const APART: Duration = Duration::from_millis(100);

/// The id of a call, and what its tool says.
pub(super) type Report = (String, String);

/// What running tools have said and nobody has heard. Most answers ask for no tool, so there is
/// nothing before the first call.
#[derive(Default)]
pub(super) struct Reports {
    shared: Option<Arc<Shared>>,
    /// Until the next report is due.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Where a call says how far it has come.
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
    waker: Option<Waker>,
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
}

impl Reports {
    /// Where a call says it.
    pub(super) fn reporter(&mut self) -> Reporter {
        Reporter(Arc::clone(self.shared.get_or_insert_default()))
    }

    /// Hears the next one that is due.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Report> {
        let Some(shared) = &self.shared else { return Poll::Pending };
        loop {
            let mut said = shared.lock();
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
                return Poll::Ready((call, message));
            }
            drop(said);
            let alarm = self.alarm.insert(Box::pin(sleep_until(at)));
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Report {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// Takes the last report of a call that has ended, whether it is due or not.
    pub(super) fn last_of(&mut self, call: &str) -> Option<String> {
        let mut said = self.shared.as_ref()?.lock();
        said.told.remove(call);
        said.waiting.remove(call)
    }

    /// Forgets what is not heard yet.
    pub(super) fn clear(&mut self) {
        if let Some(shared) = &self.shared {
            let mut said = shared.lock();
            *said = Said { waker: mem::take(&mut said.waker), ..Said::default() };
        }
    }
}
