//! Servers that want to know something before they carry a call out, and people who answer days later, to another
//! process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, Outcome, Permissions,
    journal::{Awaited, MemoryJournal},
    mcp::{McpElicitationAnswer, McpServer},
    testing::{ScriptedProvider, reply},
};
use serde_json::{Map, Value, json};

use super::{Scripted, call, call_with, text};

async fn started(scripted: &Scripted, way: &str) -> McpServer {
    let server =
        scripted.server(way).on_elicitation(|_| Box::pin(async { McpElicitationAnswer::Later }));
    server.connect().await.expect("a server")
}

fn agent(server: &McpServer) -> Agent {
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("it__run", json!({"a": 1})),
    });
    let agent = Agent::builder(model).tools(server.tools());
    agent.permissions(Permissions::default().allow("it__run")).build().expect("an agent")
}

/// Runs the conversation in a process of its own, to its end or to the question that it waits for.
async fn goes(
    scripted: &Scripted,
    way: &str,
    journal: &MemoryJournal,
    answer: Option<Value>,
) -> Result<String, (String, Option<Value>)> {
    let server = started(scripted, way).await;
    let agent = agent(&server);
    if let Some(answer) = answer {
        // Whoever answers needs no server.
        let inbox = agent.inbox(journal);
        let open = inbox.waiting("chat").await.expect("read").remove(0);
        inbox.settle("chat", open.answered(answer).by("ada")).await.expect("written");
    }
    let mut chat = agent.open(journal, "chat").await.expect("opened");
    let ended = match chat.can_resume() {
        true => chat.resume().await,
        false => chat.send("Run it.").await,
    };
    let said = match ended {
        Ok(reply) => {
            let results = reply.transcript().messages().iter().flat_map(|it| it.results());
            let outcomes: Vec<CallOutcome> = results.map(|result| result.outcome()).collect();
            assert_eq!(outcomes.len(), 1, "{outcomes:?}");
            Ok(reply.text().to_owned())
        }
        Err(stopped) => {
            assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
            let open = chat.waiting().remove(0);
            let Some(Awaited::Answer { question, form, .. }) = open.wait.map(|wait| wait.awaited)
            else {
                panic!("it waits for no answer");
            };
            Err((question, form))
        }
    };
    drop((chat, agent));
    server.close().await;
    said
}

#[tokio::test]
async fn a_question_waits_over_restarts_and_the_call_is_sent_with_the_answers() {
    let (scripted, journal) = (Scripted::new(), MemoryJournal::new());
    let way = "wants-input";
    let (question, form) = goes(&scripted, way, &journal, None).await.expect_err("a question");
    assert_eq!(question, "Who?");
    assert_eq!(form.expect("a form")["properties"]["name"]["type"], "string");
    assert_eq!(scripted.count("call"), 1);
    // Nobody has answered: nothing is sent.
    goes(&scripted, way, &journal, None).await.expect_err("the same question");
    assert_eq!(scripted.count("call"), 1);
    // What does not fit is asked again, and nothing is sent.
    let odd = Some(json!({"name": 7}));
    let (question, _) = goes(&scripted, way, &journal, odd).await.expect_err("it does not fit");
    assert!(question.starts_with("Who?") && question.contains("does not fit"), "{question}");
    assert_eq!(scripted.count("call"), 1);
    // The server asks once more after the first answer.
    let ada = Some(json!({"name": "Ada"}));
    goes(&scripted, way, &journal, ada).await.expect_err("the second question");
    assert_eq!(scripted.count("call"), 2);
    // A form of one field is answered with its value, too.
    let said = goes(&scripted, way, &journal, Some("Eve".into())).await.expect("an answer");
    assert!(said.contains("accept") && said.contains("Eve"), "{said}");
    assert_eq!(scripted.count("call"), 3);
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn nobody_has_to_answer_and_a_server_asks_eight_times_at_most() {
    let (scripted, journal) = (Scripted::new(), MemoryJournal::new());
    goes(&scripted, "wants-forever", &journal, None).await.expect_err("a question");
    for round in 2..=8 {
        let answered = goes(&scripted, "wants-forever", &journal, Some(Value::Null)).await;
        answered.expect_err("a question");
        assert_eq!(scripted.count("call"), round);
    }
    let said = goes(&scripted, "wants-forever", &journal, Some(Value::Null)).await;
    assert!(said.as_ref().is_ok_and(|said| said.contains("has not run the call")), "{said:?}");
    assert_eq!(scripted.count("call"), 9);
}

#[tokio::test]
async fn a_person_gets_eight_questions_for_a_call_however_many_processes_ask_them() {
    let (scripted, journal) = (Scripted::new(), MemoryJournal::new());
    let mut asked = 0;
    let mut answer = None;
    let said = loop {
        match goes(&scripted, "wants-eight", &journal, answer).await {
            Ok(said) => break said,
            Err(_) => asked += 1,
        }
        assert!(asked <= 8, "it asks on");
        answer = Some("Ada".into());
    };
    assert_eq!(asked, 8);
    assert!(said.contains("has not run the call"), "{said}");
}

#[tokio::test]
async fn a_call_has_its_own_eight_questions_while_others_run() {
    for (way, expected) in [("wants-eight", 8), ("asks-many", 16)] {
        let scripted = Scripted::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let server = scripted.server(way).on_elicitation(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { McpElicitationAnswer::Accept(Map::new()) })
        });
        let server = server.connect().await.expect("a server");
        let run = server.tools().remove(0);
        let other = run.clone();
        let other = tokio::spawn(async move { call_with(&other, json!({"a": 2})).await });
        scripted.until("the other call", |it| it.count("call") == 1).await;
        if way == "asks-many" {
            // What calls that have ended did not ask is not left to others.
            for _ in 0..3 {
                assert_eq!(text(call_with(&run, json!({"a": 3})).await), "done");
            }
        }
        let said = call(&run).await;
        assert_eq!(asked.load(Ordering::SeqCst), expected, "{way}: {said:?}");
        other.abort();
    }
}

#[tokio::test]
async fn a_tool_that_is_described_otherwise_gets_no_answer_of_a_person() {
    let (scripted, journal) = (Scripted::new(), MemoryJournal::new());
    goes(&scripted, "wants-input", &journal, None).await.expect_err("a question");
    // The program allows the tool by its name, so the call goes on, and this server asks nothing.
    let said = goes(&scripted, "echoes-anew", &journal, Some("Ada".into())).await;
    let said = said.expect("an answer");
    assert!(said.contains("arguments") && !said.contains("Ada"), "{said}");
}

#[tokio::test]
async fn a_server_that_waits_for_the_answer_is_told_that_the_question_was_put_aside() {
    let scripted = Scripted::new();
    let server = started(&scripted, "asks").await;
    let said = text(call(&server.tools()[0]).await);
    assert!(said.contains("cancel"), "{said}");
}
