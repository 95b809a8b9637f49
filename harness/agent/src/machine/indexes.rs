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

#[cfg(test)]
mod tests {
    use super::Indexes;

    #[test]
    fn indexes_are_in_order_and_each_is_there_once() {
        let (mut some, mut others) = (Indexes::default(), Indexes::default());
        some.add(&[5, 1, 3, 1, 5]);
        others.add(&[3, 2, 5]);
        assert_eq!(*some, [1, 3, 5]);
        assert_eq!(*some.common(&others), [3, 5]);
        assert!(some.contains(3) && !some.contains(2));
        some.remove_below(3);
        assert_eq!(*some, [3, 5]);
    }
}
