//! Grants, and the requests that obtain them: registration (RFC 7591), code, renewal and client credentials (OAuth 2.1,
//! RFC 8707).

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::Engine as _;
use reqwest::{Url, header::HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    AuthError,
    auth_http_client::{AuthHttpClient, AuthResponse, form},
    discovery::IssuerMetadata,
};
use harness_core::{
    error::ErrorKind,
    message::in_line,
    secret::{Secrets, beginning},
};

/// The maximum length, in bytes, of an authorization server's text in an error.
const SHOWN: usize = 300;

/// A token is renewed this number of seconds before it expires, but never in the first three quarters of its lifetime.
const EARLY: u64 = 30;

/// The client that represents the program at an authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// The authentication method of the client: a name of RFC 7591.
    pub(super) method: String,
    /// The redirect URL, if the program was registered with one.
    pub(super) redirect: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct TokenGrant {
    /// The URL of the MCP server. The token is sent to no other server.
    pub(super) server: String,
    pub(super) resource: String,
    pub(super) issuer: String,
    /// The URL at which the token is renewed.
    pub(super) token_endpoint: String,
    pub(super) client: OAuthClient,
    pub(super) token: String,
    pub(super) refresh: Option<String>,
    /// When the token is to be renewed, in seconds since 1970.
    until: Option<u64>,
    /// When the token expires, in seconds since 1970. Earlier versions did not store this time.
    #[serde(default)]
    ends: Option<u64>,
    /// The scopes that were requested.
    pub(super) scopes: Vec<String>,
}

impl TokenGrant {
    /// Whether the token is to be renewed.
    pub(super) fn is_old(&self) -> bool {
        self.until.is_some_and(|until| until <= now())
    }

    /// Whether the token has expired.
    pub(super) fn is_over(&self) -> bool {
        self.ends.or(self.until).is_some_and(|ends| ends <= now())
    }

    /// Whether the token can be sent in a header.
    pub(super) fn is_sendable(&self) -> bool {
        is_sendable(&self.token)
    }

    /// The secrets to remove from errors.
    pub(super) fn secrets(&self) -> Secrets {
        let known = [Some(&self.token), self.refresh.as_ref(), self.client.secret.as_ref()];
        known.into_iter().flatten().fold(Secrets::default(), Secrets::with)
    }
}

fn is_sendable(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// The response of a token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<Value>,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// Why no token was issued.
pub(super) enum TokenError {
    /// The authorization server refuses this request permanently.
    Refused(AuthError),
    /// A failure that may be temporary.
    Failed(AuthError),
}

/// Whether the same request may succeed later.
fn is_passing(status: u16, refused: Option<&TokenRefusal>) -> bool {
    let error = refused.map(|refused| refused.error.as_str());
    matches!(status, 407 | 408 | 425 | 429 | 500..)
        || matches!(error, Some("temporarily_unavailable" | "server_error" | "slow_down"))
}

impl From<TokenError> for AuthError {
    fn from(why: TokenError) -> Self {
        match why {
            TokenError::Refused(fault) | TokenError::Failed(fault) => fault,
        }
    }
}

/// A request for a token, and the values of the grant that it will create.
pub(super) struct TokenRequest {
    pub(super) server: String,
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) client: OAuthClient,
    pub(super) scopes: Vec<String>,
}

