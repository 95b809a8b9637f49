//! Keeps the events of one run for watchers that begin late. Neighbouring events with pieces of text are
//! joined.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Event, EventBuf, Numbered, events::numbered::run_name};

/// If a run has more progress events than this, only the last progress event of each call is kept.
const REPORTS: usize = 256;

/// The events of one run.
pub(crate) struct RunLog {
    name: Arc<str>,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    entries: Vec<LoggedEvent>,
    /// How many events the run has had, including the events that were joined or removed.
    event_count: u64,
    /// How many of the entries are progress events.
    reports: usize,
    /// The number of the run in its conversation and this process, counted from 1.
    place: u64,
    /// How many facts the conversation had at the beginning and at the end of the run.
    facts: (u64, u64),
    ended: bool,
}

/// One event, or several neighbouring events that were joined.
struct LoggedEvent {
    /// The number of the first joined event.
    first: u64,
    /// The number of the last joined event.
    last: u64,
    event: EventBuf,
    /// The end of each joined event except the last, as a byte offset in the joined text.
    ends: Vec<usize>,
}

impl LoggedEvent {
    /// The length in bytes of the joined text up to and including the event with this number.
    fn words_with(&self, number: u64) -> usize {
        let at = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let words = || self.event.words().map_or(0, str::len);
        self.ends.get(at).copied().unwrap_or_else(words)
    }
}

impl RunLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { name: run_name(), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the run begins. `place` is the number of the run, `facts` the number of facts in the
    /// conversation.
    pub(super) fn begin(&self, place: u64, facts: u64) {
        let mut log = self.lock();
        (log.place, log.facts) = (place, (facts, facts));
    }

    /// Adds an event to the log, or joins it to the last one.
    pub(crate) fn push(&self, event: Event<'_>) {
        let mut log = self.lock();
        log.event_count = log.event_count.saturating_add(1);
        let number = log.event_count;
        if let Some(kept) = log.entries.last_mut() {
            let before = kept.event.words().map_or(0, str::len);
            if kept.event.join(event) {
                kept.last = number;
                kept.ends.push(before);
                return;
            }
        }
        if matches!(event, Event::ToolProgress { .. }) {
            log.reports = log.reports.saturating_add(1);
            if log.reports > REPORTS {
                log.forget_reports();
            }
        }
        let event = event.into_owned();
        log.entries.push(LoggedEvent { first: number, last: number, event, ends: Vec::new() });
    }

    /// Sets how many facts the conversation has after the run.
    pub(super) fn set_facts(&self, facts: u64) {
        self.lock().facts.1 = facts;
    }

    /// Records that the run adds no more events.
    pub(crate) fn close(&self) {
        self.lock().ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Whether the last event in the log is the end of the run.
    pub(super) fn has_run_end(&self) -> bool {
        let log = self.lock();
        let last = log.entries.last().map(|kept| kept.event.as_event());
        matches!(last, Some(Event::RunEnded { .. }))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn place(&self) -> u64 {
        self.lock().place
    }

    /// How many facts the conversation had at the beginning and at the end of the run.
    pub(super) fn facts(&self) -> (u64, u64) {
        self.lock().facts
    }

    /// Whether the run has ended without adding a fact, which means that it did not begin.
    pub(super) fn was_empty(&self) -> bool {
        let log = self.lock();
        log.ended && log.facts.0 == log.facts.1
    }
}

impl LogState {
    /// Removes all progress events except for the last one of each call.
    fn forget_reports(&mut self) {
        let mut last = HashSet::new();
        let mut wanted: Vec<bool> = Vec::with_capacity(self.entries.len());
        for kept in self.entries.iter().rev() {
            wanted.push(match kept.event.as_event() {
                Event::ToolProgress { call, .. } => last.insert(call.to_owned()),
                _ => true,
            });
        }
        self.reports = last.len();
        self.entries.retain(|_| wanted.pop().unwrap_or(true));
    }
}

/// How far a watcher has read the log of a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct LogCursor {
    /// The number of the last event that was read.
    seen: u64,
    /// How many bytes of the last event's text the watcher has read. Later pieces may be joined to that text.
    bytes: usize,
}

impl LogCursor {
    /// The cursor of a watcher that has read this run up to the event with this number.
    pub(super) fn after(run: &RunLog, number: u64) -> Self {
        let log = run.lock();
        let seen = number.min(log.event_count);
        let at = log.entries.partition_point(|kept| kept.last < seen);
        let kept = log.entries.get(at).filter(|kept| kept.first <= seen);
        Self { seen, bytes: kept.map_or(0, |kept| kept.words_with(seen)) }
    }

    /// The next event, with all text that was joined to it. `None` if the watcher has read all events.
    pub(crate) fn next(&mut self, run: &RunLog) -> Option<Numbered> {
        let log = run.lock();
        let at = log.entries.partition_point(|kept| kept.last <= self.seen);
        let LoggedEvent { first, last, event, .. } = log.entries.get(at)?;
        let event = if *first <= self.seen { event.words_from(self.bytes)? } else { event.clone() };
        let words = log.entries.get(at).and_then(|kept| kept.event.words());
        (self.seen, self.bytes) = (*last, words.map_or(0, str::len));
        Some(Numbered::new(&run.name, *last, event))
    }
}

#[cfg(test)]
mod tests {
    use super::{LogCursor, REPORTS, RunLog};
    use crate::{Event, Numbered};

    fn rest(cursor: &mut LogCursor, log: &RunLog) -> Vec<Numbered> {
        std::iter::from_fn(|| cursor.next(log)).collect()
    }

    fn words(events: &[Numbered]) -> String {
        events.iter().filter_map(|it| it.event.words()).collect()
    }

    #[test]
    fn who_comes_late_reads_joined_what_others_have_read_in_pieces() {
        let log = RunLog::new();
        let (mut awake, mut slow) = (LogCursor::default(), LogCursor::default());
        let mut seen = Vec::new();
        log.push(Event::TurnStarted { turn: 1 });
        for word in ["a", "\u{e9}", "c"] {
            log.push(Event::Text(word));
            seen.extend(rest(&mut awake, &log));
            if word == "a" {
                assert_eq!(words(&rest(&mut slow, &log)), "a");
            }
        }
        log.push(Event::Reasoning("d"));
        log.push(Event::Text("e"));
        seen.extend(rest(&mut awake, &log));
        assert_eq!(Vec::from_iter(seen.iter().map(|it| it.number)), [1, 2, 3, 4, 5, 6]);
        let late = rest(&mut LogCursor::default(), &log);
        assert_eq!(Vec::from_iter(late.iter().map(|it| it.number)), [1, 4, 5, 6]);
        assert_eq!(words(&late), words(&seen));
        let slow = rest(&mut slow, &log);
        assert_eq!(Vec::from_iter(slow.iter().map(|it| it.number)), [4, 5, 6]);
        assert_eq!(words(&slow), "\u{e9}cde");
    }

    #[test]
    fn of_many_reports_the_last_of_each_call_is_kept_and_no_reader_loses_its_place() {
        let log = RunLog::new();
        let (mut awake, mut seen) = (LogCursor::default(), 0);
        for number in 0..10_000 {
            let call = ["one", "two"][number % 2];
            log.push(Event::ToolProgress { call, message: &number.to_string() });
            seen += rest(&mut awake, &log).len();
        }
        assert_eq!(seen, 10_000);
        let late = rest(&mut LogCursor::default(), &log);
        assert!(late.len() <= REPORTS + 2, "{}", late.len());
        assert!(late.is_sorted_by_key(|it| it.number));
        assert_eq!(late.last().map(|it| it.number), Some(10_000));
    }
}
