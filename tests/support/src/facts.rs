//! Facts made by hand, and what the machine does after them.

use harness::{
    Block, CallOutcome, Message, SideEffects, StopReason, ToolCall, ToolResult, Usage,
    agent::{Action, Machine},
    journal::{
        AnswerCheck, Decider, Decision, Fact, InterruptCause, LimitKind, LimitScope, WantedAnswer,
    },
};

pub fn user() -> Fact {
    Fact::UserSaid { message: Message::user("go"), limits: None }
}

/// The user says something while the run goes on.
pub fn steered() -> Fact {
    Fact::Steered { message: Message::user("Only the first.") }
}

/// The model says these words, if any, and makes these calls.
pub fn reply(stop: StopReason, text: &str, calls: &[&str]) -> Fact {
    let message = message(text, calls);
    let (provider, model) = ("scripted".to_owned(), "none".to_owned());
    Fact::ModelReplied {
        message,
        stop,
        usage: Usage::default(),
        provider,
        model,
        asked_model: None,
    }
}

pub fn message(text: &str, calls: &[&str]) -> Option<Message> {
    let text = (!text.is_empty()).then(|| Block::text(text));
    let calls = calls.iter().map(|id| Block::ToolCall(ToolCall::new(*id, "tool", "{}")));
    let blocks: Vec<Block> = text.into_iter().chain(calls).collect();
    (!blocks.is_empty()).then(|| Message::assistant(blocks))
}

pub fn interrupted(text: &str, calls: &[&str]) -> Fact {
    let cause = InterruptCause::Program;
    Fact::Interrupted { message: message(text, calls), usage: Usage::default(), cause, asked: true }
}

pub fn limited(limit: LimitKind) -> Fact {
    let cause = InterruptCause::Limit { limit, scope: LimitScope::Run, detail: "enough".into() };
    Fact::Interrupted { message: None, usage: Usage::default(), cause, asked: false }
}

pub fn allowed(call: &str, side_effects: SideEffects) -> Fact {
    Fact::CallDecided {
        call: call.into(),
        decision: Decision::Allow {
            side_effects,
            repeat: harness::journal::Repeat::Never,
            by: Decider::SideEffects,
            reviewed: None,
            binding: None,
        },
    }
}

pub fn denied(call: &str) -> Fact {
    Fact::CallDecided {
        call: call.into(),
        decision: Decision::Deny { reason: "no".into(), by: Decider::ToolName },
    }
}

pub fn started(call: &str) -> Fact {
    Fact::CallStarted { call: call.into() }
}

pub fn finished(call: &str) -> Fact {
    let result = ToolResult::new(call, CallOutcome::Succeeded, ["done".into()]);
    Fact::CallFinished { result, spent: None }
}

pub fn wanted(tries: u32) -> Fact {
    let mut answer = Box::<WantedAnswer>::default();
    answer.tries = tries;
    answer.verifications = Some(1);
    Fact::AnswerWanted { answer }
}

pub fn rejected(message: Option<Message>) -> Fact {
    Fact::AnswerRejected { by: AnswerCheck::Schema, faults: vec!["no".into()], message }
}

pub fn unfit_for_program() -> Fact {
    let message = Some(Message::user("Again."));
    Fact::AnswerRejected { by: AnswerCheck::Verifier, faults: vec!["no".into()], message }
}

pub fn again() -> Fact {
    rejected(Some(Message::user("Again.")))
}

pub fn after(facts: &[Fact]) -> Machine {
    let mut machine = Machine::new();
    for fact in facts {
        machine.apply(fact).unwrap_or_else(|err| panic!("{fact:?}: {err}"));
    }
    machine
}

/// What comes next, in a few words.
pub fn next(facts: &[Fact]) -> String {
    let ids = |calls: &[ToolCall]| {
        calls.iter().map(|call| call.id().to_owned()).collect::<Vec<_>>().join(" ")
    };
    match after(facts).next() {
        Action::AwaitUser => "await".into(),
        Action::CallProvider => "ask".into(),
        Action::Decide(calls) => format!("decide {}", ids(&calls)),
        Action::RunCalls(calls) => format!("run {}", ids(&calls)),
        Action::AwaitResults => "wait".into(),
        Action::FindOut(calls) => format!("find out {}", ids(&calls)),
        Action::AwaitAnswers => "await answers".into(),
        Action::CheckAnswer => "check".into(),
        Action::Settle => {
            let machine = after(facts);
            let told = machine.settlement().map(|fact| match fact {
                Fact::CallFinished { result, .. } => {
                    format!("{} {:?}", result.call_id(), result.outcome())
                }
                other => panic!("settled by {other:?}"),
            });
            format!("settle {}", told.collect::<Vec<_>>().join(", "))
        }
        Action::Finish(outcome) => format!("{outcome:?}"),
    }
}
