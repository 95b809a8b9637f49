//! Places limit how many calls of a tool run at the same time, in all agents of the program together.

use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of a tool: each running call holds one, so that at most `most` calls run at the same time. All clones
/// of the tool share them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    most: usize,
    free: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))) }
    }

    /// Whether there is no place at all, so that no call could ever begin.
    pub(super) fn are_none(&self) -> bool {
        self.most == 0
    }

    /// Whether both are the places of the same tool.
    fn are_same(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.free, &others.free)
    }

    /// Whether these places are among `others`.
    pub(crate) fn are_among(&self, others: &[Self]) -> bool {
        others.iter().any(|other| self.are_same(other))
    }

    /// Takes a place if one is free and no other call waits for it.
    pub(crate) fn try_take(&self) -> Option<Place> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(Place::of)
    }

    /// Waits for a place, first come, first served. Dropping the future leaves the queue.
    pub(crate) async fn take(&self) -> Option<Place> {
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok().map(Place::of)
    }
}

/// A place that a call holds. It is free again when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<OwnedSemaphorePermit>);

impl Place {
    fn of(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(permit))
    }
}

/// What the context of a call knows of the call's place. It does not hold the place, because a clone of the context
/// that outlives the call would then keep other calls waiting.
#[derive(Clone, Debug)]
pub(super) struct Seat(Weak<OwnedSemaphorePermit>);

impl Seat {
    /// The seat of a call with this place; `None` if it needs none, since it runs inside of a call that holds one.
    pub(super) fn of(place: Option<&Place>) -> Self {
        Self(place.map(|place| Arc::downgrade(&place.0)).unwrap_or_default())
    }

    /// The place, for a thread that may outlive its call.
    pub(super) fn place(&self) -> Option<Place> {
        self.0.upgrade().map(Place)
    }
}
