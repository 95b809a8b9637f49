//! Remembers the values that a trace has hidden, so that later occurrences of the same values are
//! hidden too.

use std::{collections::HashSet, mem, ops::Range, sync::Arc};

use crate::secret::{GrowingSearch, HIDDEN, forms};

/// The minimum length of a remembered value in bytes. Shorter values would match parts of ordinary
/// words.
const SHORT: usize = 6;

/// The limits for the remembered values of one run: the number of values, and their total bytes. A
/// further value is hidden only where its name or format shows that it is secret.
const MOST: (usize, usize) = (4096, 256 * 1024);

/// The values that were hidden in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenValues {
    values: Arc<HashSet<Arc<str>>>,
    bytes: usize,
    /// The values that `searches` does not contain yet.
    fresh: Vec<Arc<str>>,
    searches: GrowingSearch,
}

impl HiddenValues {
    /// Remembers a value, unless the value is too short or a limit is reached.
    pub(super) fn add(&mut self, value: &str) {
        let bytes = self.bytes.saturating_add(value.len());
        if value.len() < SHORT
            || HIDDEN.contains(value)
            || self.values.len() >= MOST.0
            || bytes > MOST.1
            || self.values.contains(value)
        {
            return;
        }
        self.bytes = bytes;
        let value: Arc<str> = value.into();
        Arc::make_mut(&mut self.values).insert(Arc::clone(&value));
        self.fresh.push(value);
    }

    /// Appends the ranges of the text that contain remembered values.
    pub(super) fn find(&mut self, text: &str, found: &mut Vec<Range<usize>>) {
        let fresh = mem::take(&mut self.fresh);
        self.searches.add(fresh.iter().flat_map(|word| forms(word)).map(Arc::from).collect());
        found.append(&mut self.searches.find(text));
    }
}
