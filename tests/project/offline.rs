//! The scripted model of the examples: it plans from the task, calls tools over the real protocol,
//! and answers with their real results.

#[path = "../../examples/offline.rs"]
pub(crate) mod model;

use std::sync::{Arc, Mutex};

use harness::{
    Agent, AnthropicProvider, Message, SideEffects, Tool, ToolCall, ToolError,
    testing::{LoopbackServer, outline},
};
use serde_json::json;

/// A tool that answers from its arguments.
fn tool(
    name: &'static str,
    answer: impl Fn(&serde_json::Map<String, serde_json::Value>) -> Result<String, String>
    + Send
    + Sync
    + 'static,
) -> Tool {
    let schema = json!({"type": "object"});
    Tool::new(name, "..", schema, SideEffects::NONE, move |_, arguments| {
        let answer = answer(&arguments);
        Box::pin(async move { answer.map(Into::into).map_err(ToolError::new) })
    })
}

/// An agent with a disk of one file, on which `write_file` writes and `read_file` reads.
fn agent(server: &LoopbackServer) -> Agent {
    let disk = Arc::new(Mutex::new(None::<String>));
    let written = Arc::clone(&disk);
    let tools = [
        tool("write_file", move |arguments| {
            *written.lock().unwrap() = arguments["content"].as_str().map(str::to_owned);
            Ok("done".to_owned())
        }),
        tool("read_file", move |_| {
            let file = disk.lock().unwrap().clone();
            file.map(|text| text.to_uppercase()).ok_or_else(|| "no such file".to_owned())
        }),
        tool("calc", |arguments| Ok(format!("<{}>", arguments["expression"].as_str().unwrap()))),
        tool("list_files", |_| Ok("a.txt\nb.txt\n[2 entries]".to_owned())),
        tool("bash", |arguments| Ok(format!("ran {}", arguments["command"]))),
    ];
    let provider = AnthropicProvider::builder().api_key("none").base_url(server.url()).build();
    Agent::builder(provider.unwrap()).tools(tools).build().unwrap()
}

#[tokio::test]
async fn the_task_of_the_quickstart_is_done_in_three_turns() {
    let server = model::model().await.unwrap();
    let task = "Write 'hello world' to a file, read it back, and work out 17 * 23 - 100.";
    let reply = agent(&server).run(task).await.unwrap();
    let expected = r#"
user: Write 'hello world' to a file, read it back, and work out 17 * 23 - 100.
assistant: First I write the file.
assistant: call write_file {"path":"hello.txt","content":"hello world"}
tool: succeeded: done
assistant: It is written. Now I check it, and do the sum.
assistant: call read_file {"path":"hello.txt"}
assistant: call calc {"expression":"17 * 23 - 100"}
tool: succeeded: HELLO WORLD
tool: succeeded: <17 * 23 - 100>
assistant: I wrote hello.txt.
hello.txt says: HELLO WORLD
17 * 23 - 100 = <17 * 23 - 100>
"#;
    assert_eq!(outline(reply.transcript().messages()), expected.trim_start());
    assert_eq!(reply.turns(), 3);
}

#[tokio::test]
async fn a_conversation_goes_on() {
    let server = model::model().await.unwrap();
    let agent = agent(&server);
    let mut chat = agent.chat();
    for (said, answered) in [
        ("What's 2 + 3?", "2 + 3 = <2 + 3>"),
        ("Please read the file.", "`read_file` went wrong, so I stop here: no such file"),
        ("Don't forget to write \"a b\"", "I wrote hello.txt."),
        ("read it", "hello.txt says: A B"),
        ("What is my favourite number?", "You have not told me."),
        ("My favourite number is 42.", "I will remember it: 42."),
        ("What is it times 17, minus 100?", "42 * 17 - 100 = <42 * 17 - 100>"),
        ("Which was my favourite number?", "Your favourite number is 42."),
        ("Which files are here?", "Here are: a.txt, b.txt, [2 entries]"),
        ("What does b.txt say?", "b.txt says: A B"),
        ("Run `echo 1 + 2`.", "bash: ran \"echo 1 + 2\""),
        ("Count to 12", "1 2 3 4 5 6 7 8 9 10 11 12"),
    ] {
        assert_eq!(chat.send(said).await.unwrap().text(), answered);
    }
    assert!(chat.send("Hello").await.unwrap().text().starts_with("I am a few rules"));
}

#[tokio::test]
async fn a_conversation_that_goes_on_with_another_server_has_calls_of_other_ids() {
    let first = model::model().await.unwrap();
    let before = agent(&first).run("What is 2 + 3?").await.unwrap().transcript().clone();
    let second = model::model().await.unwrap();
    let mut chat = agent(&second).chat_from(before);
    chat.send("What is 4 + 5?").await.unwrap();
    let messages = chat.transcript().messages();
    let ids: Vec<&str> = messages.iter().flat_map(Message::calls).map(ToolCall::id).collect();
    assert_eq!(ids, ["toolu_1_1", "toolu_5_1"]);
}
