//! The ordered messages of a conversation. Several `Messages` values share equal beginnings in
//! memory.

use std::{
    fmt,
    iter::FusedIterator,
    ops::{Bound, Index, Range, RangeBounds},
    sync::Arc,
};

use super::Message;

/// The maximum number of children of one node of the tree. The children of a leaf are messages.
const WIDTH: usize = 1 << BITS;
const BITS: usize = 5;

/// Messages in order: all messages of a conversation, or a range of them.
///
/// This type is a view. A clone and a [`range`](Self::range) copy no messages, and conversations
/// with the same beginning share that beginning in memory. Appending copies none of the earlier
/// messages, even if other views exist.
///
/// ```
/// use harness::{Message, message::Messages};
///
/// let said: Messages = ["One?", "Two?", "Three?"].map(Message::user).into_iter().collect();
/// assert_eq!(said.len(), 3);
/// assert_eq!(said[1].text(), "Two?");
/// let later = said.range(1..);
/// assert_eq!(later.iter().map(Message::text).collect::<Vec<_>>(), ["Two?", "Three?"]);
/// ```
#[derive(Clone, Default)]
pub struct Messages {
    /// A tree whose leaves contain the messages. A node is filled before the next node begins.
    root: Arc<MessageNode>,
    /// The number of levels above the leaves.
    height: usize,
    /// The range of the tree that this view covers. The tree may contain messages after this range
    /// that another view has appended.
    from: usize,
    end: usize,
}

#[derive(Clone)]
enum MessageNode {
    Leaf(Vec<Message>),
    Inner(Vec<Arc<MessageNode>>),
}

impl Default for MessageNode {
    fn default() -> Self {
        Self::Leaf(Vec::new())
    }
}

impl Messages {
    /// The number of messages.
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.from)
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message at this index, from 0.
    pub fn get(&self, at: usize) -> Option<&Message> {
        let at = self.from.checked_add(at).filter(|at| *at < self.end)?;
        let mut node = &*self.root;
        let mut height = self.height;
        loop {
            match node {
                MessageNode::Leaf(messages) => return messages.get(at % WIDTH),
                MessageNode::Inner(nodes) => node = nodes.get(place(at, height))?,
            }
            height = height.saturating_sub(1);
        }
    }

    /// The first message.
    pub fn first(&self) -> Option<&Message> {
        self.get(0)
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All messages, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { messages: self, places: 0..self.len() }
    }

    /// A view of a range of the messages. The part of the range beyond the last message is ignored.
    #[must_use]
    pub fn range(&self, range: impl RangeBounds<usize>) -> Self {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => usize::MAX,
        };
        let end = end.min(self.len());
        let from = from.min(end);
        let of = |place: usize| self.from.saturating_add(place);
        Self { root: Arc::clone(&self.root), height: self.height, from: of(from), end: of(end) }
    }

    /// Appends a message. If other views share the tree, only the nodes from the root to the new
    /// message are copied.
    #[doc(hidden)]
    pub fn push(&mut self, message: Message) {
        if self.end >> (BITS * (self.height + 1)) > 0 {
            self.root = Arc::new(MessageNode::Inner(vec![Arc::clone(&self.root)]));
            self.height += 1;
        }
        put(&mut self.root, self.height, self.end, message);
        self.end += 1;
    }

    /// Replaces the message at this index. If other views share the tree, only the nodes from the root to this message
    /// are copied.
    #[doc(hidden)]
    pub fn replace(&mut self, at: usize, message: Message) {
        if let Some(at) = self.from.checked_add(at).filter(|at| *at < self.end) {
            set(&mut self.root, self.height, at, message);
        }
    }

    /// The messages that were replaced since `past`, each with its index, the earlier message and the new one. Nodes
    /// that both trees share are not compared.
    #[doc(hidden)]
    pub fn replaced_since<'a>(&'a self, past: &'a Self) -> Vec<(usize, &'a Message, &'a Message)> {
        let mut found = Vec::new();
        if (self.from, past.from, self.height) == (0, 0, past.height) {
            find_replaced((&past.root, &self.root), self.height, 0, &mut found);
            found.retain(|(at, ..)| *at < self.end.min(past.end));
        } else {
            let pairs = past.iter().zip(self).enumerate();
            let other = pairs.filter(|(_, (old, new))| !new.is_shared(old));
            found.extend(other.map(|(at, (old, new))| (at, old, new)));
        }
        found
    }

    /// Whether `self` begins with the messages of `past`. Nodes that both trees share are not
    /// compared.
    pub(crate) fn has_prefix(&self, past: &Self) -> bool {
        if past.len() > self.len() {
            return false;
        }
        if self.from > 0 || past.from > 0 {
            return past.iter().zip(self).all(|(past, message)| message.is(past));
        }
        let (mut mine, mut height) = (&self.root, self.height);
        while height > past.height
            && let MessageNode::Inner(nodes) = &**mine
            && let Some(first) = nodes.first()
        {
            (mine, height) = (first, height - 1);
        }
        begin_alike(mine, &past.root, height, past.len())
    }

    /// Whether both are views of the same range of the same tree.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root) && (self.from, self.end) == (other.from, other.end)
    }
}

