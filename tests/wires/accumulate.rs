//! One accumulator for all wires: it gives the same answer for a whole body, for single events and
//! for pieces, and the kept part of an answer that was cut off can be sent.

use futures_util::stream;
use harness::{
    Block, Error, ErrorKind, Message, StopReason, StreamEvent, Usage,
    message::VendorData,
    provider::{Accumulator, ProviderResponse, VendorPart, accumulate},
};
use proptest::prelude::*;

fn text(block: u32, text: &str) -> StreamEvent {
    StreamEvent::TextDelta { block, text: text.into() }
}

fn think(block: u32, text: &str) -> StreamEvent {
    StreamEvent::ReasoningDelta { block, text: text.into() }
}

fn start(block: u32, id: &str, name: &str) -> StreamEvent {
    StreamEvent::ToolCallStart { block, id: id.into(), name: name.into() }
}

fn json(block: u32, json: &str) -> StreamEvent {
    StreamEvent::ToolCallDelta { block, json: json.into() }
}

fn end(block: u32) -> StreamEvent {
    StreamEvent::ToolCallEnd { block }
}

fn proof(block: u32, part: VendorPart) -> StreamEvent {
    let data = VendorData::new("anthropic", r#"{"signature":"s"}"#).expect("JSON");
    StreamEvent::Vendor { block, part, data }
}

fn done(stop: StopReason) -> StreamEvent {
    StreamEvent::Completed { stop, usage: Box::new(Usage { output: Some(7), ..Usage::default() }) }
}

/// What a message says, a block each.
fn blocks(message: Option<&Message>) -> Vec<String> {
    let blocks = message.map(Message::blocks).unwrap_or_default();
    blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) => format!("text {}", text.text()),
            Block::Reasoning(thought) => {
                format!("thinks {} {}", thought.text(), thought.vendor().is_some())
            }
            Block::ToolCall(call) => {
                format!("call {} {} {}", call.id(), call.name(), call.arguments())
            }
            Block::Vendor(data) => format!("vendor {}", data.json()),
            other => format!("not of an answer: {other:?}"),
        })
        .collect()
}

fn fed(events: &[StreamEvent]) -> Result<ProviderResponse, Error> {
    let mut answer = Accumulator::default();
    events.iter().try_for_each(|event| answer.push(event))?;
    answer.finish()
}

fn partial(events: &[StreamEvent]) -> Vec<String> {
    let mut answer = Accumulator::default();
    events.iter().for_each(|event| answer.push(event).expect("it follows"));
    blocks(answer.into_partial().as_ref())
}

#[tokio::test]
async fn whole_and_event_by_event_give_the_same_answer() {
    let events = vec![
        StreamEvent::Started { id: Some("msg_1".into()), model: Some("m".into()) },
        think(0, "Hm"),
        think(0, "."),
        proof(0, VendorPart::Reasoning),
        text(1, "Let "),
        start(2, "a", "look"),
        text(1, "me see."),
        json(2, "{\"x\""),
        start(3, "", "peek"),
        json(2, ":1}"),
        end(2),
        end(3),
        done(StopReason::ToolCalls),
    ];
    let whole = accumulate(stream::iter(events.clone().into_iter().map(Ok))).await.expect("whole");
    let single = fed(&events).expect("whole");
    let expected =
        ["thinks Hm. true", "text Let me see.", "call a look {\"x\":1}", "call msg_1_3 peek "];
    assert_eq!(blocks(whole.message.as_ref()), expected);
    assert_eq!(blocks(single.message.as_ref()), expected);
    for response in [whole, single] {
        assert_eq!((response.id.as_deref(), response.model.as_deref()), (Some("msg_1"), Some("m")));
        assert_eq!((response.stop, response.usage.output), (StopReason::ToolCalls, Some(7)));
    }
}

#[test]
fn an_answer_without_an_end_is_cut_off() {
    let err = fed(&[text(0, "So f")]).expect_err("it has no end");
    assert_eq!(err.kind(), ErrorKind::CutOff);
}

#[test]
fn what_cannot_follow_is_an_error() {
    for events in [
        vec![json(0, "{}")],
        vec![end(0)],
        vec![proof(0, VendorPart::ToolCall)],
        vec![text(0, "a"), json(0, "{}")],
        vec![done(StopReason::Complete), text(0, "more")],
    ] {
        assert_eq!(fed(&events).expect_err("it cannot follow").kind(), ErrorKind::Protocol);
    }
}

#[test]
fn ids_are_made_unique_and_blank_ones_are_made() {
    let events =
        [start(0, "a", "x"), start(1, "a", "y"), start(2, " ", "z"), done(StopReason::ToolCalls)];
    let message = fed(&events).expect("whole").message.expect("a message");
    let ids: Vec<&str> = message.calls().map(|call| call.id()).collect();
    assert_eq!(ids[..2], ["a", "a_2"]);
    assert!(!ids[2].trim().is_empty());
}

#[test]
fn white_space_and_empty_thinking_are_not_kept() {
    let events = [text(0, " \n"), think(1, ""), done(StopReason::Complete)];
    assert_eq!(fed(&events).expect("whole").message, None);
    let hidden = [proof(0, VendorPart::Reasoning), text(1, "a"), done(StopReason::Complete)];
    let kept = fed(&hidden).expect("whole").message;
    assert_eq!(blocks(kept.as_ref()), ["thinks  true", "text a"], "thinking may be hidden");
}

