//! The thread of the connection: it does one thing after another, and ends with its owner.

use std::{
    path::PathBuf,
    sync::mpsc,
    thread::{Builder, JoinHandle},
};

use tokio::sync::oneshot;

use super::{fault, store::Store};
use crate::error::Error;

/// Something to be done with the store.
pub(super) type Job = Box<dyn FnOnce(&mut Store) + Send>;

/// The thread, and the way to it. Its drop waits until all that was asked is done.
pub(super) struct Worker {
    /// `None` only while it is dropped.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread, which opens the store first and says how that went.
    pub(super) fn start(
        path: PathBuf,
        open: impl FnOnce(PathBuf) -> Result<Store, Error> + Send + 'static,
    ) -> Result<(Self, oneshot::Receiver<Result<(), Error>>), Error> {
        let (jobs, asked) = mpsc::channel::<Job>();
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

    /// Lets the thread do something and waits for what it comes to; `None` if the thread has ended.
    /// What nobody waits for any more when its turn comes is not begun.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Option<Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |store| {
            if !reply.is_closed() {
                drop(reply.send(work(store)));
            }
        });
        self.jobs.as_ref()?.send(job).ok()?;
        answer.await.ok()
    }

    /// The way to the thread. It does not end while one of these is left: only what lives shorter
    /// than this may keep it.
    pub(super) fn jobs(&self) -> mpsc::Sender<Job> {
        // Without the thread's own end the sender leads nowhere.
        self.jobs.clone().unwrap_or_else(|| mpsc::channel().0)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It has panicked, or has ended; both are its end.
            drop(thread.join());
        }
    }
}
