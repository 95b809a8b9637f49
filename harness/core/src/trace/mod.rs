//! The trace of a run: every turn, call, decision, wait and timing, in the order in which they
//! happened. The library only writes it: a run without a trace behaves the same.
//!
//! Every reply and every stopped run has its trace. With [`Trace::to_file`] it is also written as JSON
//! lines during the run, one event on each line and each line at once, so that a process that is
//! killed loses at most the last line. With [`Trace::to_writer`] a thread passes the lines to any
//! other writer, and no run waits for it.
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
//! One JSON object on each line, in UTF-8. Every event has the members:
//!
//! | member | meaning |
//! |---|---|
//! | `v` | number of the format: [`SCHEMA`]. It grows when a member changes its meaning; new members and events do not change it |
//! | `run` | the run; a file can have several. An event between two runs of a conversation has the later one |
//! | `at_us` | microseconds since the trace began, on a clock that never goes back |
//! | `event` | what happened: a variant of [`Happened`] in snake case, whose fields are the other members |
//!
//! Secrets are replaced by `[secret]` before anything is kept or written: see [`Redaction`].
//!
//! # Conversations in a journal
//!
//! Each kind of fact has an event:
//!
//! | [fact](crate::journal::Fact) | event |
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
//! Three events have no fact: `hold` (a conversation is held, is busy, or was continued by another
//! process), `appended` (each write into the journal, with its time and outcome) and
//! `reconcile_failed` (a tool could not find out what became of a call).
//!
//! Events outside of a run are written at once, and are in the trace of the next run of the same
//! `Chat`: opening and reopening it, and the effects of `decide`,
//! `settle`, `save` and `revoke`.
//! They stand before `run_started`, the first 256 of them; a file has all. An
//! `Inbox` belongs to no chat, so each of its answers has a name of its own in
//! the member `run`. A chat that reads such an answer writes it again, with `elsewhere`. If an answer of the chat could not be
//! written and gives way to such an answer, the trace has both, in this order.
//!
//! The times between two facts (`waited_ms`) come from the clocks of the processes that wrote them;
//! use them only for display. [The guide](crate::journal#what-is-observed) lists the spans and
//! metrics.
//!
//! # OpenTelemetry
//!
//! With the feature `otel` of `harness` or `harness-agent` a run also makes spans of `tracing`, by OpenTelemetry's conventions for
//! generative AI: `invoke_agent`, below it `chat {model}` for each turn and `execute_tool {tool}` for
//! each call, and below that the spans of the tools themselves. Names that the conventions do not have
//! (retry, fallback, approval, interrupt, early start, limits, waits) begin with `harness.`. Holds and
//! appends of a journal are spans by the conventions for database clients. Events outside of a run
//! are on the program's current span. Histograms of duration, time to the first chunk, time per chunk
//! and tokens, of the journal's operations and of the waits of calls go to the global meter provider.
//! Tokens are only on `chat` spans, so that a sum over all spans counts them once. What the user, the
//! model, a tool, a server or a person has said is left out unless `Trace::content_in_spans` is set.
//!
//! A subscriber of the program with the layer of `tracing-opentelemetry` exports the spans; set the
//! meter provider before the first run. Either of the two can be used alone. Without both, no clock is
//! read and no data is prepared for them. A program with another monitoring system sets a
//! [`TraceListener`] of its own, which then gets the events in their place.

mod event;
mod hidden_values;
mod journal_events;
mod line_writer;
mod listener;
mod page;
mod pretty;
mod read;
mod redaction;
mod secret_shapes;
mod sink;
mod tracer;

pub(crate) use self::redaction::Redactor;
pub use self::{
    event::{
        AppendOutcome, CallOfRun, Happened, HoldOutcome, SCHEMA, TraceEvent, TracedCall, WaitsFor,
    },
    listener::{EndedCall, RunListener, TraceListener, TraceScope},
    page::page,
    pretty::pretty,
    read::read,
    redaction::Redaction,
    sink::{RunTrace, Trace},
};
#[doc(hidden)]
pub use self::{
    journal_events::{CallWaitTime, JournalOperation},
    listener::SpanScope,
    tracer::{RunParticipants, Tracer, new_run},
};
