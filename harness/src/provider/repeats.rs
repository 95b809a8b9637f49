//! Whether the arguments of two calls are the same. Servers send a call twice: once in pieces and once
//! more whole, or the same call under two numbers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::message::{Arguments, Fingerprint};

/// What tells arguments from others, whatever their spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Print {
    hash: Fingerprint,
    /// Whether the object stands in a JSON string. No tool takes it like that, but a repeat may be
    /// spelled so.
    is_wrapped: bool,
}

impl Print {
    /// That of these arguments; `None` if they are not JSON, or broke off.
    pub(super) fn of(arguments: &str) -> Option<Self> {
        if let Ok(decoded) = Arguments::decode(arguments) {
            return Some(Self { hash: decoded.fingerprint("object"), is_wrapped: false });
        }
        let value: Value = serde_json::from_str(arguments).ok()?;
        if let Value::String(inner) = &value
            && inner.trim_start().starts_with('{')
            && let Ok(decoded) = Arguments::decode(inner)
        {
            return Some(Self { hash: decoded.fingerprint("object"), is_wrapped: true });
        }
        let value = Arguments::from(Map::from_iter([(String::new(), value)]));
        Some(Self { hash: value.fingerprint("value"), is_wrapped: false })
    }
}

/// A call that may repeat an earlier one, or be repeated.
pub(super) struct Candidate<'a> {
    pub(super) at: usize,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
    pub(super) print: Option<Print>,
    /// Whether it may stand for arguments that follow, and whether it may be those.
    pub(super) stands: bool,
    pub(super) fills: bool,
}

/// A call that broke off is compared with so many others, at most.
const COMPARED: usize = 16;

/// Of each of these calls, which the server names alike, the last one before it that it repeats. A call
/// without a name repeats one of any name.
pub(super) fn repeated<'a>(
    calls: impl Iterator<Item = Candidate<'a>>,
) -> Vec<(usize, Option<usize>)> {
    // Each call stands in both once under its name and once under none.
    let mut named: HashMap<Option<&str>, Vec<(usize, &str)>> = HashMap::new();
    let mut printed: HashMap<(Option<&str>, Print), usize> = HashMap::new();
    // The last one of each name that has no arguments, and the last one that has some.
    let mut empty: HashMap<&str, usize> = HashMap::new();
    let mut full: HashMap<Option<&str>, usize> = HashMap::new();
    let mut found = Vec::new();
    for Candidate { at, name, arguments, print, stands, fills } in calls {
        let key = Some(name).filter(|name| !name.is_empty());
        let others = named.get(&key).map_or(&[][..], Vec::as_slice);
        // No arguments at all, in a call that began once more, are a part of any others.
        let earlier = if arguments.trim().is_empty() {
            others.last().map(|(at, _)| *at)
        } else if let Some(print) = print {
            let spelled = |is_wrapped| printed.get(&(key, Print { is_wrapped, ..print })).copied();
            // One in a string repeats one in a string, and no other one does.
            spelled(false).max(spelled(true).filter(|_| print.is_wrapped))
        } else {
            let others = others.iter().rev().take(COMPARED);
            others.clone().find(|(_, other)| is_part(arguments, other)).map(|(at, _)| *at)
        };
        // An empty object stood for arguments that had not come yet.
        let stood = if earlier.is_none() && fills { empty.remove(name) } else { None };
        // And one that comes after them says nothing.
        let said = if stands { full.get(&key).copied() } else { None };
        let earlier = earlier.max(said).or(stood);
        if stands && earlier.is_none() {
            empty.insert(name, at);
        }
        if fills {
            full.insert(Some(name), at);
            full.insert(None, at);
        }
        found.push((at, earlier));
        for key in [Some(name), None] {
            named.entry(key).or_default().push((at, arguments));
            if let Some(print) = print {
                printed.insert((key, print), at);
            }
        }
    }
    found
}

/// Whether arguments that broke off are a part of others, from their beginning on.
fn is_part(arguments: &str, of: &str) -> bool {
    let mut whole = of.chars().filter(|char| !char.is_whitespace());
    arguments.chars().filter(|char| !char.is_whitespace()).all(|char| whole.next() == Some(char))
}
