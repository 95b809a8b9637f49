//! Answers as servers send them. They are written by hand and imitate recorded answers: the fields of each event, their
//! order and their sizes, the number of words in an event, and the number of events in an answer. Most answers are
//! short, and few servers send the same events.
//!
//! No answer contains a call of a tool, because an agent would answer the call. The module `turn` contains an answer
//! with a call.

mod anthropic;
mod chat;
pub mod measure;
mod responses;
pub mod turn;

/// An answer, and its name in the tables.
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

/// The text of all answers, which is repeated as necessary. Each element is one token, with JSON escapes.
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

/// `count` tokens, beginning with token `from`.
fn tokens(from: usize, count: usize) -> String {
    (from..from + count)
        .map(|at| TOKENS.get(at % TOKENS.len()).copied().unwrap_or_default())
        .collect()
}

/// `count` letters without meaning, for padding, keys and signatures.
fn letters(from: usize, count: usize) -> String {
    const LETTERS: &[u8] = b"Qm7xKd2RvT9bYs4WnHc8JpLf3ZgAu6Ee1NiXo5Ct";
    let letter = |at: usize| LETTERS.get((at * 7 + at / 40) % LETTERS.len()).copied();
    (from..from + count).filter_map(letter).map(char::from).collect()
}
