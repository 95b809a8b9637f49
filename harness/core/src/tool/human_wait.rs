//! Measures how long the agents inside of a call wait for a person. This time does not count toward the call's time
//! limit.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// How long the agents inside of one call have waited for a person. All clones belong to the same call.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct HumanWait(Arc<HumanWaitState>);

#[derive(Debug, Default)]
struct HumanWaitState {
    times: Mutex<WaitTimes>,
    /// Notified when no agent waits for a person any more.
    answered: Notify,
}

#[derive(Debug, Default)]
struct WaitTimes {
    /// The number of agents that wait now. `since` is the time at which the first of these agents began to wait.
    asking: usize,
    since: Option<Instant>,
    /// The total waiting time before `since`.
    before: Duration,
}

impl HumanWait {
    fn times(&self) -> MutexGuard<'_, WaitTimes> {
        self.0.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more agent inside of the call as waiting, until the returned guard is dropped.
    pub fn begin(&self) -> HumanWaitGuard {
        let mut times = self.times();
        times.asking = times.asking.saturating_add(1);
        times.since.get_or_insert_with(Instant::now);
        HumanWaitGuard(self.clone())
    }

    /// Waits until `deadline`, extended by the time in which agents wait for a person.
    pub(crate) async fn wait_until(&self, deadline: Instant) {
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
            // A deadline that overflows the clock is never reached.
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

/// While this guard exists, one agent inside of the call counts as waiting for a person.
#[doc(hidden)]
#[derive(Debug)]
pub struct HumanWaitGuard(HumanWait);

impl Drop for HumanWaitGuard {
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
