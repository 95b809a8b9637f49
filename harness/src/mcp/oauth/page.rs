//! The port to which the page of an authorization server redirects. It is open while somebody waits for the
//! redirect.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{super::http::is_here, Fault};
use crate::{
    error::ErrorKind,
    secret::{Secrets, beginning},
};

/// The time that a browser may take for its request.
const REQUEST: Duration = Duration::from_secs(10);

/// The longest request, in bytes.
const HEAD: usize = 16 * 1024;

/// The number of connections at the same time.
const AT_ONCE: usize = 16;

/// An open port.
pub(super) struct Port {
    listener: TcpListener,
    /// Its address, as it is told to the authorization server.
    pub(super) redirect: Url,
}

/// The parameters of the redirect.
pub(super) struct Back {
    pub(super) code: String,
    /// The issuer that has sent it.
    pub(super) issuer: Option<String>,
}

impl Port {
    /// Opens the port of this address, or a free one if it has none.
    pub(super) async fn open(redirect: &str) -> Result<Self, Fault> {
        let wrong =
            |why: &str| (ErrorKind::Configuration, format!("`redirect` cannot be used: {why}"));
        let mut url = Url::parse(redirect).map_err(|_| wrong("it is not a URL"))?;
        if url.scheme() != "http" || !is_here(&url) {
            return Err(wrong(
                "it begins with `http://127.0.0.1`, `http://[::1]` or `http://localhost`",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or a fragment"));
        }
        // The standard port of `http` is not shown in an address.
        let port = url.port().unwrap_or(0);
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let ip: IpAddr = host.parse().unwrap_or(Ipv4Addr::LOCALHOST.into());
        let listener = TcpListener::bind((ip, port)).await;
        let opened = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) =
            opened.map_err(|err| wrong(&format!("the port cannot be opened: {err}")))?;
        url.set_port(Some(port)).map_err(|()| wrong("it takes no port"))?;
        Ok(Self { listener, redirect: url })
    }

    /// Waits for the person's browser. Requests without the right state are ignored. The inner error is the
    /// person's refusal.
    pub(super) async fn wait(&self, state: &str) -> Result<Result<Back, Fault>, Fault> {
        let mut connected = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connected.len() < AT_ONCE => {
                    let (stream, _) = accepted.map_err(|err| {
                        (ErrorKind::Connect, format!("the browser cannot be heard: {err}"))
                    })?;
                    connected.push(timeout(REQUEST, self.answer(stream, state)));
                }
                Some(answered) = connected.next() => {
                    if let Ok(Some(back)) = answered {
                        return Ok(back);
                    }
                }
            }
        }
    }

    /// Reads one request and writes the text that the person sees.
    async fn answer(&self, mut stream: TcpStream, state: &str) -> Option<Result<Back, Fault>> {
        let mut head = Vec::new();
        // Reads the whole head: if a connection is closed before everything was read, the browser may lose the
        // answer.
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD {
            let mut some = [0; 2048];
            match stream.read(&mut some).await {
                Ok(read) if read > 0 => head.extend_from_slice(some.get(..read)?),
                _ => break,
            }
        }
        let head = String::from_utf8_lossy(&head);
        let back = self.read(head.lines().next().unwrap_or_default(), state);
        let (status, words) = match &back {
            Some(Ok(_)) => ("200 OK", "Done. You can close this page."),
            Some(Err(_)) => ("200 OK", "The authorization was not given. You can close this page."),
            None => ("404 Not Found", "No authorization is waiting for this request."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
             referrer-policy: no-referrer\r\nconnection: close\r\n\r\n{words}",
            words.len()
        );
        // The request counts even if the browser has gone away.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        back
    }

    fn read(&self, line: &str, state: &str) -> Option<Result<Back, Fault>> {
        let target = line.strip_prefix("GET ")?.split(' ').next()?;
        let url = Url::options().base_url(Some(&self.redirect)).parse(target).ok()?;
        if url.path() != self.redirect.path() || url.origin() != self.redirect.origin() {
            return None;
        }
        let all = |name: &str| -> Vec<String> {
            let found = url.query_pairs().filter(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned()).collect()
        };
        let of = |name: &str| all(name).pop();
        // A request that has a parameter twice, or both a code and an error, is ignored.
        let is_odd = ["state", "code", "error", "error_description", "iss"]
            .into_iter()
            .any(|name| all(name).len() > 1);
        if is_odd || of("code").is_some() == of("error").is_some() || of("state")? != state {
            return None;
        }
        if let Some(error) = of("error") {
            let more = of("error_description").map(|more| format!(" ({more})")).unwrap_or_default();
            let words = format!("{error}{more}");
            let secrets = Secrets::default().with(state);
            let words = beginning(&secrets.hide(&words), 300).into_owned();
            let why = format!("the authorization was not given: {words}");
            return Some(Err((ErrorKind::Api, why)));
        }
        let code = of("code").filter(|code| !code.is_empty())?;
        Some(Ok(Back { code, issuer: of("iss") }))
    }
}
