//! OAuth for a server at a URL: the settings of the program, and the store for grants.
//!
//! Only the HTTP client adds the token to requests. No request is sent again because of a token.

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

/// A failure to obtain a token: its kind and its text.
type AuthError = (ErrorKind, String);

/// The page of an authorization server. On this page, a person grants access.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpAuthorizationPage {
    /// The program's name for the MCP server that the token is for.
    pub server: String,
    /// The URL to open in the person's browser. The URL is valid only once. The URL comes from another server, so pass
    /// it to the browser as one argument, and not through a shell.
    pub url: String,
}

type OnPage = dyn Fn(McpAuthorizationPage) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>
    + Send
    + Sync;

/// The settings with which a program obtains authorization for a server at a URL, with OAuth 2.1 as the
/// [protocol](https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization) describes it. Needs the
/// feature `mcp-oauth`.
///
/// When the MCP server first requires a token, the library looks up the authorization server, and a person agrees on
/// that server's page. The page redirects to a local port, which is open only while the library waits. The library
/// sends the token only to this MCP server, and renews the token before it expires.
///
/// A call of a tool is sent at most once. If the server refuses the token of a call, the call fails, and the library
/// obtains a new token before the next call.
///
/// Clones share their grants: connections with clones of one `McpAuth` ask the person once and renew once.
///
/// Many servers accept a refresh token only once. So a token request is completed and its result is stored even if the
/// call that waited for it is dropped. [`McpServer::close`](super::McpServer::close) waits for the request. The request
/// is stopped only when this value and all its clones are dropped: keep one of them as long as the program runs.
///
/// If the person refuses, the connection does not ask again. Connect to the server again to ask once more.
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

/// Omits secrets.
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
    /// Creates the default settings: the program registers itself if the authorization server supports that, prints the
    /// URL of the page to standard error, waits five minutes for the person, and keeps grants in memory.
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

    /// Sets the program's name. The library sends this name when it registers the program, and the authorization page
    /// shows the name to the person.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the program's client id at the authorization server, if the program was registered there beforehand.
    pub fn client(mut self, id: impl Into<String>) -> Self {
        self.client = Some(id.into());
        self
    }

    /// Sets the secret for [`client`](Self::client). Also set the authorization server with [`issuer`](Self::issuer):
    /// otherwise the MCP server names the authorization server, and could name a server that collects secrets.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(Arc::new(SecretString::from(secret.into())));
        self
    }

    /// Sets the authorization server, by its issuer identifier. The authorization fails if the MCP server names only
    /// other authorization servers.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the resource for which tokens are requested, for a server that names its whole host as the resource. Such a
    /// token is valid for all services on that host, including other tenants. So set the resource only for a host that
    /// you trust completely. Default: the server has to name its own URL (RFC 9728, 3.3).
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resource = Some(url.into());
        self
    }

    /// Sets the URL of a document that describes the program ([Client ID Metadata
    /// Document](https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/)). The document
    /// replaces a registration if the authorization server supports it.
    pub fn metadata(mut self, url: impl Into<String>) -> Self {
        self.metadata = Some(url.into());
        self
    }

    /// Sets the scopes to request. Default: the scopes in the MCP server's refusal, or else all scopes that the server
    /// lists. If the server later requires more scopes, the library adds these scopes, and asks the person to grant
    /// them. [Without a person](Self::without_person), the library requests only the scopes that are set here, because
    /// no person could check the added scopes.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the redirect URL: `http://`, then `127.0.0.1`, `[::1]` or `localhost`, and a path. Without a port, a free
    /// port is used. Default: `http://127.0.0.1/callback`.
    pub fn redirect(mut self, url: impl Into<String>) -> Self {
        self.redirect = url.into();
        self
    }

    /// Requests the token for the program itself, with its id and secret (`client_credentials`), without asking a
    /// person. If the MCP server requires more scopes than the program has set, calls fail, and the error names the
    /// scopes.
    pub fn without_person(mut self) -> Self {
        self.person = false;
        self
    }

    /// Sets how long the person may take. Default: five minutes.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the function that opens the page for the person. If the function fails, the authorization fails. Default:
    /// the URL is printed to standard error.
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

    /// Sets the store for credentials. Default: memory, until this value and all its clones are dropped.
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
