//! Facts kept in memory: they survive the run, not the process.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Entry, Journal};
use crate::error::Error;

/// Facts kept in memory. A clone is another view of the same facts.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl MemoryJournal {
    /// All facts so far, in order.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Journal for MemoryJournal {
    fn append(&mut self, entry: &Entry) -> Result<(), Error> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
        Ok(())
    }
}
