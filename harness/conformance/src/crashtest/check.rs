//! Compares the final state of a conversation with the log of what its processes did.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    history::{CallHistory, ConversationHistory, fact_of, kills, lines, named},
    log::LogEntry,
    report::{CrashFinding, Harm},
};
use harness_agent::{Action, Machine, Outcome};
use harness_core::{
    journal::{Decision, Fact, Repeat},
    message::CallOutcome,
    tool::READ_RESULT,
};

/// A conversation after its last process: the log, and the observations of the test.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedConversation {
    pub(super) log: Vec<LogEntry>,
    /// The observed effects, if the test observes any.
    pub(super) world: Option<Vec<String>>,
    /// Why the conversation did not end; `None` if it ended.
    pub(super) stuck: Option<String>,
}

/// The effects of a conversation without kills.
#[derive(Clone, Debug, Default)]
pub(super) struct UndisturbedRun {
    /// How often each effect was observed.
    effects: BTreeMap<String, usize>,
    /// The tools whose effects contain the idempotency key of their call.
    keyed: BTreeSet<String>,
}

impl UndisturbedRun {
    pub(super) fn of(ended: &EndedConversation) -> Self {
        let world = ended.world.clone().unwrap_or_default();
        let mut calls: Vec<CallHistory> =
            ConversationHistory::of(&ended.log).calls.into_values().collect();
        for agent in ConversationHistory::agents(&ended.log) {
            calls
                .extend(ConversationHistory::of_agent(&ended.log, Some(agent)).calls.into_values());
        }
        let writes = calls.iter().filter(|called| !called.reads);
        let tools: BTreeSet<&str> = writes.clone().map(|called| called.tool.as_str()).collect();
        let is_keyed = |tool: &&str| {
            let mut calls = writes.clone().filter(|it| it.tool == *tool && it.well > 0);
            calls.all(|called| has_effect(&world, called))
        };
        let keyed = tools.into_iter().filter(is_keyed).map(str::to_owned).collect();
        Self { effects: counted(&world), keyed }
    }
}

fn counted(world: &[String]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for effect in world {
        *counted.entry(effect.clone()).or_default() += 1;
    }
    counted
}

/// Whether an observed effect contains a key of this call.
fn has_effect(world: &[String], called: &CallHistory) -> bool {
    called.keys.iter().any(|key| world.iter().any(|effect| effect.contains(key)))
}

/// The counts of one conversation, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConversationCounts {
    pub(super) in_doubt: u32,
    pub(super) busy: u32,
    pub(super) conflicts: u32,
    pub(super) failures: u32,
}

/// All findings about a conversation, and its counts.
pub(super) fn check(
    ended: &EndedConversation,
    undisturbed: &UndisturbedRun,
) -> (Vec<CrashFinding>, ConversationCounts) {
    let mut story = ConversationHistory::of(&ended.log);
    let mut wrong = std::mem::take(&mut story.wrong);
    wrong.extend(ended.stuck.iter().map(|why| (Harm::Stuck, why.clone())));
    let told = FoldedFacts::by(&story.facts);
    if ended.stuck.is_none() {
        told.whole(&mut wrong);
    }
    let (busy, conflicts, failures) = (story.busy, story.conflicts, story.failures);
    let own_facts = story.facts.clone();
    let mut stories = vec![(story, told)];
    for agent in ConversationHistory::agents(&ended.log) {
        let mut story = ConversationHistory::of_agent(&ended.log, Some(agent));
        wrong.extend(std::mem::take(&mut story.wrong));
        let told = FoldedFacts::by(&story.facts);
        if let Some(broken) = &told.broken {
            wrong.push((Harm::Stuck, format!("the agent `{agent}`: {broken}")));
        }
        stories.push((story, told));
    }
    for (story, told) in &stories {
        for (call, outcome) in &told.outcomes {
            // The outcome of an agent's call is checked in the agent's own conversation.
            if told.repeats.get(call) == Some(&Repeat::Continues) {
                continue;
            }
            let called = story.calls.get(call).cloned().unwrap_or_default();
            if let Some(what) = lie(call, *outcome, &called, told, ended, undisturbed) {
                wrong.push((Harm::Untrue, what));
            }
        }
        for (call, called) in &story.calls {
            wrong.extend(repeated(call, called, told).map(|what| (Harm::Repeated, what)));
        }
    }
    let is_told = |effect: &str| {
        let of = |(story, told): &(ConversationHistory, FoldedFacts)| {
            let mut calls =
                story.calls.iter().filter(|(call, it)| repeated(call, it, told).is_some());
            calls.any(|(_, called)| called.keys.iter().any(|key| effect.contains(key)))
        };
        stories.iter().any(of)
    };
    for (effect, count) in counted(ended.world.as_deref().unwrap_or_default()) {
        let expected = undisturbed.effects.get(&effect).copied().unwrap_or(0).max(1);
        if count > expected && !is_told(&effect) {
            let what = format!("the world has the effect {effect:?} {count} times, not {expected}");
            wrong.push((Harm::Repeated, what));
        }
    }
    let finding = |(harm, what): (Harm, String)| CrashFinding {
        harm,
        what,
        kills: kills(&ended.log),
        facts: (0..)
            .zip(&own_facts)
            .map(|(n, fact): (u32, _)| format!("{n} {}", named(fact)))
            .collect(),
        story: lines(&ended.log),
        world: ended.world.clone().unwrap_or_default(),
    };
    let in_doubt = stories.iter().flat_map(|(_, told)| told.outcomes.values());
    let in_doubt = in_doubt.filter(|outcome| **outcome == CallOutcome::InDoubt);
    let counts = ConversationCounts {
        in_doubt: u32::try_from(in_doubt.count()).unwrap_or(u32::MAX),
        busy,
        conflicts,
        failures,
    };
    (wrong.into_iter().map(finding).collect(), counts)
}

