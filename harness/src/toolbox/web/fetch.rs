//! The tool `web_fetch`: the request, and which addresses it may reach.

use std::{collections::HashSet, net::IpAddr, sync::Arc, time::Duration};

use harness_macros::toolset;
use reqwest::{
    Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::CONTENT_TYPE,
    redirect,
};

use super::{address::is_public, html::text_of};
use crate::{
    error::{Error, ErrorKind},
    message::Arguments,
    tls,
    tool::{Review, Scope, ToolError},
};

/// How much of a page is read, in bytes.
const MOST: usize = 2 * 1024 * 1024;
/// The approximate highest number of bytes of text in a result.
const MAX_TEXT: usize = 48 * 1024;
/// How long a page may take.
const TIME: Duration = Duration::from_secs(30);
/// How many redirects are followed.
const REDIRECTS: usize = 5;

/// The tool `web_fetch`: reads one page of the public web and gives the model its text.
///
/// ```
/// use harness::toolbox::WebFetch;
///
/// let tools = WebFetch::new()?.tools();
/// assert_eq!(tools[0].name(), "web_fetch");
/// # Ok::<(), harness::Error>(())
/// ```
///
/// A model may have read the URL anywhere, so this tool reaches only the public internet: each address is checked when
/// its name is resolved, and before each redirect. Addresses of this machine, of its network and of cloud metadata are
/// refused, unless the program [allows](Self::allowing) the host. It uses no proxy, because a proxy would
/// resolve the name itself; it sends no cookie and no credential.
///
/// A URL can also carry out what the model has read, so a person is asked about each new host, and can allow all requests
/// to it for the conversation. [`Permissions::allow_all`](crate::Permissions::allow_all) asks nobody.
#[derive(Debug)]
pub struct WebFetch {
    client: Client,
    allowed: Allowed,
}

/// The hosts that may be reached at any address.
#[derive(Clone, Debug)]
struct Allowed(Arc<HashSet<String>>);

impl Allowed {
    fn has(&self, host: &str) -> bool {
        self.0.contains(&host.trim_end_matches('.').to_ascii_lowercase())
    }

