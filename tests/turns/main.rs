//! How turns go with servers as they are: the words around a typed answer, ends that do not come,
//! counts, lost pieces of calls, thinking that goes back or does not, and files that are too many.

mod answers;
mod budgets;
mod counts;
mod ends;
mod files;
mod fragments;
mod live;
mod thinking;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    AnthropicProvider, OpenAIProvider, Provider, Tool,
    client::ChatCompletionsProvider,
    policy::RetryPolicy,
    testing::{Answer, LoopbackServer},
    tool::SideEffects,
};
use serde_json::{Value, json};

/// A provider of each wire, in the order of [`harness::wire::WIRES`].
fn provider(wire: &str, server: &LoopbackServer) -> Arc<dyn Provider> {
    let (url, none) = (server.url(), RetryPolicy::none());
    match wire {
        "anthropic" => {
            let builder = AnthropicProvider::builder().api_key("k").base_url(url).model("m");
            Arc::new(builder.build().unwrap().with_retry(none))
        }
        "responses" => {
            let builder = OpenAIProvider::builder().api_key("k").base_url(url).model("m");
            Arc::new(builder.build().unwrap().with_retry(none))
        }
        _ => {
            let builder = ChatCompletionsProvider::builder().base_url(url).model("m");
            Arc::new(builder.build().unwrap().with_retry(none))
        }
    }
}

/// The events as a stream, as each vendor sends them.
fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn refuses(status: u16, message: &str) -> Answer {
    Answer::json(
        status,
        &json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
    )
}

/// A tool that counts its calls.
fn counting(name: &str, effects: SideEffects) -> (Tool, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tool = Tool::new(name.to_owned(), "Does it.", schema, effects, move |_, _| {
        seen.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok("Done.".into()) })
    });
    (tool, calls)
}
