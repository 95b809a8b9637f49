//! The program's own eyes on a run: what it does with an event is its own code, which may panic.

use super::{AgentCall, Event, reports::Reporter};
use crate::{
    error::{Error, ErrorKind},
    unwind::{Panicked, caught, dropped},
};

/// Reads every event of a run.
type Watch<'a> = dyn FnMut(Event<'_>) + Send + 'a;

/// Who watches a run, if somebody does.
#[derive(Default)]
pub(super) struct Watcher<'a> {
    /// Code of the library that keeps the events, and sees each of them first.
    first: Option<Box<Watch<'a>>>,
    watch: Option<Box<Watch<'a>>>,
    /// Who watches the run whose call has started this one.
    above: Option<(Reporter, AgentCall)>,
    /// It has panicked, and nobody was told of that yet.
    panicked: Option<Panicked>,
    /// Whether the run gives way after some events, so that they are taken before it goes on.
    paced: bool,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(watch: impl FnMut(Event<'_>) + Send + 'a) -> Self {
        let mut watcher = Self::default();
        watcher.watch = Some(Box::new(watch));
        watcher
    }

    /// Shows each event to `first`, which is code of the library, before this watcher sees it.
    pub(super) fn after<'b>(self, first: impl FnMut(Event<'_>) + Send + 'b) -> Watcher<'b>
    where
        'a: 'b,
    {
        let mut all: Watcher<'b> = self;
        all.first = Some(Box::new(first));
        all
    }

    /// Lets the run give way after some events, so that they are taken before it goes on.
    pub(super) fn paced(mut self) -> Self {
        self.paced = true;
        self
    }

    /// Whether the run gives way after some events.
    pub(super) fn is_paced(&self) -> bool {
        self.paced
    }

    /// Whether anybody watches.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some() || self.first.is_some()
    }

    /// Adds who watches the run whose call has started this one.
    pub(super) fn below(mut self, above: Option<(Reporter, AgentCall)>) -> Self {
        self.above = above;
        self
    }

    /// Shows an event. After a panic nothing is shown any more.
    #[inline]
    pub(super) fn tell(&mut self, event: Event<'_>) {
        if let Some((reporter, call)) = &self.above {
            reporter.tell(call, event);
        }
        if let Some(first) = &mut self.first {
            first(event);
        }
        let Some(watch) = &mut self.watch else { return };
        if let Err(panicked) = caught(|| watch(event)) {
            dropped(self.watch.take());
            self.panicked = Some(panicked);
        }
    }

    /// Why the run must end, if watching it has panicked; said once.
    #[inline]
    pub(super) fn fault(&mut self) -> Option<Error> {
        let panicked = self.panicked.take()?;
        Some(Error::new(
            ErrorKind::Panicked,
            format!("the function given to `on_event` {panicked}"),
        ))
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        dropped(self.watch.take());
    }
}
