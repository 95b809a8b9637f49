//! Reports a conversation in a journal to OpenTelemetry. The names follow the conventions for database clients. If the
//! conventions have no name for something, the name begins with `harness.`.

use std::time::{Duration, Instant};

use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};
use tracing::{Level, Span, event, field::Empty, info_span};

use crate::{
    names::{self, OTHER},
    spans::{OtelSpans, failed, outcome_name},
};
use harness_core::{
    journal::Decider,
    message::CallOutcome,
    tool::ReconcileFault,
    trace::{AppendOutcome, Happened, HoldOutcome, WaitsFor},
};

pub(super) struct OperationSpan {
    span: Span,
    begun: Instant,
}

pub(super) struct JournalMeters {
    duration: Histogram<f64>,
    facts: Histogram<u64>,
    size: Histogram<u64>,
    holds: Counter<u64>,
    waits: Histogram<f64>,
}

impl JournalMeters {
    pub(super) fn new(meter: &Meter) -> Self {
        let powers = |base: f64, count| (0..count).map(|power| base.powi(power)).collect();
        // The boundaries of the histogram, in seconds: from one second to 30 days.
        let long = [1., 10., 60., 600., 3600., 21_600., 86_400., 259_200., 604_800., 2_592_000.];
        Self {
            duration: meter
                .f64_histogram("db.client.operation.duration")
                .with_unit("s")
                .with_description("Duration of database client operations.")
                .with_boundaries(vec![0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1., 5., 10.])
                .build(),
            facts: meter
                .u64_histogram("harness.journal.append.facts")
                .with_unit("{fact}")
                .with_description("Number of facts that one append writes.")
                .with_boundaries(powers(2., 10))
                .build(),
            size: meter
                .u64_histogram("harness.journal.append.size")
                .with_unit("By")
                .with_description("Size of the facts that one append writes, as JSON text.")
                .with_boundaries(powers(4., 14))
                .build(),
            holds: meter
                .u64_counter("harness.journal.holds")
                .with_unit("{hold}")
                .with_description("Number of conversations that were to be held.")
                .build(),
            waits: meter
                .f64_histogram("harness.call.wait.duration")
                .with_unit("s")
                .with_description("How long a call waited for somebody outside of the run.")
                .with_boundaries(long.to_vec())
                .build(),
        }
    }
}

impl OtelSpans {
    /// Opens the span of a journal operation.
    pub(super) fn begin_operation(&mut self, name: &str, journal: &str, conversation: &str) {
        let span = info_span!(
            parent: self.outer(),
            "journal",
            otel.name = name,
            otel.kind = "client",
            otel.status_code = Empty,
            otel.status_description = Empty,
            error.type = Empty,
            db.system.name = journal,
            db.operation.name = name,
            harness.conversation = conversation,
            harness.journal.outcome = Empty,
            harness.journal.append.facts = Empty,
            harness.journal.append.size = Empty,
        );
        self.operation = Some(OperationSpan { span, begun: Instant::now() });
    }

    /// Reports an event of a conversation that is stored in a journal.
    pub(super) fn kept(&mut self, what: &Happened) {
        match what {
            Happened::Appended { journal, facts, bytes, outcome, error, .. } => {
                let Some(operation) = self.operation.take() else { return };
                let span = &operation.span;
                span.record("harness.journal.append.facts", whole(*facts));
                span.record("harness.journal.append.size", whole(*bytes));
                let (name, fault) = of_append(*outcome);
                self.ended(&operation, "append", journal, name, fault, error.as_deref());
                if let Some(meters) = self.meters.as_ref().filter(|_| fault.is_none()) {
                    let of = [KeyValue::new("db.system.name", journal.clone())];
                    meters.journal.facts.record(*facts as u64, &of);
                    meters.journal.size.record(*bytes as u64, &of);
                }
            }
            Happened::Hold { journal, outcome, error, .. } => {
                let (name, fault) = of_hold(*outcome);
                match self.operation.take() {
                    Some(of) => self.ended(&of, "hold", journal, name, fault, error.as_deref()),
                    None => event!(
                        name: "harness.journal.hold.lost",
                        parent: self.outer(),
                        Level::WARN,
                        db.system.name = journal.as_str(),
                        harness.journal.hold.error = self.content.then_some(error.as_deref()).flatten()
                    ),
                }
                if let Some(meters) = &self.meters {
                    let of = [
                        KeyValue::new("db.system.name", journal.clone()),
                        KeyValue::new("harness.journal.outcome", name),
                    ];
                    meters.journal.holds.add(1, &of);
                }
            }
            Happened::CallWaits { call, tool, awaited, .. } => event!(
                name: "harness.wait",
                parent: self.outer(),
                Level::INFO,
                gen_ai.tool.call.id = names::id(call),
                gen_ai.tool.name = self.tools.name(tool),
                harness.wait.for = of_wait(*awaited)
            ),
            Happened::CallAnswered { call, tool, waited_ms, .. } => {
                event!(
                    name: "harness.answer",
                    parent: self.outer(),
                    Level::INFO,
                    gen_ai.tool.call.id = names::id(call),
                    gen_ai.tool.name = self.tools.name(tool),
                    harness.wait.duration = seconds(*waited_ms)
                );
                self.waited(what);
            }
            Happened::CallSettled { call, tool, outcome, waited_ms, .. } => {
                event!(
                    name: "harness.settlement",
                    parent: self.outer(),
                    Level::INFO,
                    gen_ai.tool.call.id = names::id(call),
                    gen_ai.tool.name = self.tools.name(tool),
                    harness.call.outcome = outcome_name(*outcome),
                    harness.wait.duration = seconds(*waited_ms)
                );
                self.waited(what);
            }
            Happened::CallCleared { call, tool } => event!(
                name: "harness.cleared",
                parent: self.outer(),
                Level::INFO,
                gen_ai.tool.call.id = names::id(call),
                gen_ai.tool.name = self.tools.name(tool)
            ),
            Happened::CallUndecided { call, tool } => event!(
                name: "harness.undecided",
                parent: self.outer(),
                Level::INFO,
                gen_ai.tool.call.id = names::id(call),
                gen_ai.tool.name = self.tools.name(tool)
            ),
            Happened::GrantRevoked { call, .. } => event!(
                name: "harness.grant.revoked",
                parent: self.outer(),
                Level::INFO,
                gen_ai.tool.call.id = names::id(call)
            ),
            Happened::ReconcileFailed { call, tool, fault, error } => event!(
                name: "harness.reconcile.failed",
                parent: self.outer(),
                Level::WARN,
                gen_ai.tool.call.id = names::id(call),
                gen_ai.tool.name = self.tools.name(tool),
                error.type = of_reconcile(*fault),
                // The text comes from the tool, so it counts as content.
                harness.reconcile.error = self.content.then_some(error.as_str())
            ),
            Happened::Reopened { in_doubt, runs_again } => event!(
                name: "harness.reopened",
                parent: self.outer(),
                Level::WARN,
                harness.reopened.in_doubt = whole(in_doubt.len()),
                harness.reopened.runs_again = whole(runs_again.len())
            ),
            Happened::Forked { from, facts } => event!(
                name: "harness.forked",
                parent: self.outer(),
                Level::INFO,
                harness.forked.from = from.as_str(),
                harness.forked.facts = i64::try_from(*facts).unwrap_or(i64::MAX)
            ),
            _ => {}
        }
    }

