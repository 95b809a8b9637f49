//! Reads the log of all processes of one conversation: the facts, the history of each call, and what went wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    log::{CallReturn, LogEntry},
    report::Harm,
    test_process::hash,
    watched::name,
};
use harness_agent::Machine;
use harness_core::{
    error::Error,
    journal::{Envelope, Fact},
};

/// What the processes have done in one call.
#[derive(Clone, Debug, Default)]
pub(super) struct CallHistory {
    pub(super) tool: String,
    pub(super) reads: bool,
    pub(super) keys: BTreeSet<String>,
    /// How often the tool code has begun, not counting the times when it only asked a question.
    pub(super) begun: u32,
    pub(super) well: u32,
    pub(super) failed: u32,
    /// How often the tool has reported that the call had no effect. `happened`: whether the tool has reported an
    /// effect.
    pub(super) not_happened: u32,
    pub(super) happened: bool,
}

#[derive(Debug, Default)]
pub(super) struct ConversationHistory {
    pub(super) calls: BTreeMap<String, CallHistory>,
    /// The facts that the last process has read.
    pub(super) facts: Vec<String>,
    pub(super) wrong: Vec<(Harm, String)>,
    pub(super) busy: u32,
    pub(super) conflicts: u32,
    pub(super) failures: u32,
    /// The facts that the journal must have, by number.
    known: BTreeMap<u64, String>,
    /// The ids of the calls whose start is in the journal.
    started: BTreeSet<String>,
    /// The answers that `send` has returned. An answer is removed when it is found in the facts of the next process.
    /// Each answer has the number of facts, a hash of the conversation with these facts, and the text.
    returned: Vec<(u64, u64, String)>,
}

impl ConversationHistory {
    pub(super) fn of(log: &[LogEntry]) -> Self {
        Self::of_agent(log, None)
    }

    /// The history of one conversation. `agent` is the id of an agent's conversation. If it is `None`, this is the
    /// history of the tested conversation.
    pub(super) fn of_agent(log: &[LogEntry], agent: Option<&str>) -> Self {
        let mut story = Self::default();
        let own = log.iter().filter(|noted| noted.of_agent() == agent);
        // Entries that name no conversation, such as the start of a process, count only for the tested conversation.
        let told = |noted: &&LogEntry| agent.is_none() || noted.of_agent().is_some();
        own.filter(told).for_each(|noted| story.take(noted));
        if agent.is_some() {
            // Maybe no process has read the final facts of an agent's conversation.
            story.facts = story.known.values().cloned().collect();
        }
        story
    }

    /// The ids of all conversations that belong to agents in calls.
    pub(super) fn agents(log: &[LogEntry]) -> BTreeSet<&str> {
        log.iter().filter_map(LogEntry::of_agent).collect()
    }

    fn take(&mut self, noted: &LogEntry) {
        match noted {
            LogEntry::Life { .. }
            | LogEntry::Done {}
            | LogEntry::Point { .. }
            | LogEntry::Kills { .. }
            | LogEntry::KilledAfter { .. } => {}
            LogEntry::Seen { facts, .. } => self.record_facts(facts),
            LogEntry::Appended { after, facts, .. } => {
                for (number, fact) in (*after..).zip(facts) {
                    self.record_start(fact);
                    self.known.insert(number, fact.clone());
                }
            }
            LogEntry::Began { call, tool, key, reads, .. } => {
                if !reads && !self.started.contains(call) {
                    let what = format!(
                        "the call `{call}` of `{tool}` ran before the journal had the fact that it \
                         starts"
                    );
                    self.wrong.push((Harm::Untrue, what));
                }
                let called = self.calls.entry(call.clone()).or_default();
                called.tool.clone_from(tool);
                called.reads = *reads;
                called.keys.insert(key.clone());
                called.begun += 1;
            }
            LogEntry::Ended { call, how, .. } => {
                let called = self.calls.entry(call.clone()).or_default();
                match how {
                    CallReturn::Well => called.well += 1,
                    CallReturn::Failed => called.failed += 1,
                    CallReturn::Asks => called.begun = called.begun.saturating_sub(1),
                }
            }
            LogEntry::Found { call, happened, .. } => {
                let called = self.calls.entry(call.clone()).or_default();
                called.happened |= happened;
                called.not_happened += u32::from(!happened);
            }
            LogEntry::Changed { call, tool, effects } => {
                let what = format!(
                    "`{tool}` declares to read, and its call `{call}` has changed the world: {}",
                    effects.join(", ")
                );
                self.wrong.push((Harm::Undeclared, what));
            }
            LogEntry::Returned { facts, said, text } => {
                self.returned.push((*facts, *said, text.clone()));
            }
            LogEntry::Busy {} => self.busy += 1,
            LogEntry::Conflict {} => self.conflicts += 1,
            LogEntry::Failed { .. } => self.failures += 1,
        }
    }

