//! Resuming a stopped run from its last complete fact.

use harness::{
    Agent, AnthropicProvider, Error, ErrorKind, Guardrails, Message, Outcome,
    agent::{Action, Machine},
    journal::Fact,
    testing::{LoopbackServer, ScriptedProvider, anthropic, outline, reply},
    tool, tools,
};
use serde_json::json;

use crate::kept::{entries, recorded};

/// Looks at the weather.
#[tool(side_effects = "read")]
fn weather(
    /** Where */
    city: String,
) -> String {
    format!("cold in {city}")
}

fn agent(model: &ScriptedProvider) -> Agent {
    Agent::builder(model.clone()).tools(tools![weather]).build().unwrap()
}

#[tokio::test]
async fn what_the_tools_have_answered_stands_and_only_the_model_is_asked_again() {
    let model = ScriptedProvider::new([
        reply().call("weather", json!({"city": "Oslo"})),
        reply().overloaded(),
        reply().text("Cold."),
    ]);
    let mut chat = agent(&model).chat();
    let stopped = chat.send("Oslo?").await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Failed);
    assert_eq!(chat.resume().await.unwrap().text(), "Cold.");
    let expected = "user: Oslo?\n\
                    assistant: call weather {\"city\":\"Oslo\"}\n\
                    tool: succeeded: cold in Oslo\n\
                    assistant: Cold.\n";
    assert_eq!(outline(chat.transcript().messages()), expected);
    model.assert_finished();
}

