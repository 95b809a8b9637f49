//! Answers as servers send them, written by hand after recorded ones: the fields of each event, their
//! order and their sizes, how many words an event brings and how many events an answer has. Most of
//! them are short, and few servers send what another one sends.
//!
//! None of them calls a tool: whoever runs an agent would answer the call. `turn` has one that does.

mod anthropic;
mod chat;
pub mod measure;
mod responses;
pub mod turn;

/// An answer and the name it has in the tables.
pub struct Answer {
    pub name: &'static str,
    pub body: String,
}

/// The answers of one wire.
pub fn answers(wire: &str) -> Vec<Answer> {
    match wire {
        "anthropic" => anthropic::answers(),
        "responses" => responses::answers(),
        _ => chat::answers(),
    }
}

/// What the answers say, again and again, one token each, as JSON has it.
const TOKENS: [&str; 24] = [
    "A",
    " lighthouse",
    " keeper",
    " counts",
    " the",
    " ships",
    " that",
    " pass",
    ":",
    " four",
    " today",
    r",\n",
    " and",
    " one",
    " of",
    " them",
    r#" \"lost\""#,
    ".",
    " She",
    " writes",
    " it",
    " down",
    " —",
    " twice",
];

/// So many tokens, beginning with this one.
fn tokens(from: usize, count: usize) -> String {
    (from..from + count)
        .map(|at| TOKENS.get(at % TOKENS.len()).copied().unwrap_or_default())
        .collect()
}

/// Letters without a meaning, as many as hide how long a delta is, or as keys and signatures have.
fn letters(from: usize, count: usize) -> String {
    const LETTERS: &[u8] = b"Qm7xKd2RvT9bYs4WnHc8JpLf3ZgAu6Ee1NiXo5Ct";
    let letter = |at: usize| LETTERS.get((at * 7 + at / 40) % LETTERS.len()).copied();
    (from..from + count).filter_map(letter).map(char::from).collect()
}
