//! A tool that lists the tools of its agent.

use harness::{
    Agent, ToolContext,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

/// Lists the tools.
#[tool(side_effects = "none")]
fn list_tools(context: &ToolContext) -> String {
    let lines =
        context.tools().map(|it| format!("{} ({}): {}", it.name, it.side_effects, it.description));
    lines.collect::<Vec<_>>().join("; ")
}

/// Removes a file.
#[tool(side_effects = "write")]
fn remove(
    /** Which */
    path: &str,
) -> String {
    path.to_owned()
}

fn agent() -> Agent {
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("list_tools", json!({})),
    });
    Agent::builder(model).tools(tools![list_tools, remove]).build().expect("an agent")
}

#[tokio::test]
async fn a_tool_sees_names_descriptions_and_side_effects_of_the_tools_of_its_run() {
    let told = agent().run("What can you do?").await.expect("an answer");
    assert_eq!(told.text(), "list_tools (none): Lists the tools.; remove (write): Removes a file.");
    let told = agent().run("What can you do?").only_tools(["list_tools"]).await.expect("an answer");
    assert_eq!(told.text(), "list_tools (none): Lists the tools.");
    assert_eq!(ToolContext::new("c1").tools().count(), 0);
}
