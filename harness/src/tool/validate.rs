//! Checks the arguments of a tool made by hand against its schema, as far as every vendor's
//! schemas go. What it does not know it lets pass: a schema may say more than is checked here.

use serde_json::{Map, Value};

use super::{call, nearest::nearest};

/// All that is wrong with these arguments, one line each.
pub(super) fn problems(schema: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = names(schema.get("required"));
    for name in &required {
        let given = arguments.get(*name);
        let described = properties.and_then(|properties| properties.get(*name));
        let takes_null = described.is_none_or(|schema| fits(schema, &Value::Null, schema));
        if given.is_none() || given.is_some_and(Value::is_null) && !takes_null {
            let expected = described.map_or_else(String::new, |schema| {
                let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
                format!(": {}, {about:?}", expectation(schema))
            });
            lines.push(format!("`{name}` is required{expected}"));
        }
    }
    for (name, value) in arguments {
        match properties.and_then(|properties| properties.get(name)) {
            // Absence is for the tool to deal with, and `null` is absence.
            Some(_) if value.is_null() => {}
            Some(property) => {
                if let Err((pointer, reason)) = check(property, value, schema, 0) {
                    let reason = if pointer.is_empty() {
                        reason
                    } else {
                        format!("at `{pointer}`: {reason}")
                    };
                    lines.push(call::line(name, &reason));
                }
            }
            None if is_closed(schema) => lines.push(unknown(name, properties)),
            None => {}
        }
    }
    lines
}

/// Takes the arguments that are `null` and may be left out away, for a tool that asks whether they
/// are there.
pub(super) fn without_nulls(schema: &Value, arguments: Map<String, Value>) -> Map<String, Value> {
    let required = names(schema.get("required"));
    let keep = |name: &str, value: &Value| {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        !value.is_null()
            || required.contains(&name)
            || property.is_none_or(|property| fits(property, value, schema))
    };
    arguments.into_iter().filter(|(name, value)| keep(name, value)).collect()
}

/// Whether an argument that is not listed is a mistake: where the schema says so, and where it
/// lists some and says nothing of others.
fn is_closed(schema: &Value) -> bool {
    match schema.get("additionalProperties") {
        Some(Value::Bool(open)) => !open,
        Some(_) => false,
        None => schema.get("patternProperties").is_none() && schema.get("properties").is_some(),
    }
}

fn unknown(name: &str, properties: Option<&Map<String, Value>>) -> String {
    let known: Vec<&str> =
        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("`{name}`: there is no such argument; did you mean `{near}`?"),
        None if known.is_empty() => {
            format!("`{name}`: there is no such argument; this tool takes none")
        }
        None => format!(
            "`{name}`: there is no such argument; the arguments are `{}`",
            known.join("`, `")
        ),
    }
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn fits(schema: &Value, value: &Value, root: &Value) -> bool {
    check(schema, value, root, 0).is_ok()
}

/// Where inside the value the fault is, and what it is.
type Fault = (String, String);

/// How deep a value or a chain of references is followed; what is below passes.
const DEEPEST: usize = 64;

fn check(schema: &Value, value: &Value, root: &Value, depth: usize) -> Result<(), Fault> {
    if depth > DEEPEST {
        return Ok(());
    }
    let depth = depth + 1;
    let Some(map) = schema.as_object() else {
        return if *schema == Value::Bool(false) {
            here("nothing is allowed here".to_owned())
        } else {
            Ok(())
        };
    };
    if let Some(path) = map.get("$ref").and_then(Value::as_str) {
        let target = path.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Ok(()), |target| check(target, value, root, depth));
    }
    let kinds = match map.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        list => names(list),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_of(value, kind)) {
        return here(format!("expected {}, found {}", expectation(schema), found(value)));
    }
    if let Some(allowed) = map.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return here(format!("expected {}, found {value}", expectation(schema)));
    }
    if let Some(only) = map.get("const").filter(|only| *only != value) {
        return here(format!("expected {only}, found {value}"));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = map.get(key).and_then(Value::as_array)
            && !choices.iter().any(|choice| check(choice, value, root, depth).is_ok())
        {
            let all: Vec<String> = choices.iter().map(expectation).collect();
            return here(format!("expected {}, found {}", all.join(" or "), found(value)));
        }
    }
    check_number(map, value)?;
    if let (Some(items), Value::Array(values)) = (map.get("items"), value) {
        for (index, value) in values.iter().enumerate() {
            check(items, value, root, depth).map_err(|fault| below(&index.to_string(), fault))?;
        }
    }
    if let Value::Object(values) = value {
        check_object(schema, values, root, depth)?;
    }
    Ok(())
}

fn check_number(map: &Map<String, Value>, value: &Value) -> Result<(), Fault> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    let limit = |key| map.get(key).and_then(Value::as_f64);
    let faults = [
        limit("minimum").filter(|limit| number < *limit).map(|limit| ("at least", limit)),
        limit("maximum").filter(|limit| number > *limit).map(|limit| ("at most", limit)),
        limit("exclusiveMinimum").filter(|l| number <= *l).map(|limit| ("more than", limit)),
        limit("exclusiveMaximum").filter(|l| number >= *l).map(|limit| ("less than", limit)),
    ];
    match faults.into_iter().flatten().next() {
        Some((words, limit)) => here(format!("must be {words} {limit}, not {value}")),
        None => Ok(()),
    }
}

fn check_object(
    schema: &Value,
    values: &Map<String, Value>,
    root: &Value,
    depth: usize,
) -> Result<(), Fault> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in names(schema.get("required")) {
        if !values.contains_key(name) {
            return here(format!("`{name}` is missing"));
        }
    }
    for (name, value) in values {
        match properties.and_then(|properties| properties.get(name)) {
            Some(property) => {
                let step = name.replace('~', "~0").replace('/', "~1");
                check(property, value, root, depth).map_err(|fault| below(&step, fault))?;
            }
            // Deeper down, only what the schema says.
            None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                return here(unknown(name, properties));
            }
            None => {}
        }
    }
    Ok(())
}

fn here(reason: String) -> Result<(), Fault> {
    Err((String::new(), reason))
}

fn below(step: &str, (pointer, reason): Fault) -> Fault {
    (format!("/{step}{pointer}"), reason)
}

fn is_of(value: &Value, kind: &str) -> bool {
    match (value, kind) {
        (Value::Number(number), "integer") => {
            !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        (Value::Null, "null")
        | (Value::Bool(_), "boolean")
        | (Value::Number(_), "number")
        | (Value::String(_), "string")
        | (Value::Array(_), "array")
        | (Value::Object(_), "object") => true,
        (_, "null" | "boolean" | "number" | "integer" | "string" | "array" | "object") => false,
        // A type that is not of the standard is not for us to judge.
        _ => true,
    }
}

/// What a schema wants, in a few words.
fn expectation(schema: &Value) -> String {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let all: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return format!("one of {}", all.join(", "));
    }
    let word = |kind: &str| match kind {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    match schema.get("type") {
        Some(Value::String(kind)) => word(kind),
        Some(kinds) => names(Some(kinds)).into_iter().map(word).collect::<Vec<_>>().join(" or "),
        None => "another value".to_owned(),
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
