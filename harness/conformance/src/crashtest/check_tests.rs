//! The checks find each kind of harm in a conversation, and report nothing else.

use super::{EndedConversation, UndisturbedRun, check};
use crate::{
    Harm,
    crashtest::log::{CallReturn, LogEntry},
};
use harness_core::{
    journal::{Decider, Decision, Envelope, Fact, Repeat},
    message::{Block, CallOutcome, Message, ToolCall, ToolContent, ToolResult},
    provider::{StopReason, Usage},
    tool::{SideEffect, SideEffects},
};

const KEY: &str = "chat/1/pay";

fn text(fact: &Fact) -> String {
    let envelope = Envelope::of(fact, 0).expect("an envelope");
    serde_json::to_string(&envelope).expect("JSON")
}

fn replied(blocks: Vec<Block>, stop: StopReason) -> Fact {
    let (provider, model) = ("scripted".to_owned(), "scripted".to_owned());
    let message = Some(Message::assistant(blocks));
    Fact::ModelReplied {
        message,
        stop,
        usage: Usage::default(),
        provider,
        model,
        asked_model: None,
    }
}

/// The facts of a conversation with one call of `pay`, in two lists: the facts before the call runs, and the facts from
/// the result of the call onwards.
fn facts(repeat: Repeat, outcome: CallOutcome) -> (Vec<String>, Vec<String>) {
    let call = || "pay".to_owned();
    let side_effects = SideEffects::of(&[SideEffect::Write]);
    let by = Decider::SideEffects;
    let decision = Decision::Allow { side_effects, repeat, by, reviewed: None, binding: None };
    let calls = vec![Block::ToolCall(ToolCall::new("pay", "pay", "{}"))];
    let result = ToolResult::new("pay", outcome, [ToolContent::Text("so".to_owned())]);
    let before = [
        Fact::UserSaid { message: Message::user("Pay."), limits: None },
        replied(calls, StopReason::ToolCalls),
        Fact::CallDecided { call: call(), decision },
        Fact::CallStarted { call: call() },
    ];
    let after = [
        Fact::CallFinished { result, spent: None },
        replied(vec![Block::text("Done.")], StopReason::Complete),
    ];
    (before.iter().map(text).collect(), after.iter().map(text).collect())
}

fn began() -> LogEntry {
    let (call, tool, key) = ("pay".to_owned(), "pay".to_owned(), KEY.to_owned());
    LogEntry::Began { of: None, call, tool, key, reads: false }
}

fn ended(how: CallReturn) -> LogEntry {
    LogEntry::Ended { of: None, call: "pay".to_owned(), how }
}

/// Creates a conversation with one call of `pay`. `done` is what the call did, `outcome` is what was reported to the
/// model, and `world` is the list of observed effects.
fn conversation(
    repeat: Repeat,
    done: &[LogEntry],
    outcome: CallOutcome,
    world: &[&str],
) -> EndedConversation {
    let (before, after) = facts(repeat, outcome);
    let all: Vec<String> = before.iter().chain(&after).cloned().collect();
    let mut log = vec![
        LogEntry::Life { number: 0 },
        LogEntry::Seen { of: None, facts: Vec::new() },
        LogEntry::Appended { of: None, after: 0, facts: before.clone() },
    ];
    log.extend(done.iter().cloned());
    log.push(LogEntry::Appended { of: None, after: before.len() as u64, facts: after });
    log.push(LogEntry::Seen { of: None, facts: all });
    log.push(LogEntry::Done {});
    let world = world.iter().map(|&effect| effect.to_owned()).collect();
    EndedConversation { log, world: Some(world), stuck: None }
}

fn harms(ended: &EndedConversation) -> Vec<Harm> {
    let undisturbed = conversation(
        Repeat::Never,
        &[began(), self::ended(CallReturn::Well)],
        CallOutcome::Succeeded,
        &["paid by chat/1/pay"],
    );
    let (findings, _) = check(ended, &UndisturbedRun::of(&undisturbed));
    findings.iter().map(|finding| finding.harm).collect()
}

