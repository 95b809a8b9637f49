//! A server that requires alternating messages of user and model gets them, whatever a stop has left in the
//! conversation. Only what is sent is changed, and each request begins with the one before.

use std::sync::{Arc, Mutex};

use harness::{
    Block, CallOutcome, ChatCompletionsProvider, Media, Message, Role, ToolCall, ToolContent,
    ToolResult, Transcript,
    policy::{FallbackProvider, RetryPolicy, RetryProvider, ThrottledProvider},
    provider::{EncodedPrefix, Request, accumulate},
    testing::{Answer, LoopbackServer},
    wire::chat,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::decoded::unnamed;

fn asked(id: &str) -> Message {
    Message::assistant([Block::ToolCall(ToolCall::new(id, "look", "{}"))])
}

fn result(id: &str, content: ToolContent) -> Message {
    let result = ToolResult::new(id, CallOutcome::Succeeded, [content]);
    Message::new(Role::Tool, [Block::ToolResult(result)])
}

fn picture() -> ToolContent {
    ToolContent::Image(Media::from_bytes("image/png", b"\x89PNG\r\n\x1a\n"))
}

/// The first message that a strict server does not take, in its own words.
fn fault(messages: &[Value]) -> Option<String> {
    let mut before = "system";
    for message in messages {
        let role = message["role"].as_str().unwrap();
        let follows = match before {
            "system" => role == "user" || role == "system",
            "user" => role == "assistant",
            "assistant" => role == "user" || role == "tool",
            _ => role == "tool" || role == "assistant",
        };
        if !follows {
            return Some(format!("Unexpected role '{role}' after role '{before}'"));
        }
        before = role;
    }
    (before == "assistant").then(|| "Expected last role User or Tool".to_owned())
}

fn said(text: &str) -> Answer {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
    Answer::sse(unnamed(&[json!({"id": "c", "choices": [choice]})]) + "data: [DONE]\n\n")
}

/// How a server tells it, with its status.
type Told = (u16, fn(&str) -> Value);

const TOLD: [Told; 6] = [
    (400, |fault| {
        json!({"object": "error", "message": fault, "type": "invalid_request_message_order",
            "code": "3230"})
    }),
    (400, |_| {
        json!({"object": "error", "message": "After the optional system message, conversation roles \
            must alternate user and assistant roles except for tool calls and results.",
            "type": "BadRequestError", "code": 400})
    }),
    (500, |_| {
        json!({"error": {"code": 500, "message": "Conversation roles must alternate \
            user/assistant/user/assistant/...", "type": "server_error"}})
    }),
    (400, |_| {
        json!({"error": {"message": "After the (optional) system message(s), user or tool message(s) \
            should alternate with assistant message(s).", "type": "invalid_message", "code": 400}})
    }),
    (400, |_| {
        json!({"error": {"message": "After the (optional) system message(s), user and assistant roles \
            should be alternating.", "type": "invalid_message", "code": 400}})
    }),
    (400, |_| {
        json!({"error": {"message": "this model does not support successive user or assistant messages \
            (messages[1] and messages[2] in your input).", "code": "invalid_request_error"}})
    }),
];

/// A server that is strict, with the list of what it has refused.
async fn strict((status, told): Told) -> (LoopbackServer, Arc<Mutex<Vec<String>>>) {
    let refused = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&refused);
    let server = LoopbackServer::answering(move |request| {
        let body = request.json();
        match fault(body["messages"].as_array().unwrap()) {
            None => said("Cold."),
            Some(fault) => {
                seen.lock().unwrap().push(fault.clone());
                Answer::json(status, &told(&fault))
            }
        }
    });
    (server.await.unwrap(), refused)
}

fn stopped() -> Transcript {
    let mut transcript = Transcript::default();
    for message in [Message::user("Oslo?"), asked("a"), result("a", picture())] {
        transcript.push(message).unwrap();
    }
    transcript.push(Message::user("Stop. And Rome?")).unwrap();
    transcript.push(Message::user("Well?")).unwrap();
    transcript
}

async fn ask(
    provider: &ChatCompletionsProvider,
    transcript: &Transcript,
) -> Result<String, harness::Error> {
    let request = Request::new(transcript)?;
    let answer = accumulate(harness::Provider::stream(provider, request)).await?;
    Ok(answer.message.unwrap().text())
}

