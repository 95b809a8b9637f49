//! The watchers that get the events of a run. The program's watcher is code of the program, which may panic.

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
    /// A watcher of the library, which keeps the events and gets each event before the program's watcher.
    first: Option<Box<EventHandler<'a>>>,
    watch: Option<Box<EventHandler<'a>>>,
    /// The sender for the watchers of the caller's run, and the call. `None` if this run is not inside a tool
    /// call.
    above: Option<(ProgressSender, AgentCall)>,
    /// The panic of the program's watcher, until it is reported.
    panicked: Option<Panicked>,
    /// Whether the run pauses after some events, so that the receiver can read them before the run continues.
    paced: bool,
}

impl<'a> RunWatcher<'a> {
    pub(crate) fn new(watch: impl FnMut(Event<'_>) + Send + 'a) -> Self {
        let mut watcher = Self::default();
        watcher.watch = Some(Box::new(watch));
        watcher
    }

    /// Adds a watcher of the library, which gets each event before the program's watcher.
    pub(crate) fn after<'b>(self, first: impl FnMut(Event<'_>) + Send + 'b) -> RunWatcher<'b>
    where
        'a: 'b,
    {
        let mut all: RunWatcher<'b> = self;
        all.first = Some(Box::new(first));
        all
    }

    /// Lets the run pause after some events, so that the receiver can read them before the run continues.
    pub(crate) fn with_pauses(mut self) -> Self {
        self.paced = true;
        self
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.paced
    }

    /// Whether this run has a watcher of its own.
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some() || self.first.is_some()
    }

    /// Whether events have a receiver: a watcher of this run, or the caller's run.
    #[inline]
    pub(crate) fn has_listener(&self) -> bool {
        self.is_watched() || self.above.is_some()
    }

    /// Sets the sender for the watchers of the caller's run, if this run is inside a tool call.
    pub(crate) fn below(mut self, above: Option<(ProgressSender, AgentCall)>) -> Self {
        self.above = above;
        self
    }

    /// Passes an event to all watchers. After a panic, the program's watcher gets no more events.
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

    /// The error that ends the run after a panic of the program's watcher. Returned only once.
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
