//! The program's own eyes on a run: what it does with an event is its own code, which may panic.

use super::{AgentCall, Event, reports::Reporter};
use crate::{
    error::{Error, ErrorKind},
    unwind::{Panicked, caught, dropped},
};

/// Reads every event of a run.
pub(super) type Watch<'a> = dyn FnMut(Event<'_>) + Send + 'a;

/// Who watches a run, if somebody does.
#[derive(Default)]
pub(super) struct Watcher<'a> {
    watch: Option<Box<Watch<'a>>>,
    /// Who watches the run whose call has started this one.
    above: Option<(Reporter, AgentCall)>,
    /// It has panicked, and nobody was told of that yet.
    panicked: Option<Panicked>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(watch: Option<Box<Watch<'a>>>, above: Option<(Reporter, AgentCall)>) -> Self {
        Self { watch, above, panicked: None }
    }

    /// Shows an event. After a panic nothing is shown any more.
    #[inline]
    pub(super) fn tell(&mut self, event: Event<'_>) {
        if let Some((reporter, call)) = &self.above {
            reporter.tell(call, event);
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
