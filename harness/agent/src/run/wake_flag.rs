//! Shows whether one of several futures was woken. The futures are polled only then, because polling them
//! after each event costs more than reading the event.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// A flag with a [waker](Self::waker). A future that is polled with that waker sets the flag and wakes the
/// task.
pub(crate) struct WakeFlag {
    shared: Arc<WakeState>,
    waker: Waker,
    /// The waker of the task. `shared` has a copy of this waker.
    task: Option<Waker>,
}

struct WakeState {
    is_set: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl WakeFlag {
    /// A flag that is set, because no future was polled yet.
    pub(crate) fn new() -> Self {
        let shared = Arc::new(WakeState { is_set: AtomicBool::new(true), task: Mutex::default() });
        Self { waker: Waker::from(Arc::clone(&shared)), shared, task: None }
    }

    /// Resets the flag, and returns whether it was set. From now on, the flag wakes this task.
    pub(crate) fn take(&mut self, context: &Context<'_>) -> bool {
        if self.task.as_ref().is_none_or(|task| !task.will_wake(context.waker())) {
            self.task = Some(context.waker().clone());
            *self.shared.task.lock().unwrap_or_else(PoisonError::into_inner) = self.task.clone();
        }
        // The flag is rarely set, and a load is cheaper than a swap.
        self.is_set() && self.shared.is_set.swap(false, Ordering::AcqRel)
    }

    /// Whether the flag is set, without resetting it.
    pub(crate) fn is_set(&self) -> bool {
        self.shared.is_set.load(Ordering::Acquire)
    }

    /// Sets the flag without waking the task.
    pub(crate) fn set(&self) {
        self.shared.is_set.store(true, Ordering::Release);
    }

    /// A waker that sets the flag and wakes the task.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
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
    fn it_wakes_the_task_that_asked_last_and_once() {
        let mut flag = WakeFlag::new();
        let tasks = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let wakers = tasks.clone().map(Waker::from);
        let woken = || [&tasks[0], &tasks[1]].map(|task| task.0.load(Ordering::SeqCst));

        let first = Context::from_waker(&wakers[0]);
        assert!(flag.take(&first), "nothing was asked yet");
        assert!(!flag.take(&first));
        flag.waker().wake_by_ref();
        assert_eq!(woken(), [1, 0]);
        assert!(flag.take(&first));
        assert!(!flag.take(&first));

        let second = Context::from_waker(&wakers[1]);
        assert!(!flag.take(&second));
        flag.waker().wake_by_ref();
        flag.waker().wake_by_ref();
        assert_eq!(woken(), [1, 2]);
        assert!(flag.take(&second));

        flag.set();
        assert_eq!(woken(), [1, 2], "who sets it himself is awake");
        assert!(flag.take(&second));
    }
}
