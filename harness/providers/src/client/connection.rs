//! Reuses connections, and detects whether a failed request used a new or a reused connection. A server may close an
//! idle connection at the moment at which a request is sent over it. Such a failure is not caused by the request, so
//! the request is sent again over a new connection.

use std::{
    cell::Cell,
    error::Error as _,
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::{InspectOk, TryFutureExt as _};
use hyper::http::Extensions;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpInfo};
use reqwest::Client;
use rustls::ClientConfig;
use tower_layer::layer_fn;
use tower_service::Service;

use harness_core::http_client::builder;

/// How long an idle connection is kept. Servers close idle connections after a minute or more.
const KEPT: Duration = Duration::from_secs(50);

/// The maximum number of shared clients. Each value of the connect timeout needs its own client.
const SETTINGS: usize = 8;

tokio::task_local! {
    /// The connection that the current request has opened, if any.
    static MADE: Cell<Option<NewConnection>>;
}

/// A new connection, identified by its local address. No two open connections have the same local address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NewConnection(Option<SocketAddr>);

impl NewConnection {
    fn of(connected: &Connected) -> Self {
        let mut extras = Extensions::new();
        connected.get_extras(&mut extras);
        Self(extras.get::<HttpInfo>().map(HttpInfo::local_addr))
    }
}

/// A client that reuses connections.
pub(super) fn keeping(connect: Duration, tls: ClientConfig) -> reqwest::Result<Client> {
    builder(connect, tls)
        .pool_idle_timeout(KEPT)
        .connector_layer(layer_fn(WatchedConnector))
        .build()
}

/// A client that opens a new connection for each request. All providers share this client, because it is rarely needed
/// and contains no provider's data.
pub(super) fn fresh(connect: Duration, tls: ClientConfig) -> reqwest::Result<Client> {
    static CLIENTS: Mutex<Vec<(Duration, Client)>> = Mutex::new(Vec::new());
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = clients.iter().find(|(setting, _)| *setting == connect) {
        return Ok(client.clone());
    }
    let client = builder(connect, tls).pool_max_idle_per_host(0).build()?;
    if clients.len() == SETTINGS {
        clients.remove(0);
    }
    clients.push((connect, client.clone()));
    Ok(client)
}

/// A request that failed before the headers of a response came.
pub(super) struct UnansweredRequest {
    pub(super) error: reqwest::Error,
    /// Whether the only known cause of the error is that a reused connection broke before the response began.
    pub(super) on_kept: bool,
}

/// Sends a request with a client that reuses connections, and waits for the headers of the response.
pub(super) async fn send<T>(
    sending: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, UnansweredRequest> {
    let sending = async {
        let result = sending.await;
        (result, MADE.with(Cell::get))
    };
    let (result, made) = MADE.scope(Cell::new(None), sending).await;
    result.map_err(|error| {
        let on_kept = broken(&error).is_some_and(|broken| Some(broken) != made);
        UnansweredRequest { error, on_kept }
    })
}

/// Returns the connection that broke before the headers of the response arrived. `None` if `error` has another cause.
/// (Truncated headers cause the same error. In practice the headers are one packet.)
fn broken(error: &reqwest::Error) -> Option<NewConnection> {
    if error.is_connect() || error.is_timeout() {
        return None;
    }
    let sent = error.source()?.downcast_ref::<hyper_util::client::legacy::Error>()?;
    let breaks = sent.source().is_some_and(|cause| match cause.downcast_ref::<hyper::Error>() {
        Some(cause) if cause.is_incomplete_message() => true,
        Some(cause) if cause.is_canceled() || cause.is_closed() => true,
        Some(cause) => cause
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>())
            .is_some_and(|cause| BREAKS.contains(&cause.kind())),
        None => false,
    });
    breaks.then(|| sent.connect_info().map_or(NewConnection(None), NewConnection::of))
}

/// The errors of the operating system for a connection that the other side has closed.
const BREAKS: [io::ErrorKind; 5] = [
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::NotConnected,
    io::ErrorKind::UnexpectedEof,
];

/// Records which connection a request opens. The client waits for an idle connection while it opens a new connection,
/// and uses the first available connection. So the request may use another connection than the connection that it has
/// opened.
#[derive(Clone)]
struct WatchedConnector<S>(S);

impl<R, S> Service<R> for WatchedConnector<S>
where
    S: Service<R, Response: Connection>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = InspectOk<S::Future, fn(&S::Response)>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Self::Future {
        self.0.call(to).inspect_ok(record::<S::Response> as fn(&S::Response))
    }
}

fn record<C: Connection>(connection: &C) {
    let made = NewConnection::of(&connection.connected());
    // If the request already uses another connection, the client completes this connection outside of any request, and
    // there is no cell to set.
    let _ = MADE.try_with(|cell| cell.set(Some(made)));
}
