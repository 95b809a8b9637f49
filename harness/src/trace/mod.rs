//! What can be seen of a run: every turn, call, decision, wait and timing, in the order in which it
//! happened. Nothing reads back from it: a run without a trace does the same.
//!
//! Every reply and every stopped run carries its trace. With [`Trace::to_file`] it is also
//! written as JSON lines while the run goes on, one event a line, each line at once, so that a
//! process that is killed loses at most the last line. With [`Trace::to_writer`] a thread hands the
//! lines to any other writer, for which no run waits.
//!
//! ```
//! use harness::{Agent, testing::{ScriptedProvider, reply}};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let model = ScriptedProvider::new([reply().text("Hello.").tokens(9, 3)]);
//! let agent = Agent::builder(model).build()?;
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
//! What is secret is replaced by `[secret]` before anything is kept or written: see
//! [`Redaction`].
//!
//! # OpenTelemetry
//!
//! With the feature `otel` a run is also told to `tracing`, as spans by OpenTelemetry's conventions
//! for generative AI: `invoke_agent`, below it `chat {model}` for each turn and `execute_tool
//! {tool}` for each call, and whatever a tool tells of itself below that. What the conventions have
//! no word for (retry, fallback, approval, interrupt, early start, limits) begins with `harness.`.
//! Histograms of duration, time to the first chunk, time per chunk and tokens go to the global
//! meter provider. Tokens stand on `chat` spans alone, so that a sum over all spans counts them
//! once. Words, arguments and results are left out unless `Trace::content_in_spans` says so.
//!
//! A subscriber of the program with the layer of `tracing-opentelemetry` sends them on; set the
//! meter provider before the first run. Either is enough. Where there is neither, no clock is read
//! and nothing is made ready for them.

mod event;
mod lines;
#[cfg(feature = "otel")]
mod otel;
mod page;
mod pretty;
mod read;
mod redaction;
mod remembered;
mod shapes;
#[cfg(not(feature = "otel"))]
mod silent;
mod sink;
mod tracer;

#[cfg(feature = "otel")]
use self::otel as spans;
#[cfg(not(feature = "otel"))]
use self::silent as spans;

pub use self::{
    event::{Happened, SCHEMA, TraceEvent, TracedCall},
    page::page,
    pretty::pretty,
    read::read,
    redaction::Redaction,
    sink::{RunTrace, Trace},
};
pub(crate) use self::{
    redaction::Redactor,
    spans::Scope,
    tracer::{Cast, Tracer},
};
