//! OAuth for a server at an address: what the program says of it, and where what was granted is kept.
//!
//! The rest of the framework never sees a token: it is added to a request below the protocol, and nothing is sent again
//! because of it.

mod authorization;
mod challenge;
mod discovery;
mod grant;
mod page;
mod store;
mod web;

use std::{fmt, io, io::Write as _, pin::Pin, sync::Arc, time::Duration};

use secrecy::SecretString;

pub(super) use self::authorization::Authorization;
use self::store::Kept;
pub use self::store::{McpGrant, McpGrantFuture, McpGrants};
use crate::error::{Error, ErrorKind};

/// What went wrong on the way to a token, and of which kind it is.
type Fault = (ErrorKind, String);

/// Where a person says yes: the page of an authorization server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpPage {
    /// The name that the program has given to the server which the token is for.
    pub server: String,
    /// The address that is to be opened in the person's browser. It is good once. Others have chosen it: give it to the
    /// browser as one argument, and not through a shell.
    pub url: String,
}

type OnPage =
    dyn Fn(McpPage) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send + Sync;

/// How a program is authorized to use a server at an address, by OAuth 2.1 as the
/// [protocol](https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization) has it. Of the feature
/// `mcp-oauth`.
///
/// Nothing is done before the server asks for a token. Then its authorization server is looked up, a person says yes on
/// a page, the page leads back to a port of this machine that is open for so long, and the token goes with each
/// request to this server and to no other. It is renewed before it ends.
///
/// A call of a tool is sent at most once, whatever becomes of the token: one that the server refuses fails, and the
/// program is authorized anew before the next call.
///
/// Clones share what was granted: connections that are given clones ask the person once, and renew once.
///
/// Many servers take a renewal token once. So a request for a token goes on to its end, and what comes is kept, also if the
/// call that waited for it is dropped; [`McpServer::close`](super::McpServer::close) waits for it. It ends early only with
/// this value and all its clones: keep one as long as the program runs.
///
/// If the person says no, the connection does not ask again: connect to the server anew for that.
///
/// ```no_run
/// use harness::mcp::{McpAuth, McpServer};
///
/// # async fn connect() -> Result<(), harness::Error> {
/// let auth = McpAuth::new().named("Order desk").on_page(|page| {
///     Box::pin(async move {
///         println!("{} asks you to say yes: {}", page.server, page.url);
///         Ok(())
///     })
/// });
/// let orders = McpServer::url("https://mcp.example.com/mcp").named("orders").oauth(auth).connect().await?;
/// # let _ = orders;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it says what is done once a server is given it"]
pub struct McpAuth {
    name: String,
    client: Option<String>,
    secret: Option<Arc<SecretString>>,
    issuer: Option<String>,
    metadata: Option<String>,
    scopes: Option<Vec<String>>,
    redirect: String,
    person: bool,
    limit: Duration,
    on_page: Arc<OnPage>,
    kept: Arc<Kept>,
}

/// Without secrets.
impl fmt::Debug for McpAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpAuth")
            .field("name", &self.name)
            .field("client", &self.client)
            .field("issuer", &self.issuer)
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
    /// A program that registers itself where that is possible, prints the page's address to standard error, waits five
    /// minutes for the person, and keeps what was granted in memory.
    pub fn new() -> Self {
        Self {
            name: "harness".to_owned(),
            client: None,
            secret: None,
            issuer: None,
            metadata: None,
            scopes: None,
            redirect: "http://127.0.0.1/callback".to_owned(),
            person: true,
            limit: Duration::from_secs(300),
            on_page: Arc::new(|page| Box::pin(async move { print(&page) })),
            kept: Arc::default(),
        }
    }

    /// Sets the name of the program that the person reads, where it registers itself.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the id that the program has at the authorization server, if it was registered there beforehand.
    pub fn client(mut self, id: impl Into<String>) -> Self {
        self.client = Some(id.into());
        self
    }

    /// Sets the secret that belongs to [`client`](Self::client). Say by [`issuer`](Self::issuer) whose it is: the server
    /// of the tools names the authorization server, and could otherwise name one that collects secrets.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(Arc::new(SecretString::from(secret.into())));
        self
    }

    /// Sets the authorization server, by its issuer identifier. If the server of the tools names others alone, the
    /// authorization fails.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the address of a document that describes the program
    /// ([Client ID Metadata Document](https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/)).
    /// It is used in place of a registration where the authorization server takes it.
    pub fn metadata(mut self, url: impl Into<String>) -> Self {
        self.metadata = Some(url.into());
        self
    }

    /// Sets what the token shall be good for. Without this it is what the server asks for, or else what it says that
    /// it knows. What the server asks for later is added.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the address to which the page leads back: `http://`, `127.0.0.1`, `[::1]` or `localhost`, and a path. Without a
    /// port a free one is taken. Without this it is `http://127.0.0.1/callback`.
    pub fn redirect(mut self, url: impl Into<String>) -> Self {
        self.redirect = url.into();
        self
    }

    /// Asks for the token in the program's own name, by its id and secret (`client_credentials`); no person is asked.
    pub fn without_person(mut self) -> Self {
        self.person = false;
        self
    }

    /// Sets how long the person may take. Without this it is five minutes.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets what opens the page for the person. Its error ends the authorization. Without this the address is printed
    /// to standard error.
    pub fn on_page(
        mut self,
        open: impl Fn(McpPage) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.on_page = Arc::new(open);
        self
    }

    /// Sets where what was granted is kept. Without this it is in memory and ends with this value and its clones.
    pub fn grants(mut self, grants: impl McpGrants + 'static) -> Self {
        self.kept = Arc::new(Kept::new(grants));
        self
    }
}

fn print(page: &McpPage) -> Result<(), Error> {
    let server = page.server.escape_debug();
    writeln!(
        io::stderr(),
        "The MCP server `{server}` wants an authorization. Open this page: {}",
        page.url
    )
    .map_err(|err| {
        let why = "the address of the page cannot be printed";
        Error::new(ErrorKind::Configuration, why).because(err)
    })
}
