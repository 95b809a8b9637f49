//! Searches a text for many words in one pass (the algorithm of Aho and Corasick).
//!
//! The crate `aho-corasick` is not suitable. Some of its modes list all matches at each position, which can be very
//! many. The other modes miss the end of a word that overlaps another word. This search needs only the longest word
//! that ends at each position, because this word covers all shorter words.

use std::ops::Range;

use super::CUT;

#[cfg(test)]
#[doc(hidden)]
pub use self::work::work;

/// The beginning of a secret directly before the mark of a cut text counts as a match from this length on, in bytes.
const BEGINNING: usize = 6;

/// Searches for many words. The time is proportional to the total length of the words plus the length of the text.
#[derive(Clone, Debug)]
pub(crate) struct WordSearch {
    /// The nodes of the trie in order of depth, so that the children of a node are adjacent. The first node is the
    /// root.
    nodes: Vec<WordNode>,
    /// The root's child for each byte; 0 without a child. A table is used because most lookups start at the root.
    first: Box<[u32; 256]>,
    /// The bytes for which the root has children.
    few: Vec<u8>,
}

/// A node of the trie: a beginning that several words can share. The node stores only the last byte of the beginning.
#[derive(Clone, Copy, Debug)]
struct WordNode {
    byte: u8,
    /// The number of children. The first child is at index `child`, and the children are ordered by their bytes.
    children: u16,
    child: u32,
    /// The index of the node for the longest proper suffix of this node's beginning.
    shorter: u32,
    /// The length of the longest word that ends at this node; 0 if no word ends here.
    word: u32,
    depth: u32,
}

impl WordSearch {
    /// A search for these words. Empty words are ignored.
    pub(super) fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
        words.retain(|word| !word.is_empty());
        words.sort_unstable();
        words.dedup();
        let root = WordNode { byte: 0, children: 0, child: 0, shorter: 0, word: 0, depth: 0 };
        let mut search = Self { nodes: vec![root], first: Box::new([0; 256]), few: Vec::new() };
        // For each node, the range of the words below the node, and the depth of the node.
        let mut open = vec![(0..words.len(), 0_usize)];
        let mut at = 0;
        while let Some((of, depth)) = open.get(at).cloned() {
            search.expand(at, words.get(of.clone()).unwrap_or_default(), depth, |below| {
                let below = below.start + of.start..below.end + of.start;
                open.push((below, depth + 1));
            });
            if at == 0 {
                search.few = search.children(0).iter().map(|node| node.byte).collect();
                for (byte, child) in search.few.iter().zip(1..) {
                    if let Some(first) = search.first.get_mut(usize::from(*byte)) {
                        *first = child;
                    }
                }
            }
            at += 1;
        }
        search
    }

    /// Adds the children of node `at`, which is the common beginning of `words`. Calls `found` with the range of words
    /// below each child.
    fn expand(
        &mut self,
        at: usize,
        words: &[&[u8]],
        depth: usize,
        mut found: impl FnMut(Range<usize>),
    ) {
        let child = index(self.nodes.len());
        // A word that ends at this node is sorted before longer words.
        let mut from = usize::from(words.first().is_some_and(|word| word.len() == depth));
        let mut children = 0;
        while let Some(byte) = words.get(from).and_then(|word| word.get(depth)).copied() {
            let rest = words.get(from..).unwrap_or_default();
            let same = rest.partition_point(|word| word.get(depth) == Some(&byte));
            let ends = rest.first().is_some_and(|word| word.len() == depth + 1);
            let shorter = if at == 0 { 0 } else { self.follow(self.shorter(at), byte) };
            let word = match ends {
                true => index(depth + 1),
                false => self.nodes.get(shorter).map_or(0, |node| node.word),
            };
            let (shorter, depth) = (index(shorter), index(depth + 1));
            self.nodes.push(WordNode { byte, children: 0, child: 0, shorter, word, depth });
            found(from..from + same);
            from += same;
            children += 1;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            (node.child, node.children) = (child, children);
        }
    }

    fn children(&self, at: usize) -> &[WordNode] {
        let Some(node) = self.nodes.get(at) else { return &[] };
        let from = node.child as usize;
        self.nodes.get(from..from + usize::from(node.children)).unwrap_or_default()
    }

    fn shorter(&self, at: usize) -> usize {
        self.nodes.get(at).map_or(0, |node| node.shorter as usize)
    }

    /// Returns the node to which `byte` leads from node `at`.
    fn follow(&self, mut at: usize, byte: u8) -> usize {
        loop {
            #[cfg(test)]
            work::one();
            if at == 0 {
                return self.first.get(usize::from(byte)).map_or(0, |child| *child as usize);
            }
            let children = self.children(at);
            if let Ok(nth) = children.binary_search_by_key(&byte, |node| node.byte) {
                return self.nodes.get(at).map_or(0, |node| node.child as usize) + nth;
            }
            at = self.shorter(at);
        }
    }

    /// Appends the ranges of the text that contain words. Ranges that overlap or touch are merged. The result is in
    /// order if `found` was empty.
    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let bytes = text.as_bytes();
        let (mut node, mut at) = (0, 0);
        while at < bytes.len() {
            if node == 0 {
                match self.skip(bytes.get(at..).unwrap_or_default()) {
                    Some(skipped) => at += skipped,
                    None => return,
                }
            }
            let Some(byte) = bytes.get(at) else { return };
            if is_cut(bytes, at) {
                let depth = self.nodes.get(node).map_or(0, |node| node.depth as usize);
                if depth >= BEGINNING {
                    push(found, at - depth..at);
                }
            }
            node = self.follow(node, *byte);
            at += 1;
            let word = self.nodes.get(node).map_or(0, |node| node.word as usize);
            if word > 0 {
                push(found, at - word..at);
            }
        }
    }

    /// The distance to the next position where a word may begin. `None` if no word can begin in `rest`.
    fn skip(&self, rest: &[u8]) -> Option<usize> {
        match *self.few {
            [] => None,
            [one] => memchr::memchr(one, rest),
            [one, two] => memchr::memchr2(one, two, rest),
            [one, two, three] => memchr::memchr3(one, two, three, rest),
            _ => Some(0),
        }
    }
}

/// Whether the mark of a cut text is at this position.
fn is_cut(text: &[u8], at: usize) -> bool {
    let [first, ..] = CUT.as_bytes() else { return false };
    text.get(at) == Some(first)
        && text.get(at..).is_some_and(|rest| rest.starts_with(CUT.as_bytes()))
}

/// Appends a range that ends after all ranges in `found`, and merges it with ranges that it overlaps or touches.
fn push(found: &mut Vec<Range<usize>>, mut range: Range<usize>) {
    while let Some(last) = found.pop_if(|last| last.end >= range.start) {
        range.start = range.start.min(last.start);
    }
    found.push(range);
}

/// Sorts the ranges of several searches, and merges ranges that overlap or touch.
pub(crate) fn united(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Converts an index or a length. The search does not find words of 4 GiB and more.
fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Counts the search steps of this thread, so that a test can check that twice as much text takes about twice as many
/// steps.
#[cfg(test)]
mod work {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    pub(super) fn one() {
        STEPS.set(STEPS.get() + 1);
    }

    /// The number of steps that `run` takes.
    #[doc(hidden)]
    pub fn work(run: impl FnOnce()) -> u64 {
        let before = STEPS.get();
        run();
        STEPS.get() - before
    }
}
