//! Ours, whole: an agent, a chat, a watcher that sees each delta.

use bytes::Bytes;
use harness::{
    Agent, AnthropicProvider, LocalProvider, Message, OpenAIProvider, Transcript, agent::Event,
    message::Block,
};
use tokio::runtime::Runtime;

use crate::{Failure, Task, floor};

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
            Agent::builder(LocalProvider::builder().base_url(&base).model("m").build()?)
        }
    };
    Ok(builder.build()?)
}

pub fn reader(wire: &str, address: &str) -> Result<Task, Failure> {
    let agent = agent(wire, &format!("http://{address}"))?;
    Ok(Box::new(move |runtime| {
        runtime.block_on(async {
            let mut shown = 0;
            let mut chat = agent.chat();
            let reply = chat.send("Speak.").on_event(|event| {
                if let Event::Text(text) = event {
                    shown += text.len();
                }
            });
            assert_eq!(reply.await?.text().len(), shown);
            Ok(shown)
        })
    }))
}

/// A turn of a long conversation of so many messages; the answer is one word.
pub fn sender(_: &Runtime, kind: &str, messages: usize, address: &str) -> Result<Task, Failure> {
    // Together a megabyte, or ten.
    let size = if messages == 100 { 1_000_000 } else { 10_000_000 } / messages;
    let words = "It says that the quick brown fox jumps over the lazy dog. ";
    let words = words.repeat(size / words.len() + 1);
    let ready = Bytes::from(vec![b'x'; size * messages]);
    let url = format!("http://{address}/short{}", floor::path("anthropic"));
    match kind {
        "memcpy" => Ok(Box::new(move |_| {
            Ok(std::hint::black_box(std::hint::black_box(&ready).to_vec()).len())
        })),
        "ready bytes" => {
            let client = reqwest::Client::builder().build()?;
            Ok(Box::new(move |runtime| {
                runtime.block_on(async {
                    let response = client.post(&url).body(ready.clone()).send().await?;
                    Ok(response.bytes().await?.len())
                })
            }))
        }
        _ => {
            let mut transcript = Transcript::default();
            for at in 0..messages {
                transcript.push(match at % 2 {
                    0 => Message::user(words.as_str()),
                    _ => Message::assistant([Block::text(words.as_str())]),
                })?;
            }
            let agent = agent("anthropic", &format!("http://{address}/short"))?;
            let mut chat = agent.chat_from(transcript);
            Ok(Box::new(move |runtime| {
                Ok(runtime.block_on(async { chat.send("More.").await })?.text().len())
            }))
        }
    }
}

/// The bytes that a chat holds which has had an answer and waits, beside the text of the answer, and
/// of how many chats they are the mean.
pub fn idle(address: &str, held: impl Fn() -> usize) -> Result<(usize, usize), Failure> {
    const CHATS: usize = 200;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let agent = agent("anthropic", &format!("http://{address}"))?;
    let mut chats: Vec<_> = (0..=CHATS).map(|_| agent.chat()).collect();
    let ask = |chat: &mut harness::Chat| -> Result<usize, Failure> {
        Ok(runtime.block_on(async { chat.send("Speak.").await })?.text().len())
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
    let own = size_of::<harness::Chat>();
    Ok((each + own, CHATS))
}
