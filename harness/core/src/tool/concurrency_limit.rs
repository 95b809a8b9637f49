//! Limits how many calls of a tool run at the same time, in all agents of the program together.

use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limit of one tool: each running call holds a permit, so that at most `most` calls run at the same time. All clones
/// of the tool share it.
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

    /// Whether there is no permit at all, so that no call could ever begin.
    pub(super) fn is_zero(&self) -> bool {
        self.most == 0
    }

    /// Whether both are the limit of the same tool.
    fn is_same(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.free, &others.free)
    }

    /// Whether this limit is among `others`.
    pub fn is_among(&self, others: &[Self]) -> bool {
        others.iter().any(|other| self.is_same(other))
    }

    /// Takes a permit if one is free and no other call waits for it.
    pub fn try_acquire(&self) -> Option<ConcurrencyPermit> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(ConcurrencyPermit::of)
    }

    /// Waits for a permit, first come, first served. Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Option<ConcurrencyPermit> {
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok().map(ConcurrencyPermit::of)
    }
}

/// A permit that a call holds. It is free again when the last clone is dropped.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct ConcurrencyPermit(Arc<OwnedSemaphorePermit>);

impl ConcurrencyPermit {
    fn of(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(permit))
    }
}

/// What the context of a call knows of the call's permit. It does not hold the permit, because a clone of the context
/// that outlives the call would then keep other calls waiting.
#[derive(Clone, Debug)]
pub(super) struct WeakPermit(Weak<OwnedSemaphorePermit>);

impl WeakPermit {
    /// The weak permit of a call with this permit; empty if it needs none, since it runs inside of a call that holds one.
    pub(super) fn of(permit: Option<&ConcurrencyPermit>) -> Self {
        Self(permit.map(|permit| Arc::downgrade(&permit.0)).unwrap_or_default())
    }

    /// The permit, for a thread that may outlive its call.
    pub(super) fn permit(&self) -> Option<ConcurrencyPermit> {
        self.0.upgrade().map(ConcurrencyPermit)
    }
}
