//! A service over streamable HTTP.

use std::{convert::Infallible, fmt, pin::Pin, sync::Arc, task, time::Duration};

use ::http::{Request, Response, StatusCode};
use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{McpService, serving::Serving};
use crate::error::Error;

/// Sessions that are open at the same time. Each ends five minutes after its last request.
const SESSIONS: usize = 1024;

/// Connections of [`McpService::serve_http`] at the same time.
const CONNECTIONS: usize = 256;

/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);

/// A body of an answer.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A service over streamable HTTP, for a program's own server: a [`tower_service::Service`] over requests of the
/// crate `http` with any body. TLS, authorisation and the path are the program's.
///
/// With axum, `Router::new().route_service("/mcp", service.http()?)`; with hyper,
/// `hyper_util::service::TowerToHyperService::new(service.http()?)`.
///
/// A clone serves the same sessions. All of them end, and their calls are stopped, when the last clone is dropped.
pub struct McpHttp<H> {
    inner: StreamableHttpService<Arc<Serving<H>>, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    _end: Arc<tokio_util::sync::DropGuard>,
}

impl<H> Clone for McpHttp<H> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            sessions: Arc::clone(&self.sessions),
            _end: Arc::clone(&self._end),
        }
    }
}

impl<H> fmt::Debug for McpHttp<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttp").finish_non_exhaustive()
    }
}

impl<H: ServerHandler> McpService<H> {
    /// The service for a program's own HTTP server.
    ///
    /// # Errors
    /// Fails if a tool is not right: two with one name, a value that nobody gives.
    pub fn http(self) -> Result<McpHttp<H>, Error> {
        let end = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.hosts.clone())
            .with_allowed_origins(self.origins.clone())
            // Without it an empty list lets all in.
            .enforce_origin_validation()
            .with_max_request_body_bytes(self.request)
            .with_cancellation_token(end.clone());
        let serving = Arc::new(self.serving()?);
        let sessions = Arc::new(LocalSessionManager::default());
        let start = move || Ok(Arc::clone(&serving));
        Ok(McpHttp {
            inner: StreamableHttpService::new(start, Arc::clone(&sessions), config),
            sessions,
            _end: Arc::new(end.drop_guard()),
        })
    }

    /// Serves clients over HTTP at the path `/mcp` of this listener, until the future is dropped. It is for the
    /// machine itself, such as `127.0.0.1:8080`: there is no TLS and nobody is asked who he is.
    ///
    /// # Errors
    /// Fails as [`http`](Self::http) does. A connection that cannot be accepted does not end it.
    pub async fn serve_http(self, listener: TcpListener) -> Result<(), Error> {
        let service = Routed(self.http()?);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let Ok((socket, _)) = listener.accept().await else {
                // No file descriptor is free, for one: somebody has to close one.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            connections.spawn(async move {
                let io = hyper_util::rt::TokioIo::new(socket);
                let mut server = hyper::server::conn::http1::Builder::new();
                server.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD);
                // It fails only for its client.
                let _ = server.serve_connection(io, service).await;
                drop(place);
            });
        }
    }
}

impl<H, B> tower_service::Service<Request<B>> for McpHttp<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let begins = !request.headers().contains_key("mcp-session-id");
            if begins && service.sessions.sessions.read().await.len() >= SESSIONS {
                return Ok(said(StatusCode::SERVICE_UNAVAILABLE, "too many sessions are open"));
            }
            let answer = service.inner.handle(request).await;
            Ok(answer.map(|body| body.boxed_unsync()))
        })
    }
}

/// A service at the path `/mcp`.
struct Routed<H>(McpHttp<H>);

impl<H> Clone for Routed<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H, B> tower_service::Service<Request<B>> for Routed<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.uri().path() != "/mcp" {
            return Box::pin(async { Ok(said(StatusCode::NOT_FOUND, "the path is /mcp")) });
        }
        self.0.call(request)
    }
}

fn said(status: StatusCode, words: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(words.as_bytes())).boxed_unsync());
    *answer.status_mut() = status;
    answer
}
