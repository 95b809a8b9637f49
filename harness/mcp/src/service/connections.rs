//! Limits the connections of a service with its own listener, and the size of answers that clients have not read.
//! Closes connections above these limits.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

/// The maximum size, in bytes, of all answers that clients have not read.
const UNREAD: usize = 64 << 20;

/// The time without progress after which a write to a client fails.
const STUCK: Duration = Duration::from_secs(30);

/// All connections of a service, with their maximum number.
#[derive(Clone)]
pub(super) struct ConnectionLimit {
    places: Arc<Semaphore>,
    state: Arc<Mutex<ConnectionQueues>>,
}

#[derive(Default)]
struct ConnectionQueues {
    /// The number of the newest entry in the maps.
    last: u64,
    /// The connections without a complete request, beginning with the connection that has waited longest.
    idle: BTreeMap<u64, CancellationToken>,
    /// The parts of answers that clients have not read, beginning with the oldest, each with its size in bytes.
    unread: BTreeMap<u64, (usize, CancellationToken)>,
}

impl ConnectionQueues {
    fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }
}

impl ConnectionLimit {
    pub(super) fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionQueues> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. If there are too many connections, the connection that has waited longest for a complete
    /// request is closed. If all connections have a complete request, the function waits until a connection ends.
    pub(super) async fn enter(&self) -> Option<HttpConnection> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                if let Some((_, oldest)) = self.lock().idle.pop_first() {
                    oldest.cancel();
                }
                Arc::clone(&self.places).acquire_owned().await.ok()?
            }
        };
        let ends = CancellationToken::new();
        let idle =
            IdleConnection { number: 0, all: self.clone(), ends: ends.clone(), _place: place };
        let idle = Arc::new(Mutex::new(idle));
        let connection = HttpConnection { all: self.clone(), ends, idle };
        connection.mark_idle();
        Some(connection)
    }
}

#[derive(Clone)]
pub(super) struct HttpConnection {
    all: ConnectionLimit,
    ends: CancellationToken,
    idle: Arc<Mutex<IdleConnection>>,
}

/// The entry of a connection while it has no complete request. Dropped with the connection.
struct IdleConnection {
    number: u64,
    all: ConnectionLimit,
    ends: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Drop for IdleConnection {
    fn drop(&mut self) {
        self.all.lock().idle.remove(&self.number);
    }
}

impl HttpConnection {
    /// Waits until this connection has to be closed to make room for other connections.
    pub(super) async fn wait_for_eviction(&self) {
        self.ends.cancelled().await;
    }

    /// Marks the connection as one without a complete request.
    fn mark_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.all.lock();
        state.idle.remove(&idle.number);
        idle.number = state.next();
        state.idle.insert(idle.number, idle.ends.clone());
    }

    /// Marks the connection as one with a complete request. Keep the returned value until the answer was sent.
    pub(super) fn begin_request(&self) -> UnreadResponse {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.all.lock().idle.remove(&idle.number);
        UnreadResponse { connection: self.clone(), part: None }
    }
}

/// The part of an answer that the client has not read.
pub(super) struct UnreadResponse {
    connection: HttpConnection,
    part: Option<u64>,
}

impl UnreadResponse {
    /// Counts a part of the answer as unread. Above the limit, the connections with the oldest unread parts are closed.
    pub(super) fn add_part(&mut self, bytes: usize) {
        let mut state = self.connection.all.lock();
        let number = state.next();
        state.unread.insert(number, (bytes, self.connection.ends.clone()));
        self.part = Some(number);
        let mut all: usize = state.unread.values().map(|(bytes, _)| bytes).sum();
        while all > UNREAD
            && state.unread.len() > 1
            && let Some((_, (bytes, oldest))) = state.unread.pop_first()
        {
            all = all.saturating_sub(bytes);
            oldest.cancel();
        }
    }

    /// Counts the last part as sent.
    pub(super) fn sent(&mut self) {
        if let Some(part) = self.part.take() {
            self.connection.all.lock().unread.remove(&part);
        }
    }
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        self.sent();
        self.connection.mark_idle();
    }
}

/// A socket whose writes fail if the client reads nothing for [`STUCK`].
pub(super) struct TimedSocket<S> {
    socket: S,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedSocket<S> {
    pub(super) fn new(socket: S) -> Self {
        Self { socket, stuck: None }
    }

    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(STUCK)));
        stuck.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn the_connection_gives_way_that_is_without_a_request_for_the_longest_time() {
        let all = ConnectionLimit::new(3);
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(all.enter().await.expect("a place"));
        }
        let busy = open[0].begin_request();
        // The second connection has been idle for a shorter time than the third.
        drop(open[1].begin_request());
        let entering = all.enter();
        tokio::pin!(entering);
        assert!(futures_util::poll!(&mut entering).is_pending());
        let given: Vec<bool> = open.iter().map(|it| it.ends.is_cancelled()).collect();
        assert_eq!(given, [false, false, true]);
        drop(open.pop());
        assert!(entering.await.is_some());
        drop(busy);
    }

    #[tokio::test]
    async fn the_connections_give_way_whose_clients_have_left_the_oldest_parts_unread() {
        let all = ConnectionLimit::new(9);
        let mut unread = Vec::new();
        for _ in 0..9 {
            let connection = all.enter().await.expect("a place");
            let mut part = connection.begin_request();
            part.add_part(UNREAD / 4);
            unread.push((connection, part));
            // The first client reads.
            if let Some((_, first)) = unread.first_mut() {
                first.sent();
                first.add_part(0);
            }
        }
        let given: Vec<bool> = unread.iter().map(|(it, _)| it.ends.is_cancelled()).collect();
        assert_eq!(given, [false, true, true, true, true, false, false, false, false]);
        drop(unread);
        let state = all.lock();
        assert!(state.unread.is_empty() && state.idle.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (socket, _client) = tokio::io::duplex(8);
        let mut socket = TimedSocket::new(socket);
        let stuck = socket.write_all(&[0; 9]).await.expect_err("it is stuck");
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
    }
}
