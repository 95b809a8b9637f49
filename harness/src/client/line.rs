//! One request and its answer, which whoever stops the run can drop at once: the connection is closed
//! without waiting until the task of the run is polled.

use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError, TryLockError},
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use reqwest::{Response, StatusCode, header::HeaderMap};
use tokio::{runtime::Handle, task::coop::unconstrained};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A request that is sent, and then its answer.
pub(super) struct Line {
    /// It wakes the slot, and so holds it. Without a token nobody stops it from outside.
    _stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    slot: Arc<Slot>,
}

/// What holds the connection open.
struct Slot {
    stop: Option<CancellationToken>,
    /// In which it was begun: a connection that is free again needs it to be kept, whoever drops its answer.
    runtime: Option<Handle>,
    held: Mutex<Held>,
}

enum Held {
    Asking(Pin<Box<dyn Future<Output = reqwest::Result<Response>> + Send>>),
    Reading(Response),
    /// It was dropped, or has failed.
    Nothing,
}

impl Line {
    /// A request, which is sent when its head is [asked for](Self::head). It is dropped in the moment in
    /// which `stop` is cancelled; whoever reads it then waits for ever, and has to hear the token itself.
    pub(super) fn new(
        sending: impl Future<Output = reqwest::Result<Response>> + Send + 'static,
        stop: Option<&CancellationToken>,
    ) -> Self {
        // A token tells its children first: the connection's task is woken before that of the run.
        let stop = stop.map(CancellationToken::child_token);
        let held = Mutex::new(Held::Asking(Box::pin(sending)));
        let slot = Arc::new(Slot { stop: stop.clone(), runtime: Handle::try_current().ok(), held });
        let stop = stop.map(|stop| {
            let mut told = Box::pin(stop.cancelled_owned());
            let waker = Waker::from(Arc::clone(&slot));
            // Once is enough: the token wakes the slot, and nobody else polls this.
            let _ = pin!(unconstrained(told.as_mut())).poll(&mut Context::from_waker(&waker));
            told
        });
        Self { _stop: stop, slot }
    }

    /// Waits for the head of the answer.
    pub(super) async fn head(&mut self) -> reqwest::Result<(StatusCode, HeaderMap)> {
        poll_fn(|context| {
            let mut held = self.slot.held.lock().unwrap_or_else(PoisonError::into_inner);
            let Held::Asking(sending) = &mut *held else { return Poll::Pending };
            let answered = match sending.as_mut().poll(context) {
                Poll::Ready(answered) => answered,
                Poll::Pending => return Poll::Pending,
            };
            *held = Held::Nothing;
            Poll::Ready(answered.map(|mut response| {
                let head = (response.status(), mem::take(response.headers_mut()));
                *held = Held::Reading(response);
                head
            }))
        })
        .await
    }

    /// The next bytes of the answer, until it is over.
    pub(super) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Bytes>>> {
        let mut held = self.slot.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Held::Reading(response) = &mut *held else { return Poll::Pending };
        // A chunk that is waited for no more is not lost: the response has it still.
        pin!(response.chunk()).poll(context).map(Result::transpose)
    }

    /// The next bytes of the answer, until it is over.
    pub(super) async fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        poll_fn(|context| self.poll_chunk(context)).await.transpose()
    }
}

impl Slot {
    /// Lets go of what holds the connection, unless it is being read in this moment.
    fn let_go(&self) {
        let held = match self.held.try_lock() {
            Ok(mut held) => mem::replace(&mut *held, Held::Nothing),
            Err(TryLockError::Poisoned(held)) => {
                mem::replace(&mut *held.into_inner(), Held::Nothing)
            }
            Err(TryLockError::WouldBlock) => return,
        };
        let _entered = self.runtime.as_ref().map(Handle::enter);
        drop(held);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.slot.let_go();
    }
}

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.stop.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return;
        }
        // If it is being read, the run is being polled in this moment, and hears the token next.
        self.let_go();
    }
}
