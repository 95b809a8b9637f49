//! Conversations of [harness](harness) agents on [Restate](https://docs.restate.dev): the engine keeps what
//! each step of a run came to, and another worker goes on where one has died.
//!
//! A worker serves an agent, and programs talk to it through a [`Client`]:
//!
//! ```no_run
//! use harness::{Agent, testing::{ScriptedProvider, reply}};
//! use harness_restate::{Client, Conversations, listen};
//! use restate_sdk::prelude::*;
//!
//! # async fn worker() -> Result<(), Box<dyn std::error::Error>> {
//! // In the worker: the engine calls it, and it hears through the ingress that somebody stops a run.
//! let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
//! let served = Conversations::new(agent, "http://127.0.0.1:8080")?;
//! HttpServer::new(Endpoint::builder().bind(served).build())
//!     .serve(listen("127.0.0.1:9080".parse()?)?)
//!     .await;
//! # Ok(())
//! # }
//! # async fn program() -> Result<(), Box<dyn std::error::Error>> {
//! // In any program.
//! let chat = Client::new("http://127.0.0.1:8080")?.conversation("chat-17");
//! let ended = chat.send("Say hello.", "message-1").await?;
//! println!("{}: {}", ended.outcome, ended.text);
//! # Ok(())
//! # }
//! ```
//!
//! The facts of a conversation are the state of a virtual object, one key for what one step came to. What
//! this guarantees and what it cannot is in the README.

mod client;
mod driver;
mod listen;
mod run;
mod said;
mod size;
mod state;
mod stop;

pub use client::{Client, ClientError, Conversation};
pub use driver::Conversations;
pub use listen::listen;
pub use said::{Ended, Facts, Said, Words};
