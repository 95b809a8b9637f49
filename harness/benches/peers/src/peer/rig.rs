//! `rig`, on every wire, with its agent.

use futures_util::StreamExt as _;
use rig::{
    AgentBuilder,
    agent::MultiTurnStreamItem,
    message::Message,
    providers::{anthropic::wire::AnthropicConfig, openai::OpenAIConfig},
    streaming::{Item, StreamEvent},
};

use crate::subject::{Failure, History, Task};

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let base = format!("{base}/v1");
    let agent = match wire {
        "anthropic" => {
            let client = AnthropicConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.completion("claude-sonnet-5")).build()
        }
        "responses" => {
            let client = OpenAIConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.responses("gpt-5.2")).build()
        }
        _ => {
            let client = OpenAIConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.chat("gpt-5.2")).build()
        }
    };
    let said: Vec<Message> = history
        .said()
        .map(|(model, words)| match model {
            true => Message::assistant(words),
            false => Message::user(words),
        })
        .collect();
    Ok(Box::new(move || {
        let asked = agent.prompt(History::QUESTION).history(said.iter().cloned());
        Box::pin(async move {
            let mut stream = asked.stream();
            let mut text = String::new();
            while let Some(item) = stream.next().await {
                if let MultiTurnStreamItem::StreamAssistantItem(Item::Event(StreamEvent::Text {
                    text: more,
                    ..
                })) = item?
                {
                    text.push_str(&more);
                }
            }
            Ok(text)
        })
    }))
}