#[tokio::test]
async fn an_answer_that_the_vendor_paused_goes_back_as_it_is() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {"query": "Oslo"}});
    let paused = || anthropic::body().text("I look.").block(search.clone()).stop("pause_turn");
    let found =
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let down = || anthropic::error(400, "invalid_request_error", "down for a moment");
    // As it stands in memory, and as it was written down.
    for saved in [false, true] {
        let answers = [
            paused().answer(),
            down(),
            anthropic::body().block(found.clone()).text("Cold.").answer(),
            anthropic::body().text("You are welcome.").answer(),
        ];
        let server = LoopbackServer::start(answers).await.unwrap();
        let provider = AnthropicProvider::builder().api_key("k").base_url(server.url());
        let provider = provider.model("claude-test").build().unwrap();
        let agent = Agent::builder(provider).tools(tools![weather]).build().unwrap();
        let mut chat = agent.chat();
        let stopped = chat.send("Oslo?").await.unwrap_err();
        assert_eq!(stopped.outcome(), Outcome::Failed);
        if saved {
            let json = serde_json::to_string(stopped.transcript()).unwrap();
            chat = agent.chat_from(serde_json::from_str(&json).unwrap());
        }
        assert_eq!(chat.resume().await.unwrap().text(), "Cold.");
        chat.send("Thanks.").await.unwrap();

        let sent: Vec<_> =
            server.requests().iter().map(|one| one.json()["messages"].clone()).collect();
        let expected = json!([
            {"role": "user", "content": [{"type": "text", "text": "Oslo?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, search]},
        ]);
        assert_eq!((&sent[1], &sent[2]), (&expected, &expected), "saved: {saved}");
        assert_eq!(sent[3].as_array().unwrap()[..2], expected.as_array().unwrap()[..]);
    }
}

#[tokio::test]
async fn what_the_vendor_paused_and_nobody_resumes_is_left_out_of_what_is_sent() {
    let block = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "Oslo"}});
    let found =
        |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let down = || anthropic::error(400, "invalid_request_error", "down for a moment");
    let answers = [
        anthropic::body().text("I look.").block(block("s1")).stop("pause_turn").answer(),
        // The first search is over when the vendor pauses once more.
        anthropic::body().block(found("s1")).block(block("s2")).stop("pause_turn").answer(),
        down(),
        anthropic::body().text("As you like.").answer(),
        anthropic::body().text("Bye.").answer(),
    ];
    let server = LoopbackServer::start(answers).await.unwrap();
    let provider = AnthropicProvider::builder().api_key("k").base_url(server.url());
    let provider = provider.model("claude-test").build().unwrap();
    let mut chat = Agent::builder(provider).build().unwrap().chat();
    // So long that what is sent of it is kept apart from what follows.
    let question = "Oslo? ".repeat(20_000);
    chat.send(question.as_str()).await.unwrap_err();
    chat.send("Never mind.").await.unwrap();
    chat.send("Bye!").await.unwrap();

    let sent: Vec<_> = server.requests().iter().map(|one| one.json()["messages"].clone()).collect();
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let assistant = |content: serde_json::Value| json!({"role": "assistant", "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let first = [user(&question), assistant(json!([text("I look."), block("s1")]))];
    // While it is resumed, all goes back as it came.
    let resumed = [&first[..], &[assistant(json!([found("s1"), block("s2")]))]].concat();
    assert_eq!((&sent[1], &sent[2]), (&json!(first), &json!(resumed)));
    // What has its result stays, and what waits for one does not.
    let said = [&first[..], &[assistant(json!([found("s1")])), user("Never mind.")]].concat();
    assert_eq!(sent[3], json!(said));
    let later = [&said[..], &[assistant(json!([text("As you like.")])), user("Bye!")]].concat();
    assert_eq!(sent[4], json!(later), "it stays so");
}

#[tokio::test]
async fn a_reply_that_broke_off_is_kept_and_the_model_is_told() {
    let model = ScriptedProvider::new([reply().text("It is").cut(), reply().text("cold there.")]);
    let (mut chat, journal) = recorded(&agent(&model));
    let stopped = chat.send("Oslo?").await.unwrap_err();
    assert_eq!(stopped.error().unwrap().kind(), ErrorKind::CutOff);
    chat.resume().await.unwrap();
    let expected = "user: Oslo?\n\
                    assistant: It is\n\n[interrupted]\n\
                    user: Your reply above was cut off before it was complete. Go on from where \
                    it breaks off, without repeating what is there.\n\
                    assistant: cold there.\n";
    assert_eq!(outline(chat.transcript().messages()), expected);

    // The facts, read again, give the same conversation; and each can be written as JSON.
    let mut machine = Machine::new();
    for fact in entries(&journal) {
        let json = serde_json::to_string(&fact).unwrap();
        machine.apply(&serde_json::from_str::<Fact>(&json).unwrap()).unwrap();
    }
    assert_eq!(machine.transcript(), chat.transcript());
    assert_eq!(machine.answered_by(), Some(("scripted", "scripted")));
}

#[tokio::test]
async fn a_conversation_kept_elsewhere_goes_on_too() {
    let model = ScriptedProvider::new([reply().text("It is").cut(), reply().text("cold.")]);
    let agent = agent(&model);
    let stopped = agent.run("Oslo?").await.unwrap_err();
    let kept = serde_json::to_string(stopped.transcript()).unwrap();
    let mut chat = agent.chat_from(serde_json::from_str(&kept).unwrap());
    assert_eq!(chat.resume().await.unwrap().text(), "cold.");
}

#[tokio::test]
async fn a_run_at_its_limit_of_turns_goes_on_with_a_new_one() {
    let model = ScriptedProvider::new([
        reply().call("weather", json!({"city": "Oslo"})),
        reply().text("Cold."),
    ]);
    let agent = Agent::builder(model)
        .tools(tools![weather])
        .guardrails(Guardrails::default().turns(1))
        .build()
        .unwrap();
    let mut chat = agent.chat();
    assert_eq!(
        chat.send("Oslo?").await.unwrap_err().outcome(),
        Outcome::Limit(harness::journal::LimitKind::Turns)
    );
    // What was spent still counts, unless the program sets new limits.
    let again = chat.resume().await.unwrap_err();
    assert_eq!(again.outcome(), Outcome::Limit(harness::journal::LimitKind::Turns));
    assert_eq!(chat.resume().limits(harness::Limits::new()).await.unwrap().turns(), 1);
}

#[tokio::test]
async fn what_is_complete_is_not_resumed_and_stays_as_it_is() {
    let model = ScriptedProvider::new([reply().text("Cold.")]);
    let mut chat = agent(&model).chat();
    let error = |stopped: harness::Stopped| stopped.error().map(Error::to_string).unwrap();
    let nothing = error(chat.resume().await.unwrap_err());
    assert!(nothing.contains("nothing was said yet"), "{nothing}");
    chat.send("Oslo?").await.unwrap();
    let before = chat.transcript().clone();
    let answered = error(chat.resume().await.unwrap_err());
    assert!(answered.contains("the model has answered"), "{answered}");
    assert_eq!(*chat.transcript(), before);

    let mut machine = Machine::new();
    machine.apply(&Fact::UserSaid { message: Message::user("Oslo?"), limits: None }).unwrap();
    let told = Fact::Resumed { message: Some(Message::user("Go on")), limits: None };
    assert!(machine.apply(&told).is_err(), "nobody's words broke off");
    assert_eq!(machine.next(), Action::CallProvider);
}
