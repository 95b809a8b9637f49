//! Finds values that a schema accepts but the Rust type cannot read: maps whose keys cannot be
//! strings, and variants of a tagged enum whose content is not an object. The schema does not show
//! such cases, so sample values are deserialized.

use serde_json::{Map, Value, json};

use super::{fault::ReadFault, strict::is};

/// The sample keys. Every key type that can be read from a string accepts one of these keys, or fails with an error
/// other than "invalid type: string".
const KEYS: [&str; 2] = ["true", "1"];

/// Searches the object schema `root`, or only its member `member`, for values that its type cannot read. Returns the
/// problem with a remedy, or `None`. `check` deserializes a value of the searched part.
///
/// Limits: untagged enums do not report errors about keys. Only the first element of a tuple is tried.
pub fn never_read(
    member: Option<&str>,
    root: &Value,
    check: &dyn Fn(Value) -> Result<(), ReadFault>,
) -> Option<String> {
    let schema = match member {
        Some(member) => root.get("properties")?.get(member)?,
        None => root,
    };
    UnreadSearch { check, root, seen: Vec::new() }.schema(schema, "", &|value| value)
}

struct UnreadSearch<'a> {
    check: &'a dyn Fn(Value) -> Result<(), ReadFault>,
    root: &'a Value,
    /// The definitions that have been tried. Each definition is tried once, because a type may contain itself.
    seen: Vec<&'a str>,
}

impl<'a> UnreadSearch<'a> {
    /// Tries all objects in a schema. `whole` puts a value of this schema into the complete value that is deserialized.
    fn schema(
        &mut self,
        schema: &'a Value,
        place: &str,
        whole: &dyn Fn(Value) -> Value,
    ) -> Option<String> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(name.strip_prefix('#')?)?;
            if self.seen.contains(&name) {
                return None;
            }
            self.seen.push(name);
            return self.schema(target, place, whole);
        }
        let choices = ["anyOf", "oneOf", "allOf"].into_iter();
        for choice in choices.filter_map(|key| schema.get(key)?.as_array()).flatten() {
            if let Some(found) = self.schema(choice, place, whole) {
                return Some(found);
            }
        }
        self.object(schema, place, whole).or_else(|| self.list(schema, place, whole))
    }

    fn object(
        &mut self,
        schema: &'a Value,
        place: &str,
        whole: &dyn Fn(Value) -> Value,
    ) -> Option<String> {
        if !schema.as_object().is_some_and(|map| is(map, "object")) {
            return None;
        }
        let properties =
            || schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        // The tag of an enum must come before the content.
        let tags = properties().filter_map(|(name, schema)| Some((name, schema.get("const")?)));
        let tags: Map<String, Value> =
            tags.map(|(name, tag)| (name.clone(), tag.clone())).collect();
        let with = |name: &str, value: Value| {
            let mut object = tags.clone();
            object.insert(name.to_owned(), value);
            whole(Value::Object(object))
        };
        let faults = KEYS.map(|key| self.fault(key, with(key, Value::Null)));
        if let [Some(expected), Some(_)] = faults {
            let place = if place.is_empty() { String::new() } else { format!(" at `{place}`") };
            return Some(format!(
                "takes a map{place} whose keys are not read from a string ({expected} is expected); JSON \
                 object keys are strings: take a list of entries, or a key with \
                 `#[serde(try_from = \"String\")]`"
            ));
        }
        if let Some(found) = self.tagged(schema, &tags, place, whole) {
            return Some(found);
        }
        let values = schema.get("additionalProperties").into_iter();
        let matching = schema.get("patternProperties").and_then(Value::as_object);
        let values = values.chain(matching.into_iter().flat_map(Map::values));
        // Most key types accept a number, so the values of the map are tried with the key `1`.
        let values = values.map(|schema| ("1", schema));
        for (name, schema) in properties().map(|(name, of)| (name.as_str(), of)).chain(values) {
            let place = format!("{place}/{name}");
            if let Some(found) = self.schema(schema, &place, &|value| with(name, value)) {
                return Some(found);
            }
        }
        None
    }

    /// The problem of an enum variant that consists only of its tag.
    fn tagged(
        &self,
        schema: &Value,
        tags: &Map<String, Value>,
        place: &str,
        whole: &dyn Fn(Value) -> Value,
    ) -> Option<String> {
        let (name, tag) = tags.iter().next()?;
        let needed = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut needed = needed.filter_map(Value::as_str);
        if needed.any(|name| !tags.contains_key(name)) {
            return None;
        }
        let misfit = (self.check)(whole(Value::Object(tags.clone()))).err()?;
        let (_, expected) = misfit.0.reason.split_once("invalid type: map, expected ")?;
        let place = if place.is_empty() { String::new() } else { format!(" at `{place}`") };
        Some(format!(
            "has a choice{place} that is never read: `{name}` is {tag}, and beside that tag {expected} is \
             expected, which is no object; give it a field of its own (`Choice {{ value: .. }}`) or its own \
             member with `#[serde(tag = \"{name}\", content = \"value\")]`"
        ))
    }

    /// The key type that the error expects in place of a string. `None` if the key can be a string.
    fn fault(&self, key: &str, argument: Value) -> Option<String> {
        let misfit = (self.check)(argument).err()?;
        let (_, expected) =
            misfit.0.reason.split_once(&format!("invalid type: string {key:?}, expected "))?;
        Some(expected.to_owned())
    }

    fn list(
        &mut self,
        schema: &'a Value,
        place: &str,
        whole: &dyn Fn(Value) -> Value,
    ) -> Option<String> {
        let first = schema.get("prefixItems").and_then(Value::as_array).and_then(|all| all.first());
        let item = first.or_else(|| schema.get("items"))?;
        self.schema(item, &format!("{place}/0"), &|value| whole(json!([value])))
    }
}
