//! The order of a turn's calls, which follows from the side effects that their tools declare.

use harness_core::tool::SideEffects;

/// The calls that may start now. Neighbouring calls that only read form a batch. Any other call is a batch of
/// its own, and later calls wait until it has ended.
///
/// `[read, read, write, read]` gives `[read, read]`, then `[write]`, then `[read]`.
pub(crate) fn next_batch<C>(open: impl IntoIterator<Item = (C, SideEffects)>) -> Vec<C> {
    let mut open = open.into_iter();
    let Some((first, effects)) = open.next() else { return Vec::new() };
    let mut batch = vec![first];
    if effects.is_read_only() {
        batch.extend(open.take_while(|(_, effects)| effects.is_read_only()).map(|(call, _)| call));
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::next_batch;
    use harness_core::tool::{SideEffect, SideEffects};

    const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
    const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

    fn batches(mut calls: &[SideEffects]) -> Vec<usize> {
        let mut sizes = Vec::new();
        while !calls.is_empty() {
            let size = next_batch(calls.iter().map(|effects| ((), *effects))).len();
            sizes.push(size);
            calls = &calls[size..];
        }
        sizes
    }

    #[test]
    fn neighbours_that_read_go_together_and_a_write_goes_alone() {
        assert_eq!(batches(&[READ, READ, WRITE, READ]), [2, 1, 1]);
        assert_eq!(batches(&[WRITE, WRITE]), [1, 1]);
        assert_eq!(batches(&[SideEffects::NONE, READ, READ]), [3]);
        assert_eq!(batches(&[]), [0; 0]);
    }
}
