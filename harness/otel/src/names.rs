//! Names and ids that a model or a server has given, as they may be in spans and metrics: of limited
//! length, and of limited variety where a name is counted by.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

/// The longest id or name, in bytes.
const LONGEST: usize = 128;

/// How many models of answers are told apart in one process, beside those that were asked.
const MODELS: usize = 100;

/// What the conventions write for a value that is not among the known ones.
pub(super) const OTHER: &str = "_OTHER";

/// The id, or [`OTHER`] for what is no id: a server could write any words there.
pub(super) fn id(given: &str) -> &str {
    let is_id =
        (1..=LONGEST).contains(&given.len()) && given.bytes().all(|it| it.is_ascii_graphic());
    if is_id { given } else { OTHER }
}

/// The tools that have spans of their own.
#[derive(Default)]
pub(super) struct KnownTools(HashSet<String>);

impl KnownTools {
    pub(super) fn new(tools: &[String]) -> Self {
        Self(tools.iter().cloned().collect())
    }

    /// The name of a tool of the run. A model can make up any number of others. A call that is decided
    /// outside of a run has waited in one, so that a tool had its name.
    pub(super) fn name<'a>(&self, tool: &'a str) -> &'a str {
        if self.0.is_empty() || self.0.contains(tool) { id(tool) } else { "unknown_tool" }
    }
}

/// The model that a server has named for its answer, if `asked` was asked.
pub(super) fn model<'a>(named: &'a str, asked: &str) -> &'a str {
    static KNOWN: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let named = id(named);
    if named == asked {
        return named;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if known.contains(named) {
        return named;
    }
    if known.len() >= MODELS {
        return OTHER;
    }
    known.insert(named.to_owned());
    named
}
