//! Models behind a server that passes their requests on, and whose vendor is not known.

use harness::{
    Agent, ChatCompletionsProvider, SideEffects, Tool,
    testing::{LoopbackServer, chat},
};
use serde_json::{Value, json};

fn set() -> Tool {
    let schema = json!({"type": "object", "additionalProperties": false,
        "properties": {"at": {"type": ["string", "null"]}}, "required": ["at"]});
    Tool::new("set", "Sets.", schema, SideEffects::NONE, |_, _| {
        Box::pin(async { Ok("set".into()) })
    })
}

/// The last request of a run with one call.
async fn last(model: &str) -> Value {
    let answers = [
        chat::body().call("call_1", "set", json!({"at": "x"})).answer(),
        chat::body().text("Done.").answer(),
    ];
    let server = LoopbackServer::start(answers).await.expect("a server");
    let builder = ChatCompletionsProvider::builder().base_url(server.url()).model(model);
    let agent = Agent::builder(builder.build().unwrap()).tools([set()]).build().unwrap();
    agent.run("Go.").await.expect("an answer");
    server.requests().last().unwrap().json()
}

#[tokio::test]
async fn a_model_gets_its_form_whoever_serves_it() {
    for model in ["gemini-3.8-flash", "google/gemini-3.8-flash", "models/gemini-3.8-flash"] {
        let body = last(model).await;
        let parameters = &body["tools"][0]["function"]["parameters"];
        assert_eq!(parameters.get("additionalProperties"), None, "{model}: {parameters}");
        assert_eq!(parameters["properties"]["at"]["nullable"], true, "{model}: {parameters}");
    }
    let calls = |body: &Value| {
        let mut messages = body["messages"].as_array().unwrap().iter();
        messages.find(|it| it.get("tool_calls").is_some()).unwrap().clone()
    };
    for model in ["deepseek-v4-pro", "deepseek-ai/DeepSeek-V4"] {
        assert_eq!(calls(&last(model).await)["reasoning_content"], "", "{model}");
    }
    for model in ["m", "deepseek-r1-distill-llama-70b", "my-gemini-like"] {
        let body = last(model).await;
        assert_eq!(calls(&body).get("reasoning_content"), None, "{model}");
        assert_eq!(body["tools"][0]["function"]["parameters"]["additionalProperties"], false);
    }
}
