//! A provider for each wire, for the server at an address.

use harness::{AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, Provider};

pub use harness::wire::WIRES;

/// A provider whose model thinks, also if a request does not say how much.
pub fn thinking_provider(wire: &str, url: &str) -> Box<dyn Provider> {
    match wire {
        "anthropic" => Box::new(
            AnthropicProvider::builder()
                .api_key("k")
                .base_url(url)
                .model("claude-sonnet-5")
                .build()
                .unwrap(),
        ),
        _ => provider(wire, url),
    }
}

pub fn provider(wire: &str, url: &str) -> Box<dyn Provider> {
    match wire {
        "anthropic" => Box::new(
            AnthropicProvider::builder()
                .api_key("k")
                .base_url(url)
                .model("claude-sonnet-4-5")
                .build()
                .unwrap(),
        ),
        "responses" => Box::new(
            OpenAIProvider::builder().api_key("k").base_url(url).model("gpt-5").build().unwrap(),
        ),
        _ => Box::new(ChatCompletionsProvider::builder().base_url(url).model("m").build().unwrap()),
    }
}