    /// Fails if this URL is not to be reached. A name is checked when it is resolved.
    fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}` is no scheme of the web: use `https`", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL has a user or a password: leave it out".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match ip {
            Ok(ip) if !is_public(ip) && !self.has(host) => Err(not_public(host)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Resolve for Allowed {
    fn resolve(&self, name: Name) -> Resolving {
        let is_allowed = self.has(name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<_> = found.filter(|at| is_allowed || is_public(at.ip())).collect();
            if found.is_empty() {
                return Err(not_public(name.as_str()).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn not_public(host: &str) -> String {
    format!("`{host}` is not in the public internet, and this tool reaches nothing else")
}

#[toolset]
impl WebFetch {
    /// Creates the tool.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if TLS cannot be set up.
    pub fn new() -> Result<Arc<Self>, Error> {
        Self::allowing([] as [&str; 0])
    }

    /// Creates the tool, which also reaches these hosts if they are not in the public internet, such as `wiki.corp.test`
    /// or `127.0.0.1`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if TLS cannot be set up.
    pub fn allowing(
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Arc<Self>, Error> {
        let hosts = hosts.into_iter().map(|host| host.into().to_ascii_lowercase());
        let allowed = Allowed(Arc::new(hosts.collect()));
        let checks = allowed.clone();
        let redirects = redirect::Policy::custom(move |to| match checks.check(to.url()) {
            Err(fault) => to.error(fault),
            Ok(()) if to.previous().len() > REDIRECTS => to.error("it redirects too often"),
            Ok(()) => to.follow(),
        });
        let client = Client::builder()
            .tls_backend_preconfigured(tls::shared()?)
            .no_proxy()
            .dns_resolver(Arc::new(allowed.clone()))
            .redirect(redirects)
            .referer(false)
            .timeout(TIME)
            .user_agent(concat!("harness/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.map_err(|err| {
            Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up").because(err)
        })?;
        Ok(Arc::new(Self { client, allowed }))
    }

    /// Reads a page of the web and gives its text, with the targets of its links. Text, JSON and XML are given as they
    /// are. Only the public internet can be reached.
    ///
    /// # Errors
    /// Fails if the URL cannot be reached, if the server refuses it, or if it is not a text.
    #[tool(side_effects = ["read", "network"], review = Self::review_of_host)]
    pub async fn web_fetch(
        &self,
        /// such as `https://example.com/page`
        url: &str,
        /// the byte of the text from which on it is given, to read on in a long page
        #[param(default = 0)]
        from: usize,
    ) -> Result<String, ToolError> {
        let url = parse(url).map_err(ToolError::new)?;
        self.allowed.check(&url).map_err(ToolError::new)?;
        let answer = self.client.get(url).send().await.map_err(|err| failed(&err))?;
        let status = answer.status();
        if !status.is_success() {
            let fault = format!("the server answered with {status}");
            let passes = status.is_server_error() || status.as_u16() == 429;
            return Err(if passes { ToolError::transient(fault) } else { ToolError::new(fault) });
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("text/plain").to_ascii_lowercase();
        let is_html = kind.contains("html");
        let is_text =
            is_html || kind.starts_with("text/") || kind.contains("json") || kind.contains("xml");
        if !is_text {
            return Err(ToolError::new(format!(
                "the page is `{kind}`, and this tool reads only text"
            )));
        }
        let (body, is_cut) = read(answer).await.map_err(|err| failed(&err))?;
        let body = String::from_utf8_lossy(&body);
        let text = if is_html { text_of(&body) } else { body.into_owned() };
        Ok(window(&text, from, is_cut))
    }

    fn review_of_host(&self, arguments: &Arguments) -> Review {
        let Some(url) = arguments.get("url").and_then(|url| url.as_str()) else {
            return Review::pass();
        };
        let checked = parse(url).and_then(|url| self.allowed.check(&url).map(|()| url));
        match checked {
            Err(fault) => Review::refuse(fault),
            Ok(url) => {
                let host = url.host_str().unwrap_or_default();
                let scope = Scope::new(format!("host:{host}"), format!("every page of {host}"));
                Review::ask(format!("the model chose the host {host}")).with_scope(scope)
            }
        }
    }
}

/// The URL that the model has written.
fn parse(url: &str) -> Result<Url, String> {
    Url::parse(url).map_err(|err| format!("the URL is not valid: {err}"))
}

/// The body, and whether there is more of it.
async fn read(mut answer: Response) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        let room = MOST.saturating_sub(body.len());
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if piece.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// The part of the text that begins at this byte, with a line that says what follows it.
fn window(text: &str, from: usize, is_cut: bool) -> String {
    let from = text.ceil_char_boundary(from.min(text.len()));
    let end = text.floor_char_boundary(from.saturating_add(MAX_TEXT).min(text.len()));
    let part = text.get(from..end).unwrap_or_default();
    let all = text.len();
    match (end < all, is_cut) {
        (true, _) => format!("(bytes {from} to {end} of {all}; `from` = {end} reads on)\n{part}"),
        (false, true) => format!(
            "(the page is longer than {MOST} bytes, and this is the end of what was read)\n{part}"
        ),
        (false, false) => part.to_owned(),
    }
}

/// The error for the model, with its last cause, which is what has really happened.
fn failed(err: &reqwest::Error) -> ToolError {
    let cause = tls::causes(err).last().map_or_else(|| err.to_string(), ToString::to_string);
    let fault = match err.url().and_then(Url::host_str) {
        Some(host) => format!("`{host}` could not be read: {cause}"),
        None => format!("the page could not be read: {cause}"),
    };
    match err.is_redirect() || fault.contains("public internet") {
        true => ToolError::new(fault),
        false => ToolError::transient(fault),
    }
}
