//! The answers of sessions, which are kept for clients that have lost them on the way.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    model::{JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::{SessionId, session::ServerSseMessage},
};
use tokio::time::Instant;

/// How many bytes of JSON all kept answers have together.
const BYTES: usize = 64 << 20;

/// The newest answers of all sessions of a service.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    time: Duration,
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

#[derive(Debug)]
struct Kept {
    session: SessionId,
    /// The number of the stream on which the client waited.
    stream: u64,
    /// The id of the event that it was, if it was one.
    event: Option<String>,
    at: Instant,
    size: usize,
    message: ServerJsonRpcMessage,
}

impl Answers {
    /// Keeps each for this time.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, ..Self::default() }
    }

    /// Those that are not too old.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.front().is_some_and(|oldest| oldest.at.elapsed() >= self.time) {
            kept.pop_front();
        }
        kept
    }

    pub(super) fn keep(&self, session: &SessionId, stream: u64, message: &ServerJsonRpcMessage) {
        let mut size = Size(0);
        if serde_json::to_writer(&mut size, message).is_err() || size.0 > BYTES {
            return;
        }
        let (session, message) = (session.clone(), message.clone());
        let mut kept = self.lock();
        kept.push_back(Kept {
            session,
            stream,
            event: None,
            at: Instant::now(),
            size: size.0,
            message,
        });
        let mut bytes: usize = kept.iter().map(|it| it.size).sum();
        while bytes > BYTES {
            bytes -= kept.pop_front().map_or(bytes, |oldest| oldest.size);
        }
    }

    /// This message is sent on this stream.
    pub(super) fn passes(&self, session: &SessionId, stream: u64, message: &ServerSseMessage) {
        let is_answer = message.message.as_deref().is_some_and(|message| {
            matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
        });
        if !is_answer {
            return;
        }
        for kept in self.lock().iter_mut() {
            if kept.session == *session && kept.stream == stream {
                kept.event.clone_from(&message.event_id);
            }
        }
    }

    /// What comes on this stream after this event: `None` if it has no answer yet, or if that is not kept any more.
    pub(super) fn after(
        &self,
        session: &SessionId,
        stream: u64,
        event: &str,
    ) -> Option<Vec<ServerSseMessage>> {
        let all = self.lock();
        let kept = all.iter().find(|it| it.session == *session && it.stream == stream)?;
        if kept.event.as_deref() == Some(event) {
            return Some(Vec::new());
        }
        Some(vec![ServerSseMessage::from_message(kept.message.clone())])
    }

    /// A session has ended.
    pub(super) fn forget(&self, session: &SessionId) {
        self.lock().retain(|it| it.session != *session);
    }
}

/// Counts bytes.
struct Size(usize);

impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
