//! Places in concurrency limits that are taken for calls before the action in which the calls run.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness_core::tool::ConcurrencyPermit;

/// Places in concurrency limits that were taken for calls before the action in which the calls run, by the id
/// of the call.
#[derive(Clone, Default)]
pub(crate) struct KeptPlaces(Arc<Mutex<HashMap<String, ConcurrencyPermit>>>);

impl KeptPlaces {
    pub(crate) fn all(&self) -> MutexGuard<'_, HashMap<String, ConcurrencyPermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, call: &str) -> bool {
        self.all().contains_key(call)
    }

    pub(crate) fn keep(&self, call: &str, place: Option<ConcurrencyPermit>) {
        if let Some(place) = place {
            self.all().insert(call.to_owned(), place);
        }
    }

    /// Takes the place that is kept for this call, if there is one.
    pub(crate) fn take(&self, call: &str) -> Option<ConcurrencyPermit> {
        self.all().remove(call)
    }
}
