//! More tools than a vendor takes in one request.

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, Provider, SideEffects, Tool,
    testing::{LoopbackServer, ReceivedRequest, anthropic, chat, responses},
    tool::ToolSearch,
};
use serde_json::json;

fn tools(count: usize) -> Vec<Tool> {
    let tool = |number: usize| {
        let schema = json!({"type": "object", "properties": {}});
        Tool::new(format!("t{number}"), "Does it.", schema, SideEffects::NONE, |_, _| {
            Box::pin(async { Ok("done".into()) })
        })
    };
    (0..count).map(tool).collect()
}

/// The number of tools in a request, and whether one of them is the search.
async fn told(
    count: usize,
    provider: impl Fn(&str) -> Box<dyn Provider>,
    search: ToolSearch,
) -> (usize, bool) {
    let answer = |request: &ReceivedRequest| match request.path().rsplit('/').next() {
        Some("messages") => anthropic::body().text("Yes.").answer(),
        Some("responses") => responses::body().text("Yes.").answer(),
        _ => chat::body().text("Yes.").answer(),
    };
    let server = LoopbackServer::answering(answer).await.expect("a server");
    let agent = Agent::builder(provider(&server.url())).tools(tools(count)).tool_search(search);
    agent.spills(false).build().expect("an agent").run("Go.").await.expect("an answer");
    let body = server.requests()[0].json();
    let tools = body["tools"].as_array().expect("tools");
    (tools.len(), tools.iter().any(|it| it.to_string().contains("tool_search")))
}

#[tokio::test]
async fn tools_above_the_number_that_a_vendor_takes_are_searched_for() {
    let openai = |url: &str| -> Box<dyn Provider> {
        let it = OpenAIProvider::builder().api_key("k").base_url(url).model("gpt-5");
        Box::new(it.build().unwrap())
    };
    // The model is one of OpenAI, whoever passes the request on.
    let passed_on = |url: &str| -> Box<dyn Provider> {
        let it = ChatCompletionsProvider::builder().base_url(url).model("openai/gpt-5");
        Box::new(it.build().unwrap())
    };
    let anthropic = |url: &str| -> Box<dyn Provider> {
        let it = AnthropicProvider::builder().api_key("k").base_url(url).model("claude-sonnet-4-5");
        Box::new(it.build().unwrap())
    };
    assert_eq!(told(128, openai, ToolSearch::new()).await, (128, false));
    assert_eq!(told(129, openai, ToolSearch::new()).await, (1, true));
    assert_eq!(told(200, passed_on, ToolSearch::new()).await, (1, true));
    let always = ToolSearch::new().always((0..127).map(|number| format!("t{number}")));
    assert_eq!(told(129, openai, always).await, (128, true));
    assert_eq!(told(200, anthropic, ToolSearch::new()).await, (200, false));
    assert_eq!(told(200, openai, ToolSearch::off()).await, (200, false), "the program wants it so");
}