impl TokenRequest {
    /// Requests a token with these parameters.
    pub(super) async fn ask(
        self,
        web: &AuthHttpClient,
        parameters: &[(&str, &str)],
        secrets: Secrets,
    ) -> Result<TokenGrant, TokenError> {
        let what = "the token endpoint";
        let client = &self.client;
        let mut sent = parameters.to_vec();
        sent.push(("resource", &self.resource));
        let (mut basic, mut secrets) = (None, client.secret.iter().fold(secrets, Secrets::with));
        match (client.method.as_str(), &client.secret) {
            ("client_secret_basic", Some(secret)) => {
                let value = credentials(&client.id, secret).map_err(TokenError::Failed)?;
                // Some servers quote the received credentials in their refusal.
                let shown = value.to_str().ok().and_then(|value| value.strip_prefix("Basic "));
                secrets = shown.into_iter().fold(secrets, Secrets::with);
                basic = Some(value);
            }
            ("client_secret_post", Some(secret)) => {
                sent.extend([("client_id", client.id.as_str()), ("client_secret", secret)]);
            }
            _ => sent.push(("client_id", &client.id)),
        }
        let endpoint = web.address(what, &self.token_endpoint).map_err(TokenError::Failed)?;
        let body = ("application/x-www-form-urlencoded", form(&sent));
        let answer =
            web.post(what, &endpoint, body, basic).await.map_err(|fault| match fault.0 {
                // The endpoint redirects, so it no longer issues tokens.
                ErrorKind::Protocol => TokenError::Refused(fault),
                _ => TokenError::Failed(fault),
            })?;
        let refused = answer.json::<TokenRefusal>().filter(|refused| !refused.error.is_empty());
        if refused.is_some() || !answer.is_success() {
            let why =
                (ErrorKind::Api, refusal_text(what, answer.status, refused.as_ref(), &secrets));
            return Err(match is_passing(answer.status, refused.as_ref()) {
                true => TokenError::Failed(why),
                false => TokenError::Refused(why),
            });
        }
        self.read(&answer).map_err(|why| {
            let why = (ErrorKind::Protocol, format!("{what} {why}"));
            // A response that is no JSON object may come from another server, such as the login page of a network.
            match answer.json::<serde_json::Map<String, Value>>() {
                Some(_) => TokenError::Refused(why),
                None => TokenError::Failed(why),
            }
        })
    }

    fn read(self, answer: &AuthResponse) -> Result<TokenGrant, String> {
        let granted: TokenResponse =
            answer.json().ok_or("has answered without `access_token` or `token_type`")?;
        if !granted.token_type.eq_ignore_ascii_case("bearer") {
            return Err("gives tokens of a type that cannot be used here; `Bearer` can".to_owned());
        }
        let token = granted.access_token;
        if !is_sendable(&token) {
            return Err("gives a token that cannot stand in a header".to_owned());
        }
        // Some servers send the number as text.
        let lives = granted.expires_in.and_then(|lives| match lives {
            Value::String(text) => text.parse().ok(),
            lives => lives.as_f64(),
        });
        // A lifetime of less than one second would be useless, so such a number is ignored.
        let lives = lives.filter(|it| *it >= 1.0);
        let until = lives.map(|seconds| {
            let seconds = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).as_secs();
            let now = now();
            (now.saturating_add(seconds - EARLY.min(seconds / 4)), now.saturating_add(seconds))
        });
        let (until, ends) = until.unzip();
        let mut scopes = self.scopes;
        for scope in granted.scope.iter().flat_map(|scopes| scopes.split_ascii_whitespace()) {
            add(&mut scopes, scope);
        }
        Ok(TokenGrant {
            server: self.server,
            resource: self.resource,
            issuer: self.issuer,
            token_endpoint: self.token_endpoint,
            client: self.client,
            token,
            refresh: granted.refresh_token.filter(|token| !token.is_empty()),
            until,
            ends,
            scopes,
        })
    }
}

/// Renews a grant; `None` if the grant has no refresh token. The renewal may invalidate the refresh token.
pub(super) async fn renew(
    web: AuthHttpClient,
    old: TokenGrant,
) -> Result<Option<TokenGrant>, TokenError> {
    let secrets = old.secrets();
    let Some(refresh) = old.refresh else { return Ok(None) };
    let wanted = TokenRequest {
        server: old.server,
        resource: old.resource,
        issuer: old.issuer,
        token_endpoint: old.token_endpoint,
        client: old.client,
        scopes: old.scopes,
    };
    let parameters = [("grant_type", "refresh_token"), ("refresh_token", &*refresh)];
    let mut new = wanted.ask(&web, &parameters, secrets).await?;
    new.refresh = new.refresh.or(Some(refresh));
    Ok(Some(new))
}

/// Adds a scope, unless the list already contains it.
pub(super) fn add(scopes: &mut Vec<String>, scope: &str) {
    if !scopes.iter().any(|known| known == scope) {
        scopes.push(scope.to_owned());
    }
}

