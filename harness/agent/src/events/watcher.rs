//! The program's watcher of a run. What it does with an event is code of the program, which may
//! panic.

use super::event::{AgentCall, Event};
use crate::run::progress::ProgressSender;
use harness_core::{
    error::{Error, ErrorKind},
    unwind::{Panicked, caught, dropped},
};

/// A function that gets every event of a run.
type EventHandler<'a> = dyn FnMut(Event<'_>) + Send + 'a;

/// The watchers of a run, if there are any.
#[derive(Default)]
pub(crate) struct RunWatcher<'a> {
    /// Code of the library that keeps the events. It gets each event first.
    first: Option<Box<EventHandler<'a>>>,
    watch: Option<Box<EventHandler<'a>>>,
    /// The watcher of the run whose call has started this one.
    above: Option<(ProgressSender, AgentCall)>,
    /// Set if the watcher has panicked and this was not reported yet.
    panicked: Option<Panicked>,
    /// Whether the run pauses after some events, so that they are read before it continues.
    paced: bool,
}

impl<'a> RunWatcher<'a> {
    pub(crate) fn new(watch: impl FnMut(Event<'_>) + Send + 'a) -> Self {
        let mut watcher = Self::default();
        watcher.watch = Some(Box::new(watch));
        watcher
    }

    /// Calls `first`, which is code of the library, with each event before this watcher.
    pub(crate) fn after<'b>(self, first: impl FnMut(Event<'_>) + Send + 'b) -> RunWatcher<'b>
    where
        'a: 'b,
    {
        let mut all: RunWatcher<'b> = self;
        all.first = Some(Box::new(first));
        all
    }

    /// Lets the run pause after some events, so that they are read before it continues.
    pub(crate) fn with_pauses(mut self) -> Self {
        self.paced = true;
        self
    }

    /// Whether the run pauses after some events.
    pub(crate) fn is_paced(&self) -> bool {
        self.paced
    }

    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some() || self.first.is_some()
    }

    /// Whether anybody gets the events: a watcher of this run or of the run whose call has started it.
    #[inline]
    pub(crate) fn has_listener(&self) -> bool {
        self.is_watched() || self.above.is_some()
    }

    /// Adds the watcher of the run whose call has started this one.
    pub(crate) fn below(mut self, above: Option<(ProgressSender, AgentCall)>) -> Self {
        self.above = above;
        self
    }

    /// Passes on an event. After a panic, the program's watcher gets no more events.
    #[inline]
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        if let Some((progress_sender, call)) = &self.above {
            progress_sender.tell(call, event);
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

    /// Why the run must end, if its watcher has panicked. Returned only once.
    #[inline]
    pub(crate) fn fault(&mut self) -> Option<Error> {
        let panicked = self.panicked.take()?;
        Some(Error::new(
            ErrorKind::Panicked,
            format!("the function given to `on_event` {panicked}"),
        ))
    }
}

impl Drop for RunWatcher<'_> {
    fn drop(&mut self) {
        dropped(self.watch.take());
    }
}
