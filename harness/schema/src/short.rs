//! The short form of a part of a schema, for a vendor that refuses keywords of the full form. The
//! short form contains only the type and a description that quotes the original schema. Calls are
//! still checked against the original schema.

use serde_json::{Map, Value, json};

use super::limits::said_of;

/// The maximum length of a quoted schema, in characters.
const LONGEST: usize = 400;

/// The maximum number of references that are followed to find a type.
const MOST_REFERENCES: usize = 16;

pub(super) fn in_short(source: &Value, schema: &Value) -> Value {
    let mut short = Map::new();
    let about = schema.get("description").filter(|about| about.is_string());
    short.extend(about.map(|about| ("description".to_owned(), about.clone())));
    let mut target = schema;
    for _ in 0..MOST_REFERENCES {
        let name = target.get("$ref").and_then(Value::as_str);
        let next = name.and_then(|name| source.pointer(name.strip_prefix('#')?));
        let Some(next) = next else { break };
        target = next;
    }
    let kinds: Vec<&str> = match target.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let (null, kinds): (Vec<&str>, Vec<&str>) = kinds.into_iter().partition(|it| *it == "null");
    let any = || json!(["string", "number", "boolean"].map(|kind| json!({ "type": kind })));
    match kinds.as_slice() {
        ["array"] => {
            short.insert("type".to_owned(), "array".into());
            short.insert("items".to_owned(), json!({ "anyOf": any() }));
        }
        [one @ ("object" | "string" | "number" | "integer" | "boolean")] => {
            short.insert("type".to_owned(), Value::from(*one));
        }
        _ => {
            short.insert("anyOf".to_owned(), any());
        }
    }
    if !null.is_empty() {
        short.insert("nullable".to_owned(), true.into());
    }
    let mut whole = schema.clone();
    if let Value::Object(whole) = &mut whole {
        whole.shift_remove("description");
    }
    let whole = whole.to_string();
    if whole.len() <= LONGEST && whole.len() > "{}".len() && !whole.contains("\"$ref\"") {
        said_of(&mut short, &format!("What this schema describes: {whole}."));
    }
    Value::Object(short)
}
