//! Thinking of earlier turns can be left out of what is sent. Thinking of the current turn is never
//! left out, because vendors refuse the results of calls without the thinking before the calls.

use harness::wire::WIRES;
use harness::{
    Block, CallOutcome, Message, ReasoningBlock, Role, TextBlock, ToolCall, ToolContent,
    ToolResult, Transcript,
    message::VendorData,
    provider::{Effort, EncodedPrefix, Request, Settings},
    wire::{anthropic, chat, responses},
};
use serde_json::Value;

fn data(wire: &str, json: &str) -> Option<VendorData> {
    Some(VendorData::new(wire, json).unwrap())
}

/// A turn in which the model thinks, calls and thinks again.
fn turn(wire: &str, number: usize, over: bool) -> Vec<Message> {
    let proof = |at: usize| {
        let json = match wire {
            "anthropic" => format!(r#"{{"signature":"proof{number}{at}"}}"#),
            "responses" => format!(
                r#"{{"type":"reasoning","id":"rs_{number}{at}","encrypted_content":"proof{number}{at}"}}"#
            ),
            _ => r#"{"field":"reasoning_content"}"#.to_owned(),
        };
        Block::Reasoning(ReasoningBlock::new(format!("proof{number}{at}"), data(wire, &json)))
    };
    let id = format!("call_{number}");
    let call = ToolCall::new(&id, "look", "{}").with_vendor(data(wire, r#"{"id":"fc_1"}"#));
    let result = ToolResult::new(&id, CallOutcome::Succeeded, [ToolContent::from("42")]);
    let mut messages = vec![
        Message::user(format!("question {number}")),
        Message::assistant([proof(1), Block::ToolCall(call)]),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ];
    if over {
        let text = TextBlock::new("It is 42.").with_vendor(data(wire, r#"{"id":"msg_1"}"#));
        messages.push(Message::assistant([proof(2), Block::Text(text)]));
    }
    messages
}

fn body(
    wire: &str,
    transcript: &Transcript,
    settings: Settings,
    sent: Option<&EncodedPrefix>,
) -> Vec<u8> {
    let request = Request::new(transcript).unwrap().with_sent(sent);
    let model = "m".to_owned();
    match wire {
        "anthropic" => anthropic::encode(
            &request,
            &anthropic::Options { settings, ..anthropic::Options::new(model) },
        ),
        "responses" => responses::encode(
            &request,
            &responses::Options { settings, ..responses::Options::new(model) },
        ),
        _ => chat::encode(&request, &chat::Options { settings, ..chat::Options::new("m") }),
    }
    .unwrap()
}

fn proofs(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let mut found: Vec<String> =
        text.match_indices("proof").map(|(at, _)| text[at..at + 7].to_owned()).collect();
    found.dedup();
    found
}

#[test]
fn thinking_of_earlier_turns_is_left_out_if_asked_and_that_of_this_turn_never() {
    for wire in WIRES {
        let mut transcript = Transcript::default();
        let sent = EncodedPrefix::new();
        for message in [turn(wire, 1, true), turn(wire, 2, true), turn(wire, 3, false)].concat() {
            transcript.push(message).unwrap();
            if Request::new(&transcript).is_err() {
                continue;
            }
            // What was written for an earlier turn is not taken for this one.
            let off = Settings { earlier_thinking: Some(false), ..Settings::default() };
            let kept = body(wire, &transcript, off.clone(), Some(&sent));
            assert_eq!(kept, body(wire, &transcript, off, None), "{wire}");
        }
        let with = |earlier_thinking| {
            let settings = Settings { earlier_thinking, ..Settings::default() };
            body(wire, &transcript, settings, None)
        };
        let all = ["proof11", "proof12", "proof21", "proof22", "proof31"];
        assert_eq!(proofs(&with(None)), all, "{wire}");
        assert_eq!(proofs(&with(Some(true))), all, "{wire}");
        let short = with(Some(false));
        assert_eq!(proofs(&short), ["proof31"], "{wire}");
        // All else is there.
        let json: Value = serde_json::from_slice(&short).unwrap();
        let list = json[if wire == "responses" { "input" } else { "messages" }].as_array().unwrap();
        assert_eq!(short.windows(9).filter(|at| at == b"It is 42.").count(), 2, "{wire}");
        assert_eq!(list.len(), if wire == "responses" { 12 } else { 11 }, "{wire}");
        if wire == "responses" {
            // Without its thinking an item has no id by which it would be missed.
            let ids = list.iter().filter(|item| item.get("id").is_some()).count();
            assert_eq!(ids, 2, "the thinking of this turn and its call");
        }
    }
}

#[test]
fn words_behind_results_leave_the_thinking_before_the_calls() {
    for wire in WIRES {
        // The run was stopped after its calls, and then the person says something.
        let mut transcript = Transcript::default();
        for message in [turn(wire, 1, true), turn(wire, 2, false)].concat() {
            transcript.push(message).unwrap();
        }
        let off = Settings { earlier_thinking: Some(false), ..Settings::default() };
        let bodies = ["Go on.", "Please."].map(|said| {
            transcript.push(Message::user(said)).unwrap();
            body(wire, &transcript, off.clone(), None)
        });
        for body in bodies {
            assert_eq!(proofs(&body), ["proof21"], "{wire}");
        }
        // Once the model has answered, the turn is over.
        transcript.push(Message::assistant([Block::text("It is 42.")])).unwrap();
        transcript.push(Message::user("And now?")).unwrap();
        assert_eq!(proofs(&body(wire, &transcript, off, None)), [""; 0], "{wire}");
    }
}

#[test]
fn a_server_that_wants_all_thinking_back_gets_it() {
    let mut transcript = Transcript::default();
    for message in [turn("chat", 1, true), turn("chat", 2, false)].concat() {
        transcript.push(message).unwrap();
    }
    let settings = Settings { earlier_thinking: Some(false), ..Settings::default() };
    let thought = chat::ThoughtReplay::Field("reasoning_content".into());
    let options = chat::Options { settings, thought, ..chat::Options::new("m") };
    let body = chat::encode(&Request::new(&transcript).unwrap(), &options).unwrap();
    assert_eq!(proofs(&body), ["proof11", "proof12", "proof21"]);
}

#[test]
fn a_model_that_cannot_think_is_not_asked_to() {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Hello")).unwrap();
    let request = Request::new(&transcript).unwrap();
    let settings = Settings { effort: Some(Effort::High), ..Settings::default() };
    let table = [
        ("gpt-4o", false),
        ("gpt-4.1-mini-2025-04-14", false),
        ("openai/gpt-4o", false),
        ("gpt-5.6", true),
        ("nobody-knows", true),
    ];
    for (model, asks) in table {
        let options =
            responses::Options { settings: settings.clone(), ..responses::Options::new(model) };
        let body: Value =
            serde_json::from_slice(&responses::encode(&request, &options).unwrap()).unwrap();
        assert_eq!(body.get("reasoning").is_some(), asks, "{model}");
        let options = chat::Options { settings: settings.clone(), ..chat::Options::new(model) };
        let body: Value =
            serde_json::from_slice(&chat::encode(&request, &options).unwrap()).unwrap();
        assert_eq!(body.get("reasoning_effort").is_some(), asks, "{model}");
    }
}
