//! A server at a URL: the HTTP client sends each request once and follows no redirect.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{
    Client, Url,
    header::{HeaderName, HeaderValue},
};
use rmcp::transport::{
    StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
    streamable_http_client::StreamableHttpClientTransportConfig,
};

use super::{
    http_client::{McpHttpClient, SessionState},
    oauth::Authorization,
};
use harness_core::{
    error::{Error, ErrorKind},
    http_client::{self, percent_decoded},
    tls,
};

/// The time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The maximum number of times that a broken stream is resumed. To resume, the client requests the events after the
/// last received event. The call itself is never sent again.
const STREAMS: usize = 5;

/// The maximum number of requests that wait for the headers of their responses. Further requests wait before they are
/// sent.
const REQUESTS: usize = 256;

/// The URL of a server, and the headers of each request.
#[derive(Clone)]
pub(super) struct ServerAddress {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorization: Option<Arc<Authorization>>,
}

/// Omits the values of headers and the secret parts of the URL.
impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ServerAddress")
            .field("url", &self.shown())
            .field("headers", &names)
            .finish()
    }
}

impl ServerAddress {
    /// The URL without user, password, query and fragment, for errors.
    pub(super) fn shown(&self) -> String {
        let Ok(mut url) = Url::parse(&self.url) else { return "the address".to_owned() };
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }

    /// Names the proxy for requests to this server, for errors; empty without a proxy.
    pub(super) fn through_proxy(&self) -> String {
        Url::parse(&self.url).map(|url| http_client::through_proxy(&url)).unwrap_or_default()
    }

    /// The secrets to remove from errors: the values of headers, and the secret parts of the URL.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> =
            self.headers.iter().map(|(_, value)| value.clone()).collect();
        if let Ok(url) = Url::parse(&self.url) {
            let written = [url.username(), url.password().unwrap_or_default()];
            let decoded = written.map(percent_decoded);
            // User and password are sent as a header in this form.
            let both = decoded.join(":");
            secrets.extend([STANDARD.encode(&both), both]);
            secrets.extend(written.map(str::to_owned).into_iter().chain(decoded));
            // Each value is added as written in the URL, because errors show this form, and decoded.
            let written = url.query().into_iter().flat_map(|query| query.split('&'));
            secrets.extend(
                written
                    .map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value).to_owned()),
            );
            secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        }
        secrets
    }

    fn headers(&self) -> Result<HashMap<HeaderName, HeaderValue>, Error> {
        let wrong = |name: &str, what: &str| {
            Error::new(
                ErrorKind::Configuration,
                format!("the header `{name}` has {what} that cannot be sent"),
            )
        };
        let mut headers = HashMap::new();
        for (name, value) in &self.headers {
            let key: HeaderName = name.parse().map_err(|_| wrong(name, "a name"))?;
            let mut value: HeaderValue = value.parse().map_err(|_| wrong(name, "a value"))?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        Ok(headers)
    }

    /// Sets up the transport to the server, and the state that is learned from its responses. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the URL or a header is not valid.
    pub(super) fn transport(
        &self,
    ) -> Result<(StreamableHttpClientTransport<McpHttpClient>, Arc<SessionState>), Error> {
        let known = Url::parse(&self.url);
        if !known.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(Error::new(
                ErrorKind::Configuration,
                "this is not the address of an MCP server: give one that begins with `https://` or `http://` and a host",
            ));
        }
        let client = McpHttpClient::new(client()?, self.authorization.clone());
        let session_state = client.session_state();
        // `McpHttpClient` applies the default limits for response sizes. Limits in this configuration have no effect.
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .reinit_on_expired_session(false)
            .max_concurrent_requests(REQUESTS)
            .custom_headers(self.headers()?);
        let mut waits = ExponentialBackoff::default();
        waits.max_times = Some(STREAMS);
        waits.max_delay = Some(Duration::from_secs(10));
        config.retry_config = Arc::new(waits);
        Ok((StreamableHttpClientTransport::with_client(client, config), session_state))
    }
}

/// An HTTP client that never repeats a request.
pub(super) fn client() -> Result<Client, Error> {
    let unusable = |err| {
        Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up").with_source(err)
    };
    let mut tls = tls::shared()?;
    tls.alpn_protocols = vec!["http/1.1".into()];
    http_client::builder(CONNECT, tls)
        // The server may close an idle connection at the moment at which the client writes a call to it.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(unusable)
}
