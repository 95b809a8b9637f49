//! The messages in requests are changed where a fact changes them. The test makes them anew after each fact of random
//! conversations, and compares.

use fastrand::Rng;

use super::{Action, Machine, window::EditedContext};
use harness_core::{
    journal::{
        ClearedArguments, ClearedResult, Decider, Decision, Fact, Prefix, Repeat, SummaryRequest,
        VendorSummary,
    },
    message::{
        Block, CallOutcome, Media, Message, Messages, ReasoningBlock, Role, ToolCall, ToolContent,
        ToolResult, VendorData,
    },
    provider::{StopReason, Usage},
    tool::{SideEffect, SideEffects},
};

const OWNER: (&str, &str) = ("vendor", "owner");

#[test]
fn what_is_changed_is_what_would_be_made_anew() {
    let mut edits = [0_usize; 6];
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let mut machine = Machine::new();
        for number in 0..rng.usize(10..120) {
            let fact = next_fact(&mut rng, &machine, number);
            let edit = match &fact {
                Fact::ContextCleared { results, .. }
                    if results.iter().any(|it| it.files.is_some()) =>
                {
                    0
                }
                Fact::ContextCleared { .. } => 1,
                Fact::ContextCompacted { vendor: None, .. } => 2,
                Fact::ContextCompacted { .. } => 3,
                Fact::VendorSummaryRefused { .. } => 4,
                Fact::PrefixSet { left_out: 1.., .. } => 5,
                _ => usize::MAX,
            };
            let applied = machine.apply(&fact).is_ok();
            if applied && let Some(count) = edits.get_mut(edit) {
                *count += 1;
                check_ends(&machine);
            }
            check(&machine, seed);
        }
    }
    assert!(edits.iter().all(|count| *count > 20), "{edits:?}");
}

/// Compares the sent messages with the same messages made anew.
fn check(machine: &Machine, seed: u64) {
    let Some(view) = &machine.window.view else { return };
    let all = machine.transcript.messages();
    let mut anew: EditedContext = (**view).clone();
    anew.rebuild(all);
    assert_eq!(view.sent.messages(), anew.sent.messages(), "{seed}");
    let vendors =
        |view: &EditedContext| view.vendor.as_ref().map(|vendor| vendor.sent.messages().clone());
    assert_eq!(vendors(view), vendors(&anew), "{seed}");
    for (at, message) in all.iter().enumerate().skip(view.summed_up) {
        for seen in [Some(view.sent_view()), view.vendor_sent_view()].into_iter().flatten() {
            assert_eq!(seen.sent_for(at).map(Message::id), Some(message.id()), "{seed}");
        }
    }
}

/// Compares the index of the open turn with the index of the last message of the user.
fn check_ends(machine: &Machine) {
    let begins = |messages: &Messages| match messages.last().map(Message::role) {
        Some(Role::Tool) => {
            let said = messages.iter().rposition(|message| message.role() == Role::User);
            said.map_or(0, |at| at + 1)
        }
        _ => messages.len(),
    };
    let all = machine.transcript.messages();
    assert_eq!(machine.window.open_turn(all), begins(all));
    if let Some(view) = machine.window.view.as_deref().filter(|view| view.thinking_from > 0) {
        let sent = view.sent.messages();
        assert_eq!(view.open_turn, begins(&sent.range(..view.thinking_from)));
    }
}