/// The final state of a conversation according to its facts.
struct FoldedFacts {
    machine: Machine,
    /// The outcome of each call, as it was reported to the model.
    outcomes: BTreeMap<String, CallOutcome>,
    /// The calls whose outcome the program has given.
    settled: BTreeSet<String>,
    /// The calls that read a large result. The library executes them itself, so the log does not contain them.
    reads: BTreeSet<String>,
    repeats: BTreeMap<String, Repeat>,
    /// The error of a fact that does not follow from the facts before it.
    broken: Option<String>,
}

impl FoldedFacts {
    fn by(facts: &[String]) -> Self {
        let mut told = Self {
            machine: Machine::new(),
            outcomes: BTreeMap::new(),
            settled: BTreeSet::new(),
            reads: BTreeSet::new(),
            repeats: BTreeMap::new(),
            broken: None,
        };
        for (number, json) in facts.iter().enumerate() {
            let Some(fact) = fact_of(json) else {
                told.broken.get_or_insert(format!("fact {number} cannot be read"));
                continue;
            };
            match &fact {
                Fact::CallDecided { call, decision: Decision::Allow { repeat, .. } } => {
                    told.repeats.insert(call.clone(), *repeat);
                }
                Fact::CallSettled { result, .. } => {
                    told.settled.insert(result.call_id().to_owned());
                }
                _ => {}
            }
            if let Err(err) = told.machine.apply(&fact) {
                told.broken.get_or_insert(format!("fact {number}, {}: {err}", named(json)));
            }
        }
        let messages = told.machine.transcript().messages();
        for message in messages {
            let reads = message.calls().filter(|call| call.name() == READ_RESULT);
            told.reads.extend(reads.map(|call| call.id().to_owned()));
            for result in message.results() {
                told.outcomes.insert(result.call_id().to_owned(), result.outcome());
            }
        }
        told
    }

    /// Checks that the conversation is complete and that all messages are answered.
    fn whole(&self, wrong: &mut Vec<(Harm, String)>) {
        if let Some(broken) = &self.broken {
            wrong.push((Harm::Stuck, broken.clone()));
        }
        let next = self.machine.next();
        if next != Action::Finish(Outcome::Answered) {
            wrong.push((Harm::Stuck, format!("it did not end with an answer: next is {next:?}")));
        }
        if let Err(err) = self.machine.transcript().sendable() {
            wrong.push((Harm::Stuck, format!("it cannot be sent: {err}")));
        }
    }
}

/// Describes what is false in the outcome that was reported to the model. `None` if the outcome is true.
fn lie(
    call: &str,
    outcome: CallOutcome,
    called: &CallHistory,
    told: &FoldedFacts,
    ended: &EndedConversation,
    undisturbed: &UndisturbedRun,
) -> Option<String> {
    if told.settled.contains(call) || told.reads.contains(call) {
        return None;
    }
    let tool = &called.tool;
    let seen = ended.world.as_ref().filter(|_| undisturbed.keyed.contains(tool));
    let seen = seen.map(|world| has_effect(world, called));
    // If the tool code has begun more often than it has returned, a process was killed during an execution. The effects
    // of that execution are unknown.
    let unknown = called.begun > called.well + called.failed;
    let what = match outcome {
        CallOutcome::Succeeded if called.well == 0 && !called.happened => {
            "succeeded, and its code has never returned well"
        }
        CallOutcome::Succeeded if seen == Some(false) => {
            "succeeded, and the world has no effect of its key"
        }
        CallOutcome::Failed if called.reads || called.begun == 0 => return None,
        CallOutcome::Failed if called.well > 0 => "failed, and its code has returned well",
        CallOutcome::Failed if unknown => {
            "failed, and nobody knows how far it came in a process that was killed"
        }
        CallOutcome::NotStarted | CallOutcome::Denied if called.reads => return None,
        CallOutcome::NotStarted | CallOutcome::Denied
            if called.begun > called.not_happened || seen == Some(true) =>
        {
            "not started, and it has run"
        }
        CallOutcome::StoppedReading if !called.reads && called.begun > 0 => {
            "only read, and its tool does more than that"
        }
        _ => return None,
    };
    Some(format!("the model was told that the call `{call}` of `{tool}` has {what}"))
}

/// Describes a repetition of a call that is not allowed; `None` if there is none.
fn repeated(call: &str, called: &CallHistory, told: &FoldedFacts) -> Option<String> {
    if called.reads {
        return None;
    }
    let CallHistory { tool, begun, well, .. } = called;
    let who = format!("the call `{call}` of `{tool}`");
    match told.repeats.get(call).copied().unwrap_or_default() {
        Repeat::Never if *begun > 1 + called.not_happened => {
            Some(format!("{who} may not be repeated, and has begun {begun} times"))
        }
        Repeat::Never if *well > 1 => {
            Some(format!("{who} may not be repeated, and has returned well {well} times"))
        }
        _ if called.keys.len() > 1 => {
            let keys: Vec<&str> = called.keys.iter().map(String::as_str).collect();
            Some(format!("{who} was repeated with another key: {}", keys.join(", ")))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
