//! The requests to a process that have no answer yet.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use rmcp::model::RequestId;
use tokio::io::AsyncWrite;

use super::scan::Scan;

/// The requests that have no answer yet. One that was cancelled stays, since its answer may still come.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<Mutex<Requests>>);

/// By the text of its id, each request with whether it is the first of a session.
type Requests = BTreeMap<String, (RequestId, bool)>;

impl Open {
    /// With this request alone.
    pub(super) fn of(request: Option<(RequestId, bool)>) -> Self {
        let all = request.map(|(id, begins)| (id.to_string(), (id, begins)));
        Self(Arc::new(Mutex::new(all.into_iter().collect())))
    }

    fn all(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this request is answered. Some servers return a number as a text.
    pub(super) fn answered(&self, id: &RequestId) {
        self.all().remove(&id.to_string());
    }

    /// The only request without an answer, and whether it is the first of a session.
    pub(super) fn only(&self) -> Option<(RequestId, bool)> {
        let all = self.all();
        all.values().next().filter(|_| all.len() == 1).cloned()
    }
}

fn note(all: &mut Requests, scan: &Scan) {
    match scan.asks() {
        // The answer to it only comes at its end.
        None | Some((_, b"\"subscriptions/listen\"")) => {}
        Some((id, method)) => {
            let begins = matches!(method, b"\"initialize\"" | b"\"server/discover\"");
            all.insert(id.to_string(), (id.clone(), begins));
        }
    }
}

/// The input of a process. It notes the requests that are written to it.
pub(super) struct Asked<W> {
    to: W,
    scan: Scan,
    open: Open,
}

impl<W> Asked<W> {
    pub(super) fn new(to: W, open: Open) -> Self {
        Self { to, scan: Scan::default(), open }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Asked<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // The answer may be read before this function has returned.
        let mut all = this.open.all();
        let count = ready!(Pin::new(&mut this.to).poll_write(cx, bytes))?;
        let written = bytes.get(..count).unwrap_or_default();
        for part in written.split_inclusive(|byte| *byte == b'\n') {
            this.scan.read(part);
            if part.ends_with(b"\n") {
                note(&mut all, &std::mem::take(&mut this.scan));
            }
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().to).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().to).poll_shutdown(cx)
    }
}
