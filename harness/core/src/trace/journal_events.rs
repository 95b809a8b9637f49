//! Traces the journal of a conversation: holds, appends, and waiting calls.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::{AppendOutcome, Happened, HoldOutcome, Tracer, WaitsFor, tracer::micros};
use crate::{
    error::Error,
    journal::{Always, Awaited, Decider, Reason, Wait},
    message::{ToolCall, ToolResult},
    tool::{ReconcileFault, Scope},
};

/// The beginning and the end of a call's wait. The tracer gets this value with the fact that begins or ends the wait.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct CallWaitTime {
    /// What the call waits for.
    pub awaited: WaitsFor,
    /// The beginning of the wait, in milliseconds since the Unix epoch.
    pub since: u64,
    /// The end of the wait, in milliseconds since the Unix epoch.
    pub until: u64,
    /// Whether another process wrote the fact that ends the wait.
    pub elsewhere: bool,
}

/// The duration of a wait in milliseconds, and whether another process ended the wait.
pub(super) fn wait_duration(waited: Option<CallWaitTime>) -> (Option<u64>, bool) {
    match waited {
        Some(waited) => (Some(waited.until.saturating_sub(waited.since)), waited.elsewhere),
        None => (None, false),
    }
}

impl WaitsFor {
    #[doc(hidden)]
    pub fn of(awaited: &Awaited) -> Self {
        match awaited {
            Awaited::Approval { .. } => Self::Approval,
            Awaited::Result => Self::Result,
            Awaited::Answer { .. } => Self::Answer,
            Awaited::Agent { .. } => Self::Agent,
        }
    }
}

/// The parameters of a journal operation.
#[doc(hidden)]
#[derive(Debug)]
pub struct JournalOperation {
    pub conversation: String,
    /// The name of the storage system.
    pub journal: String,
    /// For an append: the number of facts, and their size in bytes. `None` for a hold.
    pub facts: Option<(usize, usize)>,
}

/// A journal operation that has not ended yet, with its start time.
pub(super) struct PendingOperation {
    asked: JournalOperation,
    begun: Instant,
}

impl Tracer {
    /// Begins a journal operation. The operation is traced when it ends.
    pub fn begin_operation(&mut self, asked: impl FnOnce() -> JournalOperation) {
        self.stopped();
        if !self.is_read() {
            return;
        }
        let JournalOperation { conversation, journal, facts } = asked();
        let conversation = self.name(&conversation);
        let journal = self.name(&journal);
        let name = if facts.is_some() { "append" } else { "hold" };
        self.tell(|listener| listener.operation_began(name, &journal, &conversation));
        let asked = JournalOperation { conversation, journal, facts };
        self.now().operation = Some(PendingOperation { asked, begun: Instant::now() });
    }

    /// Traces the end of an append.
    pub fn appended(&mut self, outcome: AppendOutcome, error: Option<&Error>) {
        let Some(PendingOperation { asked, begun }) = self.take_operation() else { return };
        let JournalOperation { conversation, journal, facts } = asked;
        let ((facts, bytes), took_us) = (facts.unwrap_or_default(), micros(begun.elapsed()));
        let error = error.map(|error| self.hide(&error.to_string(), None));
        self.write(Happened::Appended {
            conversation,
            journal,
            facts,
            bytes,
            outcome,
            took_us,
            error,
        });
    }

    /// Traces the end of an attempt to hold a conversation.
    pub fn held(&mut self, outcome: HoldOutcome, error: Option<&Error>) {
        let Some(PendingOperation { asked, begun }) = self.take_operation() else { return };
        let JournalOperation { conversation, journal, facts: _ } = asked;
        let took_us = Some(micros(begun.elapsed()));
        let error = error.map(|error| self.hide(&error.to_string(), None));
        self.write(Happened::Hold { conversation, journal, outcome, took_us, error });
    }

    /// Traces that another process appended to a held conversation, so that this process lost its hold.
    pub fn lost(&mut self, why: &str, held: impl FnOnce() -> JournalOperation) {
        if !self.is_read() {
            return;
        }
        let JournalOperation { conversation, journal, facts: _ } = held();
        let (outcome, took_us) = (HoldOutcome::Lost, None);
        let error = Some(self.hide(why, None));
        let conversation = self.name(&conversation);
        let journal = self.name(&journal);
        self.write(Happened::Hold { conversation, journal, outcome, took_us, error });
    }

    fn take_operation(&mut self) -> Option<PendingOperation> {
        self.now.as_mut()?.operation.take()
    }

    /// Ends a pending operation, if there is one, and traces that its future was dropped.
    pub(super) fn stopped(&mut self) {
        let pending = self.now.as_ref().and_then(|now| now.operation.as_ref());
        match pending.map(|operation| operation.asked.facts.is_some()) {
            None => {}
            Some(true) => self.appended(AppendOutcome::Interrupted, None),
            Some(false) => self.held(HoldOutcome::Interrupted, None),
        }
    }

