//! What can be seen of a run: every turn, call, decision, wait and timing, in the order in which it
//! happened. Nothing reads back from it: a run without a trace does the same.
//!
//! Every reply and every stopped run carries its trace. With [`Trace::to_file`] it is also
//! written as JSON lines while the run goes on, one event a line, each line at once, so that a
//! process that is killed loses at most the last line.
//!
//! ```
//! use harness::{Agent, testing::{ScriptedProvider, reply}};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
//! let reply = agent.run("Say hello.").await?;
//! assert_eq!(reply.trace().to_string(), "user -> \"Say hello.\"\nmodel -> \"Hello.\"\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The format
//!
//! One JSON object a line, in UTF-8. Members of every event:
//!
//! | member | meaning |
//! |---|---|
//! | `v` | number of the format: [`SCHEMA`]. It grows when a member changes its meaning; members and events may be added without |
//! | `run` | the run; several can be in one file |
//! | `at_us` | microseconds since the trace began, on a clock that never goes back |
//! | `event` | what happened: a variant of [`Happened`] in snake case, whose fields are the other members |
//!
//! What is secret is replaced by `[secret]` before anything is kept or written: see [`Secrets`].

mod event;
mod page;
mod pretty;
mod read;
mod secrets;
mod sink;
mod tracer;

pub(crate) use self::tracer::{Cast, Tracer};
pub use self::{
    event::{Happened, SCHEMA, TraceEvent, TracedCall},
    page::page,
    pretty::pretty,
    read::read,
    secrets::Secrets,
    sink::{RunTrace, Trace},
};
