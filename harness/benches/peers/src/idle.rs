//! Measures the memory of a conversation that got an answer and waits for the next message.

use std::any::Any;

use stats_alloc::Region;

use crate::{
    ALLOCATOR, floor, ours, peer, rendered, server,
    subject::{Failure, History, WIRES},
};

/// The number of measured conversations. The mean counts.
const CHATS: usize = 200;

fn held(region: &Region<'_, std::alloc::System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Prints the bytes that a chat of this library uses in addition to the text of the answer, for
/// each wire.
pub fn wait(base: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for wire in WIRES {
        let agent = ours::agent(wire, base)?;
        let mut chats: Vec<_> = (0..=CHATS).map(|_| agent.chat()).collect();
        let region = Region::new(ALLOCATOR);
        let ask = |chat: &mut harness::Chat| -> Result<usize, Failure> {
            Ok(runtime.block_on(async { chat.send(History::QUESTION).await })?.text().len())
        };
        // The first chat is not measured, because it also opens the connection.
        let (first, rest) = chats.split_first_mut().ok_or("no chat")?;
        ask(first)?;
        let before = held(&region);
        let mut text = 0;
        for chat in rest {
            text += ask(chat)?;
        }
        let each = held(&region).saturating_sub(before + text) / CHATS;
        // The chats themselves were allocated before the measurement, so their size is added.
        println!("{wire} {}", each + size_of::<harness::Chat>());
    }
    Ok(())
}

/// Prints the same for a peer that has no chats: the bytes of a list with two messages in the types
/// of the peer. A program that uses the peer has to keep such a list itself.
pub fn keep(subject: &str, wire: &str) -> Result<(), Failure> {
    let answer = floor::text(wire, &rendered::stream(wire, server::DELTAS))?;
    let mut all: Vec<Box<dyn Any>> = Vec::with_capacity(CHATS);
    let region = Region::new(ALLOCATOR);
    for _ in 0..CHATS {
        let said = vec![(false, History::QUESTION.to_owned()), (true, answer.clone())];
        all.push(match subject {
            #[cfg(feature = "genai")]
            "genai 0.7" => peer::genai::kept(said),
            "llm 1.3" => peer::llm::kept(said),
            "async-openai 0.43" => peer::openai::kept(wire, said),
            "rig 0.46" => peer::rig::kept(said),
            other => return Err(format!("nobody knows what {other} keeps").into()),
        });
    }
    println!("{}", (held(&region) / CHATS).saturating_sub(answer.len()));
    Ok(())
}
