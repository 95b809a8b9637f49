//! Reports the progress of a call to its client.

use std::{convert::Infallible, time::Duration};

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// The minimum time between two reports. Only the newest report in this time is sent.
const PACE: Duration = Duration::from_millis(20);

/// How long the result of a call waits for the last report to be sent.
const LAST: Duration = Duration::from_secs(1);

/// Sends the progress reports of one call to its client. Only the newest report is kept, so that no tool waits for a
/// client that does not read.
pub(super) struct CallProgress {
    latest: watch::Receiver<(u32, String)>,
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The number of the last report that was sent.
    sent: u32,
}

impl CallProgress {
    /// Creates the sender, and the function to which the tool reports.
    pub(super) fn new(
        peer: Peer<RoleServer>,
        token: ProgressToken,
    ) -> (Self, impl Fn(&str) + Send + Sync + 'static) {
        let (report, latest) = watch::channel((0_u32, String::new()));
        let take = move |message: &str| {
            report.send_modify(|(count, last)| {
                *count = count.saturating_add(1);
                message.clone_into(last);
            });
        };
        (Self { latest, peer, token, sent: 0 }, take)
    }

    /// Sends reports as long as the future is polled.
    pub(super) async fn pass_on(&mut self) -> Infallible {
        while self.latest.changed().await.is_ok() {
            self.send().await;
            sleep(PACE).await;
        }
        std::future::pending().await
    }

    /// Sends the last report. If the client does not accept the report in time, the report is dropped.
    pub(super) async fn finish(mut self) {
        let _ = timeout(LAST, self.send()).await;
    }

    async fn send(&mut self) {
        let (count, message) = self.latest.borrow_and_update().clone();
        if count == self.sent {
            return;
        }
        // The report is counted before it is sent, so that it is not sent twice.
        self.sent = count;
        let report = ProgressNotificationParam::new(self.token.clone(), f64::from(count));
        // Sending fails only if the client is gone.
        let _ = self.peer.notify_progress(report.with_message(message)).await;
    }
}
