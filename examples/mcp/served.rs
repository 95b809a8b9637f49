//! Serves a service of the examples at an address of this machine.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
};

use anyhow::Context as _;
use harness::mcp::McpService;
use rmcp::ServerHandler;
use tokio::net::TcpListener;

/// Serves over HTTP at the path `/mcp`, and prints the address.
pub(crate) async fn over_http<H: ServerHandler>(
    service: McpService<H>,
    address: &str,
) -> anyhow::Result<()> {
    let address: SocketAddr = address.parse().map_err(|_| {
        super::program::wrong(format!(
            "`{address}` is no address: expected one such as 127.0.0.1:8080"
        ))
    })?;
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen at {address}; `--listen` takes another port, and port 0 any free one"
        )
    })?;
    writeln!(
        io::stderr(),
        "clients of the Model Context Protocol find the tools at http://{}/mcp",
        listener.local_addr()?
    )?;
    Ok(service.serve_http(listener).await?)
}
