//! A request that the loopback server received.

use std::fmt;

use serde_json::Value;

/// A request that the server received.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    pub(super) connection: usize,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl ReceivedRequest {
    /// The number of the connection on which the request arrived, from 0.
    pub fn connection(&self) -> usize {
        self.connection
    }

    /// The method, such as `POST`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path with its query, such as `/v1/messages`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The headers as the client sent them, including keys and tokens. Bytes that are not UTF-8 are
    /// replaced.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The value of the first header with this name. The case of the name does not matter.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as text. Bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, or `null` for a body that is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Hides the values of headers that may be secret, so that the output of a test can be published.
impl fmt::Debug for ReceivedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} on connection {}", self.method, self.path, self.connection)?;
        for (name, value) in &self.headers {
            let secret = ["authorization", "api-key", "cookie", "token", "secret"]
                .iter()
                .any(|word| name.to_ascii_lowercase().contains(word));
            writeln!(f, "{name}: {}", if secret { "[secret]" } else { value })?;
        }
        write!(f, "\n{}", self.text())
    }
}
