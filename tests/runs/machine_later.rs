//! The loop as a table, further on: runs that go on, that are opened again or forked, calls that wait, and what the
//! model is told of calls that have ended late.

use harness::{
    CallOutcome, Message, StopReason, ToolResult, Usage,
    agent::{Action, Machine, Outcome},
    journal::{
        AnswerCheck, Awaited, Decider, Decision, Fact, InterruptCause, LimitKind, LimitScope,
        RecordedLimits, Repeat, Wait,
    },
    provider::WantedItem,
    tool::Scope,
};
use serde_json::json;

use crate::{
    facts::{
        after, again, allowed, finished, interrupted, message, next, rejected, reply, started,
        steered, unfit_for_program, user, wanted,
    },
    probe::{READ, WRITE},
};

fn reopened() -> Fact {
    Fact::Reopened { doubtful: Vec::new() }
}

/// The run goes on with a message of the library, if it needs one.
fn goes_on(machine: &mut Machine, limits: Option<Box<RecordedLimits>>) {
    let Ok(Fact::Resumed { message, .. }) = machine.resumption() else { panic!("it can go on") };
    machine.apply(&Fact::Resumed { message, limits }).expect("it can go on");
}

fn tries_left(machine: &Machine) -> [u32; 2] {
    [AnswerCheck::Schema, AnswerCheck::Verifier].map(|by| machine.tries_left(by))
}

/// A run with one try for each check. Both were used, and the next answer was not accepted.
fn unfit() -> Machine {
    let hm = || reply(StopReason::Complete, "hm", &[]);
    after(&[user(), wanted(1), hm(), again(), hm(), unfit_for_program(), hm(), rejected(None)])
}

#[test]
fn a_run_whose_answer_was_not_accepted_goes_on_with_all_its_tries_and_is_told_the_faults() {
    let mut machine = unfit();
    assert_eq!((machine.next(), tries_left(&machine)), (Action::Finish(Outcome::Unfit), [0, 0]));
    let Ok(Fact::Resumed { message: Some(told), .. }) = machine.resumption() else {
        panic!("it goes on with words")
    };
    assert!(told.text().contains("not accepted:\n- no\n"), "{}", told.text());
    goes_on(&mut machine, None);
    assert_eq!((machine.next(), tries_left(&machine)), (Action::CallProvider, [1, 1]));
}

#[test]
fn only_a_run_with_new_limits_that_was_stopped_between_two_tries_has_all_of_them_again() {
    let stopped = || {
        let hm = || reply(StopReason::Complete, "hm", &[]);
        after(&[user(), wanted(1), hm(), again(), hm(), unfit_for_program(), interrupted("", &[])])
    };
    let (mut as_before, mut anew) = (stopped(), stopped());
    goes_on(&mut as_before, None);
    assert_eq!((as_before.turns(), tries_left(&as_before)), (2, [0, 0]));
    goes_on(&mut anew, Some(Box::default()));
    assert_eq!((anew.turns(), tries_left(&anew)), (0, [1, 1]));
}

#[test]
fn the_faults_of_the_last_rejected_answer_are_known_whether_or_not_a_try_follows() {
    let answered = || vec![user(), wanted(1), reply(StopReason::Complete, "hm", &[])];
    assert!(after(&answered()).faults().is_empty());
    for fact in [again(), unfit_for_program(), rejected(None)] {
        let machine = after(&[answered(), vec![fact]].concat());
        assert_eq!(machine.faults(), ["no"]);
    }
}

#[test]
fn of_many_faults_the_first_twenty_are_told_and_the_number_of_the_others() {
    let told = |count: usize| {
        let faults = (0..count).map(|number| format!("fault {number}")).collect();
        let by = AnswerCheck::Schema;
        let facts = [
            user(),
            wanted(0),
            reply(StopReason::Complete, "hm", &[]),
            Fact::AnswerRejected { by, faults, message: None },
        ];
        match after(&facts).resumption() {
            Ok(Fact::Resumed { message: Some(told), .. }) => told.text(),
            other => panic!("{other:?}"),
        }
    };
    let all = told(20);
    assert!(all.contains("- fault 19\n") && !all.contains("more"), "{all}");
    assert!(all.ends_with("in the form that was asked for, and nothing else."), "{all}");
    let more = told(22);
    assert!(more.contains("- fault 19\n- and 2 more\n") && !more.contains("fault 20"), "{more}");
}

