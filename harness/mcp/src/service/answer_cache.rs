//! Keeps the answers of sessions for clients that lost their connection before the answers arrived.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    model::{JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::{SessionId, session::ServerSseMessage},
};
use tokio::time::Instant;

use crate::memory;

/// The approximate maximum memory of all kept answers together, in bytes.
const BYTES: usize = 64 << 20;

/// The newest answers of all sessions of a service.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerCache {
    time: Duration,
    kept: Arc<Mutex<VecDeque<CachedAnswer>>>,
}

#[derive(Debug)]
struct CachedAnswer {
    session: SessionId,
    /// The number of the stream on which the client waited.
    stream: u64,
    /// The id of the event in which the answer was sent; `None` if it was not sent as an event.
    event: Option<String>,
    at: Instant,
    size: usize,
    message: Arc<ServerJsonRpcMessage>,
}

impl AnswerCache {
    /// Creates a cache that keeps each answer for this time.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, ..Self::default() }
    }

    /// Locks the cache, and removes expired answers.
    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedAnswer>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.front().is_some_and(|oldest| oldest.at.elapsed() >= self.time) {
            kept.pop_front();
        }
        kept
    }

    pub(super) fn keep(&self, session: &SessionId, stream: u64, message: &ServerJsonRpcMessage) {
        let size = memory::of(message);
        if size > BYTES {
            return;
        }
        let (session, message) = (session.clone(), Arc::new(message.clone()));
        let mut kept = self.lock();
        kept.push_back(CachedAnswer {
            session,
            stream,
            event: None,
            at: Instant::now(),
            size,
            message,
        });
        let mut bytes: usize = kept.iter().map(|it| it.size).sum();
        while bytes > BYTES {
            bytes -= kept.pop_front().map_or(bytes, |oldest| oldest.size);
        }
    }

    /// Records the event in which an answer was sent on this stream.
    pub(super) fn set_event(&self, session: &SessionId, stream: u64, message: &ServerSseMessage) {
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

    /// The events that follow this event on the stream; `None` if there is no answer yet, or if the answer is no longer
    /// kept.
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
        let mut answer = ServerSseMessage::default();
        answer.message = Some(Arc::clone(&kept.message));
        Some(vec![answer])
    }

    /// Removes the answers of a session that has ended.
    pub(super) fn forget(&self, session: &SessionId) {
        self.lock().retain(|it| it.session != *session);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, RequestId};
    use serde_json::json;

    use super::*;

    /// Small JSON can need much memory: a zero in a list needs two bytes of text, but a whole value in memory.
    #[test]
    fn answers_are_kept_by_their_memory() {
        let answer = |zeros: usize| {
            let result = CallToolResult::structured(json!({"v": vec![0; zeros]}));
            JsonRpcMessage::response(result.into(), RequestId::Number(1))
        };
        let (answers, session) = (AnswerCache::new(Duration::from_secs(9)), SessionId::from("a"));
        for (stream, zeros) in [(0, 10), (1, BYTES / 96 / 3), (2, BYTES / 96 / 3), (3, BYTES / 96)]
        {
            answers.keep(&session, stream, &answer(zeros));
        }
        let is_kept = |stream| answers.after(&session, stream, "0").is_some();
        // The last answer is too large for the cache. Each earlier answer still fits.
        assert_eq!([0, 1, 2, 3].map(is_kept), [true, true, true, false]);
        answers.keep(&session, 4, &answer(BYTES / 96 / 2));
        assert_eq!([0, 1, 2, 4].map(is_kept), [false, false, true, true]);
    }
}
