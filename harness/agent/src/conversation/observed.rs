//! Traces of a conversation in a journal. Without a subscriber, no clock is read and no data is prepared.

use std::collections::{HashMap, HashSet};

use super::{durable::is_answer, state::ConversationState};
use crate::Machine;
use harness_core::{
    error::Error,
    journal::{Envelope, Fact, Journal, now},
    trace::{AppendOutcome, CallWaitTime, HoldOutcome, JournalOperation, Tracer, WaitsFor},
    unwind::caught,
};

/// Maps the id of each waiting call to what the call waits for and to the beginning of the wait, in
/// milliseconds since 1970.
#[derive(Clone, Default)]
pub(crate) struct CallWaitTimes(HashMap<String, (WaitsFor, u64)>);

impl CallWaitTimes {
    /// Updates the waits with a fact that was written at the time `at`. Returns the wait that begins or ends
    /// with the fact.
    pub(crate) fn note(&mut self, fact: &Fact, at: impl FnOnce() -> u64) -> Option<CallWaitTime> {
        if let Fact::CallWaits { call, wait } = fact {
            let (awaited, at) = (WaitsFor::of(&wait.awaited), at());
            self.0.insert(call.clone(), (awaited, at));
            return Some(CallWaitTime { awaited, since: at, until: at, elsewhere: false });
        }
        if self.0.is_empty() {
            return None;
        }
        let (awaited, since) = self.0.remove(call_of_ended_wait(fact)?)?;
        Some(CallWaitTime { awaited, since, until: at(), elsewhere: false })
    }
}

/// The id of the call whose wait this fact ends, if the call waits.
fn call_of_ended_wait(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::CallDecided { call, .. } | Fact::CallAnswered { call, .. } => Some(call),
        Fact::CallSettled { result, .. } | Fact::CallFinished { result, .. } => {
            Some(result.call_id())
        }
        _ => None,
    }
}

impl ConversationState {
    /// Traces a fact that was recorded here.
    pub(crate) fn tell(&mut self, fact: &Fact) {
        let waited = self.wait_times.note(fact, now);
        self.keep_for_watchers(fact);
        match fact {
            Fact::Reopened { .. } => {
                self.tracer.reopened(self.machine.in_doubt(), self.machine.to_repeat());
            }
            fact => self.tracer.fact(fact, waited),
        }
    }

    /// Traces a fact that another process has written.
    pub(crate) fn trace_external_fact(&mut self, fact: &Fact, at: u64) {
        let waited = self.wait_times.note(fact, || at);
        self.keep_for_watchers(fact);
        let waited = waited.map(|waited| CallWaitTime { elsewhere: true, ..waited });
        self.tracer.fact(fact, waited);
    }

    /// Traces the answers among the last facts of a conversation that was just opened.
    pub(crate) fn trace_answers(&mut self, facts: &[Envelope]) {
        let answers = facts
            .iter()
            .rev()
            .map_while(|envelope| Some((envelope.fact().ok().filter(is_answer)?, envelope.at)));
        let answers: Vec<(Fact, u64)> = answers.collect();
        let mut ended: HashSet<&str> =
            answers.iter().filter_map(|(it, _)| call_of_ended_wait(it)).collect();
        let mut wait_times = HashMap::new();
        for envelope in facts.iter().rev() {
            if ended.is_empty() {
                break;
            }
            if let Ok(Fact::CallWaits { call, wait }) = envelope.fact()
                && ended.remove(&*call)
            {
                wait_times.insert(call, (WaitsFor::of(&wait.awaited), envelope.at));
            }
        }
        for (fact, until) in answers.iter().rev() {
            let waited = call_of_ended_wait(fact).and_then(|call| wait_times.get(call).copied());
            let until = *until;
            let waited = waited.map(|(awaited, since)| CallWaitTime {
                awaited,
                since,
                until,
                elsewhere: true,
            });
            self.keep_for_watchers(fact);
            self.tracer.fact(fact, waited);
        }
    }

