//! The local port to which the page of an authorization server redirects. The port is open only while a redirect is
//! expected.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use futures_util::{
    StreamExt as _,
    future::{AbortHandle, AbortRegistration, Abortable},
    stream::FuturesUnordered,
};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{AuthError, grant::words};
use harness_core::{error::ErrorKind, http_client::is_loopback, secret::Secrets};

/// The time limit for a browser's request.
const REQUEST: Duration = Duration::from_secs(10);

/// The maximum size of a request, in bytes.
const HEAD: usize = 16 * 1024;

/// The time limit for writing the response to the browser. The redirect is valid even if the write fails.
const ANSWER: Duration = Duration::from_secs(2);

/// The maximum number of connections that are read at the same time. Above this number, the oldest connection is
/// closed, because other programs on this machine could block the browser.
const AT_ONCE: usize = 64;

/// An open port of this machine for the redirect of the browser.
pub(super) struct RedirectListener {
    listener: TcpListener,
    /// The redirect URL that is sent to the authorization server.
    pub(super) redirect: Url,
}

/// The values that the redirect must contain.
pub(super) struct ExpectedRedirect<'a> {
    pub(super) state: &'a str,
    pub(super) issuer: &'a str,
    /// Whether the authorization server promises to add its issuer to the redirect.
    pub(super) has_issuer: bool,
}

/// The code in a redirect. The inner error is the person's refusal. The outer error is a redirect that is not valid.
type RedirectResult = Result<Result<String, AuthError>, AuthError>;

impl RedirectListener {
    /// Opens the port in this URL, or a free port if the URL has no port.
    pub(super) async fn open(redirect: &str) -> Result<Self, AuthError> {
        let wrong =
            |why: &str| (ErrorKind::Configuration, format!("`redirect` cannot be used: {why}"));
        let mut url = Url::parse(redirect).map_err(|_| wrong("it is not a URL"))?;
        if url.scheme() != "http" || !is_loopback(&url) {
            return Err(wrong(
                "it begins with `http://127.0.0.1`, `http://[::1]` or `http://localhost`",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or a fragment"));
        }
        // `Url` omits port 80, the default port of `http`, so a URL with port 80 looks like a URL without a port.
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

    /// Waits for the person's browser, and returns the code. Requests with a wrong state are ignored. The inner error
    /// is the person's refusal.
    pub(super) async fn wait(&self, expected: &ExpectedRedirect<'_>) -> RedirectResult {
        let (mut connected, mut readers) = (FuturesUnordered::new(), VecDeque::new());
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted.map_err(|err| {
                        (ErrorKind::Connect, format!("the browser cannot be heard: {err}"))
                    })?;
                    if readers.len() == AT_ONCE {
                        readers.pop_front().inspect(AbortHandle::abort);
                    }
                    let (reader, registration) = AbortHandle::new_pair();
                    readers.push_back(reader);
                    connected.push(self.answer(stream, registration, expected));
                }
                Some(answered) = connected.next() => {
                    if let Some(back) = answered {
                        return back;
                    }
                }
            }
        }
    }

    /// Reads one request, and writes the page for the person. Returns `None` if the request is no expected redirect.
    async fn answer(
        &self,
        mut stream: TcpStream,
        reader: AbortRegistration,
        expected: &ExpectedRedirect<'_>,
    ) -> Option<RedirectResult> {
        let reading = Abortable::new(read_head(&mut stream), reader);
        let head = timeout(REQUEST, reading).await.ok()?.ok()?;
        let back = self.read(head.lines().next().unwrap_or_default(), expected);
        let (status, words) = match &back {
            // The code is not exchanged for a token yet, so the page does not report success.
            Some(Ok(Ok(_))) => {
                ("200 OK", "The program has received the answer. You can close this page.")
            }
            Some(Ok(Err(_))) => {
                ("200 OK", "The authorization was not given. You can close this page.")
            }
            Some(Err(_)) => (
                "400 Bad Request",
                "The answer was not accepted; the program says why. You can close this page.",
            ),
            None => ("404 Not Found", "No authorization is waiting for this request."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
             referrer-policy: no-referrer\r\nconnection: close\r\n\r\n{words}",
            words.len()
        );
        // The redirect is valid even if the browser does not read the page.
        let _ = timeout(ANSWER, async {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
        back
    }

    fn read(&self, line: &str, expected: &ExpectedRedirect<'_>) -> Option<RedirectResult> {
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
        // A request must not repeat a parameter, and must have either a code or an error. Other requests are ignored.
        let is_odd = ["state", "code", "error", "error_description", "iss"]
            .into_iter()
            .any(|name| all(name).len() > 1);
        if is_odd || of("code").is_some() == of("error").is_some() || of("state")? != expected.state
        {
            return None;
        }
        // RFC 9207: the issuer must match exactly. A server that promises to send its issuer must send it.
        let wrong = match of("iss") {
            Some(issuer) if issuer != expected.issuer => Some(
                "another authorization server has answered than was asked; its code was not used",
            ),
            None if expected.has_issuer => Some(
                "the answer does not say which authorization server it is from (`iss`), though it should",
            ),
            _ => None,
        };
        if let Some(why) = wrong {
            return Some(Err((ErrorKind::Protocol, why.to_owned())));
        }
        if let Some(error) = of("error") {
            let secrets = Secrets::default().with(expected.state);
            let words = words(&error, of("error_description").as_deref(), &secrets);
            let why = format!("the authorization was not given: {words}");
            return Some(Ok(Err((ErrorKind::Api, why))));
        }
        let code = of("code").filter(|code| !code.is_empty())?;
        Some(Ok(Ok(code)))
    }
}

/// Reads the whole head of a request, because a browser may lose the response if the connection is closed before
/// everything was read.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD {
        let mut some = [0; 2048];
        match stream.read(&mut some).await {
            Ok(read @ 1..) => head.extend_from_slice(some.get(..read).unwrap_or_default()),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}
