//! Tools of servers that speak the [Model Context Protocol](https://modelcontextprotocol.io): a server is a
//! child process or an address, and each of its tools becomes a [`Tool`](crate::Tool).
//!
#![doc = include_str!("../../guide/mcp.md")]

mod asking;
mod builder;
mod call;
mod config;
mod content;
mod effects;
mod handler;
mod http;
mod link;
mod list;
mod name;
mod process;
mod server;
mod session;

pub use self::{
    asking::{McpAnswer, McpForm},
    builder::McpServerBuilder,
    server::McpServer,
};
