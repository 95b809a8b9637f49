//! Finds any of many words, and allows adding words between searches.

use std::{ops::Range, sync::Arc};

use super::{WordSearch, united};

/// Finds any of its words. Adding words does not rebuild the search for all of them: each word is
/// moved to a larger search only a few times.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrowingSearch {
    /// Each part has more than twice as many words as the parts after it, so there are few parts.
    parts: Vec<Arc<SearchPart>>,
}

#[derive(Debug)]
struct SearchPart {
    words: Vec<Arc<str>>,
    search: WordSearch,
}

impl GrowingSearch {
    /// Adds words, which are searched for from now on.
    pub(crate) fn add(&mut self, mut words: Vec<Arc<str>>) {
        if words.is_empty() {
            return;
        }
        while let Some(last) = self.parts.pop_if(|last| last.words.len() <= 2 * words.len()) {
            words.extend(last.words.iter().cloned());
        }
        let search = WordSearch::new(words.iter().map(|word| &**word));
        self.parts.push(Arc::new(SearchPart { words, search }));
    }

    /// The ranges of words in this text, in order. Ranges that overlap or touch are merged.
    pub(crate) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if let [part] = self.parts.as_slice() {
            part.search.find(text, &mut found);
            return found;
        }
        for part in &self.parts {
            let mut of_part = Vec::new();
            part.search.find(text, &mut of_part);
            found.append(&mut of_part);
        }
        united(found)
    }
}
