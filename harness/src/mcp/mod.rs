//! Tools over the [Model Context Protocol](https://modelcontextprotocol.io). With the feature `mcp`, a program uses
//! servers: a server is a child process or an address, and each of its tools becomes a [`Tool`](crate::Tool). With
//! the feature `mcp-oauth`, a program is authorized to use such an address. With the feature `mcp-server`, a
//! program serves its own tools to others.
#![cfg_attr(all(feature = "mcp", feature = "mcp-server"), doc = "")]
#![cfg_attr(
    all(feature = "mcp", feature = "mcp-server"),
    doc = include_str!("../../guide/mcp.md")
)]

#[cfg(feature = "mcp")]
mod builder;
#[cfg(feature = "mcp")]
mod call;
#[cfg(feature = "mcp")]
mod config;
#[cfg(feature = "mcp")]
mod content;
#[cfg(feature = "mcp")]
mod effects;
#[cfg(feature = "mcp")]
mod elicitation;
#[cfg(feature = "mcp")]
mod handler;
#[cfg(feature = "mcp")]
mod http;
#[cfg(feature = "mcp")]
mod http_client;
#[cfg(feature = "mcp")]
mod known_secrets;
#[cfg(any(feature = "mcp", feature = "mcp-server"))]
mod memory;
#[cfg(all(feature = "mcp", not(feature = "mcp-oauth")))]
#[path = "no_oauth.rs"]
mod oauth;
#[cfg(feature = "mcp-oauth")]
mod oauth;
#[cfg(feature = "mcp")]
mod pending_elicitations;
#[cfg(feature = "mcp")]
mod pending_requests;
#[cfg(feature = "mcp")]
mod post;
#[cfg(feature = "mcp")]
mod process;
#[cfg(feature = "mcp")]
mod resource_tools;
#[cfg(feature = "mcp")]
mod resources_and_prompts;
#[cfg(feature = "mcp")]
mod scan;
#[cfg(feature = "mcp")]
mod server;
#[cfg(feature = "mcp")]
mod server_connection;
#[cfg(feature = "mcp-server")]
mod service;
#[cfg(feature = "mcp")]
mod session;
#[cfg(feature = "mcp")]
mod sse_messages;
#[cfg(feature = "mcp")]
mod sse_stream;
#[cfg(feature = "mcp")]
mod stdout_filter;
#[cfg(feature = "mcp")]
mod tool_list;
#[cfg(feature = "mcp")]
mod tool_name;
#[cfg(feature = "mcp")]
mod version;

#[cfg(feature = "mcp-oauth")]
pub use self::oauth::{
    McpAuth, McpAuthorizationPage, McpCredentialStore, McpCredentials, McpCredentialsFuture,
};
#[cfg(feature = "mcp-server")]
pub use self::service::{McpHttp, McpService, NoHandler};
#[cfg(feature = "mcp")]
pub use self::{
    builder::McpServerBuilder,
    elicitation::{McpElicitation, McpElicitationAnswer},
    resources_and_prompts::{McpArgument, McpPrompt, McpResource},
    server::McpServer,
    version::McpVersion,
};

/// The member of `_meta` in the result of a call that says how the call has ended, if that is [`IN_DOUBT`]. The protocol has
/// no word of its own for it.
#[cfg(any(feature = "mcp", feature = "mcp-server"))]
const OUTCOME: &str = "harness/outcome";

/// The call was stopped while it ran, or may still run.
#[cfg(any(feature = "mcp", feature = "mcp-server"))]
const IN_DOUBT: &str = "in_doubt";
