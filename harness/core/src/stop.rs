//! An action that runs inside the call that cancels a token, on the cancelling thread. A task that
//! waits for the token does nothing before it is polled, which is later.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Wake, Waker},
};

use tokio::task::coop::unconstrained;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Runs an action at the moment when a token is cancelled, until this value is dropped.
#[must_use = "nothing is done once it is dropped"]
#[derive(Debug)]
pub struct OnCancel {
    /// Holds the action, as the waker that the token wakes.
    _told: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl OnCancel {
    /// Calls `act` when `token` is cancelled, on the cancelling thread, or at once if it is already
    /// cancelled. A thread that cancels the token while this value is dropped may call it a moment
    /// later.
    pub fn new(token: &CancellationToken, act: impl Fn() + Send + Sync + 'static) -> Self {
        // A token notifies its children before its own waiters, so the action runs before most
        // tasks are woken.
        let token = token.child_token();
        let act = Arc::new(Act { token: token.clone(), act });
        let waker = Waker::from(Arc::clone(&act));
        let mut told = Box::pin(token.cancelled_owned());
        // One poll is enough: only the cancelled token wakes the waker, and nothing else polls this
        // future.
        if pin!(unconstrained(told.as_mut())).poll(&mut Context::from_waker(&waker)).is_ready() {
            (act.act)();
        }
        Self { _told: told }
    }
}

struct Act<A> {
    token: CancellationToken,
    act: A,
}

impl<A: Fn() + Send + Sync + 'static> Wake for Act<A> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.token.is_cancelled() {
            (self.act)();
        }
    }
}