#[test]
fn what_is_opened_again_without_a_run_that_was_going_on_is_refused() {
    let table = [
        vec![],
        vec![user(), reply(StopReason::Complete, "hi", &[])],
        vec![user(), interrupted("", &[])],
    ];
    for facts in table {
        assert!(after(&facts).apply(&reopened()).is_err(), "{facts:?}");
    }
}

#[test]
fn a_fork_ends_a_run_that_was_going_on_and_leaves_one_that_had_ended() {
    let answered = || vec![user(), wanted(1), reply(StopReason::Complete, "hi", &[])];
    let table = [
        (vec![], "await"),
        (vec![user()], "Cancelled"),
        (answered(), "Cancelled"),
        ([answered(), vec![Fact::AnswerAccepted {}]].concat(), "Answered"),
        (vec![user(), reply(StopReason::ToolCalls, "", &["a"])], "Cancelled"),
    ];
    for (mut facts, expected) in table {
        facts.push(Fact::Forked {});
        assert_eq!(next(&facts), expected, "{facts:?}");
    }
}

#[test]
fn an_always_that_is_withdrawn_stops_no_call_that_runs_and_lets_none_run_again() {
    let scope = || Scope::new("all", "every call");
    let by_always = Fact::CallDecided {
        call: "a".into(),
        decision: Decision::Allow {
            side_effects: WRITE,
            repeat: Repeat::Idempotent,
            by: Decider::Always { call: "earlier".into(), scope: scope() },
            reviewed: None,
            binding: None,
        },
    };
    let revoked = |call: &str| Fact::GrantRevoked { call: call.into(), scope: scope() };
    let mut facts = vec![user(), reply(StopReason::ToolCalls, "", &["a"]), by_always, started("a")];
    let runs_again = [facts.clone(), vec![revoked("other"), reopened()]].concat();
    assert_eq!(next(&runs_again), "run a", "that was another one");
    facts.push(revoked("earlier"));
    assert_eq!(next(&facts), "wait", "it runs on");
    facts.push(reopened());
    assert_eq!(next(&facts), "find out a");
    facts.push(Fact::CallCleared { call: "a".into(), spent: None });
    assert_eq!(next(&facts), "decide a", "nobody allows it any more");
}

#[test]
fn a_call_whose_agent_waited_is_in_doubt_when_its_always_is_withdrawn() {
    let scope = || Scope::new("all", "every call");
    let by = Decider::Always { call: "earlier".into(), scope: scope() };
    let decision = Decision::Allow {
        side_effects: WRITE,
        repeat: Repeat::Never,
        by,
        reviewed: None,
        binding: None,
    };
    let below = Awaited::Agent { conversation: "chat/a".into(), cut_off: false };
    let facts = [
        user(),
        reply(StopReason::ToolCalls, "", &["a"]),
        Fact::CallDecided { call: "a".into(), decision },
        started("a"),
        Fact::CallWaits { call: "a".into(), wait: Wait::new(below) },
        Fact::GrantRevoked { call: "earlier".into(), scope: scope() },
        Fact::CallAnswered { call: "a".into(), answer: json!(null), who: None, at: 0 },
    ];
    assert_eq!(next(&facts), "find out a", "its agent may have done something");
}

#[test]
fn a_call_that_was_answered_and_is_stopped_before_it_goes_on_may_have_partly_run() {
    let question = "Which?".to_owned();
    let asks = Awaited::Answer { question, token: json!(1), form: None };
    let machine = after(&[
        user(),
        reply(StopReason::ToolCalls, "", &["a"]),
        allowed("a", WRITE),
        started("a"),
        Fact::CallWaits { call: "a".into(), wait: Wait::new(asks) },
        Fact::CallAnswered { call: "a".into(), answer: json!("this"), who: None, at: 0 },
        interrupted("", &[]),
    ]);
    let Some(Fact::CallFinished { result, .. }) = machine.settlement().next() else {
        panic!("a result")
    };
    assert_eq!(result.outcome(), CallOutcome::InDoubt, "{}", result.to_text());
}