    /// Prepares the trace of a write of the pending facts. The trace is sent when the write has ended.
    pub(crate) fn note_append(&mut self) {
        let Self { durable: Some(durable), tracer, .. } = self else { return };
        durable.begin_write();
        let Some(journal) = durable.journal().filter(|_| !durable.is_lost()) else { return };
        tracer.begin_operation(|| appending(&**journal, durable.id(), durable.pending()));
    }

    /// Traces the end of a write. `Ok(true)` means that everything is written, `Ok(false)` that the run was
    /// stopped first.
    pub(crate) fn append_ended(&mut self, written: Result<bool, &Error>) {
        self.apply_written_answers();
        let read_back = self.durable.as_ref().is_some_and(|durable| durable.was_read_back());
        match written {
            Ok(true) if read_back => self.tracer.appended(AppendOutcome::ReadBack, None),
            Ok(true) => self.tracer.appended(AppendOutcome::Written, None),
            Ok(false) => self.tracer.appended(AppendOutcome::Interrupted, None),
            Err(error) => append_failed(&mut self.tracer, error),
        }
        self.trace_loss();
    }

    /// Traces that another owner has continued the conversation, if this was not traced before.
    pub(crate) fn trace_loss(&mut self) {
        let Self { durable: Some(durable), tracer, .. } = self else { return };
        let Some(why) = durable.take_loss() else { return };
        let Some(journal) = durable.journal() else { return };
        tracer.lost(&why, || holding(&**journal, durable.id()));
    }
}

/// Describes a write of these facts into this conversation, for the trace.
pub(crate) fn appending(
    journal: &dyn Journal,
    conversation: &str,
    facts: &[Envelope],
) -> JournalOperation {
    let bytes = facts.iter().map(|envelope| envelope.fact.len()).sum();
    let facts = Some((facts.len(), bytes));
    JournalOperation { conversation: conversation.to_owned(), journal: system(journal), facts }
}

pub(crate) fn append_failed(tracer: &mut Tracer, error: &Error) {
    let outcome = match error.is_conflict() {
        true => AppendOutcome::Conflict,
        false => AppendOutcome::Failed,
    };
    tracer.appended(outcome, Some(error));
}

/// Describes an attempt to lock this conversation, for the trace.
pub(crate) fn holding(journal: &dyn Journal, conversation: &str) -> JournalOperation {
    JournalOperation {
        conversation: conversation.to_owned(),
        journal: system(journal),
        facts: None,
    }
}

/// Traces whether the attempt to lock a conversation has succeeded.
pub(crate) fn held<T>(tracer: &mut Tracer, hold: &Result<T, Error>) {
    let outcome = match hold {
        Ok(_) => HoldOutcome::Taken,
        Err(error) if error.is_busy() => HoldOutcome::Busy,
        Err(_) => HoldOutcome::Failed,
    };
    tracer.held(outcome, hold.as_ref().err());
}

/// The name of the storage system. The journal is code of the program, which may panic.
fn system(journal: &dyn Journal) -> String {
    caught(|| journal.system().to_owned()).unwrap_or_else(|_| "other".to_owned())
}

/// Traces an answer that an inbox has written into the conversation with these facts.
pub(crate) fn trace_answer(
    tracer: &mut Tracer,
    machine: &Machine,
    facts: &[Envelope],
    fact: &Fact,
) {
    tracer.add_open_calls(machine.open_calls());
    tracer.fact(fact, wait_ended_by(facts, fact, now()));
}

/// The wait in these facts that `fact` has ended at the time `until`.
fn wait_ended_by(facts: &[Envelope], fact: &Fact, until: u64) -> Option<CallWaitTime> {
    let ended = call_of_ended_wait(fact)?;
    facts.iter().rev().find_map(|envelope| match envelope.fact().ok()? {
        Fact::CallWaits { call, wait } if call == ended => {
            let (awaited, since) = (WaitsFor::of(&wait.awaited), envelope.at);
            Some(CallWaitTime { awaited, since, until, elsewhere: false })
        }
        _ => None,
    })
}