/// Registers the program as a client.
pub(super) async fn register(
    web: &AuthHttpClient,
    endpoint: &str,
    name: &str,
    redirect: &str,
    metadata: &IssuerMetadata,
) -> Result<OAuthClient, AuthError> {
    let what = "the registration";
    let endpoint = web.address(what, endpoint)?;
    let wanted = method(metadata, true);
    let body = json!({
        "client_name": name,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        // A program on a person's machine cannot keep a secret, so a secret is used only if the server supports no
        // other method.
        "token_endpoint_auth_method": wanted,
        "application_type": "native",
    });
    let answer = web.post(what, &endpoint, ("application/json", body.to_string()), None).await?;
    if !answer.is_success() {
        let refused = answer.json::<TokenRefusal>();
        let why = refusal_text(what, answer.status, refused.as_ref(), Secrets::none());
        return Err((ErrorKind::Api, why));
    }
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<String>,
        token_endpoint_auth_method: Option<String>,
    }
    let Some(known) = answer.json::<Registered>().filter(|it| !it.client_id.is_empty()) else {
        return Err((ErrorKind::Protocol, format!("{what} has answered without `client_id`")));
    };
    let method = known.token_endpoint_auth_method;
    let method =
        method.unwrap_or_else(|| self::method(metadata, known.client_secret.is_none()).to_owned());
    Ok(OAuthClient {
        id: known.client_id,
        secret: known.client_secret,
        method,
        redirect: Some(redirect.to_owned()),
    })
}

/// The authentication method to use, from the methods that the authorization server accepts.
pub(super) fn method(metadata: &IssuerMetadata, without_secret: bool) -> &'static str {
    let known = &metadata.token_endpoint_auth_methods_supported;
    let takes = |method: &&str| known.iter().any(|known| known == method);
    let order = match without_secret {
        true => ["none", "client_secret_basic", "client_secret_post"],
        false => ["client_secret_basic", "client_secret_post", "none"],
    };
    // RFC 8414: without a list, the method is `client_secret_basic`.
    order.into_iter().find(takes).unwrap_or(order[0])
}

/// The header for client authentication (RFC 6749, 2.3.1). Id and secret are each encoded before they are joined.
fn credentials(id: &str, secret: &str) -> Result<HeaderValue, AuthError> {
    let encoded = |text: &str| form(&[("", text)]).trim_start_matches('=').to_owned();
    let joined = format!("{}:{}", encoded(id), encoded(secret));
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(joined));
    let mut value = HeaderValue::try_from(text).map_err(|_| {
        (ErrorKind::Configuration, "the id of the client cannot be sent".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The text of an authorization server's refusal, for errors.
fn refusal_text(
    what: &str,
    status: u16,
    refused: Option<&TokenRefusal>,
    secrets: &Secrets,
) -> String {
    match refused {
        Some(TokenRefusal { error, error_description }) => {
            let words = words(error, error_description.as_deref(), secrets);
            format!("{what} has refused, status {status}: {words}")
        }
        None => format!("{what} has refused, status {status}"),
    }
}

/// The error code and its description, on one line, with secrets removed and long texts cut.
pub(super) fn words(error: &str, description: Option<&str>, secrets: &Secrets) -> String {
    let more = description.map(|more| format!(" ({more})")).unwrap_or_default();
    let words = format!("{error}{more}");
    let words = secrets.hide(&words);
    beginning(&in_line(&words), SHOWN).into_owned()
}

/// Checks the URL of an authorization page: it must not contain parameters that the program sets.
///
/// # Errors
/// Fails if the URL contains such a parameter, because a server may use this value instead of the program's value.
pub(super) fn silent(endpoint: Url) -> Result<Url, AuthError> {
    const OURS: [&str; 14] = [
        "response_type",
        "client_id",
        "redirect_uri",
        "state",
        "code_challenge",
        "code_challenge_method",
        "resource",
        "scope",
        "nonce",
        "prompt",
        "request",
        "request_uri",
        "response_mode",
        "login_hint",
    ];
    if endpoint.query_pairs().any(|(key, _)| OURS.contains(&key.as_ref())) {
        let why = "the address of the authorization page says beforehand what the program has to say of itself, so it                    is not opened";
        return Err((ErrorKind::Protocol, why.to_owned()));
    }
    Ok(endpoint)
}

/// The URL of the page on which a person grants access. Characters with a meaning for shells are encoded, except `&`.
pub(super) fn page(mut endpoint: Url, parameters: &[(&str, &str)]) -> String {
    endpoint.query_pairs_mut().extend_pairs(parameters);
    let mut page = String::new();
    for c in String::from(endpoint).chars() {
        match c {
            '$' | '`' | '\'' | '"' | '(' | ')' | ';' | '|' | '<' | '>' | '\\' | '{' | '}' | '*'
            | '!' | '^' => {
                let _ = write!(page, "%{:02X}", u32::from(c));
            }
            c => page.push(c),
        }
    }
    page
}
