//! Limits how many calls of a tool run at the same time, in all agents of the program together.

use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limit of one tool: each running call holds a permit, so that at most `most` calls run at the same time. All
/// clones of the tool share the limit.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct ConcurrencyLimit {
    most: usize,
    free: Arc<Semaphore>,
}

impl ConcurrencyLimit {
    pub(super) fn new(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))) }
    }

    /// Whether the limit is 0, so that no call could ever run.
    pub(super) fn is_zero(&self) -> bool {
        self.most == 0
    }

    /// Whether both limits belong to the same tool.
    fn is_same(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.free, &others.free)
    }

    /// Whether this limit is among `others`.
    pub fn is_among(&self, others: &[Self]) -> bool {
        others.iter().any(|other| self.is_same(other))
    }

    /// Takes a permit, if one is free and no other call waits in the queue.
    pub fn try_acquire(&self) -> Option<ConcurrencyPermit> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(ConcurrencyPermit::of)
    }

    /// Waits for a permit. Calls get permits in the order in which they began to wait. Dropping the future removes the
    /// call from the queue.
    pub async fn acquire(&self) -> Option<ConcurrencyPermit> {
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok().map(ConcurrencyPermit::of)
    }
}

/// A permit that a call holds. The permit is released when its last clone is dropped.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct ConcurrencyPermit(Arc<OwnedSemaphorePermit>);

impl ConcurrencyPermit {
    fn of(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(permit))
    }
}

/// A weak reference from a call's context to the call's permit. A clone of the context may outlive the call. With a
/// strong reference, the clone would then keep the permit, and other calls would have to wait.
#[derive(Clone, Debug)]
pub(super) struct WeakPermit(Weak<OwnedSemaphorePermit>);

impl WeakPermit {
    /// Creates a weak reference to this permit. The reference is empty if `permit` is `None`. A call that runs inside
    /// of another call may use the permit of the outer call, and needs no permit of its own.
    pub(super) fn of(permit: Option<&ConcurrencyPermit>) -> Self {
        Self(permit.map(|permit| Arc::downgrade(&permit.0)).unwrap_or_default())
    }

    /// Returns the permit as a strong reference, which a thread can hold after its call has ended. `None` if the permit
    /// is already released.
    pub(super) fn permit(&self) -> Option<ConcurrencyPermit> {
        self.0.upgrade().map(ConcurrencyPermit)
    }
}
