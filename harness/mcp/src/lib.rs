//! Tools over the [Model Context Protocol](https://modelcontextprotocol.io). With the feature `mcp`, a program uses
//! servers: a server is a child process or a URL, and each of its tools becomes a [`Tool`](harness_core::tool::Tool).
//! With the feature `mcp-oauth`, a program can obtain authorization for a server at a URL. With the feature
//! `mcp-server`, a program serves its own tools to MCP clients.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

#[cfg(feature = "client")]
mod builder;
#[cfg(feature = "client")]
mod call;
#[cfg(feature = "client")]
mod config;
#[cfg(feature = "client")]
mod content;
#[cfg(feature = "client")]
mod effects;
#[cfg(feature = "client")]
mod elicitation;
#[cfg(feature = "client")]
mod handler;
#[cfg(feature = "client")]
mod http;
#[cfg(feature = "client")]
mod http_client;
#[cfg(feature = "client")]
mod known_secrets;
#[cfg(any(feature = "client", feature = "server"))]
mod memory;
#[cfg(all(feature = "client", not(feature = "oauth")))]
#[path = "no_oauth.rs"]
mod oauth;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "client")]
mod pending_elicitations;
#[cfg(feature = "client")]
mod pending_requests;
#[cfg(feature = "client")]
mod post;
#[cfg(feature = "client")]
mod process;
#[cfg(feature = "client")]
mod resource_tools;
#[cfg(feature = "client")]
mod resources_and_prompts;
#[cfg(feature = "client")]
mod scan;
#[cfg(feature = "client")]
mod server;
#[cfg(feature = "client")]
mod server_connection;
#[cfg(feature = "server")]
mod service;
#[cfg(feature = "client")]
mod session;
#[cfg(feature = "client")]
mod sse_messages;
#[cfg(feature = "client")]
mod sse_stream;
#[cfg(feature = "client")]
mod stdout_filter;
#[cfg(feature = "client")]
mod tool_list;
#[cfg(feature = "client")]
mod tool_name;
#[cfg(feature = "client")]
mod version;

#[cfg(feature = "oauth")]
pub use self::oauth::{
    McpAuth, McpAuthorizationPage, McpCredentialStore, McpCredentials, McpCredentialsFuture,
};
#[cfg(feature = "server")]
pub use self::service::{McpHttp, McpService, NoHandler};
#[cfg(feature = "client")]
pub use self::{
    builder::McpServerBuilder,
    elicitation::{McpElicitation, McpElicitationAnswer},
    resources_and_prompts::{McpArgument, McpPrompt, McpResource},
    server::McpServer,
    version::McpVersion,
};

/// The member of `_meta` that marks the result of a call as [`IN_DOUBT`]. The protocol itself has no such mark.
#[cfg(any(feature = "client", feature = "server"))]
const OUTCOME: &str = "harness/outcome";

/// The call was stopped while it ran, and may still run or have taken effect.
#[cfg(any(feature = "client", feature = "server"))]
const IN_DOUBT: &str = "in_doubt";
