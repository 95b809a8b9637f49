//! The task of one conversation: opens the conversation, does its runs one after the other, and closes it.

use std::{
    mem,
    pin::pin,
    sync::{Arc, Weak},
    thread::panicking,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    log::RunLog,
    slot::{ChatSlot, ChatSlotState, QueuedRun, RunResult, not_begun},
    slots::{ChatsInner, closed},
};
use crate::{
    Agent, Chat, Event,
    run::{
        driver::{LAST_WRITE, unanswered},
        input::RunInput,
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::Journal,
    stop::OnCancel,
    unwind::caught,
};

/// The task of one conversation. It holds only a weak reference to the manager, so that the manager can be
/// dropped.
pub(super) struct ChatTask {
    pub(super) shared: Weak<ChatsInner>,
    pub(super) slot: Arc<ChatSlot>,
    pub(super) agent: Agent,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) closing: CancellationToken,
    pub(super) idle_after: Duration,
    /// How many conversations have a task.
    pub(super) count: Arc<watch::Sender<usize>>,
    /// Whether the task has ended normally, which means that no run waits.
    pub(super) left: bool,
}

impl ChatTask {
    /// Serves the conversation until no run waits, or the manager is closed.
    pub(super) async fn serve(mut self) {
        while !self.left {
            let opened = tokio::select! {
                biased;
                () = self.closing.cancelled() => Err(closed()),
                opened = self.agent.open_in(Arc::clone(&self.journal), &self.slot.id) => opened,
            };
            match opened {
                Ok(chat) => {
                    self.slot.set_open();
                    self.attend(chat).await;
                }
                Err(error) => self.slot.refuse(&error),
            }
            // `attend` has closed the conversation, so another process can open it.
            self.left = self.end_if_idle();
        }
    }

    /// Does the waiting runs one after the other. Returns if no new run comes for `idle_after`, or if another
    /// owner has continued the conversation.
    async fn attend(&self, mut chat: Chat) {
        while let Some(job) = self.next().await {
            self.run(&mut chat, job).await;
            if chat.state.is_lost() {
                break;
            }
        }
        // Each run writes its own end. If that write failed, it is retried here.
        let _ = timeout(LAST_WRITE, chat.save()).await;
        self.slot.lock().open = false;
    }

    /// The next run, or `None` if no run comes for `idle_after`.
    async fn next(&self) -> Option<QueuedRun> {
        let mut patience = pin!(sleep(self.idle_after));
        loop {
            {
                let mut state = self.slot.lock();
                if self.closing.is_cancelled() {
                    drop(state);
                    self.slot.refuse(&closed());
                    return None;
                }
                if let Some(job) = state.take() {
                    drop(state);
                    self.is_idle(false);
                    return Some(job);
                }
                if state.leave {
                    return None;
                }
            }
            self.is_idle(true);
            tokio::select! {
                () = self.slot.work.notified() => {}
                () = self.closing.cancelled() => {}
                () = &mut patience => return None,
            }
        }
    }

    fn is_idle(&self, idle: bool) {
        if let Some(shared) = self.shared.upgrade() {
            shared.is_idle(&self.slot, idle);
        }
    }

    async fn run(&self, chat: &mut Chat, mut job: QueuedRun) {
        let slot = &*self.slot;
        if job.watched && slot.lock().watchers == 0 {
            let why = "the run was stopped before it began, because nobody watched it any more: the message was not added";
            slot.end_run(Err(not_begun(Error::new(ErrorKind::Closed, why))));
            return;
        }
        slot.begin_run(&job.log, chat.facts());
        let log = Arc::clone(&job.log);
        let mut counted = FactCountGuard { chat, log: &log, ended: false };
        let end = self.drive(counted.chat, &mut job).await;
        counted.ended = true;
        drop(counted);
        slot.end_run(end);
    }

    async fn drive(&self, chat: &mut Chat, job: &mut QueuedRun) -> RunResult {
        if let Some(metadata) = job.metadata.take() {
            // The program can stop the run while the journal does not answer.
            tokio::select! {
                biased;
                described = chat.describe(&metadata) => described,
                () = job.stop.cancelled() => Err(unanswered()),
            }
            .map_err(not_begun)?;
        }
        let run = match mem::replace(&mut job.input, RunInput::Resume) {
            RunInput::Say(message) => chat.send(message),
            RunInput::Resume => chat.resume(),
        };
        let running =
            |state: &ChatSlotState| Some(state.running.as_ref()?.steered.steering.clone());
        let steering = running(&self.slot.lock());
        let run = match &steering {
            Some(steering) => run.with_steering(steering),
            None => run,
        };
        let run = match job.prepare.take() {
            None => run,
            Some(prepare) => caught(|| prepare(run)).map_err(|panicked| {
                let what =
                    format!("the function given to `with` {panicked}: the message was not added");
                not_begun(Error::new(ErrorKind::Panicked, what))
            })?,
        };
        let (slot, log) = (&*self.slot, &*job.log);
        let tell = |event: Event<'_>| {
            if let Event::Steered { message } = event {
                slot.confirm_received(message);
            }
            log.push(event);
            slot.wake();
        };
        let (run, stop) = run.with_first_watcher(tell).with_stop_token();
        let _stopped = OnCancel::new(&job.stop, move || stop.cancel());
        run.await
    }

    /// Ends the task's work, unless a run was added meanwhile. Returns whether the work has ended.
    fn end_if_idle(&self) -> bool {
        let mut state = self.slot.lock();
        state.leave = false;
        if !state.jobs.is_empty() {
            return false;
        }
        state.serving = false;
        true
    }
}

/// Records how many facts the conversation has after a run, even if the future of the run is dropped.
struct FactCountGuard<'a> {
    chat: &'a mut Chat,
    log: &'a RunLog,
    ended: bool,
}

impl Drop for FactCountGuard<'_> {
    fn drop(&mut self) {
        // If the conversation is closed now, facts that are not written yet are lost. So these facts do not
        // count.
        let goes_on = self.ended && !self.chat.state.is_lost();
        self.log.set_facts(if goes_on { self.chat.facts() } else { self.chat.state.written() });
    }
}

impl Drop for ChatTask {
    /// Also runs if the task was aborted or has panicked, so that no sender waits forever.
    fn drop(&mut self) {
        let shared = self.shared.upgrade();
        if !self.left {
            let (kind, what) = match shared {
                _ if panicking() => (ErrorKind::Panicked, "the task of the conversation panicked"),
                Some(_) if !self.closing.is_cancelled() => {
                    (ErrorKind::Closed, "the tokio runtime of the conversation was shut down")
                }
                _ => (ErrorKind::Closed, "the conversations were closed in this process"),
            };
            let waited = Error::new(kind, format!("{what}: the message was not added"));
            let went_on = format!(
                "{what} while the run went on: the journal has what was said and done until then. Go on with \
                 `resume`"
            );
            self.slot.abandon(&waited, &Error::new(kind, went_on));
        }
        if self.closing.is_cancelled() {
            self.slot.lock().closed = true;
            self.slot.wake();
        }
        if let Some(shared) = shared {
            shared.forget(&self.slot);
        }
        self.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}
