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

/// The least time between two reports: a report that comes earlier is replaced by the next one.
const PACE: Duration = Duration::from_millis(20);

/// How long the result of a call waits for its last report to be sent.
const LAST: Duration = Duration::from_secs(1);

/// The reports of one call on their way to its client. Only the last one is kept, and no tool waits for a client
/// that does not read.
pub(super) struct CallProgress {
    latest: watch::Receiver<(u32, String)>,
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The number of reports when the last one was sent.
    sent: u32,
}

impl CallProgress {
    /// Creates the reports, and the function that receives them.
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

    /// Passes reports on for as long as it is polled.
    pub(super) async fn pass_on(&mut self) -> Infallible {
        while self.latest.changed().await.is_ok() {
            self.send().await;
            sleep(PACE).await;
        }
        std::future::pending().await
    }

    /// Passes the last report on. If the client does not accept it in time, it is dropped.
    pub(super) async fn finish(mut self) {
        let _ = timeout(LAST, self.send()).await;
    }

    async fn send(&mut self) {
        let (count, message) = self.latest.borrow_and_update().clone();
        if count == self.sent {
            return;
        }
        // It is counted before it is sent, so that the client gets no report twice.
        self.sent = count;
        let report = ProgressNotificationParam::new(self.token.clone(), f64::from(count));
        // It fails only if the client has gone.
        let _ = self.peer.notify_progress(report.with_message(message)).await;
    }
}
