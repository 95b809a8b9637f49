//! A typed answer is found wherever a person would find it, and only if there is one.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Tool,
    testing::{ScriptedProvider, reply},
    tool::SideEffects,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Book {
    title: String,
    year: u16,
}

fn moby_dick() -> Book {
    Book { title: "Moby-Dick".to_owned(), year: 1851 }
}

const JSON: &str = r#"{"title": "Moby-Dick", "year": 1851}"#;

#[tokio::test]
async fn a_value_is_found_in_the_words_around_it() {
    let words = [
        JSON.to_owned(),
        format!("Here is the result:\n\n```json\n{JSON}\n```\n\nLet me know if you need more."),
        format!("```JSON\r\n{JSON}\r\n```"),
        format!("~~~\n{JSON}\n~~~"),
        format!("~~~~ json\n{JSON}\n~~~~"),
        format!("```\n{JSON}\n```"),
        format!("```json {JSON} ```"),
        format!("```json\n{JSON}"),
        format!("\u{feff}{JSON}"),
        format!("{JSON}<|im_end|>"),
        format!("{JSON}</s>\n"),
        format!("<|im_start|>assistant\n{JSON}<|im_end|>\n<|endoftext|>"),
        format!("{JSON}<｜end▁of▁sentence｜>"),
        format!("{JSON}\n{JSON}"),
        format!("```json\n{JSON}\n```\nThat is: {{\"year\": 1851, \"title\": \"Moby-Dick\"}}"),
        format!("<think>Maybe {{\"title\": \"Emma\", \"year\": 1815}}?</think>{JSON}"),
        format!("Maybe {{\"title\": \"Emma\", \"year\": 1815}}?</think>\n\n{JSON}"),
        format!("I use {{braces}} and [1] as in {{\"city\": \"Oslo\"}}. So: {JSON}, see [2]."),
        format!("The answer is {JSON}"),
        format!("{{\"title\": \"Emma\",}} or rather {JSON}"),
        format!("Begin with {{\"title\". {JSON}"),
        format!("Step {{1: look at \"{{\" first.\n{JSON}"),
        serde_json::Value::String(JSON.to_owned()).to_string(),
    ];
    for words in words {
        let model = ScriptedProvider::new([reply().text(&words)]);
        let agent = Agent::builder(model).build().unwrap();
        let answer = agent.run("Which book?").answer::<Book>().tries(0).await;
        let answer = answer.unwrap_or_else(|err| panic!("{words}: {err}: {:?}", err.faults()));
        assert_eq!(answer.value(), &moby_dick(), "{words}");
        assert_eq!(answer.reply().answered::<Book>().unwrap(), moby_dick(), "{words}");
    }
}

#[tokio::test]
async fn a_part_of_a_value_that_cannot_be_read_is_no_answer() {
    let words = [
        format!("{{\"first\": {JSON},}}"),
        format!("[{JSON},]"),
        format!("{{\"first\": {JSON}"),
        format!("```json\n{{ \"first\": {JSON}, }}\n```"),
        format!("{{\"first\": 1, // such as {JSON}\n \"second\": 2}}"),
        format!("{{\"all\": [{{\"title\": \"Emma\"}}, .., {JSON}]}}"),
    ];
    for words in words {
        let model = ScriptedProvider::new([reply().text(&words)]);
        let agent = Agent::builder(model).build().unwrap();
        let answer = agent.run("Which book?").answer::<Book>().tries(0).await;
        assert!(answer.is_err(), "{words}");
    }
}

#[tokio::test]
async fn a_scalar_is_found_where_it_stands_alone() {
    for words in
        ["7", "7</s>", "```json\n7\n```", "So:\n~~~\n{\"answer\": 7}\n~~~", "<think>3?</think> 7"]
    {
        let model = ScriptedProvider::new([reply().text(words)]);
        let agent = Agent::builder(model).build().unwrap();
        let answer = agent.run("How many?").answer::<u8>().tries(0).await;
        assert_eq!(answer.unwrap_or_else(|err| panic!("{words}: {err}")).into_value(), 7);
    }
}

#[tokio::test]
async fn two_values_that_both_fit_are_told_and_none_is_taken() {
    let other = r#"{"title": "Emma", "year": 1815}"#;
    let two = [format!("Either {JSON} or {other}."), format!("{JSON}\n```json\n{other}\n```")];
    for words in two {
        let model = ScriptedProvider::new([reply().text(words), reply().text(JSON)]);
        let agent = Agent::builder(model.clone()).build().unwrap();
        let answer = agent.run("Which book?").answer::<Book>().await.unwrap();
        assert_eq!(answer.value(), &moby_dick());
        let told = model.requests()[1].last_text();
        assert!(told.contains(JSON) && told.contains(other), "{told}");
    }
    let long = format!(r#"{{"title": "{}", "year": 1}}"#, "x".repeat(5_000));
    let model = ScriptedProvider::new([reply().text(format!("{JSON} {long}"))]);
    let agent = Agent::builder(model).build().unwrap();
    let stopped = agent.run("Which book?").answer::<Book>().tries(0).await.unwrap_err();
    assert!(stopped.faults()[0].len() < 500, "{:?}", stopped.faults());
}

#[tokio::test]
async fn what_is_only_thought_is_no_answer() {
    for words in [format!("<think>{JSON}</think>I do not know."), format!("<think>Perhaps {JSON}")]
    {
        let model = ScriptedProvider::new([reply().text(&words)]);
        let agent = Agent::builder(model).build().unwrap();
        let stopped = agent.run("Which book?").answer::<Book>().tries(0).await.unwrap_err();
        assert!(stopped.faults()[0].contains("not one JSON value"), "{:?}", stopped.faults());
    }
}

#[tokio::test]
async fn a_text_that_only_begins_values_is_read_in_bounded_time() {
    for unit in ["[", "{\"a\":", "```a\n~~~b\n", "a <think>", "[\"", "{\"a\":[1,"] {
        let words = unit.repeat(20_000);
        let model = ScriptedProvider::new([reply().text(words)]);
        let agent = Agent::builder(model).build().unwrap();
        agent.run("Which book?").answer::<Book>().tries(0).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_tool_that_checks_an_answer_gets_the_value_that_was_accepted() {
    for words in [
        "[1, 2]",
        "{\"answer\": [1, 2]}",
        "Not {\"x\": 1}, but [1, 2].",
        "Not [\"a\"] and not {\"answer\": 1}:\n```\n[1, 2]\n```",
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = Arc::clone(&seen);
        let schema = serde_json::json!({"type": "object", "properties": {"answer": {}}});
        let check =
            Tool::new("check", "Checks.", schema, SideEffects::NONE, move |_, arguments| {
                sees.lock().unwrap().push(serde_json::Value::Object(arguments).to_string());
                Box::pin(async { Ok("It is right.".into()) })
            });
        let model = ScriptedProvider::new([reply().text(words)]);
        let agent = Agent::builder(model).build().unwrap();
        let answer = agent.run("Which?").answer::<Vec<u8>>().tries(0).verify_by(0, [check]).await;
        assert_eq!(answer.unwrap().value(), &[1, 2], "{words}");
        assert_eq!(*seen.lock().unwrap(), [r#"{"answer":[1,2]}"#], "{words}");
    }
}
