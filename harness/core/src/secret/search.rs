//! Finds any of many words in a text, in one pass (the automaton of Aho and Corasick).
//!
//! The crate `aho-corasick` would either list all matches at each position, of which there are many
//! if words have common beginnings, or miss the end of a word that overlaps another one. This
//! search needs less: for each position, the longest word that ends there, so that all words are
//! covered.

use std::ops::Range;

use super::CUT;

#[cfg(test)]
#[doc(hidden)]
pub use self::work::work;

/// The number of bytes of a word that are enough at the end of a cut text.
const BEGINNING: usize = 6;

/// Finds any of its words. The time is proportional to the length of the words plus the length of
/// the text.
#[derive(Clone, Debug)]
pub(crate) struct WordSearch {
    /// The trie's nodes in order of depth, so that the children of a node are adjacent. The first one is the root.
    nodes: Vec<WordNode>,
    /// The children of the root by their bytes, because most of a text is looked up there. 0 means
    /// none.
    first: Box<[u32; 256]>,
    /// The bytes of the root's children.
    few: Vec<u8>,
}

/// A beginning of words, represented by its last byte.
#[derive(Clone, Copy, Debug)]
struct WordNode {
    byte: u8,
    /// The number of children. They begin at `child`, ordered by their bytes.
    children: u16,
    child: u32,
    /// The longest proper suffix of this beginning that is also a beginning of a word.
    shorter: u32,
    /// The length of the longest word that ends here; 0 if there is none.
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
        // For each node, the range of words that begin with it, and its depth.
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

    /// Adds the children of a node, which is the beginning of these words.
    fn expand(
        &mut self,
        at: usize,
        words: &[&[u8]],
        depth: usize,
        mut found: impl FnMut(Range<usize>),
    ) {
        let child = index(self.nodes.len());
        // A word that ends here is sorted before the longer ones.
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

    /// The node after one more byte.
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

    /// Adds the ranges of words in this text. Ranges that overlap or touch are merged, and they are
    /// in order if `found` was empty.
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

    /// The distance to the next position where a word may begin.
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

/// Whether the text was cut here.
fn is_cut(text: &[u8], at: usize) -> bool {
    let [first, ..] = CUT.as_bytes() else { return false };
    text.get(at) == Some(first)
        && text.get(at..).is_some_and(|rest| rest.starts_with(CUT.as_bytes()))
}

/// Adds a range that ends after all others.
fn push(found: &mut Vec<Range<usize>>, mut range: Range<usize>) {
    while let Some(last) = found.pop_if(|last| last.end >= range.start) {
        range.start = range.start.min(last.start);
    }
    found.push(range);
}

/// Sorts the ranges of several searches, and merges those that overlap or touch.
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

/// Words of 4 GiB do not occur; such a word would just not be found.
fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The amount of work done by this thread. A test compares it with that for twice as much text.
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
