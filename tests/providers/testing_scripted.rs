//! The scripted provider: its answers, its faults, and what it reports to a test.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use harness::{
    Block, Error, ErrorKind, Message, Provider, StopReason, StreamEvent, Transcript, Usage,
    provider::{EventStream, ProviderResponse, Request, Settings, accumulate},
    testing::{Gate, ScriptedProvider, ScriptedReply, reply, reply_to},
    tool::ToolSchema,
};
use serde_json::json;

fn asked() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    transcript
}

async fn answer(model: &ScriptedProvider) -> Result<ProviderResponse, Error> {
    let transcript = asked();
    accumulate(model.stream(Request::new(&transcript)?)).await
}

async fn events(reply: ScriptedReply) -> Vec<Result<StreamEvent, String>> {
    let (model, transcript) = (ScriptedProvider::new([reply]), asked());
    let events = model.stream(Request::new(&transcript).unwrap());
    events.map(|event| event.map_err(|err| err.to_string())).collect().await
}

fn text_of(event: Option<Result<StreamEvent, Error>>) -> String {
    match event {
        Some(Ok(StreamEvent::TextDelta { text, .. })) => text,
        other => panic!("no words: {other:?}"),
    }
}

/// Skips what comes before the words.
async fn first_words(events: &mut EventStream<'_>) -> String {
    assert!(matches!(events.next().await, Some(Ok(StreamEvent::Started { .. }))));
    text_of(events.next().await)
}

