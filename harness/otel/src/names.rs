//! Prepares names and ids from a model or a server for use in spans and metrics. The length of each name is limited. If
//! metrics are grouped by a name, the number of different names is limited too.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

/// The longest id or name, in bytes.
const LONGEST: usize = 128;

/// The maximum number of model names from servers that one process reports. Names from the program's requests do not
/// count.
const MODELS: usize = 100;

/// The value that OpenTelemetry's conventions prescribe for unknown values.
pub(super) const OTHER: &str = "_OTHER";

/// Returns the id, or [`OTHER`] if the text does not have the form of an id: a server could send any text in place of
/// an id.
pub(super) fn id(given: &str) -> &str {
    let is_id =
        (1..=LONGEST).contains(&given.len()) && given.bytes().all(|it| it.is_ascii_graphic());
    if is_id { given } else { OTHER }
}

/// The names of the tools that the model has in this run.
#[derive(Default)]
pub(super) struct KnownTools(HashSet<String>);

impl KnownTools {
    pub(super) fn new(tools: &[String]) -> Self {
        Self(tools.iter().cloned().collect())
    }

    /// Returns the name if it belongs to a tool of the run, and `unknown_tool` otherwise, because a model can invent
    /// any number of names. Outside of a run, the tools are not known, and every valid name is returned. A call that
    /// ends outside of a run began in an earlier run, so its tool existed.
    pub(super) fn name<'a>(&self, tool: &'a str) -> &'a str {
        if self.0.is_empty() || self.0.contains(tool) { id(tool) } else { "unknown_tool" }
    }
}

/// The name of the model that answered, as the server reports it. [`OTHER`] if the name is not valid, or if there are
/// already too many different names. `asked` is the model that the request named.
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
