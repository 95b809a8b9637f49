//! The loop as a table: after these facts, this comes next.

use harness::{
    Block, Message, StopReason, ToolResult, Usage,
    agent::Machine,
    journal::{Fact, InterruptCause, LimitKind},
};

use crate::{
    facts::{
        after, again, allowed, denied, finished, interrupted, limited, message, next, rejected,
        reply, started, steered, unfit_for_program, user, wanted,
    },
    probe::{READ, WRITE},
};

#[test]
fn facts_lead_to_actions() {
    use StopReason::{Complete, Paused, Refused, ToolCalls, Truncated};
    let turn = || [user(), reply(ToolCalls, "", &["a", "b", "c", "d"])];
    let decided = || {
        let effects =
            [allowed("a", READ), allowed("b", READ), allowed("c", WRITE), allowed("d", READ)];
        [turn().to_vec(), effects.to_vec()].concat()
    };
    let with = |before: Vec<Fact>, more: &[Fact]| [before, more.to_vec()].concat();
    let answered = |tries: u32| vec![user(), wanted(tries), reply(Complete, "hi", &[])];
    let resumed = || Fact::Resumed { message: None, limits: None };
    let reopened = || Fact::Reopened { doubtful: Vec::new() };
    let table: Vec<(&str, Vec<Fact>, &str)> = vec![
        ("nothing was said", vec![], "await"),
        ("the user spoke", vec![user()], "ask"),
        ("an answer", vec![user(), reply(Complete, "hi", &[])], "Answered"),
        ("an empty answer", vec![user(), reply(Complete, "", &[])], "Answered"),
        ("a call under `complete`", vec![user(), reply(Complete, "", &["a"])], "decide a"),
        ("an answer is wanted", vec![user(), wanted(1)], "ask"),
        ("an answer that is wanted", answered(1), "check"),
        (
            "an answer that is cut off",
            vec![user(), wanted(1), reply(Truncated, "hi", &[])],
            "Truncated",
        ),
        (
            "calls before the answer",
            vec![user(), wanted(1), reply(Complete, "hi", &["a"])],
            "decide a",
        ),
        (
            "an empty answer that is wanted",
            vec![user(), wanted(1), reply(Complete, "", &[])],
            "check",
        ),
        ("accepted", with(answered(1), &[Fact::AnswerAccepted {}]), "Answered"),
        ("rejected", with(answered(1), &[again()]), "ask"),
        (
            "rejected twice",
            with(answered(1), &[again(), reply(Complete, "hm", &[]), rejected(None)]),
            "Unfit",
        ),
        ("each check has its own tries", with(answered(0), &[unfit_for_program()]), "ask"),
        ("stopped before the check", with(answered(1), &[interrupted("", &[])]), "Cancelled"),
        ("and resumed", with(answered(1), &[interrupted("", &[]), resumed()]), "check"),
        ("read again before the check", with(answered(1), &[reopened()]), "check"),
        ("steered before the check", with(answered(1), &[steered()]), "ask"),
        (
            "steered after it",
            with(answered(1), &[Fact::AnswerAccepted {}, steered(), reply(Complete, "hm", &[])]),
            "check",
        ),
        (
            "a run without a wish after one with",
            with(answered(1), &[Fact::AnswerAccepted {}, user(), reply(Complete, "hm", &[])]),
            "Answered",
        ),
        (
            "the user speaks before the check",
            with(answered(1), &[user(), reply(Complete, "hm", &[])]),
            "Answered",
        ),
        ("paused", vec![user(), reply(Paused, "so far", &[])], "ask"),
        ("refused", vec![user(), reply(Refused, "no", &[])], "Refused"),
        ("cut off", vec![user(), reply(Truncated, "so f", &[])], "Truncated"),
        (
            "a call in an answer that was cut off",
            vec![user(), reply(Truncated, "", &["a"])],
            "settle a NotStarted",
        ),
        (
            "and once settled",
            vec![user(), reply(Truncated, "", &["a"]), finished("a")],
            "Truncated",
        ),
        ("calls", turn().to_vec(), "decide a b c d"),
        ("half decided", with(turn().to_vec(), &[allowed("b", READ), denied("c")]), "decide a d"),
        ("decided", decided(), "run a b"),
        (
            "one of the batch ended",
            with(decided(), &[started("a"), started("b"), finished("b")]),
            "wait",
        ),
        (
            "the batch ended",
            with(decided(), &[started("a"), started("b"), finished("b"), finished("a")]),
            "run c",
        ),
        (
            "the write ended",
            with(
                decided(),
                &[
                    started("a"),
                    finished("a"),
                    started("b"),
                    finished("b"),
                    started("c"),
                    finished("c"),
                ],
            ),
            "run d",
        ),
        (
            "all ended",
            with(decided(), &[finished("a"), finished("b"), finished("c"), finished("d")]),
            "ask",
        ),
        ("all denied", vec![user(), reply(ToolCalls, "", &["a"]), denied("a")], "ask"),
        ("stopped while the model spoke", vec![user(), interrupted("so f", &[])], "Cancelled"),
        ("stopped before it spoke", vec![user(), interrupted("", &[])], "Cancelled"),
        (
            "stopped after a whole call",
            vec![user(), interrupted("", &["a"])],
            "settle a NotStarted",
        ),
        (
            "stopped while calls ran",
            with(
                decided(),
                &[started("a"), started("b"), finished("b"), started("c"), interrupted("", &[])],
            ),
            "settle a StoppedReading, c InDoubt, d NotStarted",
        ),
        (
            "a guard stopped it before the next turn",
            vec![user(), reply(ToolCalls, "", &["a"]), finished("a"), limited(LimitKind::Turns)],
            "Limit(Turns)",
        ),
        (
            "a guard stopped it before the calls",
            vec![user(), reply(ToolCalls, "", &["a"]), limited(LimitKind::ToolCalls)],
            "settle a NotStarted",
        ),
        (
            "and the user goes on",
            vec![
                user(),
                reply(ToolCalls, "", &["a"]),
                limited(LimitKind::ToolCalls),
                finished("a"),
                user(),
            ],
            "ask",
        ),
        ("steered before the first answer", vec![user(), steered()], "ask"),
        ("steered after the answer", vec![user(), reply(Complete, "hi", &[]), steered()], "ask"),
        (
            "steered after the results",
            vec![
                user(),
                reply(ToolCalls, "", &["a"]),
                allowed("a", READ),
                finished("a"),
                steered(),
            ],
            "ask",
        ),
        (
            "steered twice, and answered",
            vec![user(), steered(), steered(), reply(Complete, "hi", &[])],
            "Answered",
        ),
        (
            "steered, and stopped before the model was asked",
            vec![user(), reply(Complete, "hi", &[]), steered(), interrupted("", &[])],
            "Cancelled",
        ),
    ];
    for (name, facts, expected) in table {
        assert_eq!(next(&facts), expected, "{name}");
    }
}

