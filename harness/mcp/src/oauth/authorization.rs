//! The authorization of one connection: the grant, the server's last refusal, and the steps that are needed before the
//! next request.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac_sha256::Hash as Sha256;
use reqwest::Url;
use ring::rand::{SecureRandom as _, SystemRandom};
use secrecy::ExposeSecret as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    AuthError, McpAuth, McpAuthorizationPage,
    auth_http_client::{AuthHttpClient, is_near, is_safe},
    challenge::Challenge,
    credential_store::GrantLock,
    discovery::{self, AuthorizationServer},
    grant::{self, OAuthClient, TokenError, TokenGrant, TokenRequest},
    redirect_listener::{ExpectedRedirect, RedirectListener},
};
use harness_core::{
    error::{Error, ErrorKind},
    message::in_line,
    secret::{Secrets, beginning},
    unwind::{Shielded, caught},
};

/// The maximum number of attempts to get a token between two answered calls.
const TRIES: u32 = 3;

/// The number of earlier grants whose secrets are still removed from errors.
const EARLIER: usize = 8;

pub(in super::super) struct Authorization {
    auth: McpAuth,
    /// The program's name for the server.
    name: String,
    server: Url,
    web: AuthHttpClient,
    state: Mutex<GrantState>,
    /// Cancelled when the connection is closed, which ends the wait for a person's approval.
    closed: CancellationToken,
}

#[derive(Default)]
struct GrantState {
    grant: Option<Arc<TokenGrant>>,
    /// Earlier grants, which may still be valid. Their secrets are removed from errors.
    earlier: VecDeque<Arc<TokenGrant>>,
    /// The server's last refusal of the current grant.
    refused: Option<Challenge>,
    /// Whether the credential store was read.
    looked: bool,
    /// The number of attempts to get a token since a call was last answered.
    tries: u32,
    /// Whether the grant was renewed because of a refusal.
    renewed: bool,
    /// Whether the person has refused the authorization. If so, this connection does not ask again.
    denied: bool,
    /// The count of refusals by persons when this connection was created. If the count has risen and the connection has
    /// no grant, the person is not asked. So connections that start together ask only once.
    noes: u64,
}

/// The grant for the next request, and whether it was stored.
type NextGrant = (TokenGrant, Result<(), AuthError>);

