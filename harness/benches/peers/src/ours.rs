//! Ours, whole: an agent with tools and guards, a chat, a watcher that sees each delta.

use std::sync::Arc;

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, Guardrails, Limits, Message, OpenAIProvider,
    Transcript, agent::Event, message::Block, tool, tools,
};
use stats_alloc::Region;
use tokio::sync::Mutex;

use crate::{
    ALLOCATOR,
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

fn agent(wire: &str, base: &str) -> Result<Agent, Failure> {
    let builder = match wire {
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
    };
    let guards = Guardrails::default().turns(20).time(std::time::Duration::from_secs(600));
    let limits = Limits::new().output_tokens(1_000_000);
    let builder = builder.system("Be concise.").tools(tools![weather, send]);
    Ok(builder.guardrails(guards).run_limits(limits).build()?)
}

pub fn task(wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    let agent = agent(wire, base)?;
    if history.0 > 0 {
        return turn(&agent, history);
    }
    Ok(Box::new(move || {
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
    }))
}

/// A turn of a long conversation; the answer is one word.
fn turn(agent: &Agent, history: History) -> Result<Task, Failure> {
    let mut transcript = Transcript::default();
    for (model, words) in history.said() {
        transcript.push(match model {
            true => Message::assistant([Block::text(words)]),
            false => Message::user(words),
        })?;
    }
    let chat = Arc::new(Mutex::new(agent.chat_from(transcript)));
    Ok(Box::new(move || {
        let chat = Arc::clone(&chat);
        Box::pin(
            async move { Ok(chat.lock().await.send(History::QUESTION).await?.text().to_owned()) },
        )
    }))
}

/// Prints the bytes that a chat holds which has had an answer and waits, beside the text of the
/// answer: the mean of many, for each wire.
pub fn idle(base: &str) -> Result<(), Failure> {
    const CHATS: usize = 200;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for wire in crate::subject::WIRES {
        let agent = agent(wire, base)?;
        let mut chats: Vec<_> = (0..=CHATS).map(|_| agent.chat()).collect();
        let region = Region::new(ALLOCATOR);
        let held = || {
            let change = region.change();
            change.bytes_allocated.saturating_sub(change.bytes_deallocated)
        };
        let ask = |chat: &mut harness::Chat| -> Result<usize, Failure> {
            Ok(runtime.block_on(async { chat.send(History::QUESTION).await })?.text().len())
        };
        // The first one pays for the connection.
        let (first, rest) = chats.split_first_mut().ok_or("no chat")?;
        ask(first)?;
        let before = held();
        let mut text = 0;
        for chat in rest {
            text += ask(chat)?;
        }
        let each = held().saturating_sub(before + text) / CHATS;
        // The chats themselves were made before.
        println!("{wire} {}", each + size_of::<harness::Chat>());
    }
    Ok(())
}