#[test]
fn facts_that_cannot_follow_are_refused_and_change_nothing() {
    let call = || vec![user(), reply(StopReason::ToolCalls, "", &["a"])];
    let table: Vec<(&str, Vec<Fact>, Fact)> = vec![
        ("a reply to nothing", vec![], reply(StopReason::Complete, "hi", &[])),
        ("the user speaks while a call waits", call(), user()),
        ("a reply while a call waits", call(), reply(StopReason::Complete, "hi", &[])),
        ("a decision about a call that was not made", call(), denied("z")),
        ("a second decision", [call(), vec![allowed("a", READ)]].concat(), denied("a")),
        ("a start without a decision", call(), started("a")),
        ("a result for a call that was not made", call(), finished("z")),
        ("an interrupt of nothing", vec![], interrupted("", &[])),
        ("steering before a run", vec![], steered()),
        ("steering while a call waits", call(), steered()),
        (
            "steering while a call runs",
            [call(), vec![allowed("a", READ), started("a")]].concat(),
            steered(),
        ),
        (
            "steering between the parts of an answer that is paused",
            vec![user(), reply(StopReason::Paused, "hm", &[])],
            steered(),
        ),
        (
            "steering after an answer that was cut off",
            vec![user(), reply(StopReason::Truncated, "hm", &[])],
            steered(),
        ),
        ("steering after a stop", vec![user(), interrupted("", &[])], steered()),
        (
            "steering by the model",
            vec![user()],
            Fact::Steered { message: Message::assistant([Block::text("hi")]) },
        ),
        ("a wish before a run", vec![], wanted(1)),
        ("a second wish", vec![user(), wanted(1)], wanted(1)),
        ("a wish after an answer", vec![user(), reply(StopReason::Complete, "hi", &[])], wanted(1)),
        ("a check of nothing", vec![user(), wanted(1)], Fact::AnswerAccepted {}),
        (
            "a check that nobody wanted",
            vec![user(), reply(StopReason::Complete, "hi", &[])],
            again(),
        ),
        (
            "another try than there is",
            vec![user(), wanted(0), reply(StopReason::Complete, "hi", &[])],
            again(),
        ),
        (
            "faults told by the model",
            vec![user(), wanted(1), reply(StopReason::Complete, "hi", &[])],
            rejected(Some(Message::assistant([Block::text("hi")]))),
        ),
        (
            "a given transcript in the middle",
            call(),
            Fact::Given { transcript: Default::default() },
        ),
    ];
    for (name, facts, fact) in table {
        let mut machine = after(&facts);
        let before = (machine.transcript().clone(), machine.next());
        assert!(machine.apply(&fact).is_err(), "{name}");
        assert_eq!((machine.transcript().clone(), machine.next()), before, "{name}");
    }
}

#[test]
fn steering_that_is_applied_twice_is_refused() {
    let (fact, mut machine) = (steered(), after(&[user()]));
    machine.apply(&fact).expect("a fact that can follow");
    assert!(machine.apply(&fact).is_err());
    assert_eq!(machine.transcript().messages().len(), 2);
}

