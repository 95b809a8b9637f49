//! Texts for faults: what the schema expects, what the value is, and what the model probably meant.

use std::{cmp::Ordering, collections::HashSet};

use serde_json::{Number, Value};

use super::{
    compile::SchemaChecker,
    nearest::nearest,
    node::{NodeId, NumberRules, ObjectRules, SchemaNode},
    number::compare,
};

/// The maximum number of allowed values or names that a text lists.
const LISTED: usize = 40;

/// The maximum number of characters of a value that a text quotes.
const QUOTED: usize = 200;

/// The expectation of a schema that accepts no value.
pub(super) const NOTHING: &str = "nothing, because the schema allows no value here";

/// What a part of the schema expects, in a few words. `None` if the part has no simple description.
pub(super) fn expectation(checker: &SchemaChecker, id: NodeId) -> Option<String> {
    of_node(checker.node(id)).or_else(|| of_node(followed(checker, id)))
}

pub(super) fn of_node(node: &SchemaNode) -> Option<String> {
    if let Some(values) = &node.values {
        let all: Vec<String> = values.list.iter().map(found).collect();
        return Some(match all.as_slice() {
            [] => NOTHING.to_owned(),
            [only] => only.clone(),
            all => one_of(all),
        });
    }
    let word = |kind: &str| match (kind, &node.format) {
        ("null", _) => "null".to_owned(),
        ("string", Some(format)) => format!("a string ({format})"),
        ("integer" | "array" | "object", _) => format!("an {kind}"),
        (kind, _) => format!("a {kind}"),
    };
    let kinds: Vec<String> = node.kinds?.type_names().map(word).collect();
    Some(if kinds.is_empty() { NOTHING.to_owned() } else { kinds.join(" or ") })
}

/// The node itself. If the node is only a reference, the target of the reference.
pub(super) fn followed(checker: &SchemaChecker, mut id: NodeId) -> &SchemaNode {
    loop {
        let node = checker.node(id);
        match node.all.as_slice() {
            [only] if node.kinds.is_none() && node.object.is_none() && node.values.is_none() => {
                id = *only;
            }
            _ => return node,
        }
    }
}

pub(super) fn one_of(all: &[String]) -> String {
    let listed = all.get(..LISTED).unwrap_or(all).join(", ");
    match all.len().saturating_sub(LISTED) {
        0 => format!("one of {listed}"),
        more => format!("one of {listed} and {more} more"),
    }
}

pub(super) fn expected(expectation: Option<String>, value: &Value) -> String {
    let expectation = expectation.unwrap_or_else(|| "another value".to_owned());
    format!("expected {expectation}, found {}", found(value))
}

/// A value as it is quoted in a text.
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => self::text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The text in quotes. A long text is cut.
pub(super) fn text(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}..", Value::from(text.get(..end).unwrap_or_default())),
        None => Value::from(text).to_string(),
    }
}

/// The text about a missing member.
pub(super) fn required(checker: &SchemaChecker, id: Option<NodeId>) -> String {
    let expected = id.and_then(|id| expectation(checker, id));
    let about = id.and_then(|id| {
        let (own, followed) = (checker.node(id), followed(checker, id));
        own.about.as_ref().or(followed.about.as_ref())
    });
    let words = expected.into_iter().chain(about.map(|about| format!("{about:?}")));
    match words.collect::<Vec<_>>().join(", ").as_str() {
        "" => "is required".to_owned(),
        words => format!("is required: {words}"),
    }
}

/// The text about an unknown member of an object.
pub(super) fn unknown(name: &str, rules: &ObjectRules, is_argument: bool) -> String {
    let known: Vec<&str> = rules.properties.iter().map(|it| it.name.as_str()).collect();
    no_such(name, &known, is_argument)
}

fn no_such(name: &str, known: &[&str], is_argument: bool) -> String {
    let [what, whose] =
        if is_argument { ["argument", "this tool"] } else { ["field", "this object"] };
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("there is no such {what}; did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no such {what}; {whose} takes none"),
        None => {
            let listed = known.get(..LISTED).unwrap_or(known).join("`, `");
            let more = match known.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("there is no such {what}; the {what}s are `{listed}`{more}")
        }
    }
}

/// Like [`unknown`], for an object whose members are listed in several parts of the schema.
pub(super) fn unknown_among(checker: &SchemaChecker, node: &SchemaNode, name: &str) -> String {
    let mut known = Vec::new();
    let (mut nodes, mut seen) = (vec![node], HashSet::new());
    while let Some(node) = nodes.pop() {
        for property in node.object.iter().flat_map(|rules| &rules.properties) {
            if known.len() <= LISTED && !known.contains(&property.name.as_str()) {
                known.push(property.name.as_str());
            }
        }
        if known.len() <= LISTED {
            let below = node.choices.iter().flat_map(|choice| &choice.ids).chain(&node.all);
            let below = below.take(LISTED).filter(|id| seen.insert(**id));
            nodes.extend(below.map(|id| checker.node(*id)));
        }
    }
    no_such(name, &known, false)
}

