//! The trace of a run: every turn, call, decision, wait and duration, in order. Tracing has no effect on a run.
//!
//! Every reply and every stopped run contains its trace. With [`Trace::to_file`], the trace is also written during the
//! run as JSON lines, one event per line, so that a killed process loses at most the last line. With
//! [`Trace::to_writer`], a thread passes the lines to any other writer, and no run waits for that writer.
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
//! One JSON object per line, in UTF-8. Every event has these members:
//!
//! | member | meaning |
//! |---|---|
//! | `v` | version number of the format: [`SCHEMA`]. It increases when a member changes its meaning |
//! | `run` | id of the run. Events between two runs of a conversation have the id of the later run |
//! | `at_us` | microseconds since the trace began, on a monotonic clock |
//! | `event` | the kind of event: a variant of [`Happened`] in snake case, whose fields are the other members |
//!
//! `[secret]` replaces secrets before an event is kept or written: see [`Redaction`].
//!
//! # Conversations in a journal
//!
//! `Inbox::trace` of the agent's package makes the trace of a conversation from its facts, also if it was not traced when
//! it ran. Each kind of fact has an event:
//!
//! | [fact](crate::journal::Fact) | event |
//! |---|---|
//! | `given`, `user_said`, `resumed` | `run_started`, with the number of messages before it |
//! | `reopened` | `reopened`, with the calls that are in doubt and the calls that run again |
//! | `forked` | `forked`, with the original conversation and the number of shared facts |
//! | `model_replied`, `interrupted`, `call_finished`, `call_ended` | the same name |
//! | `call_started` | `call_started`, when the call actually starts, which may be before the fact |
//! | `call_decided` | `call_decided`, with the decider and the duration of the wait, if there was one |
//! | `call_waits` | `call_waits`, with the awaited answer and the beginning of the wait |
//! | `call_answered`, `call_settled` | the same name, with the person and the duration of the wait |
//! | `call_cleared`, `call_undecided`, `grant_revoked` | the same name |
//!
//! Three events have no fact: `hold` (a conversation is held, is busy, or was continued by another process), `appended`
//! (each write to the journal, with its duration and outcome) and `reconcile_failed` (a tool could not find out what a
//! call did).
//!
//! Events between runs are written immediately and belong to the trace of the next run of the same `Chat`. Such events
//! come from opening and reopening the chat, and from `decide`, `settle`, `save` and `revoke`. The trace in memory
//! contains only the first 256 of these events, before `run_started`. A trace in a file contains all of them. An
//! `Inbox` belongs to no chat, so each of its answers has an id of its own in the member `run`. If a chat reads an
//! answer of an inbox from the journal, the chat's trace repeats the event, with `elsewhere`. If an answer of the chat
//! could not be written because another answer was stored first, the trace has both events, in this order.
//!
//! The times between two facts (`waited_ms`) come from the clocks of the processes that wrote the facts. Use them only
//! for display. [The guide](crate::journal#what-is-observed) lists the spans and metrics.
//!
//! # OpenTelemetry
//!
//! With the feature `otel`, a run also creates `tracing` spans that follow OpenTelemetry's conventions for generative
//! AI: `invoke_agent`, inside it `chat {model}` for each turn and `execute_tool {tool}` for each call, and inside
//! `execute_tool` the tool's own spans. Names outside of the conventions (retry, fallback, approval, interrupt, early
//! start, limits, waits) begin with `harness.`. Holds and appends of a journal are spans that follow the conventions
//! for database clients. Events between runs go to the program's current span. Histograms of duration, time to the
//! first chunk, time per chunk, tokens, journal operations and waits of calls go to the global meter provider. Only
//! `chat` spans have token counts, so that a sum over all spans counts each token once. Texts of the user, the model,
//! tools, servers and persons are left out unless `Trace::content_in_spans` is set.
//!
//! The spans are exported if the program installs a subscriber with the layer of `tracing-opentelemetry`. The metrics
//! are exported if the program sets the meter provider before the first run. Spans work without metrics, and metrics
//! without spans. If the program sets up neither, no clock is read and no data is prepared.

mod difference;
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
    difference::{Difference, comparison_text, first_difference},
    event::{
        AppendOutcome, CallOfRun, Happened, HoldOutcome, SCHEMA, TraceEvent, TracedCall, WaitsFor,
    },
    listener::{EndedCall, RunListener, TraceListener, TraceScope},
    page::{comparison_page, page},
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
