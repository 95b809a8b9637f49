//! Providers for the models of Anthropic, of OpenAI, and of servers with compatible protocols.
//!
//! [`wire`] contains the protocols as pure functions over bytes, without a socket. [`client`] (feature `sockets`, on by
//! default) sends requests over HTTP and reads the streams.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]
#![cfg_attr(
    not(feature = "sockets"),
    allow(dead_code, unused_imports, reason = "the protocols keep what only the client reads")
)]

#[cfg(feature = "sockets")]
pub mod client;
pub mod wire;
