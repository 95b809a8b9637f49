//! Connections that are kept, and how one is told from a new one. A server closes a connection that
//! it has kept for a while, and a request may meet it at that moment: nothing is wrong then but the
//! connection.

use std::{
    cell::Cell,
    error::Error as _,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::http::Extensions;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpInfo};
use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use tower_layer::Layer;
use tower_service::Service;

/// So long a connection is kept that nobody uses. Servers close theirs after a minute and more.
const KEPT: Duration = Duration::from_secs(50);

/// So many clients for new connections are kept: one for each setting of the clock that bounds
/// connecting.
const SETTINGS: usize = 8;

tokio::task_local! {
    /// The connection that the request has made which is being sent, if it has made one.
    static MADE: Cell<Option<Made>>;
}

/// A connection that was made: by its address on this side, which no other one has at that time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Made(Option<SocketAddr>);

impl Made {
    fn of(connected: &Connected) -> Self {
        let mut extras = Extensions::new();
        connected.get_extras(&mut extras);
        Self(extras.get::<HttpInfo>().map(HttpInfo::local_addr))
    }
}

/// A client that keeps connections.
pub(super) fn keeping(connect: Duration, tls: ClientConfig) -> reqwest::Result<Client> {
    builder(connect, tls).pool_idle_timeout(KEPT).connector_layer(Watch).build()
}

/// A client that makes a new connection for each request. It is seldom needed, and it holds nothing that belongs to one provider: all of them share it.
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

fn builder(connect: Duration, tls: ClientConfig) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls)
        // The policy above sees every try.
        .retry(reqwest::retry::never())
        // A key is not carried to another address.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect)
}

/// A request that got no answer.
pub(super) struct Unanswered {
    pub(super) error: reqwest::Error,
    /// Whether nothing is known to be wrong but a connection that was kept: it broke before an
    /// answer had begun.
    pub(super) on_kept: bool,
}

/// Waits for the head of the answer to a request of a client that keeps connections.
pub(super) async fn send<T>(
    sending: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, Unanswered> {
    let sending = async {
        let result = sending.await;
        (result, MADE.with(Cell::get))
    };
    let (result, made) = MADE.scope(Cell::new(None), sending).await;
    result.map_err(|error| {
        let on_kept = broken(&error).is_some_and(|broken| Some(broken) != made);
        Unanswered { error, on_kept }
    })
}

/// The connection that broke before the head of an answer had come, if that is what happened. (A
/// head that was cut is told in the same words; it is one packet in practice.)
fn broken(error: &reqwest::Error) -> Option<Made> {
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
    breaks.then(|| sent.connect_info().map_or(Made(None), Made::of))
}

/// How the system tells of a connection that the other side has closed.
const BREAKS: [io::ErrorKind; 5] = [
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::NotConnected,
    io::ErrorKind::UnexpectedEof,
];

/// Notes which connection a request makes. The client looks for a kept one and makes a new one at
/// the same time, and the request takes the one that is there first: if it has made one, it may be
/// sent over another one all the same.
#[derive(Clone)]
struct Watch;

#[derive(Clone)]
struct Watched<S>(S);

struct Connecting<F>(F);

impl<S> Layer<S> for Watch {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched(inner)
    }
}

impl<R, S> Service<R> for Watched<S>
where
    S: Service<R, Response: Connection, Future: Unpin>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Connecting<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Connecting<S::Future> {
        Connecting(self.0.call(to))
    }
}

impl<F, C, E> Future for Connecting<F>
where
    F: Future<Output = Result<C, E>> + Unpin,
    C: Connection,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let result = ready!(Pin::new(&mut self.0).poll(context));
        if let Ok(connection) = &result {
            let made = Made::of(&connection.connected());
            // The client goes on with a connection that the request does not need any more, where
            // there is no request.
            let _ = MADE.try_with(|cell| cell.set(Some(made)));
        }
        Poll::Ready(result)
    }
}
