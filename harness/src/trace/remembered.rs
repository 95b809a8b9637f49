//! The values that a trace has hidden, so that they are hidden wherever they come again.

use std::{collections::HashSet, mem, ops::Range, sync::Arc};

use crate::secret::{HIDDEN, Search, forms};

/// Shorter values are not looked for elsewhere: they would be found everywhere.
const SHORT: usize = 6;

/// So many values are remembered in one run, and so many bytes of them: a table with a column
/// `key` has any number. Those that come later are hidden only where they stand.
const MOST: (usize, usize) = (4096, 256 * 1024);

/// The values that were hidden in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    values: Arc<HashSet<Arc<str>>>,
    bytes: usize,
    /// Those that no search looks for yet.
    fresh: Vec<Arc<str>>,
    /// What looks for the others. Each has more than twice the words of those behind it, so that
    /// there are few, and a word is moved to a larger one only a few times.
    parts: Vec<Arc<Part>>,
}

#[derive(Debug)]
struct Part {
    words: Vec<Arc<str>>,
    search: Search,
}

impl Remembered {
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

    /// Adds where they stand in this text.
    pub(super) fn find(&mut self, text: &str, found: &mut Vec<Range<usize>>) {
        if !self.fresh.is_empty() {
            let mut words = mem::take(&mut self.fresh);
            while let Some(last) = self.parts.pop_if(|last| last.words.len() <= 2 * words.len()) {
                words.extend(last.words.iter().cloned());
            }
            let all: Vec<String> = words.iter().flat_map(|word| forms(word)).collect();
            let search = Search::new(all.iter().map(String::as_str));
            self.parts.push(Arc::new(Part { words, search }));
        }
        for part in &self.parts {
            let mut of_part = Vec::new();
            part.search.find(text, &mut of_part);
            found.append(&mut of_part);
        }
    }
}
