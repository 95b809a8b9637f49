//! The ways in which a typed answer can end without a value, over HTTP on each wire: the error
//! names the way and keeps the text.

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, Outcome, Provider, Stopped,
    journal::MemoryJournal,
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Year {
    year: u16,
}

const WIRES: usize = 3;
const HALF: &str = r#"{"year": 18"#;
const WHOLE: &str = r#"{"year": 1851}"#;

fn providers(server: &LoopbackServer) -> [Box<dyn Provider>; WIRES] {
    let url = server.url();
    [
        Box::new(
            AnthropicProvider::builder()
                .api_key("k")
                .base_url(&url)
                .model("claude-sonnet-4-5")
                .build()
                .unwrap(),
        ),
        Box::new(
            OpenAIProvider::builder().api_key("k").base_url(&url).model("gpt-5").build().unwrap(),
        ),
        Box::new(ChatCompletionsProvider::builder().base_url(&url).model("m").build().unwrap()),
    ]
}

/// The agent that asks the server of this wire, and the server.
async fn asked(wire: usize, answers: Vec<Answer>) -> (Agent, LoopbackServer) {
    let server = LoopbackServer::start(answers).await.unwrap();
    let provider = providers(&server).into_iter().nth(wire).unwrap();
    let agent = Agent::builder(provider).build().unwrap();
    (agent, server)
}

/// Its text, without the word that is put behind one that broke off.
fn said(stopped: &Stopped) -> &str {
    stopped.text().trim_end_matches("[interrupted]").trim_end()
}

fn whole() -> [Answer; WIRES] {
    [
        anthropic::body().text(WHOLE).answer(),
        responses::body().text(WHOLE).answer(),
        chat::body().text(WHOLE).answer(),
    ]
}

#[tokio::test]
async fn an_answer_without_a_value_is_an_error_that_keeps_the_text() {
    let (no, nothing) = ("I may not say that.", "");
    let table: [(&str, Outcome, &str, [Answer; WIRES]); 4] = [
        (
            "refused",
            Outcome::Refused,
            no,
            [
                anthropic::body().text(no).stop("refusal").answer(),
                responses::body().refusal(no).answer(),
                chat::body().refusal(no).answer(),
            ],
        ),
        (
            "truncated",
            Outcome::Truncated,
            HALF,
            [
                anthropic::body().text(HALF).stop("max_tokens").answer(),
                responses::body().text(HALF).incomplete("max_output_tokens").answer(),
                chat::body().text(HALF).stop("length").answer(),
            ],
        ),
        (
            "broken off",
            Outcome::Failed,
            HALF,
            [
                anthropic::body().text(HALF).cut().answer(),
                responses::body().text(HALF).cut().answer(),
                chat::body().text(HALF).cut().answer(),
            ],
        ),
        (
            "empty",
            Outcome::Unfit,
            nothing,
            [anthropic::body().answer(), responses::body().answer(), chat::body().answer()],
        ),
    ];
    for (what, outcome, text, answers) in table {
        for (wire, answer) in answers.into_iter().enumerate() {
            let (agent, server) = asked(wire, vec![answer]).await;
            let stopped = agent.run("Which year?").answer::<Year>().tries(0).await.unwrap_err();
            assert_eq!(
                (stopped.outcome(), said(&stopped)),
                (outcome, text),
                "{what}, {wire}: {stopped}"
            );
            assert_eq!(server.requests().len(), 1, "{what}, {wire}");
        }
    }
}

/// The connection broke in the middle: what came is kept, and a conversation in a journal goes on.
#[tokio::test]
async fn half_an_answer_is_given_anew_when_the_run_goes_on() {
    let halves = [
        anthropic::body().text(HALF).cut().answer(),
        responses::body().text(HALF).cut().answer(),
        chat::body().text(HALF).cut().answer(),
    ];
    for ((wire, half), whole) in halves.into_iter().enumerate().zip(whole()) {
        let (agent, server) = asked(wire, vec![half, whole]).await;
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "years").await.unwrap();
        let stopped = chat.send("Which year?").answer::<Year>().await.unwrap_err();
        assert_eq!(
            (stopped.outcome(), said(&stopped)),
            (Outcome::Failed, HALF),
            "{wire}: {stopped}"
        );
        drop(chat);
        let mut chat = agent.open(&journal, "years").await.unwrap();
        let answered = chat.resume().answer::<Year>().await;
        let answered = answered.unwrap_or_else(|stopped| panic!("{wire}: {stopped}"));
        assert_eq!(answered.into_value(), Year { year: 1851 });
        server.assert_finished();
    }
}

/// The tool that takes the answer may be called also where it was not offered, as after a model was changed.
#[tokio::test]
async fn a_call_of_the_tool_is_the_answer_also_where_another_way_was_asked_for() {
    let call = serde_json::json!({"year": 1851});
    let calls = [
        anthropic::body().text("Here.").call("c", "final_answer", call.clone()).answer(),
        responses::body().text("Here.").call("c", "final_answer", call.clone()).answer(),
        chat::body().text("Here.").call("c", "final_answer", call).answer(),
    ];
    for (wire, answer) in calls.into_iter().enumerate() {
        let (agent, server) = asked(wire, vec![answer]).await;
        let read = agent.run("Which year?").answer::<Year>().tries(0).await;
        let read = read.unwrap_or_else(|stopped| panic!("{wire}: {stopped}"));
        assert_eq!((read.into_value().year, server.requests().len()), (1851, 1));
    }
}
