//! Thinking that goes back to a vendor: what it refuses does not end a conversation.

use harness::{
    AnthropicProvider, Block, CallOutcome, Message, Outcome, Provider, ReasoningBlock, RetryPolicy,
    Role, TextBlock, ToolCall, ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{Effort, Request, accumulate},
    testing::{Answer, LoopbackServer, anthropic, responses},
};
use serde_json::{Value, json};

use super::{agent, encoded, list};

/// The words with which vendors refuse thinking. Reports: openclaw/openclaw#107221,
/// bastani-inc/atomic#1720, anomalyco/opencode#6418 (through a router), openai/codex#8119, openai/codex#17541,
/// openai/codex#1227, continuedev/continue#11994, vercel/ai.
const REFUSALS: [(&str, &str); 8] = [
    ("anthropic", "messages.1.content.0: Invalid `signature` in `thinking` block"),
    (
        "anthropic",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different \
         conversation. Remove the block.",
    ),
    (
        "anthropic",
        "messages.1.content.9: `thinking` or `redacted_thinking` blocks in the latest assistant message \
         cannot be modified. These blocks must remain as they were in the original response.",
    ),
    ("responses", "The encrypted content gAAA...c90= could not be verified."),
    (
        "responses",
        "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content could not be \
         decrypted or parsed.",
    ),
    (
        "responses",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    (
        "responses",
        "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
    ),
    (
        "responses",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
    ),
];

fn refused(message: &str) -> Answer {
    let error = json!({"type": "invalid_request_error", "message": message});
    Answer::json(400, &json!({"type": "error", "error": error}))
}

/// A conversation whose answer has thinking that another model has made.
fn begun(wire: &str) -> Transcript {
    let data = |json: Value| Some(VendorData::new(wire, json.to_string()).unwrap());
    let (proof, text) = match wire {
        "anthropic" => (data(json!({"signature": "foreign"})), None),
        _ => (
            data(json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "foreign"})),
            data(json!({"id": "msg_old"})),
        ),
    };
    let text = TextBlock::new("Cold.").with_vendor(text);
    let answer = [Block::Reasoning(ReasoningBlock::new("Hm.", proof)), Block::Text(text)];
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    transcript.push(Message::assistant(answer)).unwrap();
    transcript
}

fn answer(wire: &str) -> Answer {
    match wire {
        "anthropic" => anthropic::body().thinking("Hm.", "own").text("Warm.").answer(),
        _ => responses::body().reasoning(&[], "own").text("Warm.").answer(),
    }
}

