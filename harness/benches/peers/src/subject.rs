//! The measured subjects. Each subject sends the same request again and again, and returns the text
//! of the answer.

use std::{future::Future, pin::Pin};

use crate::{floor, ours, peer};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A future of the text of an answer.
pub type Answer = Pin<Box<dyn Future<Output = Result<String, Failure>> + Send>>;

/// Asks once.
pub type Task = Box<dyn Fn() -> Answer + Send + Sync>;

pub use harness::wire::WIRES;

/// Whether a subject can be measured on this wire.
pub fn speaks(subject: &str, wire: &str) -> bool {
    // `llm` has a fixed address for Anthropic, and `async-openai` does not support Anthropic.
    wire != "anthropic" || !(subject.starts_with("llm") || subject.starts_with("async-openai"))
}

/// Whether a subject returns the text of the answer. Some steps below the floor do not.
pub fn reads(subject: &str) -> bool {
    !matches!(subject, "tcp read" | "http read" | "split" | "memcpy" | "ready bytes")
}

/// The number of messages before the request. Together they have one megabyte, or ten megabytes if
/// there are more than a hundred messages.
#[derive(Clone, Copy, Default)]
pub struct History(pub usize);

impl std::str::FromStr for History {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl History {
    /// The message that follows the conversation.
    pub const QUESTION: &'static str = "Go on.";

    /// The number of bytes in a message.
    pub fn size(self) -> usize {
        let whole = if self.0 > 100 { 10_000_000 } else { 1_000_000 };
        whole / self.0.max(1)
    }

    /// The messages of the user and of the model in turn. For each message: whether it is from the
    /// model, and its text.
    pub fn said(self) -> impl Iterator<Item = (bool, String)> {
        const WORDS: &str = "It says that the quick brown fox jumps over the lazy dog. ";
        let words = WORDS.repeat(self.size() / WORDS.len() + 1);
        let words: String = words.chars().take(self.size()).collect();
        (0..self.0).map(move |at| (at % 2 == 1, words.clone()))
    }
}

/// A subject that sends requests to this address: `http://..` with the beginning of the path.
pub fn task(subject: &str, wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    if base.ends_with("/turn") || base.contains("/calls/") {
        return turn(subject, wire, base);
    }
    match subject {
        "harness" => ours::task(wire, history, base),
        "harness, first request" => ours::first(wire, history, base),
        #[cfg(feature = "genai")]
        "genai 0.7" => peer::genai::task(wire, history, base),
        "llm 1.3" => peer::llm::task(wire, history, base),
        "async-openai 0.43" => peer::openai::task(wire, history, base),
        "rig 0.46" => peer::rig::task(wire, history, base),
        _ => floor::task(subject, wire, history, base),
    }
}

/// A subject that runs the tool in the answer and sends a second request with the result.
fn turn(subject: &str, wire: &str, base: &str) -> Result<Task, Failure> {
    match subject {
        "harness" => ours::with_tool(wire, base, false),
        "harness, a synchronous tool" => ours::with_tool(wire, base, true),
        #[cfg(feature = "genai")]
        "genai 0.7, by hand" => peer::genai::turn(wire, base),
        "async-openai 0.43, by hand" => peer::openai::turn(wire, base),
        "llm 1.3, by hand" => peer::llm::turn(wire, base),
        "rig 0.46" => peer::rig::turn(wire, base),
        _ => floor::turn(subject, wire, base),
    }
}
