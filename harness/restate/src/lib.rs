//! Conversations of [harness] agents on [Restate](https://docs.restate.dev): the engine stores the result of each step
//! of a run. If a worker dies, another worker continues the run.
//!
//! A worker serves an agent. In this example, a call that needs an approval waits until a person decides, in this
//! process or in another one:
//!
//! ```no_run
//! use harness::{Agent, policy::ApprovalRequest, testing::{ScriptedProvider, reply}};
//! use harness_restate::{Conversations, listen};
//! use restate_sdk::prelude::*;
//!
//! # async fn worker() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")]))
//!     .approver(|question: ApprovalRequest| async move { question.later(None) })
//!     .build()?;
//! // The worker hears through the ingress, the address at which the engine takes requests, that somebody stops a run.
//! let served = Conversations::new(agent, "http://127.0.0.1:8080")?;
//! // The engine calls the worker at port 9080.
//! HttpServer::new(Endpoint::builder().bind(served).build())
//!     .serve(listen("127.0.0.1:9080".parse()?)?)
//!     .await;
//! # Ok(())
//! # }
//! ```
//!
//! Any program can use the conversations through a [`Client`]:
//!
//! ```no_run
//! use harness_restate::Client;
//!
//! # async fn program() -> Result<(), Box<dyn std::error::Error>> {
//! let chat = Client::new("http://127.0.0.1:8080")?.conversation("chat-17")?;
//! // It says something and waits until the model has answered or a call waits.
//! let ended = chat.send("Say hello.", "message-1").await?;
//! println!("{ended}");
//!
//! // It says something and shows each fact as it comes.
//! let run = chat.start("Send the invoice.", "message-2").await?;
//! let next = chat.watch(&run, 0, |fact| println!("{fact:?}")).await?;
//!
//! // It decides about the calls that wait, and the run goes on.
//! for open in chat.open().await? {
//!     if let Some(question) = open.question() {
//!         let run = chat.decide(question.yes().by("ada")).await?;
//!         chat.watch(&run, next, |fact| println!("{fact:?}")).await?;
//!     }
//! }
//!
//! // It stops what goes on or waits.
//! chat.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The facts of a conversation are the state of a virtual object, with one key for the result of each step. The README
//! describes the guarantees and the limits.

mod client;
mod conversation_locks;
mod driver;
mod listen;
mod protocol;
mod run;
mod size;
mod state;
mod stop_signals;
mod timers;

pub use client::{Client, ClientError, Conversation};
pub use driver::Conversations;
pub use listen::listen;
pub use protocol::{Command, Facts, Input, RunEnd};