#[tokio::test]
async fn a_reply_becomes_a_whole_answer() {
    let model = ScriptedProvider::new([reply()
        .signed_reasoning("Two cities.", "sig")
        .text("Let me ")
        .text("see.")
        .call("weather", json!({"city": "Oslo"}))
        .call_with_id("toolu_7", "weather", json!({"city": "Rome"}))
        .call_text("weather", r#"{"city": "#)
        .tokens(12, 5)]);
    let said = answer(&model).await.unwrap();

    assert_eq!(said.stop, StopReason::ToolCalls);
    assert_eq!((said.usage.input, said.usage.output), (Some(12), Some(5)));
    let message = said.message.unwrap();
    let Block::Reasoning(thought) = &message.blocks()[0] else { panic!("{message:?}") };
    assert_eq!(thought.text(), "Two cities.");
    assert_eq!(thought.vendor().unwrap().json(), r#"{"signature":"sig"}"#);
    assert_eq!(message.text(), "Let me see.");
    let calls: Vec<_> = message.calls().map(|call| (call.id(), call.arguments())).collect();
    let expected = [
        ("call_1", r#"{"city":"Oslo"}"#),
        ("toolu_7", r#"{"city":"Rome"}"#),
        ("call_2", r#"{"city": "#),
    ];
    assert_eq!(calls, expected);
    model.assert_finished();
}

#[tokio::test]
async fn words_and_arguments_come_in_several_deltas() {
    let events = events(reply().text("Cold.").call("w", json!({"a": 1}))).await;
    let text = |event: &&Result<_, _>| matches!(event, Ok(StreamEvent::TextDelta { .. }));
    let json = |event: &&Result<_, _>| matches!(event, Ok(StreamEvent::ToolCallDelta { .. }));
    assert_eq!(events.iter().filter(text).count(), 2, "{events:?}");
    assert_eq!(events.iter().filter(json).count(), 2, "{events:?}");
}

#[tokio::test]
async fn each_block_has_its_number() {
    let events = events(
        reply()
            .signed_reasoning("a", "1")
            .signed_reasoning("b", "2")
            .text_in(["c"])
            .call_text("d", ""),
    )
    .await;
    let blocks: Vec<u32> = events
        .iter()
        .filter_map(|event| match event.as_ref().unwrap() {
            StreamEvent::TextDelta { block, .. }
            | StreamEvent::ReasoningDelta { block, .. }
            | StreamEvent::Vendor { block, .. }
            | StreamEvent::ToolCallStart { block, .. }
            | StreamEvent::ToolCallEnd { block } => Some(*block),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, [0, 0, 1, 1, 2, 3, 3]);
}

#[tokio::test]
async fn an_error_comes_where_it_was_put_and_is_the_last() {
    let lost = || Error::new(ErrorKind::Connect, "lost");
    assert_eq!(events(reply().error(lost()).text("never")).await, [Err("lost".to_owned())]);

    let events = events(reply().text_in(["a"]).error(lost()).text("never")).await;
    assert_eq!(events.len(), 3);
    assert_eq!(events[2], Err("lost".to_owned()));

    let model = ScriptedProvider::new([reply().overloaded(), reply().text("Cold.")]);
    assert!(answer(&model).await.unwrap_err().is_retryable());
    assert_eq!(answer(&model).await.unwrap().message.unwrap().text(), "Cold.");
}

#[tokio::test]
async fn a_cut_reply_never_completes() {
    let model = ScriptedProvider::new([
        reply().begin_call("call_1", "weather").arguments(r#"{"ci"#).cut(),
        reply().cut(),
    ]);
    for _ in 0..2 {
        assert_eq!(answer(&model).await.unwrap_err().kind(), ErrorKind::CutOff);
    }
    model.assert_finished();
}

#[tokio::test]
async fn a_reply_may_stop_for_any_reason() {
    let usage = Usage { reasoning: Some(3), ..Usage::default() };
    let model = ScriptedProvider::new([
        reply().text("He").stop(StopReason::Truncated).usage(usage),
        reply().stop(StopReason::Paused),
    ]);
    let said = answer(&model).await.unwrap();
    assert_eq!((said.stop, said.usage), (StopReason::Truncated, usage));
    let said = answer(&model).await.unwrap();
    assert_eq!((said.stop, said.usage, said.message), (StopReason::Paused, Usage::default(), None));
}

#[tokio::test]
async fn nothing_happens_before_the_stream_is_polled() {
    let (model, transcript) = (ScriptedProvider::new([reply().text("Hi")]), asked());
    let events = model.stream(Request::new(&transcript).unwrap());
    assert_eq!((model.requests().len(), model.open_streams()), (0, 0));
    drop(events);
    assert!(answer(&model).await.is_ok());
}

#[tokio::test]
async fn a_stalled_reply_is_pending_for_ever_and_counts_as_open_until_it_is_dropped() {
    let (model, transcript) =
        (ScriptedProvider::new([reply().text_in(["Hi"]).stall().text("never")]), asked());
    let mut events = model.stream(Request::new(&transcript).unwrap());
    assert_eq!(first_words(&mut events).await, "Hi");
    assert!(events.next().now_or_never().is_none());
    assert_eq!(model.open_streams(), 1);
    drop(events);
    assert_eq!(model.open_streams(), 0);
    model.assert_finished();
}

#[tokio::test]
async fn a_gate_is_passed_when_the_test_opens_it() {
    let gate = Gate::new();
    let (model, transcript) =
        (ScriptedProvider::new([reply().text_in(["a"]).wait_for(&gate).text_in(["b"])]), asked());
    let mut events = model.stream(Request::new(&transcript).unwrap());
    assert_eq!(first_words(&mut events).await, "a");
    assert!(gate.reached().now_or_never().is_none(), "nobody has come yet");
    assert!(events.next().now_or_never().is_none());
    assert!(gate.reached().now_or_never().is_some(), "the reply has come to the gate");
    gate.open();
    assert_eq!(text_of(events.next().now_or_never().unwrap()), "b");
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_on_the_clock_of_the_runtime() {
    let before = tokio::time::Instant::now();
    events(reply().pause(Duration::from_secs(60)).text("Hi").pause(Duration::from_secs(60))).await;
    assert_eq!(before.elapsed(), Duration::from_secs(120));
}

#[tokio::test]
async fn a_reply_can_be_decided_from_the_request() {
    let model = ScriptedProvider::new([reply_to(|request| {
        reply().text(format!("{}!", request.last_text())).stop(StopReason::Refused)
    })]);
    let said = answer(&model).await.unwrap();
    assert_eq!((said.message.unwrap().text().as_str(), said.stop), ("Oslo?!", StopReason::Refused));

    let parrot = ScriptedProvider::answering(|request| reply().text(request.last_text()));
    for _ in 0..3 {
        assert_eq!(answer(&parrot).await.unwrap().message.unwrap().text(), "Oslo?");
    }
    parrot.assert_finished();
}

#[tokio::test]
async fn requests_are_kept_whole() {
    let model = ScriptedProvider::new([reply().text("Hi")]);
    let (clone, transcript) = (model.clone(), asked());
    let tools = [ToolSchema {
        name: "calc".to_owned(),
        description: "Computes.".to_owned(),
        input_schema: json!({"type": "object"}),
    }];
    let settings = Settings { max_tokens: Some(9), ..Settings::default() };
    let request = Request::new(&transcript).unwrap().with_settings(Some(&settings));
    let request = request.with_system(Some("Be brief."));
    accumulate(clone.stream(request.with_tools(&tools))).await.unwrap();
    drop(clone);

    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].system(), Some("Be brief."));
    assert_eq!(requests[0].messages(), transcript.messages());
    assert_eq!(requests[0].tool_names(), ["calc"]);
    assert_eq!(requests[0].settings(), Some(&settings));
    assert_eq!(requests[0].last_text(), "Oslo?");
}

/// The message with which `assert_finished` fails.
fn complaint(model: &ScriptedProvider) -> String {
    let failed = catch_unwind(AssertUnwindSafe(|| model.assert_finished())).unwrap_err();
    *failed.downcast::<String>().unwrap()
}

#[tokio::test]
async fn what_was_never_said_is_told() {
    let model = ScriptedProvider::new([
        reply().text("Hi"),
        reply().text("Let me see.").call("weather", json!({"city": "Oslo"})),
        reply().overloaded(),
    ]);
    answer(&model).await.unwrap();
    let expected = r#"
the script of the provider has 3 replies, but it was asked 1 times. Never said:
  reply 2: text "Let me see.", call weather {"city":"Oslo"}
  reply 3: error "529 overloaded_error: Overloaded"
"#;
    assert_eq!(complaint(&model), expected.trim());
}

#[tokio::test]
async fn asking_more_than_is_written_is_an_error_that_says_so() {
    let model = ScriptedProvider::new([reply().text("Hi")]);
    answer(&model).await.unwrap();
    let err = answer(&model).await.unwrap_err();
    assert!(err.is_configuration() && !err.is_retryable());
    assert!(err.message().contains("has 1 reply, and this is request 2"), "{err}");
    assert!(complaint(&model).contains("asked 2 times. The last request:\nuser: Oslo?"));
}
