//! Tracks the requests to a process that have no answer yet.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use rmcp::model::RequestId;
use tokio::io::AsyncWrite;

use super::scan::MessageScan;

/// The maximum number of notifications that are remembered. Some servers wrongly answer a notification, without an id.
const REPLIES: usize = 256;

/// The requests that have no answer yet.
#[derive(Clone, Default)]
pub(super) struct PendingRequests(Arc<Mutex<SentMessages>>);

/// The messages that were written to a server.
#[derive(Default)]
struct SentMessages {
    /// The requests without an answer, by the text of their ids.
    requests: BTreeMap<String, PendingRequest>,
    /// The messages that get no answer according to the protocol. Some servers reply to them without an id, so the
    /// answered message is unknown.
    others: VecDeque<OneWayMessage>,
    /// The number of one-way messages that had no reply when a later request was answered. A reply to one of these
    /// messages would be late.
    late: usize,
    /// The number of messages written so far.
    count: u64,
}

#[derive(Clone)]
struct PendingRequest {
    id: RequestId,
    kind: RequestKind,
    number: u64,
}

/// The purpose of a request. Only purposes that need a special treatment are distinguished.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// The request with which a session or a connection begins.
    Session,
    /// The request for the list of tools.
    Tools,
    Other,
}

/// A message without an answer: a notification, a response to a request of the server, or a cancelled request.
struct OneWayMessage {
    /// The id, if this is a cancelled request.
    id: Option<String>,
    number: u64,
}

impl SentMessages {
    fn push(&mut self, other: OneWayMessage) {
        if self.others.len() == REPLIES {
            self.others.pop_front();
        }
        self.others.push_back(other);
    }

    fn is_cancelled(&self, id: &str) -> bool {
        self.others.iter().any(|other| other.id.as_deref() == Some(id))
    }

    fn note(&mut self, scan: &MessageScan) {
        self.count += 1;
        let number = self.count;
        match scan.request() {
            // This request is answered only when the subscription ends.
            Some((_, b"\"subscriptions/listen\"")) => {}
            // This request was cancelled before it was written.
            Some((id, _)) if self.is_cancelled(&id.to_string()) => {}
            Some((id, method)) => {
                let kind = match method {
                    b"\"initialize\"" | b"\"server/discover\"" => RequestKind::Session,
                    b"\"tools/list\"" => RequestKind::Tools,
                    _ => RequestKind::Other,
                };
                let request = PendingRequest { id: id.clone(), kind, number };
                self.requests.insert(id.to_string(), request);
            }
            None => self.push(OneWayMessage { id: None, number }),
        }
    }
}

impl PendingRequests {
    /// Tracks only this request.
    pub(super) fn of(request: Option<(RequestId, RequestKind)>) -> Self {
        let all =
            request.map(|(id, kind)| (id.to_string(), PendingRequest { id, kind, number: 0 }));
        let requests = all.into_iter().collect();
        Self(Arc::new(Mutex::new(SentMessages { requests, ..SentMessages::default() })))
    }

    fn written(&self) -> MutexGuard<'_, SentMessages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this request is unanswered and lists the tools.
    pub(super) fn has_list(&self, id: &RequestId) -> bool {
        let written = self.written();
        written
            .requests
            .get(&id.to_string())
            .is_some_and(|request| request.kind == RequestKind::Tools)
    }

    /// Records that this request was answered. Some servers return a numeric id as text.
    pub(super) fn answered(&self, id: &RequestId) {
        let (mut written, id) = (self.written(), id.to_string());
        let of_cancelled = |other: &&OneWayMessage| other.id.as_ref() == Some(&id);
        let cancelled = written.others.iter().find(of_cancelled).map(|other| other.number);
        let answered = written.requests.remove(&id).map(|request| request.number);
        // Most servers reply in order, so replies to earlier one-way messages have already arrived or will never
        // arrive.
        if let Some(number) = answered.or(cancelled) {
            let before = written.others.len();
            written.others.retain(|other| other.number > number);
            written.late += before - written.others.len() - usize::from(cancelled.is_some());
        }
    }

    /// Records that the caller no longer waits for this request. The answer to the request may still come.
    pub(super) fn cancelled(&self, id: &RequestId) {
        let (mut written, id) = (self.written(), id.to_string());
        let number = written.requests.remove(&id).map_or(written.count, |request| request.number);
        written.push(OneWayMessage { id: Some(id), number });
    }

    /// Whether this request is unanswered.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.written().requests.contains_key(&id.to_string())
    }

    /// The request to which an answer without an id is assigned. The answer may also be a reply to a one-way message,
    /// so one answer without an id is ignored for each one-way message.
    pub(super) fn meant(&self) -> Option<GuessedRequest> {
        let mut written = self.written();
        if written.others.pop_front().is_some() {
            return None;
        }
        let is_late = written.late > 0;
        written.late = written.late.saturating_sub(1);
        let request = written.requests.values().next().filter(|_| written.requests.len() == 1)?;
        Some(GuessedRequest {
            id: request.id.clone(),
            begins: request.kind == RequestKind::Session,
            is_doubtful: is_late,
        })
    }
}

/// The only unanswered request, to which an answer without an id is assigned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GuessedRequest {
    pub(super) id: RequestId,
    /// Whether this is the first request of a session.
    pub(super) begins: bool,
    /// Whether the message may be a late reply to another message.
    pub(super) is_doubtful: bool,
}

/// A writer to the standard input of a process. Records the requests that are written.
pub(super) struct StdinRecorder<W> {
    to: W,
    scan: MessageScan,
    open: PendingRequests,
}

impl<W> StdinRecorder<W> {
    pub(super) fn new(to: W, open: PendingRequests) -> Self {
        Self { to, scan: MessageScan::default(), open }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for StdinRecorder<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // The lock is held during the write, because the answer may be read before this function returns.
        let mut open = this.open.written();
        let count = ready!(Pin::new(&mut this.to).poll_write(cx, bytes))?;
        let written = bytes.get(..count).unwrap_or_default();
        for part in written.split_inclusive(|byte| *byte == b'\n') {
            this.scan.read(part);
            if part.ends_with(b"\n") {
                open.note(&std::mem::take(&mut this.scan));
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
