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
//! | `run` | the run; several can be in one file. What happens to a conversation between two runs has the later one |
//! | `at_us` | microseconds since the trace began, on a clock that never goes back |
//! | `event` | what happened: a variant of [`Happened`] in snake case, whose fields are the other members |
//!
//! What is secret is replaced by `[secret]` before anything is kept or written: see
//! [`Redaction`].
//!
//! # Conversations in a journal
//!
//! Each kind of fact is told by an event:
//!
//! | [fact](crate::journal::Entry) | event |
//! |---|---|
//! | `given`, `user_said`, `resumed` | `run_started`, with the number of messages before it |
//! | `reopened` | `reopened`: which calls it puts in doubt, and which run again |
//! | `forked` | `forked`: from which conversation, after how many facts |
//! | `model_replied`, `interrupted`, `call_finished`, `call_ended` | the same name |
//! | `call_started` | `call_started`, when the call really begins, which may be before the fact |
//! | `call_decided` | `call_decided`: by whom, and how long the call had waited if it did |
//! | `call_waits` | `call_waits`: for what, and since when |
//! | `call_answered`, `call_settled` | the same name: by whom, and how long the call had waited |
//! | `call_cleared`, `call_undecided`, `grant_revoked` | the same name |
//!
//! Three events tell what is no fact: `hold` (a conversation is held, is busy, or is lost to somebody
//! else), `appended` (each write into the journal, with its time and outcome) and `reconcile_failed` (a
//! tool could not find out what became of a call).
//!
//! What happens outside of a run is told at once, and is in the trace of the run that follows in the same
//! [`Chat`](crate::Chat): that it is opened and reopened, what [`decide`](crate::Chat::decide),
//! [`settle`](crate::Chat::settle), [`save`](crate::Chat::save) and [`revoke`](crate::Chat::revoke) do.
//! These events stand before `run_started`, the first 256 of them; a file has all. An [`Inbox`](crate::agent::Inbox) belongs to no chat, so each
//! answer of it has a name of its own in the member `run`. A chat that reads such an answer tells it
//! again, with `elsewhere`.
//!
//! The times between two facts (`waited_ms`) are those of the clocks of who wrote them, for display. [The
//! guide](crate::journal#what-is-observed) lists the spans and metrics.
//!
//! # OpenTelemetry
//!
//! With the feature `otel` a run is also told to `tracing`, as spans by OpenTelemetry's conventions
//! for generative AI: `invoke_agent`, below it `chat {model}` for each turn and `execute_tool
//! {tool}` for each call, and whatever a tool tells of itself below that. What the conventions have
//! no word for (retry, fallback, approval, interrupt, early start, limits, waits) begins with `harness.`.
//! Holds and appends of a journal are spans by the conventions for clients of databases. What happens
//! outside of a run stands on the span of the program that is current.
//! Histograms of duration, time to the first chunk, time per chunk and tokens, and of what a journal does
//! and how long calls wait, go to the global meter provider. Tokens stand on `chat` spans alone, so that a sum over all spans counts them
//! once. Words, arguments and results are left out unless `Trace::content_in_spans` says so.
//!
//! A subscriber of the program with the layer of `tracing-opentelemetry` sends them on; set the
//! meter provider before the first run. Either is enough. Where there is neither, no clock is read
//! and nothing is made ready for them.

mod event;
mod kept;
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
    event::{
        AppendOutcome, CallOfRun, Happened, HoldOutcome, SCHEMA, TraceEvent, TracedCall, WaitsFor,
    },
    page::page,
    pretty::pretty,
    read::read,
    redaction::Redaction,
    sink::{RunTrace, Trace},
};
pub(crate) use self::{
    kept::{Asked, Waited},
    redaction::Redactor,
    spans::Scope,
    tracer::{Cast, Tracer, new_run},
};