#[test]
fn steering_begins_nothing_anew() {
    let mut machine = after(&[user(), reply(StopReason::Complete, "hi", &[])]);
    let before = (machine.turns(), machine.usage(), machine.begun_at());
    machine.apply(&steered()).expect("a fact that can follow");
    assert_eq!((machine.turns(), machine.usage(), machine.begun_at()), before);
    assert_eq!(machine.transcript().messages().len(), 3);
}

#[test]
fn results_join_the_transcript_in_call_order() {
    let facts = [
        user(),
        reply(StopReason::ToolCalls, "", &["a", "b"]),
        allowed("a", READ),
        allowed("b", READ),
        finished("b"),
        finished("a"),
    ];
    let machine = after(&facts);
    let last = machine.transcript().messages().last().expect("a message");
    let ids: Vec<&str> = last.results().map(ToolResult::call_id).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(machine.transcript(), after(&facts).transcript(), "the same facts, the same fold");
}

#[test]
fn each_truth_has_words_of_its_own() {
    let facts = [
        user(),
        reply(StopReason::ToolCalls, "", &["a", "b", "c"]),
        allowed("a", READ),
        allowed("b", WRITE),
        allowed("c", WRITE),
        started("a"),
        started("b"),
        interrupted("", &[]),
    ];
    let told: Vec<String> = after(&facts)
        .settlement()
        .map(|fact| match fact {
            Fact::CallFinished { result, .. } => result.to_text(),
            other => panic!("settled by {other:?}"),
        })
        .collect();
    let [reading, in_doubt, not_started] = told.as_slice() else { panic!("{told:?}") };
    assert!(reading.contains("only reads") && reading.contains("nothing has changed"), "{reading}");
    assert!(in_doubt.contains("may have partly run"), "{in_doubt}");
    assert!(not_started.contains("was not started"), "{not_started}");
}

/// How a conversation goes on: with nothing, with words, or not at all.
fn resumption(machine: &Machine) -> &'static str {
    match machine.resumption() {
        Ok(Fact::Resumed { message: None, limits: None }) => "as it is",
        Ok(Fact::Resumed { message: Some(_), limits: None }) => "with words",
        Ok(other) => panic!("resumed by {other:?}"),
        Err(_) => "no",
    }
}

#[test]
fn what_stopped_says_how_it_goes_on() {
    use StopReason::{Complete, Paused, Refused, ToolCalls, Truncated};
    let failed = |text: &str| Fact::Interrupted {
        message: message(text, &[]),
        usage: Usage::default(),
        cause: InterruptCause::Failure { error: "overloaded".into(), public_text: None },
        asked: true,
    };
    // Twice: as the facts tell it, and as only the messages tell it, written down and read again.
    let table: Vec<(&str, Vec<Fact>, &str, &str)> = vec![
        ("nothing was said", vec![], "no", "no"),
        ("an answer", vec![user(), reply(Complete, "hi", &[])], "no", "no"),
        ("no answer", vec![user(), failed("")], "as it is", "as it is"),
        ("an answer that broke off", vec![user(), failed("so f")], "with words", "no"),
        ("one that was too long", vec![user(), reply(Truncated, "so", &[])], "with words", "no"),
        ("one that was refused", vec![user(), reply(Refused, "no", &[])], "with words", "no"),
        (
            "results",
            vec![user(), reply(ToolCalls, "", &["a"]), finished("a"), failed("")],
            "as it is",
            "as it is",
        ),
        ("a pause", vec![user(), reply(Paused, "so", &[])], "as it is", "as it is"),
        (
            "a pause and a failure",
            vec![user(), reply(Paused, "so", &[]), failed("")],
            "as it is",
            "as it is",
        ),
        (
            "two pauses and a limit",
            vec![
                user(),
                reply(Paused, "a", &[]),
                reply(Paused, "b", &[]),
                limited(LimitKind::Turns),
            ],
            "as it is",
            "as it is",
        ),
        (
            "a pause, and then words that broke off",
            vec![user(), reply(Paused, "so", &[]), failed("and th")],
            "with words",
            "no",
        ),
        (
            "a pause, and the answer",
            vec![user(), reply(Paused, "so", &[]), reply(Complete, "done", &[])],
            "no",
            "no",
        ),
        (
            "a pause, and an answer without a word",
            vec![user(), reply(Paused, "so", &[]), reply(Complete, "", &[])],
            "no",
            "as it is",
        ),
    ];
    for (name, facts, by_facts, by_messages) in table {
        let machine = after(&facts);
        assert_eq!(resumption(&machine), by_facts, "{name}");
        let saved = serde_json::to_string(machine.transcript()).unwrap();
        let transcript = serde_json::from_str(&saved).unwrap();
        assert_eq!(&transcript, machine.transcript(), "{name}");
        assert_eq!(resumption(&after(&[Fact::Given { transcript }])), by_messages, "{name}");
    }
}