    /// Records the facts that a process has read, and checks that they contain all facts that must be in the journal.
    fn record_facts(&mut self, facts: &[String]) {
        let there = |number: &u64| usize::try_from(*number).ok().and_then(|at| facts.get(at));
        let missing: Vec<String> = self
            .known
            .iter()
            .filter(|(number, fact)| there(number) != Some(fact))
            .map(|(number, fact)| match there(number) {
                None => format!("fact {number}, {}, is gone", named(fact)),
                Some(other) => {
                    format!("fact {number}, {}, is now {}", named(fact), named(other))
                }
            })
            .collect();
        if !missing.is_empty() {
            let what = format!(
                "the journal had said that it has it, and the next process does not find it: {}",
                missing.join("; ")
            );
            self.wrong.push((Harm::Lost, what));
        }
        for (count, said, text) in std::mem::take(&mut self.returned) {
            let first = usize::try_from(count).ok().and_then(|count| facts.get(..count));
            let is_there = first.is_some_and(|first| folded(first).is_ok_and(|now| now == said));
            if !is_there {
                let what = format!(
                    "`send` had returned {text:?} after {count} facts, and the next process does not \
                     find that in the {} facts that there are",
                    facts.len()
                );
                self.wrong.push((Harm::Lost, what));
            }
        }
        facts.iter().for_each(|fact| self.record_start(fact));
        self.known = (0..).zip(facts.iter().cloned()).collect();
        self.facts = facts.to_vec();
    }

    fn record_start(&mut self, fact: &str) {
        if let Some(Fact::CallStarted { call }) = fact_of(fact) {
            self.started.insert(call);
        }
    }
}

/// A fact from its text in the log.
pub(super) fn fact_of(json: &str) -> Option<Fact> {
    serde_json::from_str::<Envelope>(json).ok()?.fact().ok()
}

/// The name of a fact, for reports.
pub(super) fn named(fact: &str) -> String {
    serde_json::from_str::<Envelope>(fact).map_or_else(|_| "no fact".to_owned(), |it| name(&it))
}

/// A hash of the transcript that results from these facts.
fn folded(facts: &[String]) -> Result<u64, Error> {
    let mut machine = Machine::new();
    for fact in facts {
        if let Some(fact) = fact_of(fact) {
            machine.apply(&fact)?;
        }
    }
    hash(machine.transcript())
}

/// The words that name an agent's conversation in a message. Empty for the tested conversation.
fn whose(of: &Option<String>) -> String {
    of.as_ref().map(|of| format!(" of `{of}`")).unwrap_or_default()
}

/// The events of a log as lines for a person: each call and each end of a process, in order.
pub(super) fn lines(log: &[LogEntry]) -> Vec<String> {
    let mut process = 0;
    let mut lines = Vec::new();
    for noted in log {
        let line = match noted {
            LogEntry::Life { number } => {
                process = number + 1;
                continue;
            }
            LogEntry::Kills { name } => format!("kills itself {name}"),
            LogEntry::KilledAfter { micros } => format!("is killed from outside after {micros} µs"),
            LogEntry::Seen { of, facts } => format!("finds {} facts{}", facts.len(), whose(of)),
            LogEntry::Appended { of, after, facts } => {
                let names: Vec<String> = facts.iter().map(|fact| named(fact)).collect();
                format!("has appended after {after}{}: {}", whose(of), names.join(", "))
            }
            LogEntry::Began { call, tool, key, .. } => {
                format!("begins the call `{call}` of `{tool}`, key {key}")
            }
            LogEntry::Ended { call, how, .. } => match how {
                CallReturn::Well => format!("the call `{call}` has returned"),
                CallReturn::Failed => format!("the call `{call}` has failed"),
                CallReturn::Asks => format!("the call `{call}` has asked something"),
            },
            LogEntry::Found { call, happened: true, .. } => {
                format!("finds out that `{call}` happened")
            }
            LogEntry::Found { call, happened: false, .. } => {
                format!("finds out that nothing of `{call}` happened")
            }
            LogEntry::Changed { call, .. } => format!("the world has changed by `{call}`"),
            LogEntry::Returned { facts, text, .. } => {
                format!("`send` returns {text:?} after {facts} facts")
            }
            LogEntry::Conflict {} => "somebody else has gone on".to_owned(),
            LogEntry::Failed { why } => format!("ends, since {why}"),
            LogEntry::Done {} => "comes to the end".to_owned(),
            LogEntry::Point { .. } | LogEntry::Busy {} => continue,
        };
        lines.push(format!("process {process}: {line}"));
    }
    lines
}

/// The places where the processes were killed, for a person.
pub(super) fn kills(log: &[LogEntry]) -> Vec<String> {
    let (mut last, mut kills) = ("it began", Vec::new());
    for noted in log {
        match noted {
            LogEntry::Life { .. } => last = "it began",
            LogEntry::Point { name, .. } => last = name,
            LogEntry::Kills { name } => kills.push(name.clone()),
            LogEntry::KilledAfter { micros } => {
                kills.push(format!("from outside after {micros} µs, the last point was: {last}"));
            }
            _ => {}
        }
    }
    kills
}