    /// Traces that the conversation was opened again after a run whose end is unknown.
    pub fn reopened<'a>(
        &mut self,
        in_doubt: impl Iterator<Item = &'a ToolCall>,
        runs_again: impl Iterator<Item = &'a ToolCall>,
    ) {
        if !self.is_read() {
            return;
        }
        let name = |call: &ToolCall| self.name(call.id());
        let in_doubt = in_doubt.map(name).collect();
        let name = |call: &ToolCall| self.name(call.id());
        let runs_again = runs_again.map(name).collect();
        let reopened = Happened::Reopened { in_doubt, runs_again };
        self.reopened = Some(Box::new(reopened.clone()));
        self.keep(reopened);
    }

    /// Traces that the conversation was created as a fork of another conversation.
    pub fn forked(&mut self, from: &str, facts: u64) {
        if self.is_read() {
            let from = self.name(from);
            self.write(Happened::Forked { from, facts });
        }
    }

    /// Traces that a tool's reconcile function failed.
    pub fn reconcile_failed(&mut self, call: &ToolCall, fault: ReconcileFault, error: &str) {
        if !self.is_read() {
            return;
        }
        self.add_open_calls([call]);
        let error = self.hide(error, Some(call.name()));
        let (call, tool) = self.call_and_tool(call.id());
        self.write(Happened::ReconcileFailed { call, tool, fault, error });
    }

    pub(super) fn call_waits(
        &mut self,
        call: &str,
        wait: &Wait,
        waited: Option<CallWaitTime>,
    ) -> Happened {
        let question = match &wait.awaited {
            Awaited::Approval { question, .. } => Some(reasons(question)),
            Awaited::Answer { question, .. } => Some(question.clone()),
            Awaited::Agent { conversation, .. } => Some(conversation.clone()),
            Awaited::Result => None,
        };
        let question = question.filter(|question| !question.is_empty());
        let question = question.map(|question| self.hide_of_call(&question, call));
        let (call, tool) = self.call_and_tool(call);
        Happened::CallWaits {
            call,
            tool,
            awaited: WaitsFor::of(&wait.awaited),
            question,
            since_ms: waited.map_or(0, |waited| waited.since),
            until_ms: wait.until,
        }
    }

    pub(super) fn answered(
        &mut self,
        call: &str,
        answer: &Value,
        who: Option<&str>,
        at_ms: u64,
        waited: Option<CallWaitTime>,
    ) -> Happened {
        let answer = self.hide_of_call(&answer.to_string(), call);
        let who = who.map(|who| self.hide(who, None));
        let ((waited_ms, elsewhere), (call, tool)) =
            (wait_duration(waited), self.call_and_tool(call));
        Happened::CallAnswered { call, tool, answer, who, at_ms, waited_ms, elsewhere }
    }

    pub(super) fn settled(
        &mut self,
        result: &ToolResult,
        who: Option<&str>,
        at_ms: u64,
        waited: Option<CallWaitTime>,
    ) -> Happened {
        let (text, files) = self.content(result);
        let who = who.map(|who| self.hide(who, None));
        let (waited_ms, elsewhere) = wait_duration(waited);
        let (call, tool) = self.call_and_tool(result.call_id());
        Happened::CallSettled {
            call,
            tool,
            outcome: result.outcome(),
            text,
            files,
            who,
            at_ms,
            awaited: waited.map(|waited| waited.awaited),
            waited_ms,
            elsewhere,
        }
    }

    /// The id and the tool of a call, without secrets.
    pub(super) fn call_and_tool(&self, call: &str) -> (String, String) {
        let tools = self.now.as_ref().map(|now| &now.tools);
        let tool = tools.and_then(|tools| tools.get(call)).map_or("", String::as_str);
        (self.name(call), self.name(tool))
    }

    /// The decider of a call, without secrets.
    pub(super) fn decider(&mut self, by: &Decider, call: &str) -> Decider {
        match by {
            Decider::Person { who, at, always } => Decider::Person {
                who: who.as_ref().map(|who| self.hide(who, None)),
                at: *at,
                always: always.as_ref().map(|always| {
                    let Always { scope, tool, reasons, person, binding: _ } = &**always;
                    let (scope, tool) = (self.scope(scope, call), self.name(tool));
                    let reasons = reasons.iter().map(|Reason { by, text }| {
                        let text = self.hide(text, Some(&tool));
                        Reason::new(self.decider(by, call), text)
                    });
                    let reasons = reasons.collect();
                    let person = person.as_ref().map(|who| self.hide(who, None));
                    // The binding is omitted, because the event `call_started` contains the arguments.
                    let binding = Arc::default();
                    Box::new(Always::new(scope, tool, reasons, binding).for_person(person))
                }),
            },
            Decider::Always { call: asked, scope } => {
                Decider::Always { call: self.name(asked), scope: self.scope(scope, call) }
            }
            Decider::Rule { name } => Decider::Rule { name: self.name(name) },
            Decider::Unrecorded
            | Decider::SideEffects
            | Decider::ToolName
            | Decider::Review
            | Decider::DataFlow
            | Decider::Program
            | Decider::Nobody
            | Decider::Expired
            | Decider::Call
            | Decider::Fault => by.clone(),
        }
    }

    fn scope(&mut self, scope: &Scope, call: &str) -> Scope {
        let key = self.hide_of_call(scope.key(), call);
        Scope::new(key, self.hide_of_call(scope.shown(), call))
    }
}

/// The reasons in the JSON of an approval request.
fn reasons(question: &Value) -> String {
    let reasons = question.get("reasons").and_then(Value::as_array);
    let texts = reasons.into_iter().flatten().filter_map(|reason| reason.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("; ")
}