#[tokio::test]
async fn a_server_is_found_out_by_its_first_refusal_and_remembered() {
    for told in TOLD {
        let (server, refused) = strict(told).await;
        let local = || ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let provider = local().build().unwrap().with_retry(RetryPolicy::none());
        let transcript = stopped();
        let kept = transcript.clone();
        assert_eq!(ask(&provider, &transcript).await.unwrap(), "Cold.");
        assert_eq!(refused.lock().unwrap().len(), 1);
        // It is known now, also to a clone.
        assert_eq!(ask(&provider.clone(), &transcript).await.unwrap(), "Cold.");
        assert_eq!((refused.lock().unwrap().len(), server.requests().len()), (1, 3));
        assert_eq!(transcript, kept);

        // Who says it before is not refused at all, and who says no is refused once.
        let said = local().strict_turns(true).build().unwrap();
        assert_eq!(ask(&said, &transcript).await.unwrap(), "Cold.");
        assert_eq!(refused.lock().unwrap().len(), 1);
        let never = local().strict_turns(false).build().unwrap();
        let never = never.with_retry(RetryPolicy::none());
        let err = ask(&never, &transcript).await.unwrap_err();
        assert_eq!((err.status(), refused.lock().unwrap().len()), (Some(told.0), 2));
    }
}

