//! Streams of runs for front ends in browsers, in the protocols that they already speak: the [UI message stream](ui_message)
//! of the AI SDK (npm package `ai`), and [AG-UI](ag_ui).
//!
//! Both are codecs without a socket and without a web framework. An encoder makes server-sent events of the events of a run. A
//! decoder reads a request: the conversation, and what its user says.
//!
//! A client is not trusted. Of the history that it sends, only the newest message of the user and the answers to what waits are
//! read; what the model and its tools have said is in the journal. An [answer](ClientAnswer) counts only for a call that waits
//! now, by the id of the question that was shown, and only once: see [`resume_answered`]. A client learns only what
//! [`public_event`] leaves of an event. Who may see and continue which conversation is for the program to check, before it uses
//! the name in a request. The conversation of an agent in a call is named `<caller>/<call id>`, and a client knows both: refuse
//! names of clients that have a `/`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a browser or a model"
)]

pub mod ag_ui;
mod answers;
mod event_stream;
mod public_event;
mod request;
mod runs_so_far;
pub mod ui_message;

pub use self::{
    answers::{ClientAnswer, ClientDecision, answer_waiting, resume_answered},
    public_event::public_event,
    request::{ClientInput, ClientRequest},
    runs_so_far::RunsSoFar,
};
