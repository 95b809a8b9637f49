//! Fakes for tests: a provider that follows a script, and a local server that simulates a vendor's responses and
//! network failures. Needs the feature `testing`. The rest of the library does not use this module.
//!
//! Most tests need only [`ScriptedProvider`], without sockets and clocks, and with one line per turn.
//!
//! ```
//! use harness::{
//!     Message, Transcript,
//!     provider::{Provider, Request, accumulate},
//!     testing::{ScriptedProvider, reply},
//! };
//! use serde_json::json;
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let model = ScriptedProvider::new([
//!     reply().text("Let me see. ").call("weather", json!({"city": "Oslo"})),
//!     reply().text("Cold."),
//! ]);
//!
//! let mut transcript = Transcript::default();
//! transcript.push(Message::user("How is the weather in Oslo?"))?;
//! let said = accumulate(model.stream(Request::new(&transcript)?)).await?.message.unwrap();
//!
//! assert_eq!(said.text(), "Let me see. ");
//! assert_eq!(said.calls().next().unwrap().arguments(), r#"{"city":"Oslo"}"#);
//! assert_eq!(model.requests()[0].last_text(), "How is the weather in Oslo?");
//! # Ok::<(), harness::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Control the order of events with a [`Gate`], not with a sleep. In this example, a run is dropped in the middle of a
//! word, and the conversation stays complete:
//!
//! ```
//! use harness::{
//!     Agent,
//!     testing::{Gate, ScriptedProvider, outline, reply},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let gate = Gate::new();
//! let model = ScriptedProvider::new([
//!     reply().text("It is c").wait_for(&gate).text("old."),
//!     reply().text("Cold, as I said."),
//! ]);
//! let agent = Agent::builder(model.clone()).build()?;
//! let mut chat = agent.chat();
//! tokio::select! {
//!     _ = chat.send("Oslo?") => unreachable!("the gate is closed"),
//!     () = gate.reached() => {}
//! }
//! assert_eq!(model.open_streams(), 0);
//!
//! chat.send("Pardon?").await?;
//! assert!(outline(chat.transcript().messages()).contains("assistant: It is c"));
//! model.assert_finished();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Tests of HTTP traffic use [`LoopbackServer`], with response bodies in a vendor's format from [`anthropic`],
//! [`responses`] or [`chat`], and with the failures of [`Answer`]. The built-in providers retry temporary failures,
//! which takes time and further answers. Turn retries off in tests that are not about retries:
//!
//! ```
//! use harness::{
//!     Agent, AnthropicProvider, RetryPolicy,
//!     testing::{ClosedBy, LoopbackServer, anthropic},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let server = LoopbackServer::start([
//!     anthropic::body().text("Cold.").answer(),
//!     anthropic::body().text("Never heard.").answer().cut_at(400),
//!     anthropic::error(401, "authentication_error", "invalid x-api-key"),
//! ])
//! .await?;
//! let provider = AnthropicProvider::builder().api_key("key").base_url(server.url()).build()?;
//! let agent = Agent::builder(provider.with_retry(RetryPolicy::none())).build()?;
//!
//! assert_eq!(agent.run("Oslo?").await?.text(), "Cold.");
//! assert!(agent.run("Oslo?").await.is_err());
//! let stopped = agent.run("Oslo?").await.unwrap_err();
//! assert_eq!(stopped.error().unwrap().status(), Some(401));
//!
//! assert_eq!(server.requests()[0].header("x-api-key"), Some("key"));
//! assert_eq!(server.requests()[0].json()["messages"][0]["content"][0]["text"], "Oslo?");
//! let cut = server.requests()[1].connection();
//! assert_eq!(server.closed(cut).await, ClosedBy::Server);
//! server.assert_finished();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PrefixCheck`] simulates vendors that refuse reasoning after a changed prefix. [`Chaos`] creates random failures
//! from a seed. A `Crashtest` checks that an agent survives the end of its process at any instant.
//!
//! `journal_conformance` tests your own journal. [`FaultyJournal`] simulates failures of a journal.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

pub mod anthropic;
mod chaos;
mod chaos_provider;
pub mod chat;
mod deltas;
mod events;
mod faulty_journal;
mod from_trace;
mod gate;
mod outline;
mod prefix_check;
mod prompt_cache;
mod reply;
pub mod responses;
mod scripted;
mod server;

pub use self::{
    chaos::{Chaos, Fault},
    chaos_provider::ChaosProvider,
    faulty_journal::{FaultyJournal, JournalCall, JournalCounts, JournalFault},
    gate::Gate,
    outline::outline,
    prefix_check::PrefixCheck,
    prompt_cache::SimulatedCache,
    reply::{ScriptedReply, reply, reply_to, summary},
    scripted::{RecordedRequest, ScriptedProvider},
    server::{Answer, ClosedBy, LoopbackServer, Point, ReceivedRequest},
};