#[tokio::test]
async fn another_refusal_teaches_nothing() {
    let refusal = json!({"error": {"message": "Conversation roles must alternate", "code": 400}});
    let other = json!({"error": {"message": "an alternate currency", "code": 400}});
    let mut fine = Transcript::default();
    fine.push(Message::user("Oslo?")).unwrap();
    // What would be sent again as it was is not sent again.
    for (refusal, transcript) in [(refusal, fine), (other, stopped())] {
        let server = LoopbackServer::answering(move |_| Answer::json(400, &refusal)).await.unwrap();
        let provider =
            ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
        assert_eq!(ask(&provider, &transcript).await.unwrap_err().status(), Some(400));
        assert_eq!(server.requests().len(), 1);
    }
    // Nor is a server that refuses the turns as well asked a third time.
    let refusal = json!({"error": {"message": "Conversation roles must alternate", "code": 400}});
    let server = LoopbackServer::answering(move |_| Answer::json(400, &refusal)).await.unwrap();
    let provider =
        ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
    let err = ask(&provider, &stopped()).await.unwrap_err();
    assert_eq!((err.later().len(), server.requests().len()), (1, 2));
    // The turns were not what it wanted, so they are not sent from then on.
    ask(&provider, &stopped()).await.unwrap_err();
    let sent: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
    let sizes: Vec<usize> =
        sent.iter().map(|it| it["messages"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [sizes[0], sizes[1], sizes[0], sizes[1]]);
}

#[tokio::test]
async fn words_that_are_about_something_else_teach_nothing() {
    let words = [
        "the model is overloaded: choose an alternate model in your message",
        "this role may not use the model, try an alternate one",
        "invalid message content: 'let us alternate, you and I'",
        "messages[1].content: unexpected role of the dice",
        "an alternate message is not allowed for tools",
        "the assistant is not available to this user; choose an alternative",
        "no such role as `user` of an assistant: there are alternatives",
    ];
    for words in words {
        let refusal = json!({"error": {"message": words, "code": 400}});
        let server = LoopbackServer::answering(move |_| Answer::json(400, &refusal)).await.unwrap();
        let provider =
            ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
        ask(&provider, &stopped()).await.unwrap_err();
        assert_eq!(server.requests().len(), 1, "{words}");
    }
}

#[tokio::test]
async fn a_refusal_in_the_stream_of_a_success_is_one() {
    // A router says that it has the request before the server behind it has looked at it.
    for begin in ["", ": PROCESSING\n\n"] {
        for told in TOLD {
            let server = LoopbackServer::answering(move |request| {
                let Some(fault) = fault(request.json()["messages"].as_array().unwrap()) else {
                    return said("Cold.");
                };
                let words = told.1(&fault);
                let words = [&words["error"]["message"], &words["message"]];
                let words = words.into_iter().find_map(Value::as_str).unwrap();
                let error = json!({"code": 400, "message": words});
                let chunk = json!({"id": "c", "choices": [], "error": error});
                Answer::sse(format!("{begin}{}", unnamed(&[chunk])))
            })
            .await
            .unwrap();
            let provider = ChatCompletionsProvider::builder()
                .base_url(server.url())
                .model("m")
                .build()
                .unwrap();
            let provider = provider.with_retry(RetryPolicy::none());
            assert_eq!(ask(&provider, &stopped()).await.unwrap(), "Cold.");
            assert_eq!(ask(&provider, &stopped()).await.unwrap(), "Cold.");
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn agents_and_policies_around_one_provider_share_what_it_has_learnt() {
    let (server, refused) = strict(TOLD[1]).await;
    let local =
        ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
    let around = RetryProvider::new(local.clone(), RetryPolicy::none());
    let around = FallbackProvider::new(ThrottledProvider::new(around, 2));
    let transcript = stopped();
    let asking = [&local as &dyn harness::Provider, &around, &local, &around];
    for provider in asking {
        let request = Request::new(&transcript).unwrap();
        let answer = accumulate(provider.stream(request)).await.unwrap();
        assert_eq!(answer.message.unwrap().text(), "Cold.");
    }
    assert_eq!((refused.lock().unwrap().len(), server.requests().len()), (1, 5));

    // A server that always says no is asked twice for each try.
    let refusal = TOLD[1].1("");
    let server = LoopbackServer::answering(move |_| Answer::json(400, &refusal)).await.unwrap();
    let local =
        ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
    let around = FallbackProvider::new(local.clone()).or(local);
    let request = Request::new(&transcript).unwrap();
    accumulate(harness::Provider::stream(&around, request)).await.unwrap_err();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn calls_that_meet_the_refusal_at_the_same_time_all_go_on() {
    let (server, _) = strict(TOLD[0]).await;
    let provider =
        ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
    let transcript = stopped();
    let asking = (0..8).map(|_| ask(&provider, &transcript));
    for answer in futures_util::future::join_all(asking).await {
        assert_eq!(answer.unwrap(), "Cold.");
    }
}

/// A real server whose model's template wants turns, where one runs: `HARNESS_LIVE_TURNS` is its address.
#[tokio::test]
async fn a_real_server_is_learnt() {
    let Some(url) = std::env::var("HARNESS_LIVE_TURNS").ok().filter(|url| !url.is_empty()) else {
        eprintln!("skipped: `HARNESS_LIVE_TURNS` names no server");
        return;
    };
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    transcript.push(asked("a")).unwrap();
    transcript.push(result("a", ToolContent::from("cold"))).unwrap();
    transcript.push(Message::user("Stop. And Rome?")).unwrap();
    let local = || ChatCompletionsProvider::builder().base_url(&url).model("m").max_tokens(20);
    let never = local().strict_turns(false).build().unwrap().with_retry(RetryPolicy::none());
    let err = ask(&never, &transcript).await.unwrap_err();
    assert!(err.message().contains("alternate"), "{err}");
    let learns = local().build().unwrap().with_retry(RetryPolicy::none());
    let answer = accumulate(harness::Provider::stream(&learns, Request::new(&transcript).unwrap()));
    answer.await.unwrap();
}

#[derive(Clone, Debug)]
enum Said {
    Words,
    Nothing,
    Again,
    Looks(bool),
    Answers,
}

fn said_next() -> impl Strategy<Value = Said> {
    prop_oneof![
        Just(Said::Words),
        Just(Said::Nothing),
        Just(Said::Again),
        any::<bool>().prop_map(Said::Looks),
        Just(Said::Answers),
    ]
}

fn messages(said: &[Said]) -> Vec<Message> {
    let mut messages = vec![Message::user("Hello")];
    for (at, said) in said.iter().enumerate() {
        match said {
            Said::Words => messages.push(Message::user(format!("words {at}"))),
            Said::Nothing => messages.push(Message::user(" \n")),
            Said::Again => messages.extend([Message::user("a"), Message::user("b")]),
            Said::Answers => messages.push(Message::assistant([Block::text("Hm.")])),
            Said::Looks(shows) => {
                let id = format!("call_{at}");
                let content = if *shows { picture() } else { ToolContent::from("42") };
                messages.extend([asked(&id), result(&id, content)]);
            }
        }
    }
    messages.push(Message::user("And now?"));
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::times(100)))]

    #[test]
    fn any_conversation_is_in_turns_and_begins_as_it_was_sent_before(
        said in proptest::collection::vec(said_next(), 0..8)
    ) {
        let options = chat::Options { strict_turns: true, ..chat::Options::new("m") };
        let loose = chat::Options::new("m");
        let sent = EncodedPrefix::new();
        let mut transcript = Transcript::default();
        let mut before: Option<Vec<u8>> = None;
        for message in messages(&said) {
            transcript.push(message).unwrap();
            let Ok(request) = Request::new(&transcript) else { continue };
            let request = request.with_system(Some("Be brief."));
            let body = chat::encode(&request, &options).unwrap();
            let json: Value = serde_json::from_slice(&body).unwrap();
            let list = json["messages"].as_array().unwrap();
            let fault = fault(list).filter(|fault| !fault.starts_with("Expected last"));
            prop_assert_eq!(fault, None);
            // What a server that is not strict gets is all in it, in order.
            let loose: Value =
                serde_json::from_slice(&chat::encode(&request, &loose).unwrap()).unwrap();
            let mut strict = list.iter();
            for message in loose["messages"].as_array().unwrap() {
                prop_assert!(strict.any(|other| other == message), "{} is lost", message);
            }
            let of = |body: &[u8]| body[..body.len() - 2].to_vec();
            if let Some(before) = before {
                prop_assert!(of(&body).starts_with(&of(&before)), "the beginning has changed");
            }
            let kept = request.with_sent(Some(&sent));
            prop_assert_eq!(&chat::encode(&kept, &options).unwrap(), &body);
            before = Some(body);
        }
    }
}