/// Whether the first `count` messages below two nodes of this height are equal.
fn begin_alike(
    one: &Arc<MessageNode>,
    other: &Arc<MessageNode>,
    height: usize,
    count: usize,
) -> bool {
    if Arc::ptr_eq(one, other) {
        return true;
    }
    match (&**one, &**other) {
        (MessageNode::Leaf(one), MessageNode::Leaf(other)) => {
            let (one, other) = (one.get(..count), other.get(..count));
            one.zip(other)
                .is_some_and(|(one, other)| one.iter().zip(other).all(|(one, other)| one.is(other)))
        }
        (MessageNode::Inner(one), MessageNode::Inner(other)) => {
            let each = 1 << (BITS * height);
            let needed = count.div_ceil(each);
            let (one, other) = (one.get(..needed), other.get(..needed));
            one.zip(other).is_some_and(|(one, other)| {
                let mut left = count;
                one.iter().zip(other).all(|(one, other)| {
                    let here = left.min(each);
                    left -= here;
                    begin_alike(one, other, height.saturating_sub(1), here)
                })
            })
        }
        _ => false,
    }
}

/// The index of the child that leads to message `at`, in a node of this height.
fn place(at: usize, height: usize) -> usize {
    (at >> (BITS * height)) % WIDTH
}

/// Replaces the message at an index that exists.
fn set(node: &mut Arc<MessageNode>, height: usize, at: usize, message: Message) {
    match Arc::make_mut(node) {
        MessageNode::Leaf(messages) => {
            if let Some(place) = messages.get_mut(at % WIDTH) {
                *place = message;
            }
        }
        MessageNode::Inner(nodes) => {
            if let Some(next) = nodes.get_mut(place(at, height)) {
                set(next, height.saturating_sub(1), at, message);
            }
        }
    }
}

/// Adds the messages that differ between two nodes of this height. `first` is the index of the first message below
/// these nodes.
fn find_replaced<'a>(
    (old, new): (&'a Arc<MessageNode>, &'a Arc<MessageNode>),
    height: usize,
    first: usize,
    found: &mut Vec<(usize, &'a Message, &'a Message)>,
) {
    if Arc::ptr_eq(old, new) {
        return;
    }
    match (&**old, &**new) {
        (MessageNode::Leaf(old), MessageNode::Leaf(new)) => {
            let pairs = (first..).zip(old.iter().zip(new));
            let other = pairs.filter(|(_, (old, new))| !new.is_shared(old));
            found.extend(other.map(|(at, (old, new))| (at, old, new)));
        }
        (MessageNode::Inner(old), MessageNode::Inner(new)) => {
            for (first, pair) in (first..).step_by(1 << (BITS * height)).zip(old.iter().zip(new)) {
                find_replaced(pair, height.saturating_sub(1), first, found);
            }
        }
        _ => {}
    }
}

