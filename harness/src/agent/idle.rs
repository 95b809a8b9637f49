//! Gives back what a conversation holds beside its text, once nobody has spoken for a while.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, task::AbortHandle, time::sleep};

use crate::provider::Sent;

/// So long after a run the bytes of the last request are kept: for a program that goes on at once.
const IDLE: Duration = Duration::from_secs(5);

/// So few bytes are kept for ever.
const FEW: usize = 16 * 1024;

/// What was sent of a conversation, and what will forget it.
#[derive(Default)]
pub(super) struct Idle {
    sent: Arc<Sent>,
    /// It ends with the conversation.
    task: Option<AbortHandle>,
}

impl Idle {
    pub(super) fn sent(&self) -> &Sent {
        &self.sent
    }

    /// A run begins.
    pub(super) fn ends(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// A run is over.
    pub(super) fn begins(&mut self) {
        self.ends();
        if self.sent.size() <= FEW {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            self.sent.forget();
            return;
        };
        let sent = Arc::clone(&self.sent);
        let task = runtime.spawn(async move {
            sleep(IDLE).await;
            sent.forget();
        });
        self.task = Some(task.abort_handle());
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.ends();
    }
}
