//! The thread of the connection. The thread runs one job after the other, and ends when its owner is dropped.

use std::{
    path::PathBuf,
    sync::mpsc,
    thread::{Builder, JoinHandle},
};

use tokio::sync::oneshot;

use super::{fault, store::SqliteStore};
use harness_core::error::Error;

/// A job for the store.
pub(super) type StoreJob = Box<dyn FnOnce(&mut SqliteStore) + Send>;

/// The thread, and the channel to it. Dropping this value waits until all jobs are done.
pub(super) struct StoreThread {
    /// `None` only while this value is dropped.
    jobs: Option<mpsc::Sender<StoreJob>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Starts the thread. The thread first opens the store, and reports whether this succeeded.
    pub(super) fn start(
        path: PathBuf,
        open: impl FnOnce(PathBuf) -> Result<SqliteStore, Error> + Send + 'static,
    ) -> Result<(Self, oneshot::Receiver<Result<(), Error>>), Error> {
        let (jobs, asked) = mpsc::channel::<StoreJob>();
        let (opened, opening) = oneshot::channel();
        let named = path.clone();
        let thread = Builder::new().name("harness-sqlite".to_owned()).spawn(move || {
            let mut store = match open(path) {
                Ok(store) => store,
                Err(error) => return drop(opened.send(Err(error))),
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            while let Ok(job) = asked.recv() {
                job(&mut store);
            }
        });
        let thread = thread.map_err(|err| fault::no_thread(&named, err))?;
        Ok((Self { jobs: Some(jobs), thread: Some(thread) }, opening))
    }

    /// Sends a job to the thread and waits for the result. `None` if the thread has ended. The thread skips a job if
    /// its caller no longer waits.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteStore) -> Result<T, Error> + Send + 'static,
    ) -> Option<Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        let job: StoreJob = Box::new(move |store| {
            if !reply.is_closed() {
                drop(reply.send(work(store)));
            }
        });
        self.jobs.as_ref()?.send(job).ok()?;
        answer.await.ok()
    }

    /// A sender to the thread. The thread cannot end while a sender exists. So drop all senders before this value.
    pub(super) fn jobs(&self) -> mpsc::Sender<StoreJob> {
        // Without a channel, the sender gets no receiver, and its jobs are dropped.
        self.jobs.clone().unwrap_or_else(|| mpsc::channel().0)
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // The thread has ended, possibly with a panic.
            drop(thread.join());
        }
    }
}
