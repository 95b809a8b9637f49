//! The strict form of a schema: vendors that hold the model to it want every object closed and
//! every property required. Not every schema has one.

use std::fmt;

use serde_json::{Map, Value, json};

use super::derive::ToolSchema;

/// Why a schema has no strict form.
///
/// ```
/// use harness::tool;
///
/// use std::collections::BTreeMap;
///
/// /// Sets headers.
/// #[tool(side_effects = "none")]
/// fn set(/** by name */ headers: BTreeMap<String, String>) {}
///
/// let reason = set::TOOL.schema().strict().unwrap_err();
/// assert_eq!(reason.to_string(), "`/properties/headers` takes any key");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStrict {
    /// JSON pointer to the part that has no strict form.
    pointer: String,
    reason: &'static str,
}

impl fmt::Display for NotStrict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.pointer, self.reason)
    }
}

impl std::error::Error for NotStrict {}

impl ToolSchema {
    /// The schema in the form that vendors ask for in strict mode: each object is closed and all
    /// its properties are required; what may be left out may be `null` instead; no defaults, which
    /// such vendors refuse. A call that follows it fits the tool.
    ///
    /// # Errors
    /// Fails, and says at which place, if there is no such form: for a map with any key, a tuple,
    /// a value of any type, a type that contains itself.
    ///
    /// ```
    /// use harness::tool;
    /// use serde_json::json;
    ///
    /// /// Lists.
    /// #[tool(side_effects = "read")]
    /// fn list(/** how many */ #[param(default = 10)] limit: u32) {}
    ///
    /// let strict = list::TOOL.schema().strict()?;
    /// assert_eq!(strict["required"], json!(["limit"]));
    /// assert_eq!(strict["properties"]["limit"]["type"], json!(["integer", "null"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strict(&self) -> Result<Value, NotStrict> {
        let mut schema = self.input_schema.clone();
        close(&mut schema, "")?;
        Ok(schema)
    }
}

/// Keywords that vendors refuse in strict mode, or that have no meaning there.
const DROPPED: [&str; 9] = [
    "default",
    "uniqueItems",
    "examples",
    "minLength",
    "maxLength",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// Keywords without which the schema would mean something else.
const REFUSED: [(&str, &str); 10] = [
    ("$ref", "contains itself"),
    ("patternProperties", "takes any key of a pattern"),
    ("prefixItems", "is a tuple"),
    ("not", "says what it is not"),
    ("if", "depends on a condition"),
    ("allOf", "joins several schemas"),
    ("dependentSchemas", "depends on a condition"),
    ("dependentRequired", "depends on a condition"),
    ("unevaluatedProperties", "depends on other schemas"),
    ("contains", "says only what it contains"),
];

fn close(schema: &mut Value, pointer: &str) -> Result<(), NotStrict> {
    let refuse = |reason| Err(NotStrict { pointer: pointer.to_owned(), reason });
    let Value::Object(map) = schema else { return refuse("takes any value") };
    if let Some((_, reason)) = REFUSED.iter().find(|(key, _)| map.contains_key(*key)) {
        return refuse(reason);
    }
    for key in DROPPED {
        map.shift_remove(key);
    }
    if let Some(Value::String(format)) = map.get("format")
        && ["uri", "regex"].contains(&format.as_str())
    {
        map.shift_remove("format");
    }
    if let Some(choices) = map.shift_remove("oneOf") {
        map.insert("anyOf".to_owned(), choices);
    }
    if let Some(value) = map.shift_remove("const") {
        map.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        for (index, choice) in choices.iter_mut().enumerate() {
            close(choice, &format!("{pointer}/anyOf/{index}"))?;
        }
    } else if !map.contains_key("enum") && !map.contains_key("type") {
        return refuse("takes any value");
    }
    if is(map, "object") {
        close_object(map, pointer)?;
    }
    if is(map, "array") {
        match map.get_mut("items") {
            Some(items) => close(items, &format!("{pointer}/items"))?,
            None => return refuse("is a list of anything"),
        }
    }
    Ok(())
}

fn close_object(map: &mut Map<String, Value>, pointer: &str) -> Result<(), NotStrict> {
    let open = map.get("additionalProperties").is_some_and(|open| *open != Value::Bool(false));
    if open || !map.contains_key("properties") && !pointer.is_empty() {
        return Err(NotStrict { pointer: pointer.to_owned(), reason: "takes any key" });
    }
    let required = match map.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let mut names = Vec::new();
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            let step = name.replace('~', "~0").replace('/', "~1");
            close(property, &format!("{pointer}/properties/{step}"))?;
            if !required.iter().any(|required| required == name) {
                or_null(property);
            }
            names.push(Value::String(name.clone()));
        }
    }
    map.insert("required".to_owned(), Value::Array(names));
    map.insert("additionalProperties".to_owned(), Value::Bool(false));
    Ok(())
}

/// Whether the type is this one, alone or beside `null`.
fn is(map: &Map<String, Value>, kind: &str) -> bool {
    match map.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Lets `null` stand for what is left out.
fn or_null(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let null = Value::String("null".to_owned());
    match map.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.contains(&null) => {}
        Some(Value::Array(kinds)) => kinds.push(null),
        Some(kind) => *kind = json!([kind, "null"]),
        None => {}
    }
    if let Some(Value::Array(names)) = map.get_mut("enum")
        && !names.contains(&Value::Null)
    {
        names.push(Value::Null);
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        let has_null = choices.iter().any(|choice| choice["type"] == "null");
        if !has_null {
            choices.push(json!({"type": "null"}));
        }
    }
}
