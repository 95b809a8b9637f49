//! OAuth for a server at an address: the settings of the program, and the store for grants.
//!
//! The rest of the framework never sees a token: it is added to a request below the protocol, and no request is
//! sent again because of it.

mod auth_http_client;
mod authorization;
mod challenge;
mod credential_store;
mod discovery;
mod grant;
mod redirect_listener;

use std::{fmt, io, io::Write as _, pin::Pin, sync::Arc, time::Duration};

use secrecy::SecretString;

pub(super) use self::authorization::Authorization;
use self::credential_store::GrantCache;
pub use self::credential_store::{McpCredentialStore, McpCredentials, McpCredentialsFuture};
use harness_core::error::{Error, ErrorKind};

/// A failure on the way to a token, with its kind.
type AuthError = (ErrorKind, String);

/// The page of an authorization server on which a person agrees.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpAuthorizationPage {
    /// The name that the program gave to the server that the token is for.
    pub server: String,
    /// The address to open in the person's browser. It is valid once. It comes from others: give it to the browser
    /// as one argument, and not through a shell.
    pub url: String,
}

type OnPage = dyn Fn(McpAuthorizationPage) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>
    + Send
    + Sync;

/// The settings by which a program is authorized to use a server at an address, by OAuth 2.1 as the
/// [protocol](https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization) describes it. Needs the
/// feature `mcp-oauth`.
///
/// Nothing is done before the server asks for a token. Then the library looks up the authorization server, a person
/// agrees on its page, and the page redirects to a port of this machine that is open while the person is waited
/// for. The token is sent with each request to this server and to no other, and it is renewed before it ends.
///
/// A call of a tool is sent at most once, whatever happens to the token: a call that the server refuses fails, and
/// the program is authorized again before the next call.
///
/// Clones share their grants: connections that are given clones ask the person once, and renew once.
///
/// Many servers accept a renewal token only once. So a request for a token goes on to its end, and its result is
/// kept, even if the call that waited for it is dropped; [`McpServer::close`](super::McpServer::close) waits for
/// it. It ends early only when this value and all its clones are dropped: keep one as long as the program runs.
///
/// If the person refuses, the connection does not ask again: connect to the server again for that.
///
/// ```no_run
/// use harness::mcp::{McpAuth, McpServer};
///
/// # async fn connect() -> Result<(), harness::Error> {
/// let auth = McpAuth::new().name("Order desk").on_page(|page| {
///     Box::pin(async move {
///         println!("{} asks you to say yes: {}", page.server, page.url);
///         Ok(())
///     })
/// });
/// let orders = McpServer::url("https://mcp.example.com/mcp").name("orders").oauth(auth).connect().await?;
/// # let _ = orders;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it has no effect until it is given to a server"]
pub struct McpAuth {
    name: String,
    client: Option<String>,
    secret: Option<Arc<SecretString>>,
    issuer: Option<String>,
    resource: Option<String>,
    metadata: Option<String>,
    scopes: Option<Vec<String>>,
    redirect: String,
    person: bool,
    limit: Duration,
    on_page: Arc<OnPage>,
    kept: Arc<GrantCache>,
}

/// Without secrets.
impl fmt::Debug for McpAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpAuth")
            .field("name", &self.name)
            .field("client", &self.client)
            .field("issuer", &self.issuer)
            .field("resource", &self.resource)
            .field("scopes", &self.scopes)
            .field("redirect", &self.redirect)
            .finish_non_exhaustive()
    }
}

impl Default for McpAuth {
    fn default() -> Self {
        Self::new()
    }
}

impl McpAuth {
    /// Creates the default settings: the program registers itself if that is possible, prints the page's address to
    /// standard error, waits five minutes for the person, and keeps grants in memory.
    pub fn new() -> Self {
        Self {
            name: "harness".to_owned(),
            client: None,
            secret: None,
            issuer: None,
            resource: None,
            metadata: None,
            scopes: None,
            redirect: "http://127.0.0.1/callback".to_owned(),
            person: true,
            limit: Duration::from_secs(300),
            on_page: Arc::new(|page| Box::pin(async move { print(&page) })),
            kept: Arc::default(),
        }
    }

    /// Sets the program's name that the person reads, for servers with which the program registers itself.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the id of the program at the authorization server, if it was registered there beforehand.
    pub fn client(mut self, id: impl Into<String>) -> Self {
        self.client = Some(id.into());
        self
    }

    /// Sets the secret that belongs to [`client`](Self::client). Set its authorization server with
    /// [`issuer`](Self::issuer), too: the server of the tools names the authorization server, and could otherwise
    /// name one that collects secrets.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(Arc::new(SecretString::from(secret.into())));
        self
    }

    /// Sets the authorization server, by its issuer identifier. If the server of the tools names only others, the
    /// authorization fails.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the resource that tokens are made for, if it is more than the server itself: some servers name their whole
    /// host. A token is then good for everything there, such as for other tenants, so set it only for a host that you
    /// trust as a whole. Unless set, the server has to name its own address (RFC 9728, 3.3).
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resource = Some(url.into());
        self
    }

    /// Sets the address of a document that describes the program
    /// ([Client ID Metadata Document](https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/)).
    /// It replaces a registration if the authorization server supports it.
    pub fn metadata(mut self, url: impl Into<String>) -> Self {
        self.metadata = Some(url.into());
        self
    }

    /// Sets the scopes that the token should have. Unless set, they are those that the server asks for, or else
    /// those that it says it knows. Scopes that the server asks for later are added, and the person is asked for them.
    /// [Without a person](Self::without_person) only these scopes are requested: nobody would see what a server adds.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the redirect address: `http://`, `127.0.0.1`, `[::1]` or `localhost`, and a path. Without a port a free
    /// one is used. Unless set, it is `http://127.0.0.1/callback`.
    pub fn redirect(mut self, url: impl Into<String>) -> Self {
        self.redirect = url.into();
        self
    }

    /// Requests the token in the program's own name, by its id and secret (`client_credentials`); no person is
    /// asked. If the server wants more scopes than the program has set, calls fail and name them.
    pub fn without_person(mut self) -> Self {
        self.person = false;
        self
    }

    /// Sets how long the person may take; five minutes unless set.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the function that opens the page for the person. An error of it ends the authorization. Unless set, the
    /// address is printed to standard error.
    pub fn on_page(
        mut self,
        open: impl Fn(McpAuthorizationPage) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_page = Arc::new(open);
        self
    }

    /// Sets the store for credentials. Unless set, they are kept in memory and end with this value and its clones.
    pub fn credential_store(mut self, grants: impl McpCredentialStore + 'static) -> Self {
        self.kept = Arc::new(GrantCache::new(grants));
        self
    }
}

fn print(page: &McpAuthorizationPage) -> Result<(), Error> {
    let server = page.server.escape_debug();
    writeln!(
        io::stderr(),
        "The MCP server `{server}` wants an authorization. Open this page: {}",
        page.url
    )
    .map_err(|err| {
        let why = "the address of the page cannot be printed";
        Error::new(ErrorKind::Configuration, why).with_source(err)
    })
}
