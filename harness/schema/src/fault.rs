//! The faults of a value, with their places inside the value.

use std::fmt;

/// A fault at one place in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFault {
    /// The JSON pointer to the place; empty for the value itself.
    pub at: String,
    /// What is wrong, as text for the model.
    pub reason: String,
}

impl ValueFault {
    /// A fault of the value itself.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { at: String::new(), reason: reason.into() }
    }

    /// Moves the fault one level up: the value becomes the member `name` of an object.
    pub fn below(self, name: &str) -> Self {
        Self { at: step(name) + &self.at, ..self }
    }

    /// The member of the outermost object that contains the fault, and the JSON pointer inside that
    /// member.
    fn argument(&self) -> Option<(String, &str)> {
        let inside = self.at.strip_prefix('/')?;
        let (name, _) = inside.split_once('/').unwrap_or((inside, ""));
        let place = inside.get(name.len()..).unwrap_or_default();
        Some((name.replace("~1", "/").replace("~0", "~"), place))
    }

    /// Whether the fault is in the member `name` of the outermost object.
    pub fn is_of(&self, name: &str) -> bool {
        self.argument().is_some_and(|(argument, _)| argument == name)
    }

    /// One line of a refusal: the argument and the place inside it, in backticks, and the reason.
    pub fn line(&self) -> String {
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

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, reason } = self;
        match at.is_empty() {
            true => f.write_str(reason),
            false => write!(f, "at `{}`: {reason}", in_short(at)),
        }
    }
}

/// The maximum length of a quoted place, in characters. A model may invent a name of a megabyte. Without this limit,
/// each fault below that name would quote the whole name.
const LONGEST: usize = 400;

fn in_short(place: &str) -> String {
    match place.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", place.get(..end).unwrap_or_default()),
        None => place.to_owned(),
    }
}

/// A name as a step of a JSON pointer.
pub fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The reason why a type cannot be deserialized from a value.
#[derive(Debug)]
pub struct ReadFault(pub ValueFault);

impl From<String> for ReadFault {
    fn from(reason: String) -> Self {
        Self(ValueFault::new(reason))
    }
}

/// The place of a value, as a linked list from the inside to the root.
pub(super) enum ValuePlace<'a> {
    Root,
    Name(&'a ValuePlace<'a>, &'a str),
    Index(&'a ValuePlace<'a>, usize),
}

impl ValuePlace<'_> {
    pub(super) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Name(parent, name) => parent.pointer() + &step(name),
            Self::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}
