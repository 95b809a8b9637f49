//! How many calls of a tool run at the same time, whoever asks for them.

use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of a tool: so many of its calls run at the same time. All clones of the tool share them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    most: usize,
    free: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))) }
    }

    /// Whether no call could ever begin.
    pub(super) fn are_none(&self) -> bool {
        self.most == 0
    }

    /// Whether these are the places of the same tool.
    fn are_same(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.free, &others.free)
    }

    /// Whether these are among others.
    pub(crate) fn are_among(&self, others: &[Self]) -> bool {
        others.iter().any(|other| self.are_same(other))
    }

    /// A place, if one is free and nobody waits for it.
    pub(crate) fn try_take(&self) -> Option<Place> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(Place::of)
    }

    /// Waits for a place: who comes first is served first. Dropping the future gives the turn up.
    pub(crate) async fn take(&self) -> Option<Place> {
        // Nobody closes it.
        Arc::clone(&self.free).acquire_owned().await.ok().map(Place::of)
    }
}

/// A place of one call. It is free again when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<OwnedSemaphorePermit>);

impl Place {
    fn of(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(permit))
    }
}

/// What the context of a call knows of its place. The context does not keep the place: whoever keeps a clone
/// of it after the call would keep others waiting.
#[derive(Clone, Debug)]
pub(super) struct Seat(Weak<OwnedSemaphorePermit>);

impl Seat {
    /// The place, or none where the call needs none, since it runs inside of a call that has one.
    pub(super) fn of(place: Option<&Place>) -> Self {
        Self(place.map(|place| Arc::downgrade(&place.0)).unwrap_or_default())
    }

    /// The place, for a thread that may run on after its call.
    pub(super) fn place(&self) -> Option<Place> {
        self.0.upgrade().map(Place)
    }
}