fn next_fact(rng: &mut Rng, machine: &Machine, number: usize) -> Fact {
    if machine.can_edit_context()
        && rng.u8(..) < 90
        && let Some(edit) = edit(rng, machine)
    {
        return edit;
    }
    match machine.next() {
        Action::AwaitUser | Action::Finish(_) => {
            let words = [Block::text(format!("say {number}"))];
            let files = (0..rng.usize(..3)).map(|_| Block::Image(image()));
            let message = Message::new(Role::User, words.into_iter().chain(files));
            Fact::UserSaid { message, limits: None }
        }
        Action::CallProvider if rng.u8(..) < 30 => Fact::PrefixUnused {},
        Action::CallProvider => {
            let mut blocks = Vec::new();
            if rng.bool() {
                let vendor = VendorData::new("wire", r#"{"signature":"s"}"#).ok();
                blocks.push(Block::Reasoning(ReasoningBlock::new("hm", vendor)));
            }
            blocks.push(Block::text(format!("answer {number}")));
            let calls = (0..rng.usize(..4)).map(|at| {
                let long = "x".repeat(if rng.bool() { 500 } else { 1 });
                let arguments = format!(r#"{{"text":"{long}"}}"#);
                Block::ToolCall(ToolCall::new(format!("call-{number}-{at}"), "look", arguments))
            });
            blocks.extend(calls);
            let model = if rng.bool() { OWNER.1 } else { "other" };
            Fact::ModelReplied {
                message: Some(Message::assistant(blocks)),
                stop: StopReason::Complete,
                usage: Usage::default(),
                provider: OWNER.0.into(),
                model: model.into(),
                asked_model: None,
            }
        }
        Action::Decide(calls) => {
            let decision = Decision::Allow {
                side_effects: SideEffects::of(&[SideEffect::Read]),
                repeat: Repeat::default(),
                by: Decider::SideEffects,
                reviewed: None,
                binding: None,
            };
            let call = calls.first().map(|call| call.id().to_owned()).unwrap_or_default();
            Fact::CallDecided { call, decision }
        }
        _ => {
            let call = machine
                .open_calls()
                .find(|call| machine.approved(call.id()).is_some_and(|granted| !granted.has_run()));
            let call = call.map(|call| call.id().to_owned()).unwrap_or_default();
            let mut content = vec![ToolContent::Text(format!("result {number}"))];
            content.extend((0..rng.usize(..3)).map(|_| ToolContent::Image(image())));
            let result = ToolResult::new(call, CallOutcome::Succeeded, content);
            Fact::CallFinished { result, spent: None }
        }
    }
}

fn image() -> Media {
    Media::from_url("https://example.org/picture.png")
}

/// A change of the messages in requests, if there is something to change.
fn edit(rng: &mut Rng, machine: &Machine) -> Option<Fact> {
    let all = machine.transcript.messages();
    let before = rng.usize(..=all.len());
    match rng.u8(..8) {
        0..3 => {
            let results: Vec<ClearedResult> = machine
                .clearable(before)
                .filter(|_| rng.bool())
                .map(|(_, result)| ClearedResult::new(result.call_id(), "cleared"))
                .collect();
            let arguments: Vec<ClearedArguments> = machine
                .long_calls(before)
                .filter(|_| rng.bool())
                .map(|((at, call), _)| {
                    ClearedArguments::new(at as u64, call as u64, r#"{"text":"-"}"#)
                })
                .collect();
            (!results.is_empty() || !arguments.is_empty()).then_some(Fact::ContextCleared {
                results,
                arguments,
                before: 2,
                after: 1,
            })
        }
        3 => {
            let (files, mut chance) = (machine.sent_files(), rng.fork());
            let files = files.into_iter().filter(|files| !files.files.is_empty());
            let mut results = Vec::new();
            for of in files.filter(|_| chance.bool()) {
                let gone: Vec<u64> = (0..of.files.len() as u64).filter(|_| rng.bool()).collect();
                results.push(match of.call {
                    Some((call, _)) => ClearedResult::files(call, gone, "a file"),
                    None => ClearedResult::files_of_user(of.message as u64, gone, "a file"),
                });
            }
            let (arguments, before, after) = (Vec::new(), 1, 1);
            (!results.is_empty()).then_some(Fact::ContextCleared {
                results,
                arguments,
                before,
                after,
            })
        }
        4 => {
            let said = |at: &usize| all.get(*at).is_some_and(|it| it.role() == Role::User);
            let kept =
                (0..before).filter(said).filter(|_| rng.bool()).map(|at| at as u64).collect();
            let vendor = rng.bool().then(|| {
                let words = rng.bool().then(|| Message::user("beside it"));
                let message = Message::assistant([Block::text("compacted")]);
                Box::new(VendorSummary::new(OWNER.0, OWNER.1, message, words))
            });
            Some(Fact::ContextCompacted {
                messages: before as u64,
                kept,
                summary: Message::user("a summary"),
                vendor,
                request: Box::new(SummaryRequest::default()),
                before: 2,
                after: 1,
            })
        }
        5 => Some(Fact::VendorSummaryRefused { cause: "refused".into() }),
        6 => prefix(true, 0, Vec::new()),
        _ => {
            let messages = (0..all.len()).filter(|_| rng.bool()).map(|at| at as u64).collect();
            prefix(false, 1, if rng.bool() { messages } else { Vec::new() })
        }
    }
}

fn prefix(is_set: bool, left_out: u64, messages: Vec<u64>) -> Option<Fact> {
    let prefix = is_set.then(|| Box::new(Prefix::new(None, Vec::new(), "form".into())));
    Some(Fact::PrefixSet {
        prefix,
        appended: false,
        left_out,
        messages,
        change: String::new(),
        refusal: None,
    })
}