impl Authorization {
    /// Creates the authorization. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if a token would be sent unprotected to the server, or if the settings contradict each other.
    pub(in super::super) fn new(auth: McpAuth, name: &str, server: &str) -> Result<Self, Error> {
        let wrong = |why| Error::new(ErrorKind::Configuration, why);
        let mut server =
            Url::parse(server).map_err(|_| wrong("this is not the address of an MCP server"))?;
        server.set_fragment(None);
        if !is_safe(&server) {
            return Err(wrong(
                "tokens are sent to addresses of `https` and of this machine alone: change the address",
            ));
        }
        if !server.username().is_empty() || server.password().is_some() {
            return Err(wrong(
                "the address has a user or a password, and `oauth` authorizes, too: leave one out",
            ));
        }
        if let Some(resource) = auth.resource.as_ref().filter(|it| !discovery::is_of(it, &server)) {
            let why =
                format!("the address of the server does not lie in the `resource` `{resource}`");
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        if auth.secret.is_some() && auth.client.is_none() {
            return Err(wrong("a secret belongs to a client: say which by `client`"));
        }
        if !auth.person && auth.secret.is_none() {
            return Err(wrong(
                "without a person there has to be a client with a secret: set `client` and `secret`",
            ));
        }
        let web = AuthHttpClient::new(is_near(&server))?;
        let noes = auth.kept.slot(server.as_str()).noes();
        let state = Mutex::new(GrantState { noes, ..GrantState::default() });
        let closed = CancellationToken::new();
        Ok(Self { auth, name: name.to_owned(), server, web, state, closed })
    }

    fn state(&self) -> MutexGuard<'_, GrantState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The secrets to remove from errors.
    pub(in super::super) fn secrets(&self) -> Secrets {
        let secrets = {
            let state = self.state();
            let grants = state.grant.iter().chain(&state.earlier);
            grants.fold(Secrets::default(), |secrets, grant| secrets.and(&grant.secrets()))
        };
        match &self.auth.secret {
            Some(secret) => secrets.with(secret.expose_secret()),
            None => secrets,
        }
    }

    /// The token for a request to this URL. A token that is about to expire is renewed first. Returns `None` for the
    /// URL of another server, and if there is no grant.
    pub(in super::super) async fn token(&self, uri: &str) -> Option<String> {
        let mut asked = Url::parse(uri).ok()?;
        asked.set_fragment(None);
        if asked != self.server {
            return None;
        }
        let old = self.state().grant.as_ref().is_some_and(|grant| grant.is_old());
        if old {
            // If the renewal fails, the old token is sent, and the server decides whether to accept it.
            let _ = self.changed(false).await;
        }
        self.state().grant.as_ref().map(|grant| grant.token.clone())
    }

    /// Records that the server has refused a request with this token.
    pub(in super::super) fn refused(&self, status: u16, header: &str, token: Option<&str>) {
        let challenge = Challenge::read(header);
        if status == 403 && !challenge.needs_scope() {
            return;
        }
        let mut state = self.state();
        // A refusal of an earlier token does not concern the current token.
        if state.grant.as_ref().map(|grant| grant.token.as_str()) == token {
            state.refused = Some(challenge);
        }
    }

    /// Whether the server has refused the current token, so that a new token is needed before the next request.
    pub(in super::super) fn is_refused(&self) -> bool {
        self.state().refused.is_some()
    }

    /// Records that a call was answered, so that later refusals are counted from zero.
    pub(in super::super) fn answered(&self) {
        let mut state = self.state();
        state.tries = 0;
        state.renewed = false;
    }

    /// Cancels all waits of this connection. Then waits for the running token requests, because they may invalidate the
    /// stored grant.
    pub(in super::super) async fn close(&self) {
        self.closed.cancel();
        self.auth.kept.settled().await;
    }

    /// Obtains or renews the token if the next request needs a new token.
    ///
    /// # Errors
    /// Fails if the server has refused the token and no other token can be obtained.
    pub(in super::super) async fn ready(&self) -> Result<(), AuthError> {
        let is_ready = {
            let state = self.state();
            let old = state.grant.as_ref().is_some_and(|grant| grant.is_old());
            state.looked && state.refused.is_none() && !old
        };
        if is_ready { Ok(()) } else { self.changed(true).await }
    }

    /// Obtains or renews the token, under the lock that all connections to this server share.
    async fn changed(&self, may_ask: bool) -> Result<(), AuthError> {
        let closed = || (ErrorKind::Closed, "the connection was closed by the program".to_owned());
        let changing = async {
            let key = self.server.as_str();
            let mut held = self.auth.kept.slot(key).hold().await;
            self.auth.kept.load(key, &mut held).await?;
            let known = self.known(&held);
            let Some((next, kept)) = self.next(&mut held, known, may_ask).await? else {
                return Ok(());
            };
            let mut state = self.state();
            if let Some(old) = state.grant.replace(Arc::new(next)) {
                state.earlier.push_front(old);
                state.earlier.truncate(EARLIER);
            }
            state.refused = None;
            kept
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(closed()),
            changed = changing => changed,
        }
    }

    /// The stored grant, if it can be used.
    fn known(&self, held: &GrantLock) -> Option<TokenGrant> {
        let mut grant = held.grant().filter(|grant| self.is_usable(grant))?.clone();
        // The client secret comes from the program's settings and is not stored.
        if let Some(secret) = self.auth.secret.as_ref().filter(|_| grant.client.redirect.is_none())
        {
            grant.client.secret = Some(secret.expose_secret().to_owned());
        }
        Some(grant)
    }

    /// Whether a grant is for this server and this client, and can still be used.
    fn is_usable(&self, grant: &TokenGrant) -> bool {
        grant.server == self.server.as_str()
            && grant.is_sendable()
            && self.is_for_us(&grant.resource)
            && self.web.address("the token endpoint", &grant.token_endpoint).is_ok()
            && self.auth.client.as_ref().is_none_or(|id| *id == grant.client.id)
            && self
                .auth
                .issuer
                .as_ref()
                .is_none_or(|issuer| discovery::is_issuer(issuer, &grant.issuer))
    }

    /// Whether a grant for this resource is for this server. The resource may also be the server's URL without the
    /// query, because the server may have published no metadata when the token was requested.
    fn is_for_us(&self, resource: &str) -> bool {
        let mut bare = self.server.clone();
        bare.set_query(None);
        let named = self.auth.resource.as_deref();
        [&self.server, &bare].into_iter().any(|it| discovery::is_resource(resource, it, named))
    }

    /// Requests a token. The request is completed even if the caller stops waiting.
    async fn ask(
        &self,
        held: &mut GrantLock,
        asking: impl Future<Output = Result<Option<TokenGrant>, TokenError>> + Send + 'static,
    ) -> Result<Option<NextGrant>, TokenError> {
        self.auth.kept.ask(self.server.as_str(), held, asking).await
    }

    async fn renew(
        &self,
        held: &mut GrantLock,
        known: &TokenGrant,
    ) -> Result<Option<NextGrant>, TokenError> {
        self.ask(held, grant::renew(self.web.clone(), known.clone())).await
    }

    async fn next(
        &self,
        held: &mut GrantLock,
        mut known: Option<TokenGrant>,
        may_ask: bool,
    ) -> Result<Option<NextGrant>, AuthError> {
        let (own, refused) = {
            let mut state = self.state();
            state.looked = true;
            (state.grant.clone(), state.refused.clone())
        };
        let is_other = known
            .as_ref()
            .is_some_and(|known| own.as_ref().is_none_or(|own| own.token != known.token));
        // Another connection has obtained a new grant meanwhile.
        if is_other && let Some(other) = known.take_if(|it| !it.is_old()) {
            return Ok(Some((other, Ok(()))));
        }
        let known = known.or_else(|| own.as_deref().cloned());
        let Some(refused) = refused else {
            let Some(known) = known.filter(TokenGrant::is_old) else { return Ok(None) };
            match self.renew(held, &known).await {
                Ok(Some(new)) => return Ok(Some(new)),
                Ok(None) | Err(TokenError::Refused(_)) if may_ask => {
                    if let Some(other) = self.changed_meanwhile(held, &known).await? {
                        return Ok(Some((other, Ok(()))));
                    }
                    self.may_try(held, &Challenge::default(), None)?;
                    // The grant has ended, so it is not used for the new authorization.
                    return self.authorize(held, &Challenge::default(), None).await;
                }
                Ok(None) => return Ok(None),
                // The renewal failed, but the old token is still valid.
                Err(TokenError::Failed(_)) if !known.is_over() => {
                    return Ok(Some((known, Ok(()))));
                }
                Err(failed) => return Err(failed.into()),
            }
        };
        if !may_ask {
            return Ok(None);
        }
        self.may_try(held, &refused, known.as_ref())?;
        self.authorize(held, &refused, known).await
    }

    /// The grant that another program has stored while the server refused to renew this grant.
    async fn changed_meanwhile(
        &self,
        held: &mut GrantLock,
        refused: &TokenGrant,
    ) -> Result<Option<TokenGrant>, AuthError> {
        self.auth.kept.load(self.server.as_str(), held).await?;
        let new = self.known(held);
        Ok(new.filter(|grant| grant.token != refused.token && !grant.is_old()))
    }

    /// Checks whether another attempt is allowed, and counts the attempt. Fails with the reason if it is not allowed.
    fn may_try(
        &self,
        held: &GrantLock,
        refused: &Challenge,
        known: Option<&TokenGrant>,
    ) -> Result<(), AuthError> {
        let wrong = |why: String| Err((ErrorKind::Api, why));
        let is_denied = {
            let state = self.state();
            state.denied || state.grant.is_none() && held.has_refused_since(state.noes)
        };
        if is_denied || held.is_denied() {
            let why =
                "the authorization was not given before; connect to it anew to ask for it again";
            return wrong(why.to_owned());
        }
        if let Some(known) = known.filter(|_| refused.needs_scope()) {
            if refused.scopes.iter().all(|scope| known.scopes.contains(scope)) {
                return wrong(
                    "it refuses the token for what was asked for already (`insufficient_scope`): the person, or the program, \
                     may not do this"
                        .to_owned(),
                );
            }
            if !self.auth.person {
                let scopes = refused.scopes.join(" ");
                return wrong(format!(
                    "it wants a token with the scopes `{}`, and no person is asked: name those that the program may have \
                     by `McpAuth::scopes`",
                    beginning(&in_line(&scopes), 300)
                ));
            }
        }
        let mut state = self.state();
        if state.tries >= TRIES {
            return wrong(format!(
                "{TRIES} times in a row it has refused a token, or none was given; connect to it anew"
            ));
        }
        state.tries += 1;
        Ok(())
    }

    /// Looks up the authorization server again, and requests a token from it.
    async fn authorize(
        &self,
        held: &mut GrantLock,
        refused: &Challenge,
        known: Option<TokenGrant>,
    ) -> Result<Option<NextGrant>, AuthError> {
        let (resource, issuer) = (self.auth.resource.as_deref(), self.auth.issuer.as_deref());
        let wanted = discovery::DiscoverySettings { resource, issuer };
        let found = discovery::find(&self.web, &self.server, refused, wanted).await?;
        // A grant of one authorization server must not be sent to another authorization server.
        let known = known.filter(|known| known.issuer == found.metadata.issuer);
        if let Some(known) = known.as_ref().filter(|_| !refused.needs_scope()) {
            let first = !std::mem::replace(&mut self.state().renewed, true);
            if first && known.resource == found.resource {
                match self.renew(held, known).await {
                    Ok(Some(new)) => return Ok(Some(new)),
                    Ok(None) | Err(TokenError::Refused(_)) => {}
                    Err(failed) => return Err(failed.into()),
                }
            }
        }
        // The known client is used again only to add a scope. Otherwise the program registers again, because the old
        // registration may have expired.
        let known = known.filter(|_| refused.needs_scope());
        let scopes = self.scopes(refused, &found, known.as_ref());
        match self.auth.person {
            true => self.ask_person(held, &found, known.as_ref(), scopes).await,
            false => {
                let client = self
                    .registered(&found)
                    .ok_or_else(|| (ErrorKind::Configuration, "there is no `client`".to_owned()))?;
                let scope = scopes.join(" ");
                let (wanted, web) = (self.wanted(&found, client, scopes)?, self.web.clone());
                let asking = async move {
                    let mut parameters = vec![("grant_type", "client_credentials")];
                    if !scope.is_empty() {
                        parameters.push(("scope", &scope));
                    }
                    wanted.ask(&web, &parameters, Secrets::default()).await.map(Some)
                };
                Ok(self.ask(held, asking).await?)
            }
        }
    }

    /// The scopes to request for the token.
    fn scopes(
        &self,
        refused: &Challenge,
        found: &AuthorizationServer,
        known: Option<&TokenGrant>,
    ) -> Vec<String> {
        if !self.auth.person {
            return self.auth.scopes.clone().unwrap_or_default();
        }
        let mut scopes = match (&self.auth.scopes, refused.scopes.is_empty()) {
            (Some(scopes), _) => scopes.clone(),
            (None, false) => refused.scopes.clone(),
            (None, true) => found.scopes.clone(),
        };
        if refused.needs_scope() {
            let before = known.map(|known| known.scopes.as_slice()).unwrap_or_default();
            for scope in before.iter().chain(&refused.scopes) {
                grant::add(&mut scopes, scope);
            }
        }
        // Without this scope, many authorization servers issue no refresh token.
        let offline = "offline_access";
        if found.metadata.scopes_supported.iter().any(|scope| scope == offline) {
            grant::add(&mut scopes, offline);
        }
        scopes
    }

    /// The client id and secret that the program has set, if any.
    fn registered(&self, found: &AuthorizationServer) -> Option<OAuthClient> {
        let id = self.auth.client.clone()?;
        let secret = self.auth.secret.as_ref().map(|secret| secret.expose_secret().to_owned());
        let method = match secret {
            Some(_) => grant::method(&found.metadata, false),
            None => "none",
        };
        Some(OAuthClient { id, secret, method: method.to_owned(), redirect: None })
    }

    fn wanted(
        &self,
        found: &AuthorizationServer,
        client: OAuthClient,
        scopes: Vec<String>,
    ) -> Result<TokenRequest, AuthError> {
        let endpoint = found.metadata.token_endpoint.clone();
        Ok(TokenRequest {
            server: self.server.to_string(),
            resource: found.resource.clone(),
            issuer: found.metadata.issuer.clone(),
            token_endpoint: endpoint.ok_or_else(|| missing("token endpoint"))?,
            client,
            scopes,
        })
    }

    /// The client that represents the program at the authorization server, and the listener for the redirect.
    async fn introduced(
        &self,
        found: &AuthorizationServer,
        known: Option<&TokenGrant>,
    ) -> Result<(OAuthClient, RedirectListener), AuthError> {
        if let Some(client) = self.registered(found) {
            return Ok((client, RedirectListener::open(&self.auth.redirect).await?));
        }
        let metadata = &found.metadata;
        // The registration is used again if the port of its redirect URL is free.
        let known = known.map(|known| &known.client);
        if let Some(known) = known
            && let Some(redirect) = &known.redirect
            && let Ok(port) = RedirectListener::open(redirect).await
        {
            return Ok((known.clone(), port));
        }
        let port = RedirectListener::open(&self.auth.redirect).await?;
        if let Some(id) =
            self.auth.metadata.as_ref().filter(|_| metadata.client_id_metadata_document_supported)
        {
            let method = "none".to_owned();
            return Ok((
                OAuthClient { id: id.clone(), secret: None, method, redirect: None },
                port,
            ));
        }
        let endpoint = metadata.registration_endpoint.as_deref().ok_or_else(|| {
            let why = "the authorization server registers no programs: register it there and set `client`";
            (ErrorKind::Configuration, why.to_owned())
        })?;
        let redirect = port.redirect.as_str();
        let client =
            grant::register(&self.web, endpoint, &self.auth.name, redirect, metadata).await?;
        Ok((client, port))
    }

    /// Shows the authorization page to the person, and waits for the redirect.
    async fn ask_person(
        &self,
        held: &mut GrantLock,
        found: &AuthorizationServer,
        known: Option<&TokenGrant>,
        scopes: Vec<String>,
    ) -> Result<Option<NextGrant>, AuthError> {
        let metadata = &found.metadata;
        if !metadata.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            let why = "the authorization server does not protect codes (PKCE with `S256`), so none is asked for";
            return Err((ErrorKind::Protocol, why.to_owned()));
        }
        let endpoint = metadata.authorization_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| missing("authorization endpoint"))?;
        let endpoint = grant::silent(self.web.address("the authorization page", endpoint)?)?;
        let (client, port) = self.introduced(found, known).await?;
        let client_id = client.id.clone();
        let (redirect, scope) = (port.redirect.to_string(), scopes.join(" "));
        let wanted = self.wanted(found, client, scopes)?;
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::hash(verifier.as_bytes()));
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", &client_id),
            ("redirect_uri", &redirect),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &found.resource),
        ];
        if !scope.is_empty() {
            parameters.push(("scope", &scope));
        }
        let url = grant::page(endpoint, &parameters);
        let page = McpAuthorizationPage { server: self.name.clone(), url };
        let expected = ExpectedRedirect {
            state: &state,
            issuer: &metadata.issuer,
            has_issuer: metadata.authorization_response_iss_parameter_supported,
        };
        let code = match self.back(&port, page, expected).await? {
            Ok(code) => code,
            Err(no) => {
                held.was_denied();
                self.state().denied = true;
                return Err(no);
            }
        };
        let web = self.web.clone();
        let asking = async move {
            let parameters = [
                ("grant_type", "authorization_code"),
                ("code", code.as_str()),
                ("redirect_uri", &redirect),
                ("code_verifier", &verifier),
            ];
            let secrets = Secrets::default().with(&code).with(&verifier);
            wanted.ask(&web, &parameters, secrets).await.map(Some)
        };
        Ok(self.ask(held, asking).await?)
    }

    /// Opens the page, and listens for the redirect at the same time.
    async fn back(
        &self,
        port: &RedirectListener,
        page: McpAuthorizationPage,
        expected: ExpectedRedirect<'_>,
    ) -> Result<Result<String, AuthError>, AuthError> {
        let panicked = |why| (ErrorKind::Panicked, format!("what opens the page {why}"));
        let opening = caught(|| (self.auth.on_page)(page)).map(Shielded::new).map_err(panicked)?;
        let opened = async {
            match opening.await {
                Ok(Ok(())) => std::future::pending().await,
                Ok(Err(err)) => Err((err.kind(), format!("the page cannot be opened: {err}"))),
                Err(why) => Err(panicked(why)),
            }
        };
        let both = async {
            tokio::select! {
                biased;
                back = port.wait(&expected) => back,
                failed = opened => failed,
            }
        };
        timeout(self.auth.limit, both).await.unwrap_or_else(|_| {
            let limit = self.auth.limit;
            let why = format!("nobody has come back from the authorization page within {limit:?}");
            Err((ErrorKind::Timeout, why))
        })
    }
}

fn missing(what: &str) -> AuthError {
    (ErrorKind::Protocol, format!("the authorization server has no {what}"))
}

/// A random text of 256 bits that cannot be guessed.
fn random() -> Result<String, AuthError> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| (ErrorKind::Configuration, "the system gives no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
