//! What is wrong with a value, and where inside it.

use std::fmt;

/// What is wrong at one place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A JSON pointer into the value; empty for the value itself.
    pub(crate) at: String,
    pub(crate) reason: String,
}

impl Fault {
    /// What is wrong with the value itself.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { at: String::new(), reason: reason.into() }
    }

    /// The same, seen from the object whose member the value is.
    pub(crate) fn below(self, name: &str) -> Self {
        Self { at: step(name) + &self.at, ..self }
    }

    /// The member of the outermost object in which the fault is, and the place inside of it.
    fn argument(&self) -> Option<(String, &str)> {
        let inside = self.at.strip_prefix('/')?;
        let (name, _) = inside.split_once('/').unwrap_or((inside, ""));
        let place = inside.get(name.len()..).unwrap_or_default();
        Some((name.replace("~1", "/").replace("~0", "~"), place))
    }

    /// Whether the fault is in this member of the outermost object.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.argument().is_some_and(|(argument, _)| argument == name)
    }

    /// One line of a refusal: the argument in backticks, the place inside of it, and the reason.
    pub(crate) fn line(&self) -> String {
        let reason = &self.reason;
        let pause = if reason.starts_with("is ") { "" } else { ":" };
        let argument = self.argument();
        match argument.map(|(name, place)| (in_short(&name), in_short(place))) {
            None => format!("the arguments{pause} {reason}"),
            Some((name, place)) if place.is_empty() => format!("`{name}`{pause} {reason}"),
            Some((name, place)) => format!("`{name}` at `{place}`{pause} {reason}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, reason } = self;
        match at.is_empty() {
            true => f.write_str(reason),
            false => write!(f, "at `{}`: {reason}", in_short(at)),
        }
    }
}

/// So many characters of a place are told. A model that makes up a name of a megabyte does not get it back
/// with each fault below it.
const LONGEST: usize = 400;

fn in_short(place: &str) -> String {
    match place.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", place.get(..end).unwrap_or_default()),
        None => place.to_owned(),
    }
}

/// A name as a step of a JSON pointer.
pub(crate) fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Why a type did not read a value.
#[derive(Debug)]
pub struct Misfit(pub(crate) Fault);

impl From<String> for Misfit {
    fn from(reason: String) -> Self {
        Self(Fault::new(reason))
    }
}
