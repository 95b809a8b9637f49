//! Concurrency permits that calls acquire before the action that runs them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harness_core::tool::ConcurrencyPermit;

/// Concurrency permits that calls have acquired before the action that runs them, by the id of the call.
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

    /// Takes the permit that is kept for this call, if there is one.
    pub(crate) fn take(&self, call: &str) -> Option<ConcurrencyPermit> {
        self.all().remove(call)
    }
}