#[test]
fn a_call_that_is_stopped_while_it_waits_says_for_what() {
    let told = |before: &[Fact], awaited: Awaited| {
        let call = "a".to_owned();
        let calls = [user(), reply(StopReason::ToolCalls, "", &["a"])];
        let waits = Fact::CallWaits { call, wait: Wait::new(awaited) };
        let machine = after(&[&calls, before, &[waits, interrupted("", &[])]].concat());
        match machine.settlement().next() {
            Some(Fact::CallFinished { result, .. }) => (result.outcome(), result.to_text()),
            other => panic!("{other:?}"),
        }
    };
    let question = "Which?".to_owned();
    let asks = Awaited::Answer { question, token: json!(1), form: None };
    let (outcome, text) = told(&[allowed("a", WRITE), started("a")], asks);
    assert_eq!(outcome, CallOutcome::InDoubt);
    assert!(text.contains("has asked something"), "{text}");
    let (outcome, text) = told(&[allowed("a", WRITE)], Awaited::Result);
    assert_eq!(outcome, CallOutcome::InDoubt);
    assert!(text.contains("no result has come back"), "{text}");
    let (repeat, review) = (Repeat::Never, None);
    let approval = Awaited::Approval { question: json!({}), repeat, review };
    let (outcome, text) = told(&[], approval);
    assert_eq!(outcome, CallOutcome::NotStarted);
    assert!(text.contains("was not started"), "{text}");
}

#[test]
fn a_late_end_is_told_as_what_it_is() {
    use CallOutcome::{Failed, InDoubt, Succeeded};
    let ends = [(Succeeded, "ran to its end"), (InDoubt, "partly run"), (Failed, "failed")];
    for (outcome, expected) in ends {
        let result = ToolResult::new("a", outcome, ["so".into()]);
        let facts = [
            user(),
            reply(StopReason::ToolCalls, "", &["a"]),
            finished("a"),
            Fact::CallEnded { tool: "tool".into(), result },
            steered(),
        ];
        let machine = after(&facts);
        let last = machine.transcript().messages().last().expect("a message").text();
        for (_, words) in ends {
            assert_eq!(last.contains(words), words == expected, "{last}");
        }
    }
}

