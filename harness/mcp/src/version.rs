//! The protocol versions, and the check for servers that know only the newer version.

use rmcp::{
    model::{ErrorCode, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode},
    transport::streamable_http_client::StreamableHttpError,
};

/// A version of the protocol: see [`McpServerBuilder::version`](super::McpServerBuilder::version).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpVersion {
    /// [2025-11-25](https://modelcontextprotocol.io/specification/2025-11-25), or an older version that the server
    /// chooses. The session starts with `initialize`.
    V2025_11_25,
    /// [2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28): there is no session. `server/discover`
    /// returns the server's capabilities, and `subscriptions/listen` reports changes of its tools.
    V2026_07_28,
}

impl McpVersion {
    /// How rmcp starts a connection in this version.
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::V2025_11_25 => ClientLifecycleMode::Initialize,
            Self::V2026_07_28 => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// Whether the server's answer to `initialize` shows that the server knows only versions without `initialize`. Such a
/// server may refuse the method, its parameters, its version, or the missing HTTP headers. Over HTTP, the whole answer
/// may be status 400 or 404.
pub(super) fn is_newer(err: &ClientInitializeError) -> bool {
    /// The error code `HeaderMismatch` of version 2026-07-28.
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
