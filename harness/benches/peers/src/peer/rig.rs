//! `rig`, on every wire, with its agent.

use std::any::Any;

use futures_util::StreamExt as _;
use rig::{
    Agent, AgentBuilder, AgentRunner,
    agent::MultiTurnStreamItem,
    message::Message,
    providers::{anthropic::wire::AnthropicConfig, openai::OpenAIConfig},
    rig_tool,
    streaming::{Item, StreamEvent},
    tool::ToolExecutionError,
};

use crate::subject::{Failure, History, Task};

#[rig_tool(
    description = "Says how warm it is somewhere.",
    params(city = "Such as `Oslo`"),
    required(city)
)]
fn weather(city: String) -> Result<String, ToolExecutionError> {
    Ok(format!("It rains in {city}."))
}

#[rig_tool(
    description = "Sends a letter.",
    params(to = "Whom to", text = "What it says"),
    required(to, text)
)]
fn send(to: String, text: String) -> Result<String, ToolExecutionError> {
    Ok(format!("{} bytes are on their way to {to}.", text.len()))
}

fn builder(wire: &str, base: &str) -> AgentBuilder {
    let base = format!("{base}/v1");
    match wire {
        "anthropic" => {
            let client = AnthropicConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.completion("claude-sonnet-5"))
        }
        "responses" => {
            let client = OpenAIConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.responses("gpt-5.2"))
        }
        _ => {
            let client = OpenAIConfig::new("key").with_base_url(base).client();
            AgentBuilder::new(client.chat("gpt-5.2"))
        }
    }
}

fn agent(wire: &str, base: &str) -> Agent {
    let builder = builder(wire, base).preamble(super::weather::SYSTEM).default_max_turns(40);
    builder.tool(Weather).tool(Send).build()
}

fn messages(said: impl Iterator<Item = (bool, String)>) -> Vec<Message> {
    said.map(|(model, words)| match model {
        true => Message::assistant(words),
        false => Message::user(words),
    })
    .collect()
}

/// A conversation as a program would store it.
pub fn kept(said: Vec<(bool, String)>) -> Box<dyn Any> {
    Box::new(messages(said.into_iter()))
}

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let agent = agent(wire, base);
    let said = messages(history.said());
    Ok(Box::new(move || {
        let asked = agent.prompt(History::QUESTION).history(said.iter().cloned());
        Box::pin(text(asked))
    }))
}

/// A whole turn, which the agent of `rig` runs.
pub fn turn(wire: &str, base: &str) -> Result<Task, Failure> {
    let agent = agent(wire, base);
    Ok(Box::new(move || Box::pin(text(agent.prompt(History::QUESTION)))))
}

async fn text(asked: AgentRunner) -> Result<String, Failure> {
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
}
