//! This library with all its parts: an agent with tools and guardrails, a chat, and an event
//! handler that receives each delta.

use std::{io::Write as _, sync::Arc};

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, Guardrails, Limits, Message, OpenAIProvider,
    Transcript,
    agent::{AgentBuilder, Event},
    context::Window,
    message::Block,
    tool, tools,
};
use tokio::sync::Mutex;

use crate::{
    peer::weather::SYSTEM,
    subject::{Failure, History, Task},
};

/// Says how warm it is somewhere.
#[tool(side_effects = ["read", "network"])]
fn weather(
    /** Such as `Oslo` */
    city: String,
) -> String {
    format!("It rains in {city}.")
}

/// Sends a letter.
#[tool(side_effects = ["mutate", "network"])]
fn send(
    /** Whom to */
    to: String,
    /** What it says */
    text: String,
) -> String {
    format!("{} bytes are on their way to {to}.", text.len())
}

/// The same tool as an async function, like the tools of most programs, which wait for something.
mod waits {
    use harness::tool;

    /// Says how warm it is somewhere.
    #[tool(side_effects = ["read", "network"])]
    pub async fn weather(
        /** Such as `Oslo` */
        city: String,
    ) -> String {
        format!("It rains in {city}.")
    }
}

fn builder(wire: &str, base: &str) -> Result<AgentBuilder, Failure> {
    Ok(match wire {
        "anthropic" => {
            Agent::builder(AnthropicProvider::builder().api_key("key").base_url(base).build()?)
        }
        "responses" => {
            let base = format!("{base}/v1");
            Agent::builder(OpenAIProvider::builder().api_key("key").base_url(&base).build()?)
        }
        _ => {
            let base = format!("{base}/v1");
            Agent::builder(ChatCompletionsProvider::builder().base_url(&base).model("m").build()?)
        }
    })
}

pub fn agent(wire: &str, base: &str) -> Result<Agent, Failure> {
    guarded(builder(wire, base)?.tools(tools![weather, send]))
}

fn guarded(builder: AgentBuilder) -> Result<Agent, Failure> {
    let guards = Guardrails::default().turns(40).time(std::time::Duration::from_secs(600));
    let limits = Limits::new().output_tokens(1_000_000);
    let builder = builder.system(SYSTEM);
    Ok(builder.guardrails(guards).run_limits(limits).build()?)
}

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    if history.0 > 0 {
        return turn(&wide(wire, base)?, history);
    }
    Ok(watched(agent(wire, base)?))
}

/// A whole turn with a call of a tool. A synchronous tool runs on a separate thread.
pub fn with_tool(wire: &str, base: &str, synchronous: bool) -> Result<Task, Failure> {
    let builder = builder(wire, base)?;
    let builder = match synchronous {
        true => builder.tools(tools![weather, send]),
        false => builder.tools(tools![waits::weather, send]),
    };
    Ok(watched(guarded(builder)?))
}

/// Sends one message and prints each delta of the text at once.
pub fn say(wire: &str, base: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let agent = agent(wire, base)?;
    let print = |event: Event<'_>| {
        if let Event::Text(text) = event {
            let mut output = std::io::stdout().lock();
            let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
        }
    };
    runtime.block_on(async { agent.chat().send(History::QUESTION).on_event(print).await })?;
    Ok(())
}

/// Begins a chat, sends a message, and receives each delta of the text.
fn watched(agent: Agent) -> Task {
    Box::new(move || {
        let agent = agent.clone();
        Box::pin(async move {
            let mut shown = 0;
            let mut chat = agent.chat();
            let reply = chat.send(History::QUESTION).on_event(|event| {
                if let Event::Text(text) = event {
                    shown += text.len();
                }
            });
            let reply = reply.await?;
            if reply.text().len() != shown {
                return Err("the watcher saw something else".into());
            }
            Ok(reply.text().to_owned())
        })
    })
}

fn transcript(history: History) -> Result<Transcript, Failure> {
    let mut transcript = Transcript::default();
    for (model, words) in history.said() {
        transcript.push(match model {
            true => Message::assistant([Block::text(words)]),
            false => Message::user(words),
        })?;
    }
    Ok(transcript)
}

/// The first turn of a chat that begins with a long conversation. No part of this conversation was
/// sent before.
pub fn first(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let agent = wide(wire, base)?;
    let transcript = transcript(history)?;
    Ok(Box::new(move || {
        let mut chat = agent.chat_from(transcript.clone());
        Box::pin(async move { Ok(chat.send(History::QUESTION).await?.text().to_owned()) })
    }))
}

/// An agent whose window holds a long conversation. The other libraries know no window.
fn wide(wire: &str, base: &str) -> Result<Agent, Failure> {
    let builder = builder(wire, base)?.tools(tools![weather, send]);
    guarded(builder.window(Window::new().tokens(100_000_000)))
}

/// A later turn of a long conversation. The answer is one word.
fn turn(agent: &Agent, history: History) -> Result<Task, Failure> {
    let transcript = transcript(history)?;
    let chat = Arc::new(Mutex::new(agent.chat_from(transcript)));
    Ok(Box::new(move || {
        let chat = Arc::clone(&chat);
        Box::pin(
            async move { Ok(chat.lock().await.send(History::QUESTION).await?.text().to_owned()) },
        )
    }))
}
