//! One request and its response. Another thread can drop both to stop a run. The connection is then closed at once,
//! even if the task of the run is not polled again.

use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering, fence},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use reqwest::{Response, StatusCode, header::HeaderMap};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::recorder::ExchangeRecord;
use harness_core::stop::OnCancel;

/// A request that is being sent, and then its response.
pub(super) struct InFlightRequest {
    /// Stops the request when the token is cancelled; `None` if the request has no token.
    _stop: Option<OnCancel>,
    slot: Arc<ConnectionSlot>,
    record: Option<Box<ExchangeRecord>>,
}

/// Whether a request was stopped. The writer of the request body checks the flag before each piece.
#[derive(Clone, Debug, Default)]
pub(super) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The state that keeps the connection open. The thread that stops the request also has access to this state.
struct ConnectionSlot {
    /// The runtime in which the request was made. The client needs the runtime to return the connection to its pool,
    /// even if the response is dropped on another thread.
    runtime: Option<Handle>,
    /// Whether the request was stopped. Another thread may set the flag during a read.
    stopped: StopFlag,
    held: Mutex<RequestPhase>,
}

enum RequestPhase {
    Asking(Pin<Box<dyn Future<Output = reqwest::Result<Response>> + Send>>),
    Reading(Response),
    /// The request was stopped, or has failed.
    Nothing,
}

impl InFlightRequest {
    /// Creates a request that is sent when [`head`](Self::head) is polled. When `stop` is cancelled, the request is
    /// dropped at once. Later reads never return, so the reader must watch the token itself. `stopped` is set when
    /// `stop` is cancelled, and when the `InFlightRequest` is dropped.
    pub(super) fn new(
        sending: impl Future<Output = reqwest::Result<Response>> + Send + 'static,
        stop: Option<&CancellationToken>,
        stopped: StopFlag,
        record: Option<Box<ExchangeRecord>>,
    ) -> Self {
        let held = Mutex::new(RequestPhase::Asking(Box::pin(sending)));
        let runtime = Handle::try_current().ok();
        let slot = Arc::new(ConnectionSlot { runtime, stopped, held });
        let stops = || {
            let slot = Arc::clone(&slot);
            move || slot.stop()
        };
        let stop = stop.map(|stop| OnCancel::new(stop, stops()));
        Self { _stop: stop, slot, record }
    }

    /// Sends the request, and waits for the status and the headers of the response.
    pub(super) async fn head(&mut self) -> reqwest::Result<(StatusCode, HeaderMap)> {
        let head = poll_fn(|context| {
            self.slot.read(|held| {
                let RequestPhase::Asking(sending) = held else { return Poll::Pending };
                let answered = ready!(sending.as_mut().poll(context));
                *held = RequestPhase::Nothing;
                Poll::Ready(answered.map(|mut response| {
                    let head = (response.status(), mem::take(response.headers_mut()));
                    *held = RequestPhase::Reading(response);
                    head
                }))
            })
        })
        .await;
        if let Some(record) = &mut self.record {
            match &head {
                Ok((status, headers)) => record.answered(*status, headers),
                Err(err) => record.broke(err),
            }
        }
        head
    }

    /// Polls for the next chunk of the response body; `None` at its end.
    pub(super) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Bytes>>> {
        let came = self.slot.read(|held| {
            let RequestPhase::Reading(response) = held else { return Poll::Pending };
            // Dropping this future loses no chunk: the response keeps the chunk until a read takes it.
            pin!(response.chunk()).poll(context).map(Result::transpose)
        });
        if let (Some(record), Poll::Ready(came)) = (&mut self.record, &came) {
            match came {
                Some(Ok(bytes)) => record.record(Some(bytes)),
                Some(Err(err)) => record.broke(err),
                None => record.record(None),
            }
        }
        came
    }

    /// The next chunk of the response body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        poll_fn(|context| self.poll_chunk(context)).await.transpose()
    }
}

impl ConnectionSlot {
    /// Reads from the held request or response, and drops it if the slot was stopped during the read.
    fn read<T>(&self, read: impl FnOnce(&mut RequestPhase) -> Poll<T>) -> Poll<T> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let said = read(&mut held);
        drop(held);
        // The fences order the accesses to the lock and to the flag: either the stopping thread gets the lock, or this
        // thread sees the flag.
        fence(Ordering::SeqCst);
        if self.stopped.is_set() {
            self.let_go();
        }
        said
    }

    /// Drops the request now, or as soon as the current read has ended.
    fn stop(&self) {
        self.stopped.set();
        fence(Ordering::SeqCst);
        self.let_go();
    }

    /// Drops the held request or response. If a read holds the lock, that read drops it instead.
    fn let_go(&self) {
        let held = match self.held.try_lock() {
            Ok(mut held) => mem::replace(&mut *held, RequestPhase::Nothing),
            Err(TryLockError::Poisoned(held)) => {
                mem::replace(&mut *held.into_inner(), RequestPhase::Nothing)
            }
            Err(TryLockError::WouldBlock) => return,
        };
        let Some(runtime) = &self.runtime else { return drop(held) };
        match Handle::try_current() {
            // A thread that ends and has destroyed its thread-locals cannot enter a runtime.
            Err(none) if none.is_thread_local_destroyed() => {
                runtime.spawn(async move { drop(held) });
            }
            _ => {
                let _entered = runtime.enter();
                drop(held);
            }
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.slot.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn},
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        task::{Context, Poll, Waker},
    };

    use tokio_util::sync::CancellationToken;

    use super::{InFlightRequest, StopFlag};

    /// Counts how often the request is polled and dropped.
    #[derive(Default)]
    struct Seen {
        polled: AtomicU32,
        dropped: AtomicU32,
    }

    struct OnDrop(Arc<Seen>);

    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A request that never gets a response. Each poll of the request calls `polled`.
    fn asks(
        seen: &Arc<Seen>,
        stop: &CancellationToken,
        polled: impl Fn() + Send + Sync + 'static,
    ) -> InFlightRequest {
        let request = OnDrop(Arc::clone(seen));
        let sending = async move {
            let seen = &request.0;
            poll_fn(|_| {
                seen.polled.fetch_add(1, Ordering::SeqCst);
                polled();
                Poll::Ready(())
            })
            .await;
            pending().await
        };
        InFlightRequest::new(sending, Some(stop), StopFlag::default(), None)
    }

    fn poll(line: &mut InFlightRequest) {
        let head = pin!(line.head());
        assert!(head.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    #[test]
    fn nothing_is_sent_once_the_token_is_cancelled() {
        let (seen, stop) = (Arc::new(Seen::default()), CancellationToken::new());
        stop.cancel();
        let mut line = asks(&seen, &stop, || ());
        poll(&mut line);
        assert_eq!(seen.polled.load(Ordering::SeqCst), 0);
        assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_token_that_is_cancelled_while_the_answer_is_read_closes_it() {
        let (seen, stop) = (Arc::new(Seen::default()), CancellationToken::new());
        let cancels = stop.clone();
        let mut line = asks(&seen, &stop, move || cancels.cancel());
        poll(&mut line);
        assert_eq!(seen.polled.load(Ordering::SeqCst), 1);
        assert_eq!(seen.dropped.load(Ordering::SeqCst), 1);
    }
}
