//! What running tools say of how far they have come.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The id of a call, and what its tool says.
pub(super) type Report = (String, String);

/// What running tools have said and nobody has heard. Most answers ask for no tool, so there is
/// nothing before the first call.
#[derive(Default)]
pub(super) struct Reports(Option<(UnboundedSender<Report>, UnboundedReceiver<Report>)>);

impl Reports {
    /// Where a call says it.
    pub(super) fn sender(&mut self) -> UnboundedSender<Report> {
        self.0.get_or_insert_with(unbounded_channel).0.clone()
    }

    /// Hears the next one.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Report> {
        let Some((_, reports)) = &mut self.0 else { return Poll::Pending };
        ready!(reports.poll_recv(context)).map_or(Poll::Pending, Poll::Ready)
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Report {
        poll_fn(|context| self.poll(context)).await
    }

    /// Forgets what is not heard yet.
    pub(super) fn clear(&mut self) {
        while let Some((_, reports)) = &mut self.0
            && reports.try_recv().is_ok()
        {}
    }
}
