//! Writes the limits of a schema as text. The text replaces keywords that the vendor does not support, in the schema's
//! description.

use serde_json::{Map, Value};

/// The maximum length of a quoted part of a schema, in characters.
const LONGEST: usize = 400;

/// Removes the limiting keywords for which `kept` returns `false`, and returns the limits as sentences. Returns an
/// empty text if no keyword was removed.
///
/// # Errors
/// Returns the keyword if its value is too long to be quoted.
pub(super) fn in_words(
    map: &mut Map<String, Value>,
    kept: &mut dyn FnMut(&str, &Value) -> bool,
) -> Result<String, String> {
    let mut said = Vec::new();
    let words: Vec<String> = map.keys().cloned().collect();
    for word in words {
        let Some(value) = map.get(&word) else { continue };
        let Some(sentence) = sentence(&word, value, map) else { continue };
        if kept(&word, value) {
            continue;
        }
        if sentence.len() > LONGEST {
            return Err(word);
        }
        map.shift_remove(&word);
        if !sentence.is_empty() {
            said.push(sentence);
        }
    }
    // All limits together become one sentence. Texts that are complete sentences come after this sentence.
    let (limits, others): (Vec<String>, Vec<String>) =
        said.into_iter().partition(|words| !words.ends_with('.'));
    let mut text = limits.join(", ");
    if let Some(first) = text.get(..1).map(str::to_ascii_uppercase) {
        text.replace_range(..1, &first);
        text.push('.');
    }
    let parts = std::iter::once(text).filter(|text| !text.is_empty()).chain(others);
    Ok(parts.collect::<Vec<_>>().join(" "))
}

/// The text for a keyword. `None` if the keyword is not a limit; empty if the limit needs no text.
fn sentence(word: &str, value: &Value, map: &Map<String, Value>) -> Option<String> {
    // The words before the value, and the name of what is counted.
    let number = match word {
        "minimum" => Some(("at least", "")),
        "maximum" => Some(("at most", "")),
        "exclusiveMinimum" if !value.is_boolean() => Some(("more than", "")),
        "exclusiveMaximum" if !value.is_boolean() => Some(("less than", "")),
        "multipleOf" => Some(("a multiple of", "")),
        "minLength" => Some(("at least", " character")),
        "maxLength" => Some(("at most", " character")),
        "minItems" => Some(("at least", " item")),
        "maxItems" => Some(("at most", " item")),
        "minProperties" => Some(("at least", " member")),
        "maxProperties" => Some(("at most", " member")),
        _ => None,
    };
    if let Some((before, name)) = number {
        let plural = if name.is_empty() || value == 1 { "" } else { "s" };
        return Some(format!("{before} {value}{name}{plural}"));
    }
    Some(match word {
        // Before draft 6, the value was a boolean that changed the meaning of `minimum` or
        // `maximum`.
        "exclusiveMinimum" | "exclusiveMaximum" => {
            let words = if word == "exclusiveMinimum" {
                "not the least itself"
            } else {
                "not the most itself"
            };
            if *value == Value::Bool(true) { words.to_owned() } else { String::new() }
        }
        "pattern" => format!("matches the pattern `{}`", value.as_str().unwrap_or_default()),
        "format" => format!("in the format {}", value.as_str().unwrap_or_default()),
        "uniqueItems" if *value == Value::Bool(true) => "no item twice".to_owned(),
        "uniqueItems" | "minContains" | "maxContains" | "then" | "else" => String::new(),
        "contains" => {
            let least = map.get("minContains").map_or_else(|| "1".to_owned(), Value::to_string);
            let most = map.get("maxContains").map(|most| format!(" and at most {most}"));
            let most = most.unwrap_or_default();
            format!(
                "Contains at least {least}{most} of the items that this schema describes: {value}."
            )
        }
        "not" => format!("Must not be what this schema describes: {value}."),
        "if" => {
            let mut text = format!("If it is what this schema describes: {value}");
            for (word, before) in [("then", ", it must be"), ("else", ", else it must be")] {
                if let Some(branch) = map.get(word) {
                    text.push_str(&format!("{before}: {branch}"));
                }
            }
            text + "."
        }
        "propertyNames" => format!("Each name is what this schema describes: {value}."),
        "dependentRequired" => {
            let pairs = value.as_object().into_iter().flatten();
            let pairs = pairs.map(|(name, needed)| format!("with `{name}` also {needed}"));
            format!("{}.", pairs.collect::<Vec<_>>().join("; "))
        }
        "dependentSchemas" => {
            let pairs = value.as_object().into_iter().flatten();
            let pairs = pairs.map(|(name, schema)| format!("with `{name}` it must be: {schema}"));
            format!("{}.", pairs.collect::<Vec<_>>().join("; "))
        }
        "default" if value.is_null() => String::new(),
        "default" => format!("Default: {value}."),
        "examples" => {
            let all: Vec<String> =
                value.as_array().into_iter().flatten().map(Value::to_string).collect();
            if all.is_empty() { String::new() } else { format!("For example: {}.", all.join(", ")) }
        }
        _ => return None,
    })
}

/// Adds a sentence to the description.
pub(super) fn said_of(map: &mut Map<String, Value>, words: &str) {
    let words = if words.ends_with('.') { words.to_owned() } else { format!("{words}.") };
    let about = match map.get("description").and_then(Value::as_str).map(str::trim_end) {
        Some(about) if about.ends_with(['.', '!', '?', ':']) => format!("{about} {words}"),
        Some(about) if !about.is_empty() => format!("{about}. {words}"),
        _ => words,
    };
    map.insert("description".to_owned(), Value::String(about));
}
