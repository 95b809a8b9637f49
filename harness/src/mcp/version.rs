//! Which version of the protocol a server is spoken to in, and what shows that it does not know the older one.

use rmcp::{
    model::{ErrorCode, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode},
    transport::streamable_http_client::StreamableHttpError,
};

/// A version of the protocol: see [`McpServerBuilder::version`](super::McpServerBuilder::version).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpVersion {
    /// [2025-11-25](https://modelcontextprotocol.io/specification/2025-11-25), or an older one that the server
    /// answers with: a session that begins with `initialize`.
    V2025_11_25,
    /// [2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28): there is no session. `server/discover`
    /// says what the server can do, and `subscriptions/listen` hears that its tools have changed.
    V2026_07_28,
}

impl McpVersion {
    /// How rmcp begins.
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::V2025_11_25 => ClientLifecycleMode::Initialize,
            Self::V2026_07_28 => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// Whether the answer to `initialize` is that of a server which knows only versions without it: it refuses the method,
/// its parameters, its version, or headers of HTTP that are missing. Over HTTP it may also refuse it without a word of the
/// protocol, since it knows no request without the headers of 2026-07-28, or no such path.
pub(super) fn is_newer(err: &ClientInitializeError) -> bool {
    /// `HeaderMismatch` of 2026-07-28.
    const HEADERS: ErrorCode = ErrorCode(-32020);
    let newer = [
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::INVALID_PARAMS,
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        HEADERS,
    ];
    match err {
        ClientInitializeError::JsonRpcError(err) => newer.contains(&err.code),
        ClientInitializeError::TransportError { error, .. } => {
            let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
            matches!(error, Some(StreamableHttpError::UnexpectedServerResponse(text))
                if text.starts_with("HTTP 400") || text.starts_with("HTTP 404"))
        }
        _ => false,
    }
}
