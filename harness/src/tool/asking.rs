//! The time in which a person is asked for an agent that a call runs: no limit of the call's time counts it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// For how long agents of one call have waited for a person. A clone is of the same call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    times: Mutex<Times>,
    /// Told when nobody is asked any more.
    answered: Notify,
}

#[derive(Debug, Default)]
struct Times {
    /// How many agents wait now, and since when one does.
    asking: usize,
    since: Option<Instant>,
    /// For how long one has before.
    before: Duration,
}

impl Asking {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until this is dropped, an agent of the call waits for a person.
    pub(crate) fn begins(&self) -> Asked {
        let mut times = self.times();
        times.asking = times.asking.saturating_add(1);
        times.since.get_or_insert_with(Instant::now);
        Asked(self.clone())
    }

    /// Waits until the time is over that ends then, not counting that in which a person is asked.
    pub(crate) async fn over(&self, deadline: Instant) {
        loop {
            let answered = self.0.answered.notified();
            let (is_asking, before) = {
                let times = self.times();
                (times.asking > 0, times.before)
            };
            if is_asking {
                answered.await;
                continue;
            }
            // More than the clock can say is never.
            let Some(until) = deadline.checked_add(before) else {
                return std::future::pending().await;
            };
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// An agent of a call waits for a person.
pub(crate) struct Asked(Asking);

impl Drop for Asked {
    fn drop(&mut self) {
        let mut times = self.0.times();
        times.asking = times.asking.saturating_sub(1);
        if times.asking == 0
            && let Some(since) = times.since.take()
        {
            times.before = times.before.saturating_add(since.elapsed());
            drop(times);
            self.0.0.answered.notify_waiters();
        }
    }
}