/// A server that refuses what another model has thought.
async fn strict(wire: &'static str, words: &'static str) -> LoopbackServer {
    LoopbackServer::answering(move |request| match request.text().contains("foreign") {
        true => refused(words),
        false => answer(wire),
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_conversation_goes_on_without_the_thinking_that_its_server_does_not_verify() {
    for (wire, words) in REFUSALS {
        let server = strict(wire, words).await;
        let agent = agent(wire, &server);
        let mut chat = agent.chat_from(begun(wire));
        let kept = chat.transcript().clone();
        assert_eq!(chat.send("Rome?").await.unwrap().text(), "Warm.", "{words}");
        assert_eq!(server.requests().len(), 2, "{words}");
        // It is left out from then on without a refusal, and newer thinking is not.
        assert_eq!(chat.send("Nice?").await.unwrap().text(), "Warm.");
        let last = server.requests().pop().unwrap();
        assert_eq!(server.requests().len(), 3, "{words}");
        assert!(last.text().contains("Cold.") && last.text().contains("own"), "{words}");
        assert_eq!(chat.transcript().messages().range(..2), *kept.messages());
        // An item whose thinking is left out has no id by which it would be missed.
        assert!(!last.text().contains("msg_old"), "{words}");
    }
}

#[tokio::test]
async fn clones_of_a_provider_know_what_was_refused_and_other_conversations_keep_their_thinking() {
    let server = strict("anthropic", REFUSALS[0].1).await;
    let it = AnthropicProvider::builder().api_key("k").base_url(server.url()).model("m");
    let it = it.build().unwrap().with_retry(RetryPolicy::none());
    let mut transcript = begun("anthropic");
    transcript.push(Message::user("Rome?")).unwrap();
    for provider in [it.clone(), it.clone()] {
        accumulate(provider.stream(Request::new(&transcript).unwrap())).await.unwrap();
    }
    assert_eq!(server.requests().len(), 3);
    let mut other = begun("anthropic");
    other.push(Message::user("Rome?")).unwrap();
    accumulate(it.stream(Request::new(&other).unwrap())).await.unwrap();
    assert!(server.requests()[3].text().contains("foreign"), "it is another conversation");
}

/// Within a budget, a turn whose thinking is left out goes on without any.
#[tokio::test]
async fn an_open_turn_goes_on_although_its_thinking_is_refused() {
    let think = |proof: &str| {
        let data = VendorData::new("anthropic", json!({"signature": proof}).to_string()).unwrap();
        Block::Reasoning(ReasoningBlock::new("Hm.", Some(data)))
    };
    for proofs in [vec!["foreign"], vec!["own", "foreign"], vec!["foreign", "own"]] {
        for (effort, model) in [
            (Effort::High, "claude-sonnet-4-5"),
            (Effort::Tokens(2_000), "claude-opus-4-1"),
            (Effort::Tokens(2_000), "my-own"),
        ] {
            let mut transcript = begun("anthropic");
            transcript.push(Message::user("Look.")).unwrap();
            for (at, proof) in proofs.iter().enumerate() {
                let id = at.to_string();
                let call = Block::ToolCall(ToolCall::new(&*id, "look", "{}"));
                transcript.push(Message::assistant([think(proof), call])).unwrap();
                let result =
                    ToolResult::new(&*id, CallOutcome::Succeeded, [ToolContent::from("42")]);
                transcript.push(Message::new(Role::Tool, [Block::ToolResult(result)])).unwrap();
            }
            let server = LoopbackServer::answering(|request| {
                let body = request.json();
                let turn = &list(&body)[3]["content"][0]["type"];
                if request.text().contains("foreign") {
                    return refused(REFUSALS[0].1);
                }
                match (&body["thinking"]["type"] == "enabled", turn == "thinking") {
                    (true, false) => refused("Expected `thinking`, but found `tool_use`"),
                    (false, true) => {
                        refused("When thinking is disabled, .. cannot contain `thinking`")
                    }
                    _ => anthropic::body().text("Warm.").answer(),
                }
            });
            let server = server.await.unwrap();
            let it = AnthropicProvider::builder().api_key("k").base_url(server.url()).model(model);
            let it = it.effort(effort).build().unwrap().with_retry(RetryPolicy::none());
            for _ in 0..2 {
                accumulate(it.stream(Request::new(&transcript).unwrap()))
                    .await
                    .unwrap_or_else(|err| panic!("{model} {proofs:?}: {err}"));
            }
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn a_refusal_of_something_else_leaves_the_thinking_where_it_is() {
    for words in [
        "Encrypted content is not supported with this model.",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`",
        "max_tokens must be greater than thinking.budget_tokens",
        "The request signature is invalid.",
        "Item with id 'fc_1' not found.",
    ] {
        let server = LoopbackServer::answering(move |_| refused(words)).await.unwrap();
        let mut chat = agent("anthropic", &server).chat_from(begun("anthropic"));
        chat.send("Rome?").await.unwrap_err();
        assert_eq!(server.requests().len(), 1, "{words}");
    }
}

#[tokio::test]
async fn thinking_is_sent_again_where_it_did_not_help_to_leave_it_out() {
    let words = REFUSALS[0].1;
    let server = LoopbackServer::answering(move |_| refused(words)).await.unwrap();
    let mut chat = agent("anthropic", &server).chat_from(begun("anthropic"));
    for sent in [2, 4] {
        let stopped = chat.send("Rome?").await.unwrap_err();
        assert_eq!(stopped.error().unwrap().status(), Some(400));
        assert_eq!(server.requests().len(), sent);
    }
    let thinks: Vec<bool> =
        server.requests().iter().map(|request| request.text().contains("foreign")).collect();
    assert_eq!(thinks, [true, false, true, false]);
}

/// The fault of a body by the rules of its vendor: an answer may not end with thinking.
fn ends_with_thinking(wire: &str, body: &Value) -> bool {
    let list = list(body);
    let thinks = |it: &Value| it["type"] == "thinking" || it["type"] == "redacted_thinking";
    match wire {
        "anthropic" => list
            .iter()
            .filter(|message| message["role"] == "assistant")
            .any(|message| message["content"].as_array().unwrap().last().is_some_and(thinks)),
        _ => list.windows(2).any(|two| two[0]["type"] == "reasoning" && two[1]["role"] == "user"),
    }
}

/// tailcallhq/forgecode#3071, NousResearch/hermes-agent#11098, openclaw/openclaw#111846, openai/codex#1227.
#[tokio::test]
async fn an_answer_that_is_only_thinking_does_not_end_the_conversation() {
    for (wire, outcome) in [
        ("anthropic", Outcome::Truncated),
        ("responses", Outcome::Truncated),
        ("responses", Outcome::Answered),
    ] {
        let first = match (wire, outcome) {
            ("anthropic", _) => {
                anthropic::body().thinking("Long.", "own").stop("max_tokens").answer()
            }
            (_, Outcome::Truncated) => responses::body()
                .reasoning(&["Long."], "own")
                .incomplete("max_output_tokens")
                .answer(),
            _ => responses::body().reasoning(&["Long."], "own").answer(),
        };
        let server = LoopbackServer::start([first, answer(wire), answer(wire)]).await.unwrap();
        let agent = agent(wire, &server);
        let mut chat = agent.chat();
        let told = chat
            .send("Oslo?")
            .await
            .map_or_else(|stopped| stopped.outcome(), |_| Outcome::Answered);
        assert_eq!(told, outcome, "{wire}");
        for question in ["Rome?", "Nice?"] {
            assert_eq!(chat.send(question).await.unwrap().text(), "Warm.");
            let body = server.requests().pop().unwrap().json();
            assert!(!ends_with_thinking(wire, &body), "{wire} {body}");
        }
        // Thinking that something follows goes back.
        assert!(server.requests()[2].text().contains("own"));
    }
}

#[test]
fn a_paused_answer_goes_back_as_it_is_also_if_it_ends_with_thinking() {
    let data = VendorData::new("anthropic", r#"{"signature":"own"}"#).unwrap();
    let message = Message::assistant([Block::Reasoning(ReasoningBlock::new("Hm.", Some(data)))]);
    let mut saved = serde_json::to_value(message).unwrap();
    for paused in [true, false] {
        saved["paused"] = json!(paused);
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Oslo?")).unwrap();
        transcript.push(serde_json::from_value(saved.clone()).unwrap()).unwrap();
        let body = encoded("anthropic", &Request::new(&transcript).unwrap());
        assert_eq!(list(&body).len(), if paused { 2 } else { 1 });
    }
}

/// anthropics/claude-code#64213, Yeachan-Heo/gajae-code#107.
#[test]
fn thinking_between_calls_stays_between_them() {
    let think = |proof: &str| {
        let data = VendorData::new("anthropic", json!({"signature": proof}).to_string()).unwrap();
        Block::Reasoning(ReasoningBlock::new("Hm.", Some(data)))
    };
    let call = |id: &str| Block::ToolCall(ToolCall::new(id, "look", "{}"));
    let (thought, used) = ("thinking", "tool_use");
    for (blocks, expected) in [
        (vec![think("1"), call("a"), think("2"), call("b")], vec![thought, used, thought, used]),
        (vec![think("1"), call("a"), call("b"), think("2")], vec![thought, used, used]),
        // The vendor refuses text behind a call, so the text is sent before the calls.
        (
            vec![think("1"), call("a"), Block::text("So."), call("b")],
            vec![thought, "text", used, used],
        ),
    ] {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Oslo?")).unwrap();
        transcript.push(Message::assistant(blocks)).unwrap();
        let results = ["a", "b"].map(|id| {
            let content = [ToolContent::from("42")];
            Block::ToolResult(ToolResult::new(id, CallOutcome::Succeeded, content))
        });
        transcript.push(Message::new(Role::Tool, results)).unwrap();
        let body = encoded("anthropic", &Request::new(&transcript).unwrap());
        let content = list(&body)[1]["content"].as_array().unwrap();
        let kinds: Vec<&str> = content.iter().map(|it| it["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected);
    }
}

/// LibreChat-AI/agents#422, UKGovernmentBEIS/inspect_ai#1990.
#[tokio::test]
async fn what_is_kept_of_an_answer_that_was_cut_off_behind_a_search_of_the_vendor_can_be_sent() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let half = || responses::body().reasoning(&[], "one");
    for (first, thinks) in [
        (half().item(search).reasoning(&[], "two").text("It is").cut(), false),
        (half().reasoning(&[], "two").text("It is").cut(), true),
    ] {
        let server = LoopbackServer::start([first.answer(), answer("responses")]).await.unwrap();
        let agent = agent("responses", &server);
        let mut chat = agent.chat();
        chat.send("Oslo?").await.unwrap_err();
        assert_eq!(chat.send("Go on.").await.unwrap().text(), "Warm.");
        let body = server.requests()[1].json();
        let kinds: Vec<&str> = list(&body).iter().map(|it| it["type"].as_str().unwrap()).collect();
        let answer = &list(&body)[kinds.len() - 2];
        assert_eq!(answer["role"], "assistant", "{body}");
        // Without the search between, its thinking would be refused, and so would the id behind it.
        assert_eq!(kinds.contains(&"reasoning"), thinks, "{body}");
        assert_eq!(answer.get("id").is_some(), thinks, "{body}");
    }
}
