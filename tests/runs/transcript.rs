//! The rules of the transcript: whatever facts the machine accepts, their fold can be sent once it
//! is settled, and survives being written and read.

use harness::{
    Block, CallOutcome, Media, Message, ReasoningBlock, Role, SideEffect, SideEffects, StopReason,
    TextBlock, ToolCall, ToolContent, ToolResult, Transcript, Usage,
    agent::Machine,
    journal::{Decider, Decision, Fact, InterruptCause},
    message::{Messages, VendorData},
};
use proptest::prelude::*;

use crate::transcripts::obeys;

/// A fact that may or may not be able to follow.
fn fact() -> impl Strategy<Value = Fact> {
    let id = || prop::sample::select(vec!["a", "b", "c"]);
    let effects = prop::sample::select(vec![
        SideEffects::NONE,
        SideEffects::of(&[SideEffect::Read]),
        SideEffects::of(&[SideEffect::Write]),
        SideEffects::ALL,
    ]);
    let stop = prop::sample::select(vec![
        StopReason::Complete,
        StopReason::ToolCalls,
        StopReason::Truncated,
        StopReason::Paused,
        StopReason::Refused,
    ]);
    let said = || {
        (any::<bool>(), prop::collection::vec(id(), 0..4)).prop_map(|(text, calls)| {
            let text = text.then(|| Block::text("words"));
            let calls = calls.into_iter().map(|id| Block::ToolCall(ToolCall::new(id, "t", "{}")));
            let blocks: Vec<Block> = text.into_iter().chain(calls).collect();
            (!blocks.is_empty()).then(|| Message::assistant(blocks))
        })
    };
    prop_oneof![
        2 => Just(()).prop_map(|()| Fact::UserSaid { message: Message::user("go"), limits: None }),
        3 => (said(), stop).prop_map(|(message, stop)| Fact::ModelReplied {
            message,
            stop,
            usage: Usage::default(),
            provider: "p".into(),
            model: "m".into(),
            asked_model: None,
        }),
        1 => said().prop_map(|message| Fact::Interrupted {
            message,
            usage: Usage::default(),
            cause: InterruptCause::Program,
            asked: true,
        }),
        3 => (id(), prop::option::of(effects)).prop_map(|(id, effects)| Fact::CallDecided {
            call: id.into(),
            decision: match effects {
                Some(side_effects) => Decision::Allow { side_effects, repeat: harness::journal::Repeat::Never, by: Decider::SideEffects, reviewed: None, binding: None },
                None => Decision::Deny { reason: "no".into(), by: Decider::ToolName },
            },
        }),
        2 => id().prop_map(|id| Fact::CallStarted { call: id.into() }),
        3 => id().prop_map(|id| Fact::CallFinished {
            result: ToolResult::new(id, CallOutcome::Succeeded, ["done".into()]),
            spent: None,
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::times(150), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_facts_fold_to_a_transcript_that_can_be_sent(facts in prop::collection::vec(fact(), 0..60)) {
        let mut machine = Machine::new();
        let mut accepted = 0;
        for fact in &facts {
            let before = machine.transcript().messages().len();
            match machine.apply(fact) {
                Ok(()) => accepted += 1,
                Err(_) => assert_eq!(machine.transcript().messages().len(), before),
            }
            // Healing at this very instant.
            let mut healed = machine.clone();
            let sent = healed.transcript().messages().len();
            for fact in machine.settlement() {
                healed.apply(&fact).expect("a settlement can always follow");
            }
            obeys(healed.transcript().sendable().expect("a settled transcript can be sent"));
            assert_eq!(healed.settlement().count(), 0, "healing twice changes nothing");
            assert_eq!(
                &healed.transcript().messages().range(..sent),
                machine.transcript().messages(),
                "healing only adds"
            );
        }
        prop_assume!(accepted > 0);
    }
}

#[test]
fn what_breaks_the_law_is_refused_by_name() {
    let call = || {
        Message::assistant([
            Block::ToolCall(ToolCall::new("a", "t", "{}")),
            Block::ToolCall(ToolCall::new("b", "t", "{}")),
        ])
    };
    let results = |ids: &[&str]| {
        let results = ids.iter().map(|id| {
            Block::ToolResult(ToolResult::new(*id, CallOutcome::Succeeded, ["x".into()]))
        });
        Message::new(Role::Tool, results)
    };
    let user = || Message::user("go");
    let twice = ToolCall::new("a", "t", "{}");
    let twice = Message::assistant([Block::ToolCall(twice.clone()), Block::ToolCall(twice)]);
    let wrong_speaker = Message::new(Role::User, call().blocks().to_vec());
    let table: Vec<(Vec<Message>, &str)> = vec![
        (
            vec![Message::assistant([Block::text("hi")])],
            "message 0 cannot stand there: a conversation begins with the user",
        ),
        (vec![Message::new(Role::User, [])], "message without a block"),
        (
            vec![user(), call(), user()],
            "message 2 cannot stand there: the call `a` of `t` has no result",
        ),
        (
            vec![user(), call(), results(&["b", "a"])],
            "results are owed for the calls [\"a\", \"b\"]",
        ),
        (vec![user(), call(), results(&["a"])], "results are owed"),
        (vec![user(), results(&["a"])], "results are owed for the calls []"),
        (vec![user(), twice], "two calls of one message have the id `a`"),
        (vec![wrong_speaker], "User cannot say a tool call"),
    ];
    for (messages, expected) in table {
        let err = Transcript::try_from(messages).expect_err(expected);
        assert!(err.message().contains(expected), "{err}");
    }
}

#[test]
fn a_given_transcript_that_is_open_is_settled_as_in_doubt() {
    let call = Block::ToolCall(ToolCall::new("a", "pay", "{}"));
    let mut transcript =
        Transcript::try_from(vec![Message::user("go"), Message::assistant([call])]).expect("open");
    assert!(transcript.sendable().expect_err("open").message().contains("`a` of `pay`"));
    assert_eq!(transcript.owed().count(), 1);
    transcript.settle();
    let settled = transcript.clone();
    obeys(transcript.sendable().expect("settled"));
    let result = transcript.messages()[2].results().next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    assert!(result.to_text().contains("may have partly run"));
    transcript.settle();
    assert_eq!(transcript, settled);
}

#[test]
fn json_and_back_loses_nothing() {
    let vendor = VendorData::new("anthropic", "{\"signature\" :  \"a+/=\"}").expect("json");
    let image = ToolContent::Image(Media::from_bytes("image/png", vec![0, 255, 1]));
    let json = ToolContent::Json(serde_json::json!({"z": 1, "a": [1.5, null]}));
    let transcript = Transcript::try_from(vec![
        Message::new(
            Role::User,
            [
                Block::text("look"),
                Block::Image(Media::from_bytes("image/png", [1, 2, 3])),
                Block::Image(Media::from_url("https://example.com/a.png")),
            ],
        ),
        Message::assistant([
            Block::Reasoning(ReasoningBlock::new("", Some(vendor.clone()))),
            Block::Text(TextBlock::new("so").with_vendor(Some(vendor.clone()))),
            Block::Vendor(vendor.clone()),
            Block::ToolCall(
                ToolCall::new("a", "t", "{\"x\": 1,  broken").with_vendor(Some(vendor)),
            ),
        ]),
        Message::new(
            Role::Tool,
            [Block::ToolResult(ToolResult::new(
                "a",
                CallOutcome::Failed,
                [ToolContent::Text("no".into()), json, image],
            ))],
        ),
    ])
    .expect("lawful");
    let written = serde_json::to_string(&transcript).expect("it can be written");
    let read: Transcript = serde_json::from_str(&written).expect("it can be read");
    assert_eq!(read, transcript);
    let times = |t: &Transcript| t.messages().iter().map(Message::at).collect::<Vec<_>>();
    assert_eq!(times(&read), times(&transcript));
    let Some(Block::Reasoning(reasoning)) = read.messages()[1].blocks().first() else { panic!() };
    let kept = reasoning.vendor().expect("vendor data").json();
    assert_eq!(kept, "{\"signature\" :  \"a+/=\"}", "byte for byte");

    let entry = Fact::Given { transcript };
    let written = serde_json::to_string(&entry).expect("it can be written");
    assert_eq!(serde_json::from_str::<Fact>(&written).expect("it can be read"), entry);
}

#[test]
fn a_broken_file_is_an_error_that_says_where() {
    let broken = r#"[{"id":"m","role":"assistant","at_ms":18446744073709551615,"blocks":[]}]"#;
    let err = serde_json::from_str::<Transcript>(broken).expect_err("unlawful");
    assert!(err.to_string().contains("message 0"), "{err}");
    let far = r#"{"id":"m","role":"user","at_ms":18446744073709551615,"blocks":[]}"#;
    let far: Message = serde_json::from_str(far).expect("a message");
    let _ = far.at();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::times(20)))]
    /// Whatever is forked, goes on and is cut: each view is what a list of its own would be.
    #[test]
    fn messages_are_what_lists_would_be(
        size in prop::sample::select(vec![0_usize, 1, 31, 32, 33, 1023, 1024, 1025, 32_767, 32_768]),
        steps in prop::collection::vec(
            (0_u8..4, any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_usize..70),
            1..20,
        ),
    ) {
        let list: Vec<Message> = (0..size).map(|at| Message::user(at.to_string())).collect();
        let mut first = Transcript::default();
        for message in &list {
            first.push(message.clone()).unwrap();
        }
        let mut all = vec![(first, list)];
        let mut views: Vec<(Messages, Vec<Message>)> = Vec::new();
        for (step, which, at, count) in steps {
            let chosen = which.index(all.len());
            match step {
                0 => all.push(all[chosen].clone()),
                1 => for at in 0..count {
                    let message = Message::user(format!("{chosen} {at}"));
                    all[chosen].0.push(message.clone()).unwrap();
                    all[chosen].1.push(message);
                },
                _ => {
                    let (of, list) = match views.len() {
                        many if step == 3 && many > 0 => views[which.index(many)].clone(),
                        _ => (all[chosen].0.messages().clone(), all[chosen].1.clone()),
                    };
                    let from = at.index(list.len() + 3);
                    let end = from + count;
                    let there = from.min(list.len())..end.min(list.len());
                    views.push((of.range(from..end), list[there].to_vec()));
                }
            }
        }
        let all = all.iter().map(|(transcript, list)| (transcript.messages(), list));
        for (messages, list) in all.chain(views.iter().map(|(view, list)| (view, list))) {
            prop_assert_eq!(messages.len(), list.len());
            prop_assert!(messages.iter().eq(list) && messages.iter().rev().eq(list.iter().rev()));
            prop_assert_eq!((messages.first(), messages.last()), (list.first(), list.last()));
            for at in [0, 31, 32, 33, 1023, 1024, 1025, list.len(), usize::MAX] {
                prop_assert_eq!(messages.get(at), list.get(at));
            }
            prop_assert_eq!(messages, &list.iter().cloned().collect::<Messages>());
        }
    }
}