#[test]
fn of_a_truncated_answer_whole_calls_are_kept_and_of_a_refused_one_the_words() {
    let events = |stop| {
        let calls = [
            start(1, "a", "x"),
            json(1, "{}"),
            end(1),
            start(2, "b", "y"),
            json(2, "{\"a\":"),
            end(2),
        ];
        let open = [start(3, "c", "z"), json(3, "{}")];
        [vec![text(0, "So")], calls.to_vec(), open.to_vec(), vec![done(stop)]].concat()
    };
    let kept = |stop| blocks(fed(&events(stop)).expect("an end").message.as_ref());
    assert_eq!(kept(StopReason::Truncated), ["text So", "call a x {}"]);
    assert_eq!(kept(StopReason::Refused), ["text So"]);
    assert_eq!(kept(StopReason::ToolCalls).len(), 4, "broken arguments are answered, not dropped");
}

#[test]
fn what_is_kept_of_an_interrupted_answer_can_be_sent() {
    let call = || [start(2, "a", "x"), json(2, "{}"), end(2)].to_vec();
    let table: Vec<(Vec<StreamEvent>, &[&str])> = vec![
        (vec![], &[]),
        (vec![text(0, "So f")], &["text So f\n\n[interrupted]"]),
        (vec![think(0, "Hm")], &[]),
        (vec![proof(0, VendorPart::Reasoning)], &[]),
        (vec![think(0, "Hm"), text(1, "So")], &["text So\n\n[interrupted]"]),
        (
            vec![think(0, "Hm"), proof(0, VendorPart::Reasoning), text(1, "So")],
            &["thinks Hm true", "text So\n\n[interrupted]"],
        ),
        ([vec![text(0, "So")], call()].concat(), &["text So", "call a x {}"]),
        (vec![text(0, "So"), start(1, "a", "x"), json(1, "{}")], &["text So\n\n[interrupted]"]),
        (vec![text(0, "So"), proof(1, VendorPart::Opaque)], &["text So\n\n[interrupted]"]),
    ];
    for (events, expected) in table {
        assert_eq!(partial(&events), expected, "{events:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However the words are split into events, the answer is the same.
    #[test]
    fn any_split_gives_the_same_words(words in "\\PC{1,40}", cuts in prop::collection::vec(0_usize..41, 0..5)) {
        let chars: Vec<char> = words.chars().collect();
        let mut at: Vec<usize> = cuts.into_iter().filter(|cut| *cut < chars.len()).collect();
        at.extend([0, chars.len()]);
        at.sort_unstable();
        let mut events: Vec<StreamEvent> = at
            .windows(2)
            .filter(|pair| pair[0] < pair[1])
            .map(|pair| text(0, &chars[pair[0]..pair[1]].iter().collect::<String>()))
            .collect();
        events.push(done(StopReason::Complete));
        let whole = [text(0, &words), done(StopReason::Complete)];
        let (split, whole) = (fed(&events).expect("an end"), fed(&whole).expect("an end"));
        prop_assert_eq!(blocks(split.message.as_ref()), blocks(whole.message.as_ref()));
    }
}

#[test]
fn tokens_of_a_try_that_failed_in_silence_do_not_count() {
    let counted = |input| StreamEvent::UsageSoFar(Usage { input: Some(input), ..Usage::default() });
    let retrying = StreamEvent::Retrying {
        attempt: 2,
        of: 3,
        wait: std::time::Duration::ZERO,
        refused: None,
        cause: "it broke".into(),
    };
    let falling_back =
        StreamEvent::FallingBack { from: "one".into(), to: "other".into(), cause: "down".into() };
    for failed in [retrying, falling_back] {
        let mut answer = Accumulator::default();
        answer.push(&counted(120)).unwrap();
        assert_eq!(answer.usage().input, Some(120));
        answer.push(&failed).unwrap();
        assert_eq!(answer.usage().input, None);
        answer.push(&counted(7)).unwrap();
        assert_eq!(answer.usage().input, Some(7));
    }
}

/// A server that ends its calls with `{}` may do so again and again. Each of these takes many minutes if that
/// costs as much as all arguments before it.
#[test]
fn an_empty_object_costs_what_it_is_long() {
    let spaces = " ".repeat(3 << 20);
    for (begin, end) in [
        (format!("{{{spaces}"), "{}{}"),
        (format!("{{{spaces}\"a\":1}}"), "}"),
        (format!("{{\"a\":1}}{spaces}"), " "),
    ] {
        let mut answer = Accumulator::default();
        answer.push(&start(0, "a", "look")).unwrap();
        answer.push(&json(0, &begin)).unwrap();
        for _ in 0..100_000 {
            answer.push(&json(0, "{}")).unwrap();
        }
        answer.push(&done(StopReason::ToolCalls)).unwrap();
        let message = answer.finish().unwrap().message.unwrap();
        let call = message.calls().next().unwrap();
        assert!(call.arguments().ends_with(end), "{:?}", call.arguments().len());
    }
}
