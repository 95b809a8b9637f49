//! Finds out whether two calls have the same arguments. Some servers send a call twice: once in pieces and once
//! complete, or at two block indexes.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::message::{Arguments, Fingerprint, MAX_VALUES, count_values};

/// A fingerprint of arguments that does not depend on their formatting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArgumentsPrint {
    hash: Fingerprint,
    /// Whether the arguments are a JSON string that contains the object. No tool accepts such arguments, but a server
    /// may send a repeated call in this form.
    is_wrapped: bool,
}

impl ArgumentsPrint {
    /// The fingerprint of these arguments; `None` if they are incomplete or no JSON.
    pub(super) fn of(arguments: &str) -> Option<Self> {
        if let Ok(decoded) = Arguments::decode(arguments) {
            return Some(Self { hash: decoded.fingerprint("object"), is_wrapped: false });
        }
        if count_values(arguments.as_bytes()) > MAX_VALUES {
            return None;
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

/// A call that may repeat an earlier call, or that a later call may repeat.
pub(super) struct RepeatCandidate<'a> {
    pub(super) at: usize,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
    pub(super) print: Option<ArgumentsPrint>,
    /// Whether this call may be a placeholder whose arguments follow in a later call. `fills` is whether this call may
    /// contain the arguments of an earlier placeholder.
    pub(super) stands: bool,
    pub(super) fills: bool,
}

/// A call with incomplete arguments is compared with at most this many earlier calls.
const COMPARED: usize = 16;

/// For each call: the index of the last earlier call that this call repeats. All calls must have the same id from
/// the server. A call without a name can repeat a call of any name.
pub(super) fn repeated<'a>(
    calls: impl Iterator<Item = RepeatCandidate<'a>>,
) -> Vec<(usize, Option<usize>)> {
    // Both maps contain each call twice: under its name, and under `None`, which matches calls
    // without a name.
    let mut named: HashMap<Option<&str>, Vec<(usize, &str)>> = HashMap::new();
    let mut printed: HashMap<(Option<&str>, ArgumentsPrint), usize> = HashMap::new();
    // Calls by name. `empty`: the last call without arguments. `full`: the last call with
    // arguments.
    let mut empty: HashMap<&str, usize> = HashMap::new();
    let mut full: HashMap<Option<&str>, usize> = HashMap::new();
    let mut found = Vec::new();
    for RepeatCandidate { at, name, arguments, print, stands, fills } in calls {
        let key = Some(name).filter(|name| !name.is_empty());
        let others = named.get(&key).map_or(&[][..], Vec::as_slice);
        // A call without arguments can be the beginning of any earlier call that the server sends again.
        let earlier = if arguments.trim().is_empty() {
            others.last().map(|(at, _)| *at)
        } else if let Some(print) = print {
            let spelled =
                |is_wrapped| printed.get(&(key, ArgumentsPrint { is_wrapped, ..print })).copied();
            // Only a call with its object in a JSON string can repeat an earlier call with its object in a string.
            spelled(false).max(spelled(true).filter(|_| print.is_wrapped))
        } else {
            let others = others.iter().rev().take(COMPARED);
            others.clone().find(|(_, other)| is_part(arguments, other)).map(|(at, _)| *at)
        };
        // An earlier call with an empty object was a placeholder for these arguments.
        let stood = if earlier.is_none() && fills { empty.remove(name) } else { None };
        // A call with an empty object after the call with the arguments adds nothing.
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

/// Whether incomplete arguments are the beginning of other arguments. White space is ignored.
fn is_part(arguments: &str, of: &str) -> bool {
    let mut whole = of.chars().filter(|char| !char.is_whitespace());
    arguments.chars().filter(|char| !char.is_whitespace()).all(|char| whole.next() == Some(char))
}
