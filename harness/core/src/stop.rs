//! Runs an action inside the call that cancels a token, on the cancelling thread. A task that waits for the token would
//! run later, when the runtime polls the task.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Wake, Waker},
};

use tokio::task::coop::unconstrained;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Runs an action at the moment when a token is cancelled. Dropping this value removes the action.
#[must_use = "nothing is done once it is dropped"]
#[derive(Debug)]
pub struct OnCancel {
    /// This future holds the action as its waker. On cancellation, the token wakes the waker, which runs the action.
    _told: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl OnCancel {
    /// Calls `act` on the cancelling thread when `token` is cancelled, or at once if `token` is
    /// already cancelled. If this value is dropped while another thread cancels the token, `act`
    /// may still run a moment later.
    pub fn new(token: &CancellationToken, act: impl Fn() + Send + Sync + 'static) -> Self {
        // A token notifies its child tokens before its own waiters. So an action on a child token
        // runs before most tasks are woken.
        let token = token.child_token();
        let act = Arc::new(Act { token: token.clone(), act });
        let waker = Waker::from(Arc::clone(&act));
        let mut told = Box::pin(token.cancelled_owned());
        // One poll registers the waker. Only the cancellation wakes the waker, and nothing else
        // polls this future.
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
