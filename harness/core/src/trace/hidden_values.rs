//! The values that a trace has hidden, so that later occurrences are hidden too.

use std::{collections::HashSet, mem, ops::Range, sync::Arc};

use crate::secret::{GrowingSearch, HIDDEN, forms};

/// The length of the shortest value that is remembered: shorter ones would be found everywhere.
const SHORT: usize = 6;

/// The number of values that are remembered in one run, and of their bytes: a table with a column
/// `key` may have any number. Later values are hidden only where they are recognized themselves.
const MOST: (usize, usize) = (4096, 256 * 1024);

/// The values that were hidden in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenValues {
    values: Arc<HashSet<Arc<str>>>,
    bytes: usize,
    /// The values that are not in a search yet.
    fresh: Vec<Arc<str>>,
    searches: GrowingSearch,
}

impl HiddenValues {
    /// Remembers a value, unless it is too short or there is no room for it.
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

    /// Adds the places of these values in a text.
    pub(super) fn find(&mut self, text: &str, found: &mut Vec<Range<usize>>) {
        let fresh = mem::take(&mut self.fresh);
        self.searches.add(fresh.iter().flat_map(|word| forms(word)).map(Arc::from).collect());
        found.append(&mut self.searches.find(text));
    }
}