    /// Reports the end of a journal operation with this outcome.
    fn ended(
        &self,
        OperationSpan { span, begun }: &OperationSpan,
        name: &'static str,
        journal: &str,
        outcome: &'static str,
        fault: Option<&'static str>,
        error: Option<&str>,
    ) {
        span.record("harness.journal.outcome", outcome);
        if let Some(fault) = fault {
            // The text comes from the journal, and may quote the content of the conversation.
            let words = error.filter(|_| self.content);
            failed(span, fault, words.unwrap_or("the conversation was not held or written"));
        }
        let Some(meters) = &self.meters else { return };
        let mut of = vec![
            KeyValue::new("db.system.name", journal.to_owned()),
            KeyValue::new("db.operation.name", name),
            KeyValue::new("harness.journal.outcome", outcome),
        ];
        of.extend(fault.map(|fault| KeyValue::new("error.type", fault)));
        meters.journal.duration.record(begun.elapsed().as_secs_f64(), &of);
    }

    /// Measures the wait that ends with this event. If another process ended the wait, only that process measures it.
    pub(super) fn waited(&self, what: &Happened) {
        let Some(meters) = &self.meters else { return };
        let (awaited, expired, waited) = match what {
            Happened::CallDecided { waited_ms: Some(waited), elsewhere: false, by, .. } => {
                (WaitsFor::Approval, *by == Decider::Expired, waited)
            }
            Happened::CallAnswered { waited_ms: Some(waited), elsewhere: false, .. } => {
                (WaitsFor::Answer, false, waited)
            }
            Happened::CallSettled {
                awaited: Some(awaited),
                waited_ms: Some(waited),
                elsewhere: false,
                outcome,
                ..
            } => (*awaited, *outcome == CallOutcome::InDoubt, waited),
            _ => return,
        };
        let of = [
            KeyValue::new("harness.wait.for", of_wait(awaited)),
            KeyValue::new("harness.wait.expired", expired),
        ];
        meters.journal.waits.record(Duration::from_millis(*waited).as_secs_f64(), &of);
    }
}

/// The outcome as the value of an attribute, and the kind of the error, if the outcome is an error.
fn of_append(outcome: AppendOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        AppendOutcome::Written => ("written", None),
        AppendOutcome::ReadBack => ("read_back", None),
        AppendOutcome::Conflict => ("conflict", Some("conflict")),
        AppendOutcome::Failed => ("failed", Some("failure")),
        AppendOutcome::Interrupted => ("interrupted", Some("interrupted")),
        _ => (OTHER, Some(OTHER)),
    }
}

fn of_hold(outcome: HoldOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        HoldOutcome::Taken => ("taken", None),
        HoldOutcome::Busy => ("busy", Some("busy")),
        HoldOutcome::Failed => ("failed", Some("failure")),
        HoldOutcome::Interrupted => ("interrupted", Some("interrupted")),
        HoldOutcome::Lost => ("lost", Some("conflict")),
        _ => (OTHER, Some(OTHER)),
    }
}

fn of_wait(awaited: WaitsFor) -> &'static str {
    match awaited {
        WaitsFor::Approval => "approval",
        WaitsFor::Result => "result",
        WaitsFor::Answer => "answer",
        WaitsFor::Agent => "agent",
        _ => OTHER,
    }
}

fn of_reconcile(fault: ReconcileFault) -> &'static str {
    match fault {
        ReconcileFault::Failed => "failure",
        ReconcileFault::Panicked => "panic",
        ReconcileFault::TimedOut => "timeout",
        ReconcileFault::Arguments => "arguments",
        _ => OTHER,
    }
}

/// Converts a count to a signed number, because `tracing-opentelemetry` exports an unsigned number as text.
fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts milliseconds to seconds, the unit of the conventions.
pub(super) fn seconds(milliseconds: Option<u64>) -> Option<f64> {
    milliseconds.map(|milliseconds| Duration::from_millis(milliseconds).as_secs_f64())
}
