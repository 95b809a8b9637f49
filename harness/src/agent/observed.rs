//! What is told to those who watch a conversation that is kept in a journal. Nothing is read of a clock
//! and nothing is made ready where nobody watches.

use std::collections::HashMap;

use super::{Chat, Machine, durable::is_answer};
use crate::{
    error::Error,
    journal::{Entry, Envelope, Journal, now},
    trace::{AppendOutcome, Asked, HoldOutcome, Tracer, Waited, WaitsFor},
    unwind::caught,
};

/// Since when calls wait, and for what, by their ids.
#[derive(Default)]
pub(super) struct Waits(HashMap<String, (WaitsFor, u64)>);

impl Waits {
    /// Takes a fact that was written at that time. Gives the wait that it begins or ends.
    pub(super) fn note(&mut self, entry: &Entry, at: impl FnOnce() -> u64) -> Option<Waited> {
        if let Entry::CallWaits { call, wait } = entry {
            let (awaited, at) = (WaitsFor::of(&wait.awaited), at());
            self.0.insert(call.clone(), (awaited, at));
            return Some(Waited { awaited, since: at, until: at, elsewhere: false });
        }
        if self.0.is_empty() {
            return None;
        }
        let (awaited, since) = self.0.remove(ends_wait_of(entry)?)?;
        Some(Waited { awaited, since, until: at(), elsewhere: false })
    }
}

/// The call whose wait this fact ends, if it waits.
fn ends_wait_of(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::CallDecided { call, .. } | Entry::CallAnswered { call, .. } => Some(call),
        Entry::CallSettled { result, .. } | Entry::CallFinished { result, .. } => {
            Some(result.call_id())
        }
        _ => None,
    }
}

impl Chat {
    /// Tells of a fact that was recorded here.
    pub(super) fn tell(&mut self, entry: &Entry) {
        let waited = self.waits.note(entry, now);
        match entry {
            Entry::Reopened { .. } => {
                self.tracer.reopened(self.machine.in_doubt(), self.machine.to_repeat());
            }
            entry => self.tracer.fact(entry, waited),
        }
    }

    /// Tells of a fact that others have written meanwhile.
    pub(super) fn tell_news(&mut self, entry: &Entry, at: u64) {
        let waited = self.waits.note(entry, || at);
        let waited = waited.map(|waited| Waited { elsewhere: true, ..waited });
        self.tracer.fact(entry, waited);
    }

    /// Tells of the answers that came last, before the conversation was opened with these facts.
    pub(super) fn tell_answers(&mut self, facts: &[Envelope]) {
        let answers = facts
            .iter()
            .rev()
            .map_while(|envelope| Some((envelope.entry().ok().filter(is_answer)?, envelope.at)));
        let answers: Vec<(Entry, u64)> = answers.collect();
        for (entry, at) in answers.iter().rev() {
            let waited = wait_ended_by(facts, entry, *at);
            let waited = waited.map(|waited| Waited { elsewhere: true, ..waited });
            self.tracer.fact(entry, waited);
        }
    }

    /// What waits is to be written: who watches is told when that has ended.
    pub(super) fn append_begins(&mut self) {
        let Self { durable: Some(durable), tracer, .. } = self else { return };
        durable.begins();
        let Some(journal) = durable.journal().filter(|_| !durable.is_lost()) else { return };
        tracer.asks(|| appending(&**journal, durable.id(), durable.pending()));
    }

    /// The write has ended: all is there, the run was stopped first, or it has failed.
    pub(super) fn append_ended(&mut self, written: &Result<bool, Error>) {
        let read_back = self.durable.as_ref().is_some_and(|durable| durable.was_read_back());
        match written {
            Ok(true) if read_back => self.tracer.appended(AppendOutcome::ReadBack, None),
            Ok(true) => self.tracer.appended(AppendOutcome::Written, None),
            Ok(false) => self.tracer.appended(AppendOutcome::Interrupted, None),
            Err(error) => append_failed(&mut self.tracer, error),
        }
        self.tell_loss();
    }

    /// Tells, once, that somebody else has gone on with the conversation.
    pub(super) fn tell_loss(&mut self) {
        let Self { durable: Some(durable), tracer, .. } = self else { return };
        let Some(why) = durable.loss() else { return };
        let Some(journal) = durable.journal() else { return };
        tracer.lost(&why, || holding(&**journal, durable.id()));
    }
}

/// These facts are to be written into this conversation.
pub(super) fn appending(journal: &dyn Journal, conversation: &str, facts: &[Envelope]) -> Asked {
    let bytes = facts.iter().map(|envelope| envelope.fact.len()).sum();
    let facts = Some((facts.len(), bytes));
    Asked { conversation: conversation.to_owned(), journal: system(journal), facts }
}

/// Tells that facts were not written.
pub(super) fn append_failed(tracer: &mut Tracer, error: &Error) {
    let outcome = match error.is_conflict() {
        true => AppendOutcome::Conflict,
        false => AppendOutcome::Failed,
    };
    tracer.appended(outcome, Some(error));
}

/// This conversation is to be held.
pub(super) fn holding(journal: &dyn Journal, conversation: &str) -> Asked {
    Asked { conversation: conversation.to_owned(), journal: system(journal), facts: None }
}

/// Tells whether a conversation is held.
pub(super) fn held<T>(tracer: &mut Tracer, hold: &Result<T, Error>) {
    let outcome = match hold {
        Ok(_) => HoldOutcome::Taken,
        Err(error) if error.is_busy() => HoldOutcome::Busy,
        Err(_) => HoldOutcome::Failed,
    };
    tracer.held(outcome, hold.as_ref().err());
}

/// What keeps the conversations. A journal is the program's own code.
fn system(journal: &dyn Journal) -> String {
    caught(|| journal.system().to_owned()).unwrap_or_else(|_| "other".to_owned())
}

/// Tells of an answer that was written into a conversation of these facts, from outside of it.
pub(super) fn tell_answer(
    tracer: &mut Tracer,
    machine: &Machine,
    facts: &[Envelope],
    fact: &Entry,
) {
    tracer.meets(machine.open_calls());
    tracer.fact(fact, wait_ended_by(facts, fact, now()));
}

/// The wait in these facts that a fact of that time has ended.
fn wait_ended_by(facts: &[Envelope], fact: &Entry, until: u64) -> Option<Waited> {
    let ended = ends_wait_of(fact)?;
    facts.iter().rev().find_map(|envelope| match envelope.entry().ok()? {
        Entry::CallWaits { call, wait } if call == ended => {
            let (awaited, since) = (WaitsFor::of(&wait.awaited), envelope.at);
            Some(Waited { awaited, since, until, elsewhere: false })
        }
        _ => None,
    })
}
