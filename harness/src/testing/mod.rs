//! How to fake it: a provider that speaks a script, and a server on the loopback that speaks like
//! a vendor and fails like a network. For your own tests as well as ours; nothing here is used
//! by the rest of the library.
//!
//! Most tests want [`ScriptedProvider`]: no socket, no clock, one line a turn.
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
//! Tests of what goes over a socket want [`LoopbackServer`], with a body of the vendor's own shape
//! from [`anthropic`], [`responses`] or [`chat`], and with the faults of [`Answer`].

pub mod anthropic;
pub mod chat;
mod events;
mod gate;
mod outline;
mod pieces;
mod reply;
pub mod responses;
mod scripted;
mod server;

pub use self::{
    gate::Gate,
    outline::outline,
    reply::{ScriptedReply, reply, reply_to},
    scripted::{RecordedRequest, ScriptedProvider},
    server::{Answer, ClosedBy, LoopbackServer, Point, ReceivedRequest},
};
