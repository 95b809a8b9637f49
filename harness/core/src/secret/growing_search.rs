//! Searches a text for many words at once, and allows adding words between searches.

use std::{ops::Range, sync::Arc};

use super::{WordSearch, united};

/// Searches for many words at once. Adding words rebuilds only a part of the search: each word is
/// moved to a larger part only a few times.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrowingSearch {
    /// Each part has more than twice as many words as the next part, so there are few parts.
    parts: Vec<Arc<SearchPart>>,
}

#[derive(Debug)]
struct SearchPart {
    words: Vec<Arc<str>>,
    search: WordSearch,
}

impl GrowingSearch {
    /// Adds words for all later searches.
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

    /// The ranges of the text that contain words, in order. Ranges that overlap or touch are
    /// merged.
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
