//! A server with five hundred tools: the model finds them by a search, and the program's own stay where they are.

use harness::{
    Agent, Message, Permissions, SideEffects, Tool,
    mcp::{McpServer, McpService},
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

use super::served_http::Served;

/// A tool of the service, with as many words as they have.
fn one(number: usize) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string", "description": "Which of them, by the id that the list gives"}},
        "required": ["id"],
    });
    let name = format!("open_drawer_{number}");
    let description = format!(
        "Opens the drawer with the number {number} and says what is in it. It has to be closed again before \
         another one of the same cupboard is opened, since else the cupboard may fall over."
    );
    Tool::new(name, description, schema, SideEffects::NONE, move |_, _| {
        Box::pin(async move { Ok(format!("In drawer {number} is a key.").into()) })
    })
}

/// Adds.
#[tool(side_effects = "none")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

#[tokio::test]
async fn the_tools_of_a_server_are_searched_for_and_the_programs_own_are_told() {
    let served = Served::start(McpService::new((0..500).map(one))).await;
    let server = McpServer::url(&served.url).name("cupboard").connect().await.expect("a server");
    let listed = server.tools();
    assert_eq!(listed.len(), 500);
    let model = ScriptedProvider::new([
        reply().call("tool_search", json!({"query": "what is in drawer 417", "limit": 3})),
        reply().call_with_id("open", "cupboard__open_drawer_417", json!({"id": "1"})),
        reply().text("A key."),
    ]);
    let built = Agent::builder(model.clone()).tools(tools![add]).tools(listed);
    // Nobody has said what they do, so the program allows the one.
    let rules = Permissions::default().allow("cupboard__open_drawer_417");
    let mut chat = built.permissions(rules).build().expect("an agent").chat();
    chat.send("What is in drawer 417?").await.expect("an answer");
    let names = |number: usize| -> Vec<String> {
        model.requests()[number].tools().iter().map(|tool| tool.name.clone()).collect()
    };
    assert_eq!(names(0), ["add", "tool_search"]);
    assert_eq!(names(1)[..3], ["add", "tool_search", "cupboard__open_drawer_417"]);
    let mut results = chat.transcript().messages().iter().flat_map(Message::results);
    let opened = results.find(|result| result.call_id() == "open").expect("a result");
    assert!(opened.to_text().contains("In drawer 417 is a key."), "{}", opened.to_text());
    server.close().await;
}
