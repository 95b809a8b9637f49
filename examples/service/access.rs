//! Who asks. The sign-in of a program takes the place of this file.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use hmac_sha256::Hash as Sha256;
use tokio::time::timeout;

use crate::limits::{AtOnce, Failed, LARGEST_BODY, LONGEST_REQUEST, Place, STREAMS};

/// The users, by the hashes of their tokens: how long it takes to find one tells nothing of a token. Without any, everybody who
/// reaches the service is the one user.
#[derive(Clone, Default)]
pub(crate) struct Users(pub(crate) Arc<HashMap<[u8; 32], User>>);

/// The user of a request, and the places for the streams of this user.
#[derive(Clone, Default)]
pub(crate) struct User(Option<(String, &'static AtOnce)>);

impl Users {
    /// Reads `NAME:TOKEN,NAME:TOKEN`.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let user = |entry: &str| {
            let (name, token) = entry.trim().split_once(':')?;
            let fits = !name.is_empty() && !name.contains('/') && token.len() >= 8;
            let user = || User(Some((name.to_owned(), AtOnce::of_user())));
            fits.then(|| (Sha256::hash(token.as_bytes()), user()))
        };
        let users: Option<HashMap<_, _>> = text.split(',').map(user).collect();
        let users = users.ok_or("expected NAME:TOKEN,.. with tokens of 8 characters and more")?;
        let is_clear = users.len() == text.split(',').count();
        is_clear.then(|| Self(Arc::new(users))).ok_or("two users have one token")
    }

    /// The user who sends this token as `Authorization: Bearer TOKEN`.
    fn find(&self, head: &HeaderMap) -> Option<User> {
        if self.0.is_empty() {
            return is_local(head).then(User::default);
        }
        let given = head.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        self.0.get(&Sha256::hash(given.as_bytes())).cloned()
    }
}

/// Whether the browser's address of this service is one of this machine. Another site can give its own name the address of this
/// machine, and its pages would then read what is here.
fn is_local(head: &HeaderMap) -> bool {
    let host = head.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.parse::<Authority>();
    host.is_ok_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host.host()))
}

impl User {
    /// The name in the journal of what this user calls `id`. Nobody can name a conversation of somebody else.
    pub(crate) fn conversation(&self, id: &str) -> String {
        match &self.0 {
            Some((name, _)) => format!("{name}/{id}"),
            None => id.to_owned(),
        }
    }

    /// What this user calls a conversation.
    pub(crate) fn own_name<'a>(&self, conversation: &'a str) -> Option<&'a str> {
        match &self.0 {
            Some((name, _)) => conversation.strip_prefix(name.as_str())?.strip_prefix('/'),
            None => Some(conversation),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|(name, _)| name.as_str())
    }

    /// Places for a stream of this user, if there are users, and for one of all.
    pub(crate) fn stream(&self) -> Result<(Option<Place>, Place), Failed> {
        let own = self.0.as_ref().map(|(_, streams)| streams.take());
        Ok((own.transpose()?, STREAMS.take()?))
    }
}

/// Lets only users through.
pub(crate) async fn check(users: State<Users>, mut request: Request, next: Next) -> Response {
    let (head, none) = (request.headers(), HeaderValue::from_static(""));
    let kind = head.get(header::CONTENT_TYPE).unwrap_or(&none).as_bytes();
    // The page of another site cannot send this type without being asked first.
    if request.method() == Method::POST && !kind.starts_with(b"application/json") {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json").into_response();
    }
    let Some(user) = users.find(head) else {
        let what = "the token is missing or wrong; without tokens, use 127.0.0.1 or localhost";
        let head = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, head, what).into_response();
    };
    request.extensions_mut().insert(user);
    let slow = || format!("the request took longer than {LONGEST_REQUEST:?}");
    let large = || format!("the body of the request has more than {LARGEST_BODY} bytes");
    match timeout(LONGEST_REQUEST, next.run(request)).await {
        Ok(response) if response.status() != StatusCode::PAYLOAD_TOO_LARGE => response,
        Ok(response) => (response.status(), large()).into_response(),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, slow()).into_response(),
    }
}
