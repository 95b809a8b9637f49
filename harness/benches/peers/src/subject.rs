//! What is measured: each subject gives the answer to one question, again and again.

use std::{future::Future, pin::Pin};

use crate::{floor, ours, peer};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The text of an answer.
pub type Answer = Pin<Box<dyn Future<Output = Result<String, Failure>> + Send>>;

/// Asks once.
pub type Task = Box<dyn Fn() -> Answer + Send + Sync>;

pub const WIRES: [&str; 3] = ["anthropic", "responses", "chat"];

/// On which wires a subject can be measured.
pub fn speaks(subject: &str, wire: &str) -> bool {
    match subject {
        // The address is fixed for Anthropic, and there is nothing for Responses.
        "llm 1.3" => wire == "chat",
        "async-openai 0.43" => wire != "anthropic",
        _ => true,
    }
}

/// Whether a subject looks for the text at all: some steps below the floor do not.
pub fn reads(subject: &str) -> bool {
    !matches!(subject, "tcp read" | "http read" | "split" | "memcpy" | "ready bytes")
}

/// The messages of a conversation that goes before the question; together they are a megabyte, or
/// ten if there are more than a hundred.
#[derive(Clone, Copy, Default)]
pub struct History(pub usize);

impl std::str::FromStr for History {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl History {
    /// What is asked after them.
    pub const QUESTION: &'static str = "Go on.";

    /// How many bytes a message has.
    pub fn size(self) -> usize {
        let whole = if self.0 > 100 { 10_000_000 } else { 1_000_000 };
        whole / self.0.max(1)
    }

    /// What the user says and what the model says, in turn: whether it is the model, and the words.
    pub fn said(self) -> impl Iterator<Item = (bool, String)> {
        const WORDS: &str = "It says that the quick brown fox jumps over the lazy dog. ";
        let words = WORDS.repeat(self.size() / WORDS.len() + 1);
        let words: String = words.chars().take(self.size()).collect();
        (0..self.0).map(move |at| (at % 2 == 1, words.clone()))
    }
}

/// A subject that asks at this address, `http://..` with what the path begins with.
pub fn task(subject: &str, wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    match subject {
        "harness" => ours::task(wire, history, base),
        "genai 0.7" => peer::genai::task(wire, history, base),
        "llm 1.3" => peer::llm(history, base),
        "async-openai 0.43" => peer::openai::task(wire, history, base),
        "rig 0.46" => peer::rig::task(wire, history, base),
        _ => floor::task(subject, wire, history, base),
    }
}
