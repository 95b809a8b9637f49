//! A server at an address: an HTTP client that sends nothing twice and follows no redirect.

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
    http_client, tls,
};

/// The time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// How often a broken stream is resumed, by asking for the events after the last one, never by sending a call
/// again.
const STREAMS: usize = 5;

/// How many requests wait for the beginning of their answers at the same time. Further ones wait before they are sent.
const REQUESTS: usize = 256;

/// The address of a server, and the headers of each request.
#[derive(Clone)]
pub(super) struct ServerAddress {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorization: Option<Arc<Authorization>>,
}

/// Without the values of headers, and without secret parts of the address.
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
    /// The address without user, password and query.
    pub(super) fn shown(&self) -> String {
        let Ok(mut url) = Url::parse(&self.url) else { return "the address".to_owned() };
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }

    /// The proxy that requests to it go through, for errors.
    pub(super) fn through_proxy(&self) -> String {
        Url::parse(&self.url).map(|url| http_client::through_proxy(&url)).unwrap_or_default()
    }

    /// What no error may show: the values of headers, and secret parts of the address.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> =
            self.headers.iter().map(|(_, value)| value.clone()).collect();
        if let Ok(url) = Url::parse(&self.url) {
            let written = [url.username(), url.password().unwrap_or_default()];
            let decoded = written.map(decoded);
            // They are sent as a header.
            let both = decoded.join(":");
            secrets.extend([STANDARD.encode(&both), both]);
            secrets.extend(written.map(str::to_owned).into_iter().chain(decoded));
            // Both as they are written, which is how errors show them, and decoded.
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

    /// Sets up the transport to the server, with what is seen in the answers.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the address or a header cannot be used.
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

/// A part of an address, percent-decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits =
            behind.get(..2).filter(|it| *first == b'%' && it.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Creates a client whose requests are never sent twice.
pub(super) fn client() -> Result<Client, Error> {
    let unusable = |err| {
        Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up").with_source(err)
    };
    let mut tls = tls::shared()?;
    tls.alpn_protocols = vec!["http/1.1".into()];
    http_client::builder(CONNECT, tls)
        // A kept-alive connection may end at the moment in which a call is written to it.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(unusable)
}
