//! Shows whether something has happened to one of several futures, so that they are polled only
//! then: polling each of them for nothing costs more than reading an event.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// A future that is polled with the [`waker`](Self::waker) of a bell rings it and wakes the task.
pub(super) struct WakeFlag {
    shared: Arc<WakeState>,
    waker: Waker,
    /// The task that is woken, as stored in `shared`.
    task: Option<Waker>,
}

struct WakeState {
    has_rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl WakeFlag {
    /// A bell that has rung, since nothing was polled yet.
    pub(super) fn new() -> Self {
        let shared =
            Arc::new(WakeState { has_rung: AtomicBool::new(true), task: Mutex::default() });
        Self { waker: Waker::from(Arc::clone(&shared)), shared, task: None }
    }

    /// Whether it has rung since the last call. From now on it wakes this task.
    pub(super) fn take(&mut self, context: &Context<'_>) -> bool {
        if self.task.as_ref().is_none_or(|task| !task.will_wake(context.waker())) {
            self.task = Some(context.waker().clone());
            *self.shared.task.lock().unwrap_or_else(PoisonError::into_inner) = self.task.clone();
        }
        // Mostly it has not rung, and a load is cheaper than a swap.
        self.is_set() && self.shared.has_rung.swap(false, Ordering::AcqRel)
    }

    /// Whether it has rung, without resetting it.
    pub(super) fn is_set(&self) -> bool {
        self.shared.has_rung.load(Ordering::Acquire)
    }

    /// Rings it.
    pub(super) fn set(&self) {
        self.shared.has_rung.store(true, Ordering::Release);
    }

    /// A waker that rings the bell and wakes the task.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Wake, Waker},
    };

    use super::WakeFlag;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn it_rings_for_the_task_that_asked_last_and_once() {
        let mut bell = WakeFlag::new();
        let tasks = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let wakers = tasks.clone().map(Waker::from);
        let woken = || [&tasks[0], &tasks[1]].map(|task| task.0.load(Ordering::SeqCst));

        let first = Context::from_waker(&wakers[0]);
        assert!(bell.take(&first), "nothing was asked yet");
        assert!(!bell.take(&first));
        bell.waker().wake_by_ref();
        assert_eq!(woken(), [1, 0]);
        assert!(bell.take(&first));
        assert!(!bell.take(&first));

        let second = Context::from_waker(&wakers[1]);
        assert!(!bell.take(&second));
        bell.waker().wake_by_ref();
        bell.waker().wake_by_ref();
        assert_eq!(woken(), [1, 2]);
        assert!(bell.take(&second));

        bell.set();
        assert_eq!(woken(), [1, 2], "who rings it himself is awake");
        assert!(bell.take(&second));
    }
}
