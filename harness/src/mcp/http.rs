//! A server at an address: a client that sends nothing twice and follows no redirect.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use reqwest::{
    Client, Url,
    header::{HeaderName, HeaderValue},
    redirect, retry,
};
use rmcp::transport::{
    StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
    streamable_http_client::StreamableHttpClientTransportConfig,
};

use super::{oauth::Authorization, way::Way};
use crate::{
    error::{Error, ErrorKind},
    tls,
};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How often a stream that broke is taken up again: by asking for what comes after the last event, never by
/// sending a call again.
const STREAMS: usize = 5;

/// Where the server is, and what each request to it has.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorization: Option<Arc<Authorization>>,
}

/// Without the values of headers, and without what may be secret in the address.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Address").field("url", &self.shown()).field("headers", &names).finish()
    }
}

impl Address {
    /// The address without user, password and query.
    pub(super) fn shown(&self) -> String {
        let Ok(mut url) = Url::parse(&self.url) else { return "the address".to_owned() };
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }

    /// What no error may show: values of headers, and what may be secret in the address.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> =
            self.headers.iter().map(|(_, value)| value.clone()).collect();
        if let Ok(url) = Url::parse(&self.url) {
            secrets.extend(url.password().map(str::to_owned));
            // As they are written, since that is how errors show them, and as they are meant.
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

    /// The way to the server, and whether the server has said that it does not know the session. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the address or a header cannot be used.
    pub(super) fn transport(
        &self,
    ) -> Result<(StreamableHttpClientTransport<Way>, Arc<AtomicBool>), Error> {
        let known = Url::parse(&self.url);
        if !known.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(Error::new(
                ErrorKind::Configuration,
                "this is no address of an MCP server: it begins with `https://` or `http://` and a host",
            ));
        }
        let straight = Url::parse(&self.url).is_ok_and(|url| is_here(&url));
        let client = Way::new(client(straight)?, self.authorization.clone());
        let is_forgotten = client.is_forgotten();
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .reinit_on_expired_session(false)
            .custom_headers(self.headers()?);
        let mut waits = ExponentialBackoff::default();
        waits.max_times = Some(STREAMS);
        waits.max_delay = Some(Duration::from_secs(10));
        config.retry_config = Arc::new(waits);
        Ok((StreamableHttpClientTransport::with_client(client, config), is_forgotten))
    }
}

/// Whether an address is on this machine: what is sent there goes through no proxy, whoever has named one.
pub(super) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

/// A client that sends nothing twice and follows no redirect: straight, or through the proxy that the environment names.
pub(super) fn client(straight: bool) -> Result<Client, Error> {
    let unusable =
        |err| Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up").because(err);
    let mut tls = tls::shared()?;
    tls.alpn_protocols = vec!["http/1.1".into()];
    let made = Client::builder();
    let made = if straight { made.no_proxy() } else { made };
    made.tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        // A connection that was kept may end at the moment in which a call is written to it.
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT)
        .build()
        .map_err(unusable)
}
