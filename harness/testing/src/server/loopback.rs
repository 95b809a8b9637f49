//! The server itself: its address, the requests that it has received, and how it stops.

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

/// How long a test waits for a request or for the end of a connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on the loopback interface that answers by a script over real HTTP/1.1, records the
/// requests that it receives, and fails as a network fails if the script says so.
///
/// It keeps connections open between requests. Dropping it stops it: its tasks are aborted and end
/// the next time that the runtime runs.
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
/// Do not use `tokio::time::pause` in a test with real sockets: a paused clock jumps to the next timer
/// whenever the runtime is idle, and it is idle while it waits for a socket.
pub struct LoopbackServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LoopbackServer {
    /// Starts a server that gives these answers, one for each request, in the order in which the
    /// requests arrive. A request for which no answer is left gets status 400, and
    /// [`assert_finished`](Self::assert_finished) reports it.
    ///
    /// # Errors
    /// Fails if the operating system provides no port.
    pub async fn start(answers: impl IntoIterator<Item = impl Into<Answer>>) -> io::Result<Self> {
        Self::listen(ServerScript::Written(answers.into_iter().map(Into::into).collect())).await
    }

    /// Starts a server that decides each answer from its request. Requests are decided one after
    /// the other. A panic in `decide` is answered with status 400, and
    /// [`assert_finished`](Self::assert_finished) reports it.
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

    /// The address, such as `http://127.0.0.1:40213`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests received so far, in order of arrival.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.seen.borrow().requests.clone()
    }

    /// Waits for the request with this number; the first one is 0.
    ///
    /// # Panics
    /// Panics if it has not come after half a minute.
    pub async fn received(&self, request: usize) -> ReceivedRequest {
        let what = format!("request {request} to come");
        self.wait_for(&what, |seen| seen.requests.get(request).cloned()).await
    }

    /// The number of connections that were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.seen.borrow().connections.len()
    }

    /// The number of connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.seen.borrow().connections.iter().filter(|closed| closed.is_none()).count()
    }

    /// Waits until the connection with this number is closed, and returns who closed it; the first
    /// one is 0. A client that closes it while an answer is sent or stalls is noticed.
    ///
    /// # Panics
    /// Panics if it is still open after half a minute.
    pub async fn closed(&self, connection: usize) -> ClosedBy {
        let what = format!("connection {connection} to be closed");
        self.wait_for(&what, |seen| seen.connections.get(connection).copied().flatten()).await
    }

    /// Waits with a limit, so that a test fails with a reason and does not hang.
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    async fn wait_for<T>(&self, what: &str, look: impl Fn(&ObservedTraffic) -> Option<T>) -> T {
        let mut seen = self.shared.seen.subscribe();
        // Real time, because hours pass at once on a paused clock of tokio.
        let begun = Instant::now();
        loop {
            if let Some(found) = look(&seen.borrow_and_update()) {
                return found;
            }
            if begun.elapsed() > PATIENCE {
                panic!("waited {PATIENCE:?} for {what}; {self:?}");
            }
            // The loop checks again in both cases: after a change, and after the timeout.
            let _ = tokio::time::timeout(Duration::from_secs(1), seen.changed()).await;
        }
    }

    /// Checks that there was exactly one request for each answer of the script, and no fault that is
    /// not in the script.
    ///
    /// # Panics
    /// Panics and names the fault: answers are left, there were more requests than answers, a request
    /// was not HTTP, or the function that decides the answers panicked.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    pub fn assert_finished(&self) {
        if let Some(fault) = self.shared.final_fault() {
            panic!("{fault}");
        }
    }

    /// Stops the server: it accepts no more connections, closes those that are idle, stalled or
    /// waiting for a gate, sends the other answers to their end, and returns when its tasks have
    /// ended.
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

/// Accepts connections until the server stops, and then waits for the open ones.
async fn accept(listener: TcpListener, shared: Arc<ServerState>, stop: CancellationToken) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    serving.spawn(connection::serve(stream, Arc::clone(&shared), stop.clone()));
                }
                // The client closed the connection before it was accepted, or too many files are open.
                Err(err) => shared.fault(format!("a connection could not be accepted: {err}")),
            },
            // Tasks that have ended are removed.
            Some(_) = serving.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    while serving.join_next().await.is_some() {}
}