/// Puts a message at its index. Removes all later messages from the copied path, because only other views contain
/// them.
fn put(node: &mut Arc<MessageNode>, height: usize, at: usize, message: Message) {
    let place = place(at, height);
    match Arc::make_mut(node) {
        MessageNode::Leaf(messages) => {
            messages.truncate(place);
            messages.push(message);
        }
        MessageNode::Inner(nodes) => {
            let is_first = at.is_multiple_of(1 << (BITS * height));
            nodes.truncate(if is_first { place } else { place + 1 });
            if is_first {
                let new = if height > 1 {
                    MessageNode::Inner(Vec::new())
                } else {
                    MessageNode::default()
                };
                nodes.push(Arc::new(new));
            }
            if let Some(last) = nodes.last_mut() {
                put(last, height - 1, at, message);
            }
        }
    }
}

impl Index<usize> for Messages {
    type Output = Message;

    /// The message at this index.
    ///
    /// # Panics
    /// If there is no message at this index. [`get`](Messages::get) returns `None` instead.
    #[expect(clippy::panic, reason = "an index has no other way to say that there is nothing")]
    fn index(&self, at: usize) -> &Message {
        match self.get(at) {
            Some(message) => message,
            None => panic!("there is no message {at}: the conversation has {}", self.len()),
        }
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<T: IntoIterator<Item = Message>>(messages: T) -> Self {
        let mut all = Self::default();
        messages.into_iter().for_each(|message| all.push(message));
        all
    }
}

impl From<&Messages> for Vec<Message> {
    fn from(messages: &Messages) -> Self {
        messages.iter().cloned().collect()
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.iter().eq(other)
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Message;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The iterator of [`Messages::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    messages: &'a Messages,
    places: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Message;

    fn next(&mut self) -> Option<&'a Message> {
        self.messages.get(self.places.next()?)
    }

    fn nth(&mut self, skipped: usize) -> Option<&'a Message> {
        self.messages.get(self.places.nth(skipped)?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.messages.get(self.places.next_back()?)
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl FusedIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::{Messages, WIDTH};
    use crate::message::Message;

    fn texts(messages: &Messages) -> Vec<String> {
        messages.iter().map(Message::text).collect()
    }

    fn number(at: usize) -> Message {
        Message::user(at.to_string())
    }

    #[test]
    fn a_view_stays_as_it_is_whoever_goes_on() {
        let sizes = [0, 1, 2, WIDTH - 1, WIDTH, WIDTH + 1, WIDTH * WIDTH, WIDTH * WIDTH + 1];
        let mut all = Messages::default();
        let mut kept = Vec::new();
        for at in 0..=WIDTH * WIDTH + WIDTH {
            if sizes.contains(&at) {
                kept.push((at, all.clone()));
            }
            all.push(number(at));
        }
        assert_eq!(all.len(), WIDTH * WIDTH + WIDTH + 1);
        assert!(texts(&all).iter().enumerate().all(|(at, text)| *text == at.to_string()));
        for (size, view) in kept {
            assert_eq!((view.len(), view.get(size).is_none()), (size, true));
            // Two views continue from the same index independently.
            let (mut one, mut other) = (view.clone(), view.clone());
            one.push(Message::user("one"));
            for at in 0..WIDTH {
                other.push(Message::user(format!("other {at}")));
            }
            assert_eq!(one[size].text(), "one");
            assert_eq!(other[size].text(), "other 0");
            assert_eq!(other.len(), size + WIDTH);
            assert_eq!(view, all.range(..size));
            assert_eq!(one.range(..size), view);
            assert_eq!(other.range(..size), view);
        }
    }

    #[test]
    fn a_range_is_a_view_and_what_is_not_there_is_left_out() {
        let all: Messages = (0..100).map(number).collect();
        let part = all.range(90..);
        assert_eq!((part.len(), part[0].text()), (10, "90".into()));
        assert_eq!(texts(&part.range(8..20)), ["98", "99"]);
        assert_eq!(texts(&all.range(1..=2)), ["1", "2"]);
        assert!(all.range(100..).is_empty() && part.range(20..).last().is_none());
        let mut from_there = all.range(40..42);
        from_there.push(Message::user("next"));
        assert_eq!(texts(&from_there), ["40", "41", "next"]);
        assert_eq!(all[42].text(), "42");
    }

    #[test]
    fn a_conversation_begins_with_its_past_and_with_no_other() {
        let last = WIDTH * WIDTH * 2 + 3;
        let all: Messages = (0..last).map(number).collect();
        let sizes = [0, 1, WIDTH - 1, WIDTH, WIDTH + 1, WIDTH * WIDTH, WIDTH * WIDTH + 1, last];
        for size in sizes {
            let past = all.range(..size);
            assert!(all.has_prefix(&past), "{size}");
            // `anew` has the same messages as `past`, but shares no node with `past`.
            let anew: Messages = past.iter().cloned().collect();
            assert!(all.has_prefix(&anew) && past.has_prefix(&anew), "{size}");
            let read: Messages = past
                .iter()
                .map(|message| serde_json::to_string(message).expect("a message can be written"))
                .map(|json| serde_json::from_str(&json).expect("what was written can be read"))
                .collect();
            assert!(all.has_prefix(&read), "{size}");
            let mut longer = anew.clone();
            longer.push(number(last));
            assert!(!all.has_prefix(&longer), "{size}");
            for at in sizes.into_iter().filter(|at| *at < size) {
                let other: Messages = past
                    .iter()
                    .enumerate()
                    .map(
                        |(place, message)| {
                            if place == at { number(place) } else { message.clone() }
                        },
                    )
                    .collect();
                assert!(
                    !all.has_prefix(&other),
                    "{size}, {at}: another message with the same words"
                );
            }
        }
        let later = all.range(40..);
        assert!(later.has_prefix(&all.range(40..90)) && !later.has_prefix(&all.range(41..90)));
    }

    #[test]
    fn a_message_is_replaced_in_one_view_alone_and_found_again() {
        let last = WIDTH * WIDTH * 2 + 3;
        let all: Messages = (0..last).map(number).collect();
        let places = [0, 1, WIDTH - 1, WIDTH, WIDTH * WIDTH, last - 1];
        let mut edited = all.clone();
        for at in places {
            edited.replace(at, Message::user("edited"));
        }
        edited.replace(last, Message::user("there is no such message"));
        let found = |now: &Messages, past: &Messages| -> Vec<usize> {
            now.replaced_since(past).into_iter().map(|(at, ..)| at).collect()
        };
        assert_eq!(found(&edited, &all), places);
        assert!(places.into_iter().all(|at| edited[at].text() == "edited"));
        assert!(all.iter().enumerate().all(|(at, it)| it.text() == at.to_string()));
        assert_eq!(edited.len(), last);
        // Messages that came later were not replaced.
        let mut longer = edited.clone();
        longer.push(number(last));
        assert_eq!(found(&longer, &all), places);
        // Trees that share no node are compared message by message.
        assert_eq!(
            found(&edited.range(1..), &all.range(1..)),
            [0, WIDTH - 2, WIDTH - 1, WIDTH * WIDTH - 1, last - 2]
        );
        let short: Messages = all.range(..2).iter().cloned().collect();
        assert_eq!(found(&edited, &short), [0, 1]);
        let mut part = all.range(WIDTH..);
        part.replace(1, Message::user("part"));
        assert_eq!(
            (part[1].text(), all[WIDTH + 1].text()),
            ("part".into(), (WIDTH + 1).to_string())
        );
    }

    #[test]
    fn it_is_read_from_both_ends_and_skips() {
        let all: Messages = (0..70).map(number).collect();
        let mut iter = all.iter();
        assert_eq!(iter.len(), 70);
        assert_eq!(iter.nth(64).map(Message::text).as_deref(), Some("64"));
        assert_eq!(iter.next_back().map(Message::text).as_deref(), Some("69"));
        assert_eq!(iter.map(Message::text).collect::<Vec<_>>(), ["65", "66", "67", "68"]);
    }
}