/// What the model is told of a call that may have run and is stopped before it runs again: by the program that
/// has lost it, not that it did not start.
#[test]
fn a_call_that_is_stopped_before_it_runs_again_may_have_run() {
    let decision = |side_effects, repeat| Decision::Allow {
        side_effects,
        repeat,
        by: Decider::SideEffects,
        reviewed: None,
        binding: None,
    };
    let table = [
        (WRITE, Repeat::Idempotent, CallOutcome::InDoubt),
        (READ, Repeat::Read, CallOutcome::StoppedReading),
    ];
    for (effects, repeat, expected) in table {
        let decided = Fact::CallDecided { call: "a".into(), decision: decision(effects, repeat) };
        let reply = reply(StopReason::ToolCalls, "", &["a"]);
        let facts = [user(), reply, decided, started("a"), reopened()];
        assert_eq!(next(&facts), "run a");
        let stopped = [facts.as_slice(), &[interrupted("", &[])]].concat();
        let machine = after(&stopped);
        let told: Vec<_> = machine.settlement().collect();
        let [Fact::CallFinished { result, .. }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(result.outcome(), expected);
        assert!(
            result.to_text().contains("A restart interrupted this call"),
            "{}",
            result.to_text()
        );
    }
}

/// Steps may run the calls of a batch one by one.
#[test]
fn a_call_may_begin_while_one_before_it_runs_and_another_has_ended() {
    let calls = ["a", "b", "c"];
    let mut facts = vec![user(), reply(StopReason::ToolCalls, "", &calls)];
    facts.extend(calls.map(|call| allowed(call, READ)));
    facts.extend([started("a"), started("b"), finished("b")]);
    assert_eq!(next(&facts), "run c");
}

#[test]
fn a_call_that_was_not_started_says_why() {
    use StopReason::{Refused, ToolCalls, Truncated, Unsupported};
    let stopped = |cause: InterruptCause| {
        let (message, usage) = (None, Usage::default());
        let stop = Fact::Interrupted { message, usage, cause, asked: false };
        vec![user(), reply(ToolCalls, "", &["a"]), stop]
    };
    let limit = |limit: LimitKind| {
        let detail = "enough".into();
        stopped(InterruptCause::Limit { limit, scope: LimitScope::Run, detail })
    };
    let ended = |stop: StopReason| vec![user(), reply(stop, "", &["a"])];
    let table = [
        (stopped(InterruptCause::Program), "the run was stopped first"),
        (
            stopped(InterruptCause::Failure { error: "no".into(), public_text: None }),
            "the run failed first",
        ),
        (stopped(InterruptCause::Denial { call: "z".into() }), "another call was denied first"),
        (limit(LimitKind::Turns), "the run has reached its limit of"),
        (limit(LimitKind::UnknownCost), "nobody knows what the run costs"),
        (ended(Truncated), "the reply that asked for it was cut off"),
        (ended(Refused), "the reply that asked for it was refused"),
        (ended(Unsupported(WantedItem::new("computer_call"))), "which cannot be executed here"),
    ];
    for (facts, expected) in table {
        let machine = after(&facts);
        let told: Vec<_> = machine.settlement().collect();
        let [Fact::CallFinished { result, .. }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(result.outcome(), CallOutcome::NotStarted);
        let text = result.to_text();
        assert!(text.contains(expected), "{text}");
        assert!(text.ends_with("Nothing of it has happened."), "{text}");
    }
}

#[test]
fn what_goes_on_wrongly_is_refused_and_changes_nothing() {
    let answered = || vec![user(), wanted(1), reply(StopReason::Complete, "hm", &[])];
    let broke_off = || vec![user(), interrupted("so f", &[])];
    let by_model = message("Go on.", &[]);
    let (first, second) = (user(), again());
    let said_again = |mut before: Vec<Fact>, fact: &Fact| {
        before.push(fact.clone());
        before
    };
    let table: Vec<(&str, Vec<Fact>, Fact)> = vec![
        (
            "words of the model to go on",
            broke_off(),
            Fact::Resumed { message: by_model, limits: None },
        ),
        (
            "an answer that was accepted",
            [answered(), vec![Fact::AnswerAccepted {}]].concat(),
            Fact::Resumed { message: None, limits: None },
        ),
        ("the same words of the user", said_again(vec![], &first), first),
        ("the same rejection", said_again(answered(), &second), second),
    ];
    for (name, facts, fact) in table {
        let mut machine = after(&facts);
        let before = (machine.transcript().clone(), machine.next());
        assert!(machine.apply(&fact).is_err(), "{name}");
        assert_eq!((machine.transcript().clone(), machine.next()), before, "{name}");
    }
}

#[test]
fn while_calls_wait_nothing_goes_on_and_the_error_says_so() {
    let machine = after(&[user(), reply(StopReason::ToolCalls, "", &["a"])]);
    let error = machine.resumption().expect_err("a call waits").to_string();
    assert!(error.contains("while calls wait for results"), "{error}");
}

#[test]
fn a_given_transcript_whose_calls_have_no_results_is_refused() {
    let machine = after(&[user(), reply(StopReason::ToolCalls, "", &["a"])]);
    let given = Fact::Given { transcript: machine.transcript().clone() };
    let mut machine = Machine::new();
    let error = machine.apply(&given).expect_err("a call has no result").to_string();
    assert!(error.contains("`a` of `tool` has no result"), "{error}");
    assert_eq!(machine.next(), Action::AwaitUser);
    assert!(machine.transcript().messages().is_empty());
}

#[test]
fn what_is_sent_does_not_change_while_an_answer_is_paused_or_calls_wait() {
    use StopReason::{Complete, Paused, ToolCalls};
    let compacted = || Fact::ContextCompacted {
        messages: 1,
        kept: Vec::new(),
        summary: Message::user("It began."),
        vendor: None,
        request: Box::default(),
        before: 10,
        after: 5,
    };
    let table = [
        (vec![user(), reply(Complete, "hi", &[])], true),
        (vec![user(), reply(Paused, "so", &[])], false),
        (vec![user(), reply(ToolCalls, "", &["a"])], false),
        (vec![], false),
    ];
    for (facts, may) in table {
        let mut machine = after(&facts);
        let before = machine.sent().clone();
        assert_eq!(machine.apply(&compacted()).is_ok(), may, "{facts:?}");
        assert_eq!(machine.sent() != &before, may, "{facts:?}");
    }
}
