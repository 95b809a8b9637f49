//! What is wrong with an argument, and where inside it.

use std::fmt;

use serde_json::Value;

/// What is wrong at one place of an argument.
#[derive(Debug)]
pub(crate) struct Fault {
    /// A JSON pointer into the argument; empty for the argument itself.
    pub(crate) at: String,
    pub(crate) reason: String,
}

impl Fault {
    /// What is wrong with the argument itself.
    pub(crate) fn of_all(reason: impl Into<String>) -> Self {
        Self { at: String::new(), reason: reason.into() }
    }

    /// One line of a refusal.
    pub(crate) fn line(&self, name: &str) -> String {
        let Self { at, reason } = self;
        let place = if at.is_empty() { String::new() } else { format!(" at `{at}`") };
        let pause = if reason.starts_with("is ") { "" } else { ":" };
        format!("`{name}`{place}{pause} {reason}")
    }

    /// The place that is meant: of a field that is missing or unknown serde names the object.
    fn place(&self) -> String {
        let Self { at, reason } = self;
        let field = ["missing field `", "unknown field `"].into_iter();
        let field = field.filter_map(|words| reason.strip_prefix(words)?.split_once('`')).next();
        match field.map(|(name, _)| step(name)) {
            Some(step) if !at.ends_with(&step) => format!("{at}{step}"),
            _ => at.clone(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, reason } = self;
        if at.is_empty() { f.write_str(reason) } else { write!(f, "at `{at}`: {reason}") }
    }
}

/// A name as a step of a JSON pointer.
pub(crate) fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Why an argument was not read: the first fault, and the argument.
#[derive(Debug)]
pub struct Misfit {
    pub(crate) fault: Fault,
    value: Option<Value>,
}

impl Misfit {
    pub(crate) fn new(fault: Fault, value: Value) -> Self {
        Self { fault, value: Some(value) }
    }

    /// The lines of a refusal: the first fault, and all others that `find` knows of the argument.
    /// What it says of the first one, or of a larger part that holds it, is said already.
    pub(crate) fn lines(&self, name: &str, find: impl FnOnce(&Value) -> Vec<Fault>) -> Vec<String> {
        let first = self.fault.place();
        let found = self.value.as_ref().map(find).unwrap_or_default();
        let (same, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|other| holds(&other.at, &first));
        // Of what is inside a tagged enum serde knows the fault and not the place.
        let is_vague = ["invalid type:", "invalid value:"]
            .iter()
            .any(|words| self.fault.reason.starts_with(words))
            && same.is_empty()
            && others.iter().any(|other| holds(&first, &other.at));
        let mut lines: Vec<String> = others.iter().map(|fault| fault.line(name)).collect();
        if !is_vague {
            lines.insert(0, self.fault.line(name));
        }
        lines
    }
}

/// Whether the place is the other one, or holds it.
fn holds(place: &str, other: &str) -> bool {
    other.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Of the argument as a whole, and nothing else.
impl From<String> for Misfit {
    fn from(reason: String) -> Self {
        Self { fault: Fault::of_all(reason), value: None }
    }
}
