//! Who asks. The sign-in of a program takes the place of this file.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tokio::time::timeout;

/// How long a request may take to be read and answered.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);

/// The users and their tokens. Without any, everybody who reaches the service is the one user.
#[derive(Clone, Default)]
pub(crate) struct Users(Arc<Vec<(String, String)>>);

/// The user of a request.
#[derive(Clone, Default)]
pub(crate) struct User(Option<String>);

impl Users {
    /// Reads `NAME:TOKEN,NAME:TOKEN`.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let user = |entry: &str| {
            let (name, token) = entry.trim().split_once(':')?;
            let fits = !name.is_empty() && !name.contains('/') && token.len() >= 8;
            fits.then(|| (name.to_owned(), token.to_owned()))
        };
        let users: Option<Vec<_>> = text.split(',').map(user).collect();
        let users = users.ok_or("expected NAME:TOKEN,.. with tokens of 8 characters and more")?;
        Ok(Self(Arc::new(users)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The user who sends this token as `Authorization: Bearer TOKEN`.
    fn find(&self, head: &HeaderMap) -> Option<User> {
        if self.is_empty() {
            return is_local(head).then(User::default);
        }
        let given = head.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        // Each byte is compared, so that the time tells nothing of the token.
        let same = |token: &str| {
            let differs = token.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
            token.len() == given.len() && differs == 0
        };
        let (name, _) = self.0.iter().find(|(_, token)| same(token))?;
        Some(User(Some(name.clone())))
    }
}

/// Whether the browser's address of this service is one of this machine. Another site can give its own name the address of this
/// machine, and its pages would then read what is here.
fn is_local(head: &HeaderMap) -> bool {
    let host = head.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    ["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

impl User {
    /// The name in the journal of what this user calls `id`. Nobody can name a conversation of somebody else.
    pub(crate) fn conversation(&self, id: &str) -> String {
        match &self.0 {
            Some(name) => format!("{name}/{id}"),
            None => id.to_owned(),
        }
    }

    /// What this user calls a conversation.
    pub(crate) fn own_name<'a>(&self, conversation: &'a str) -> Option<&'a str> {
        match &self.0 {
            Some(name) => conversation.strip_prefix(name.as_str())?.strip_prefix('/'),
            None => Some(conversation),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_deref()
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
        let what = match users.is_empty() {
            true => "without tokens, the service is at 127.0.0.1 or localhost",
            false => "the token is missing or wrong",
        };
        let head = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, head, what).into_response();
    };
    request.extensions_mut().insert(user);
    let slow = |_| (StatusCode::REQUEST_TIMEOUT, "the request took too long").into_response();
    // Of a stream, this is the time to its head.
    timeout(LONGEST_REQUEST, next.run(request)).await.unwrap_or_else(slow)
}
