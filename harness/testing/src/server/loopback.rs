//! The loopback server: its address, the received requests, and its shutdown.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{
    answer::Answer,
    connection,
    received::ReceivedRequest,
    state::{ClosedBy, ObservedTraffic, ServerScript, ServerState},
};

/// The maximum time that a test waits for a request or for the end of a connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on the loopback interface for tests. It answers real HTTP/1.1 requests by a script, records the requests,
/// and simulates network failures where the script requests them.
///
/// The server keeps connections open between requests. Dropping the value stops the server: its tasks are aborted, and
/// end when the runtime next runs them.
///
/// ```
/// use harness::testing::{Answer, LoopbackServer, anthropic};
/// use serde_json::json;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let server = LoopbackServer::start([
///     anthropic::error(529, "overloaded_error", "Overloaded"),
///     anthropic::body().text("Hello").into(),
/// ])
/// .await?;
/// println!("point the client at {}", server.url());
/// // .. send requests ..
/// assert_eq!(server.requests().len(), 0);
/// server.shutdown().await;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Do not use `tokio::time::pause` in a test with real sockets. A paused clock jumps to the next timer whenever the
/// runtime is idle, and the runtime is idle while it waits for a socket.
pub struct LoopbackServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LoopbackServer {
    /// Starts a server that gives these answers, one per request, in the order in which the requests arrive. A request
    /// after the last answer gets status 400, and [`assert_finished`](Self::assert_finished) reports it.
    ///
    /// # Errors
    /// Fails if the operating system provides no port.
    pub async fn start(answers: impl IntoIterator<Item = impl Into<Answer>>) -> io::Result<Self> {
        Self::listen(ServerScript::Written(answers.into_iter().map(Into::into).collect())).await
    }

    /// Starts a server that computes each answer from its request, one request at a time. If `decide` panics, the
    /// request gets status 400, and [`assert_finished`](Self::assert_finished) reports the panic.
    ///
    /// ```
    /// use harness::testing::{Answer, LoopbackServer};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let mut served = 0;
    /// let server = LoopbackServer::answering(move |request| {
    ///     served += 1;
    ///     Answer::bytes(200, "text/plain", format!("{} was request {served}", request.path()))
    /// })
    /// .await?;
    /// # drop(server);
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the operating system provides no port.
    pub async fn answering<A: Into<Answer>>(
        mut decide: impl FnMut(&ReceivedRequest) -> A + Send + 'static,
    ) -> io::Result<Self> {
        Self::listen(ServerScript::Decided(Box::new(move |request| decide(request).into()))).await
    }

    async fn listen(script: ServerScript) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerState::new(script));
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, Arc::clone(&shared), stop.clone()));
        Ok(Self { address, shared, stop, task })
    }

    /// The URL of the server, such as `http://127.0.0.1:40213`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests received so far, in order of arrival.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.seen.borrow().requests.clone()
    }

    /// Waits for the request with this number, from 0.
    ///
    /// # Panics
    /// Panics if the request has not arrived after half a minute.
    pub async fn received(&self, request: usize) -> ReceivedRequest {
        let what = format!("request {request} to come");
        self.wait_for(&what, |seen| seen.requests.get(request).cloned()).await
    }

    /// The number of connections that were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.seen.borrow().connections.len()
    }

    /// The number of connections that are currently open.
    pub fn open_connections(&self) -> usize {
        self.shared.seen.borrow().connections.iter().filter(|closed| closed.is_none()).count()
    }

    /// Waits until the connection with this number, from 0, is closed, and returns which side closed it. A close by the
    /// client is noticed even while an answer is being sent or is stalled.
    ///
    /// # Panics
    /// Panics if the connection is still open after half a minute.
    pub async fn closed(&self, connection: usize) -> ClosedBy {
        let what = format!("connection {connection} to be closed");
        self.wait_for(&what, |seen| seen.connections.get(connection).copied().flatten()).await
    }

    /// Waits with a time limit, so that a test fails with a reason instead of hanging.
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    async fn wait_for<T>(&self, what: &str, look: impl Fn(&ObservedTraffic) -> Option<T>) -> T {
        let mut seen = self.shared.seen.subscribe();
        // The limit uses real time, because on tokio's paused clock hours can pass at once.
        let begun = Instant::now();
        loop {
            if let Some(found) = look(&seen.borrow_and_update()) {
                return found;
            }
            if begun.elapsed() > PATIENCE {
                panic!("waited {PATIENCE:?} for {what}; {self:?}");
            }
            // After a change and after a timeout, the loop calls `look` again, so the result does not matter.
            let _ = tokio::time::timeout(Duration::from_secs(1), seen.changed()).await;
        }
    }

    /// Checks that the server received exactly one request per answer of the script, and that no unexpected fault
    /// occurred.
    ///
    /// # Panics
    /// Panics with the fault: unused answers, more requests than answers, a request that was not HTTP, or a panic of
    /// the function that computes the answers.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    pub fn assert_finished(&self) {
        if let Some(fault) = self.shared.final_fault() {
            panic!("{fault}");
        }
    }

    /// Stops the server. The server accepts no further connections, closes connections that are idle, stalled or
    /// waiting for a gate, and completes all other answers. Returns when all tasks have ended.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Err(err) = (&mut self.task).await
            && let Ok(panic) = err.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        // The task owns the listener and the tasks of all connections.
        self.task.abort();
    }
}

impl fmt::Debug for LoopbackServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackServer")
            .field("url", &self.url())
            .field("requests", &self.shared.seen.borrow().requests.len())
            .field("connections", &self.connections())
            .field("open_connections", &self.open_connections())
            .finish_non_exhaustive()
    }
}

/// Accepts connections until the server stops, and then waits until the open connections have ended.
async fn accept(listener: TcpListener, shared: Arc<ServerState>, stop: CancellationToken) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    serving.spawn(connection::serve(stream, Arc::clone(&shared), stop.clone()));
                }
                // Either the client closed the connection before it was accepted, or too many files are open.
                Err(err) => shared.fault(format!("a connection could not be accepted: {err}")),
            },
            // Removes the tasks that have ended.
            Some(_) = serving.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    while serving.join_next().await.is_some() {}
}
