//! Sets of indexes.

use std::ops::Deref;

/// A set of indexes, in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Indexes(Vec<usize>);

impl Indexes {
    pub(crate) fn insert(&mut self, index: usize) {
        let at = self.0.partition_point(|other| *other < index);
        if self.0.get(at) != Some(&index) {
            self.0.insert(at, index);
        }
    }

    pub(super) fn add(&mut self, others: &[usize]) {
        others.iter().for_each(|index| self.insert(*index));
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        self.0.binary_search(&index).is_ok()
    }

    /// The indexes that are in both sets.
    pub(super) fn common(&self, others: &Self) -> Self {
        Self(self.0.iter().copied().filter(|index| others.contains(*index)).collect())
    }

    /// Removes the indexes below `from`.
    pub(super) fn remove_below(&mut self, from: usize) {
        self.0.retain(|index| *index >= from);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Deref for Indexes {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}
