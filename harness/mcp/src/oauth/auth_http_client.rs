//! Sends requests to authorization servers: each request is sent once, no redirect is followed, and the size of
//! responses is limited.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use reqwest::{
    Client, Method, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{super::http::client, AuthError};
use harness_core::{
    error::{Error, ErrorKind},
    http_client::{is_loopback, through_proxy},
};

/// The time limit for a request and its response.
const REQUEST: Duration = Duration::from_secs(30);

/// The maximum size of a response, in bytes.
const ANSWER: usize = 256 * 1024;

/// The client for requests to authorization servers.
#[derive(Clone)]
pub(super) struct AuthHttpClient {
    client: Client,
    /// Whether the MCP server is on this machine or in the local network. Only such a server may name local URLs.
    near: bool,
}

pub(super) struct AuthResponse {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl AuthResponse {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl AuthHttpClient {
    /// Creates the client. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the HTTP client cannot be set up, for example without root certificates.
    pub(super) fn new(near: bool) -> Result<Self, Error> {
        Ok(Self { client: client()?, near })
    }

    /// Checks a URL from a server's response. Fails if requests to this URL are not allowed.
    pub(super) fn address(&self, what: &str, named: &str) -> Result<Url, AuthError> {
        usable(self.near, named).map_err(|why| {
            (ErrorKind::Protocol, format!("the address of {what} cannot be used: {why}"))
        })
    }

    /// Reads a description. Returns `None` if the server has no description at this URL.
    pub(super) async fn described<T: DeserializeOwned>(
        &self,
        what: &str,
        url: &Url,
    ) -> Result<Option<T>, AuthError> {
        let answer = self.ask(what, Method::GET, url, None, None).await?;
        if answer.status >= 500 {
            let why = format!("{what} cannot be read: status {}", answer.status);
            return Err((ErrorKind::Api, why));
        }
        Ok(answer.is_success().then(|| answer.json()).flatten())
    }

    /// Sends `body`, which is a media type and a text. `basic` is a header with the client's id and secret.
    pub(super) async fn post(
        &self,
        what: &str,
        url: &Url,
        body: (&'static str, String),
        basic: Option<HeaderValue>,
    ) -> Result<AuthResponse, AuthError> {
        self.ask(what, Method::POST, url, Some(body), basic).await
    }

    async fn ask(
        &self,
        what: &str,
        method: Method,
        url: &Url,
        body: Option<(&'static str, String)>,
        basic: Option<HeaderValue>,
    ) -> Result<AuthResponse, AuthError> {
        let request = self.client.request(method, url.clone());
        let mut request = request.header(ACCEPT, "application/json");
        if let Some((kind, body)) = body {
            request = request.header(CONTENT_TYPE, kind).body(body);
        }
        if let Some(basic) = basic {
            request = request.header(AUTHORIZATION, basic);
        }
        let reading = async {
            let mut answer = request.send().await?;
            let status = answer.status().as_u16();
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                if body.len() + chunk.len() > ANSWER {
                    return Ok(None);
                }
                body.extend_from_slice(&chunk);
            }
            Ok::<_, reqwest::Error>(Some(AuthResponse { status, body }))
        };
        let host = url.host_str().unwrap_or_default();
        match timeout(REQUEST, reading).await {
            Ok(Ok(Some(answer))) if (300..400).contains(&answer.status) => {
                let why = format!("{what} at `{host}` redirects, and redirects are not followed");
                Err((ErrorKind::Protocol, why))
            }
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) => {
                let why = format!("{what} at `{host}` has answered with more than {ANSWER} bytes");
                Err((ErrorKind::TooLarge, why))
            }
            Ok(Err(err)) => {
                let err = super::super::server_connection::sources(&err.without_url());
                let through = through_proxy(url);
                let why = format!("{what} at `{host}` cannot be reached{through}: {err}");
                Err((ErrorKind::Connect, why))
            }
            Err(_) => {
                let (limit, through) = (REQUEST.as_secs(), through_proxy(url));
                let why = format!("{what} at `{host}` has not answered{through} within {limit} s");
                Err((ErrorKind::Timeout, why))
            }
        }
    }
}

fn usable(near: bool, named: &str) -> Result<Url, &'static str> {
    let url = Url::parse(named).map_err(|_| "it is not a URL")?;
    if !is_safe(&url) {
        return Err("it is not an `https` address, and not on this machine");
    }
    if !near && is_near(&url) {
        return Err("it is in the network of this machine, and the server is not");
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("it has a user, a password or a fragment");
    }
    Ok(url)
}

/// Whether requests to this URL are protected: by TLS, or because they stay on this machine.
pub(super) fn is_safe(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(url),
        _ => false,
    }
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

/// Whether the host in a URL is on this machine or in the local network. Names other than `localhost` count as remote.
pub(super) fn is_near(url: &Url) -> bool {
    let near = |ip: Ipv4Addr| {
        let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xC0 == 64;
        ip.is_private() || ip.is_link_local() || ip.is_broadcast() || shared
            // Some systems treat 0.0.0.0/8 as this machine.
            || ip.is_loopback() || ip.octets()[0] == 0
    };
    let host = host(url);
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(near)
        || host.parse::<Ipv6Addr>().is_ok_and(|ip| {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                // Site-local addresses, which are deprecated.
                || ip.segments()[0] & 0xFFC0 == 0xFEC0
                || inner(ip).is_some_and(near)
        })
}

/// The IPv4 address inside an IPv6 address: mapped, compatible, translated (RFC 6052, RFC 8215) or 6to4.
fn inner(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xFFFF, high, low]
        | [0, 0, 0, 0, 0xFFFF, 0, high, low]
        | [0x64, 0xFF9B, 0 | 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// Encodes parameters as a form.
pub(super) fn form(parameters: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("http://h/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(parameters);
    url.query().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_distant_server_names_is_not_on_this_machine() {
        for (near, text, expected) in [
            (false, "https://as.example.com/token", true),
            (false, "http://as.example.com/token", false),
            (false, "https://u:p@as.example.com/token", false),
            (false, "https://as.example.com/token#x", false),
            (false, "https://10.0.0.1/", false),
            (false, "https://[::ffff:127.0.0.1]/", false),
            (false, "https://[fd00::1]/", false),
            (false, "https://169.254.169.254/latest", false),
            (false, "https://0x7f.1/", false),
            (false, "https://100.100.100.200/latest", false),
            (false, "https://0.1.2.3/", false),
            (false, "https://255.255.255.255/", false),
            (false, "https://[::127.0.0.1]/", false),
            (false, "https://[64:ff9b::a9fe:a9fe]/", false),
            (false, "https://[64:ff9b:1::a00:1]/", false),
            (false, "https://[2002:7f00:1::]/", false),
            (false, "https://[fec0::1]/", false),
            (false, "https://100.128.0.1/", true),
            (false, "https://[64:ff9b::808:808]/", true),
            (false, "https://[2606:4700::1]/", true),
            (false, "https://localhost./", false),
            (false, "http://127.0.0.1:80/", false),
            (true, "http://127.0.0.1:80/", true),
            (true, "http://[::1]:80/", true),
            (true, "http://10.0.0.1/", false),
            (true, "file:///etc/passwd", false),
            (true, "data:,x", false),
            (true, "", false),
        ] {
            assert_eq!(usable(near, text).is_ok(), expected, "{text}");
        }
    }
}