/// The text about a value that a `not` excludes.
pub(super) fn excluded(checker: &SchemaChecker, not: NodeId, value: &Value) -> String {
    match expectation(checker, not) {
        Some(not) => format!("must not be {not}, found {}", found(value)),
        None => format!("is excluded by the schema (`not`): {}", found(value)),
    }
}

pub(super) fn range(rules: &NumberRules, number: &Number) -> String {
    let NumberRules { least, most, above, below, multiple: _ } = rules;
    // Limits of number types are mentioned only if they are exceeded.
    let is_far = |limit: &Number| limit.as_f64().is_some_and(|it| it.abs() >= 2_147_483_647.0);
    let is_kept = |limit: &&Number, wrong| !is_far(limit) || compare(number, limit) == wrong;
    let least = least.as_ref().filter(|limit| is_kept(limit, Ordering::Less));
    let most = most.as_ref().filter(|limit| is_kept(limit, Ordering::Greater));
    let limits = match (least, most, above, below) {
        (Some(least), Some(most), None, None) => format!("between {least} and {most}"),
        _ => [
            ("at least", least),
            ("at most", most),
            ("more than", above.as_ref()),
            ("less than", below.as_ref()),
        ]
        .into_iter()
        .filter_map(|(words, limit)| Some(format!("{words} {}", limit?)))
        .collect::<Vec<_>>()
        .join(" and "),
    };
    format!("must be {limits}, not {number}")
}

/// The text about a wrong number of characters, items or members.
pub(super) fn count(
    [least, most]: [Option<u64>; 2],
    found: u64,
    [one, several]: [&str; 2],
) -> String {
    let name = |count: u64| if count == 1 { one } else { several };
    let limits = match (least.filter(|least| *least > 0), most) {
        (Some(least), Some(most)) if least == most => format!("exactly {least} {}", name(least)),
        (Some(least), Some(most)) => format!("{least} to {most} {several}"),
        (Some(least), None) => format!("at least {least} {}", name(least)),
        (None, Some(most)) => format!("at most {most} {}", name(most)),
        (None, None) => several.to_owned(),
    };
    format!("must have {limits}, not {found}")
}

pub(super) fn contains(
    checker: &SchemaChecker,
    id: NodeId,
    limits: [Option<u64>; 2],
    found: u64,
) -> String {
    let what = expectation(checker, id).unwrap_or_else(|| "what the schema says".to_owned());
    let count = count(limits, found, ["item", "items"]);
    format!("{count}, that is {what}")
}

/// The member that distinguishes the choices, and its possible values as JSON.
pub(super) fn tag<'a>(
    checker: &'a SchemaChecker,
    choices: &[NodeId],
) -> Option<(&'a str, Vec<String>)> {
    let constant = |id: NodeId| match checker.node(id).values.as_deref()?.list.as_slice() {
        [only] => Some(found(only)),
        _ => None,
    };
    let rules = |id: NodeId| followed(checker, id).object.as_deref();
    let first = rules(*choices.first()?)?;
    let tag = first.properties.iter().find(|property| constant(property.id).is_some())?;
    let tags = choices.iter().map(|id| constant(rules(*id)?.property(&tag.name)?.id));
    Some((&tag.name, tags.collect::<Option<_>>()?))
}

/// The single choice that the model probably meant, judged by the value's type, tag or member
/// names.
pub(super) fn meant(checker: &SchemaChecker, choices: &[NodeId], value: &Value) -> Option<NodeId> {
    let only = |wanted: &dyn Fn(&SchemaNode) -> bool| {
        let mut found = choices.iter().copied().filter(|id| {
            let node = followed(checker, *id);
            // A choice without a type may still be recognized by its allowed values.
            node.kinds.is_none_or(|kinds| kinds.is_type_of(value))
                && node.values.as_deref().is_none_or(|values| values.list.contains(value))
                && wanted(node)
        });
        found.next().filter(|_| found.next().is_none())
    };
    let is_tagged = |node: &SchemaNode| {
        node.object.iter().flat_map(|rules| &rules.properties).all(|property| {
            match checker.node(property.id).values.as_deref().map(|values| values.list.as_slice()) {
                Some([tag]) => value.get(&property.name) == Some(tag),
                _ => true,
            }
        })
    };
    let is_named = |node: &SchemaNode| {
        let required = node.object.iter().flat_map(|rules| {
            let listed = rules.properties.iter().filter(|it| it.required).map(|it| &it.name);
            listed.chain(&rules.required)
        });
        required.into_iter().all(|name| value.get(name).is_some()) && is_tagged(node)
    };
    only(&is_tagged).or_else(|| only(&is_named))
}