#[test]
fn what_is_told_of_a_call_is_compared_with_what_it_did() {
    use CallOutcome::{Failed, InDoubt, NotStarted, StoppedReading, Succeeded};
    let (paid, well) = (&["paid by chat/1/pay"], ended(CallReturn::Well));
    let done = [began(), well.clone()];
    let cut: &[LogEntry] = &[began()];
    let failed = [began(), ended(CallReturn::Failed)];
    /// The name of the case, what the call did, the outcome reported to the model, the observed effects, and the
    /// expected findings.
    type Case<'a> = (&'a str, &'a [LogEntry], CallOutcome, &'a [&'a str], &'a [Harm]);
    let cases: [Case<'_>; 13] = [
        ("well", &done, Succeeded, paid, &[]),
        ("never returned", cut, Succeeded, paid, &[Harm::Untrue]),
        ("no effect", &done, Succeeded, &[], &[Harm::Untrue]),
        ("killed in it", cut, InDoubt, paid, &[]),
        ("killed before it", &[], InDoubt, &[], &[]),
        ("did not run", &[], NotStarted, &[], &[]),
        ("ran", cut, NotStarted, &[], &[Harm::Untrue]),
        ("its effect is there", &[], NotStarted, paid, &[]),
        ("failed", &failed, Failed, &[], &[]),
        ("has not failed", &done, Failed, paid, &[Harm::Untrue]),
        ("killed, and told as failed", cut, Failed, &[], &[Harm::Untrue]),
        ("does not only read", cut, StoppedReading, &[], &[Harm::Untrue]),
        ("twice in the world", &done, Succeeded, &[paid[0], paid[0]], &[Harm::Repeated]),
    ];
    for (case, done, outcome, world, expected) in cases {
        let told = harms(&conversation(Repeat::Never, done, outcome, world));
        assert_eq!(told, expected, "{case}");
    }
}

#[test]
fn a_call_is_repeated_only_if_it_may_be_and_with_its_key() {
    let well = ended(CallReturn::Well);
    let twice = [began(), began(), well.clone()];
    let paid = &["paid by chat/1/pay"];
    let of = |repeat, done: &[LogEntry]| {
        harms(&conversation(repeat, done, CallOutcome::Succeeded, paid))
    };
    assert_eq!(of(Repeat::Never, &twice), [Harm::Repeated]);
    assert_eq!(of(Repeat::Idempotent, &twice), []);
    let (call, tool, key) = ("pay".to_owned(), "pay".to_owned(), "another".to_owned());
    let other = LogEntry::Began { of: None, call: call.clone(), tool, key, reads: false };
    assert_eq!(of(Repeat::Idempotent, &[other, began(), well.clone()]), [Harm::Repeated]);
    // The tool has reported that the first try had no effect.
    let found = LogEntry::Found { of: None, call, happened: false };
    assert_eq!(of(Repeat::Never, &[began(), found, began(), well.clone()]), []);
    // A call that only asked a question has changed nothing.
    assert_eq!(of(Repeat::Never, &[began(), ended(CallReturn::Asks), began(), well]), []);
}

#[test]
fn what_was_there_is_there_for_the_next_process() {
    let done = [began(), ended(CallReturn::Well)];
    let whole = conversation(Repeat::Never, &done, CallOutcome::Succeeded, &["paid by chat/1/pay"]);
    let (before, _) = facts(Repeat::Never, CallOutcome::Succeeded);
    // The first process is killed, and the second reads fewer facts than were appended.
    let mut lost = whole.clone();
    let rest = lost.log.split_off(3);
    lost.log.extend([
        LogEntry::Life { number: 1 },
        LogEntry::Seen { of: None, facts: before[..2].to_vec() },
    ]);
    lost.log.extend(rest);
    assert!(harms(&lost).contains(&Harm::Lost));
    // `send` has returned an answer that the journal does not contain.
    let mut lost = whole.clone();
    let at = lost.log.len() - 2;
    lost.log.insert(at, LogEntry::Returned { facts: 7, said: 1, text: "Done.".to_owned() });
    assert_eq!(harms(&lost), [Harm::Lost]);
    // The call ran before the fact of its start was written.
    let mut early = whole.clone();
    early.log.swap(2, 3);
    assert_eq!(harms(&early), [Harm::Untrue]);
    // The conversation does not end.
    let mut open = whole;
    let Some(LogEntry::Seen { facts, .. }) = open.log.iter_mut().rev().nth(1) else {
        panic!("facts")
    };
    facts.truncate(4);
    assert!(harms(&open).contains(&Harm::Stuck));
}
