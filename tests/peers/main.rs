//! What users of other frameworks and clients have reported as broken, tried on this library. Each test names the public
//! report of its case.

mod history;
mod odd_streams;
mod runs;
mod servers;
mod streams;
mod thinking;

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, Provider, RetryPolicy,
    provider::Request,
    testing::LoopbackServer,
    wire::{anthropic, chat, responses},
};
use serde_json::Value;

/// The providers of the three wires, asking this server once.
fn provider(wire: &str, server: &LoopbackServer) -> Box<dyn Provider> {
    let (url, never) = (server.url(), RetryPolicy::none());
    match wire {
        "anthropic" => {
            let it = AnthropicProvider::builder().api_key("k").base_url(url).model("m");
            Box::new(it.build().unwrap().with_retry(never))
        }
        "responses" => {
            let it = OpenAIProvider::builder().api_key("k").base_url(url).model("m");
            Box::new(it.build().unwrap().with_retry(never))
        }
        _ => {
            let it = ChatCompletionsProvider::builder().base_url(url).model("m");
            Box::new(it.build().unwrap().with_retry(never))
        }
    }
}

fn agent(wire: &str, server: &LoopbackServer) -> Agent {
    Agent::builder(provider(wire, server)).build().unwrap()
}

/// The messages or items of a body.
fn list(body: &Value) -> &[Value] {
    let list = body.get("input").or_else(|| body.get("messages"));
    list.and_then(Value::as_array).expect("a list")
}

/// The body of a request on this wire.
fn encoded(wire: &str, request: &Request<'_>) -> Value {
    let bytes = match wire {
        "anthropic" => anthropic::encode(request, &anthropic::Options::new("m")),
        "responses" => responses::encode(request, &responses::Options::new("m")),
        _ => chat::encode(request, &chat::Options::new("m")),
    };
    serde_json::from_slice(&bytes.unwrap()).unwrap()
}
