//! Checks the arguments of a tool made by hand against its schema, as far as every vendor's
//! schemas go. What it does not know it lets pass: a schema may say more than is checked here.

use serde_json::{Map, Value};

use super::{call, nearest::nearest};

/// All that is wrong with these arguments, one line each.
pub(super) fn problems(schema: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    let rules = Rules::of(schema);
    let described = |name: &str| rules.properties.and_then(|properties| properties.get(name));
    for name in names(rules.required) {
        let is_missing = match arguments.get(name) {
            None => true,
            // It is there if null is one of its values.
            Some(Value::Null) => {
                described(name).is_some_and(|property| !fits(property, &Value::Null, schema))
            }
            Some(_) => false,
        };
        if is_missing {
            let expected = described(name).map_or_else(String::new, |property| {
                let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
                format!(": {}, {about:?}", expectation(property))
            });
            lines.push(format!("`{name}` is required{expected}"));
        }
    }
    for (name, value) in arguments {
        match described(name) {
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
            None if rules.is_closed() => lines.push(unknown(name, rules.properties)),
            None => {}
        }
    }
    lines
}

/// Takes the arguments that are `null` and may be left out away, for a tool that asks whether they
/// are there.
pub(super) fn without_nulls(schema: &Value, arguments: Map<String, Value>) -> Map<String, Value> {
    if !arguments.values().any(Value::is_null) {
        return arguments;
    }
    let rules = Rules::of(schema);
    let keep = |name: &str, value: &Value| {
        let property = rules.properties.and_then(|properties| properties.get(name));
        !value.is_null()
            || names(rules.required).any(|required| required == name)
            || property.is_none_or(|property| fits(property, value, schema))
    };
    arguments.into_iter().filter(|(name, value)| keep(name, value)).collect()
}

/// What a schema says, as far as it is checked. It is read in one pass: a schema says few things,
/// and to ask for each of them that it might say costs more than all the rest of a check.
#[derive(Default)]
struct Rules<'a> {
    reference: Option<&'a str>,
    /// The name of a type, or a list of them.
    kind: Option<&'a Value>,
    allowed: Option<&'a Vec<Value>>,
    only: Option<&'a Value>,
    any_of: Option<&'a Vec<Value>>,
    one_of: Option<&'a Vec<Value>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    items: Option<&'a Value>,
    properties: Option<&'a Map<String, Value>>,
    required: Option<&'a Value>,
    others: Option<&'a Value>,
    patterns: Option<&'a Value>,
}

impl<'a> Rules<'a> {
    fn of(schema: &'a Value) -> Self {
        let mut rules = Self::default();
        for (word, value) in schema.as_object().into_iter().flatten() {
            match word.as_str() {
                "$ref" => rules.reference = value.as_str(),
                "type" => rules.kind = Some(value),
                "enum" => rules.allowed = value.as_array(),
                "const" => rules.only = Some(value),
                "anyOf" => rules.any_of = value.as_array(),
                "oneOf" => rules.one_of = value.as_array(),
                "minimum" => rules.minimum = value.as_f64(),
                "maximum" => rules.maximum = value.as_f64(),
                "exclusiveMinimum" => rules.above = value.as_f64(),
                "exclusiveMaximum" => rules.below = value.as_f64(),
                "items" => rules.items = Some(value),
                "properties" => rules.properties = value.as_object(),
                "required" => rules.required = Some(value),
                "additionalProperties" => rules.others = Some(value),
                "patternProperties" => rules.patterns = Some(value),
                _ => {}
            }
        }
        rules
    }

    /// Whether an argument that is not listed is a mistake: where the schema says so, and where it
    /// lists some and says nothing of others.
    fn is_closed(&self) -> bool {
        match self.others {
            Some(Value::Bool(open)) => !open,
            Some(_) => false,
            None => self.patterns.is_none() && self.properties.is_some(),
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self.kind {
            Some(Value::String(one)) => is_of(value, one),
            list => {
                let mut kinds = names(list).peekable();
                kinds.peek().is_none() || kinds.any(|kind| is_of(value, kind))
            }
        }
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

fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
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
    if *schema == Value::Bool(false) {
        return here("nothing is allowed here".to_owned());
    }
    let rules = Rules::of(schema);
    if let Some(path) = rules.reference {
        let target = path.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Ok(()), |target| check(target, value, root, depth));
    }
    if !rules.takes(value) {
        return here(format!("expected {}, found {}", expectation(schema), found(value)));
    }
    if rules.allowed.is_some_and(|allowed| !allowed.contains(value)) {
        return here(format!("expected {}, found {value}", expectation(schema)));
    }
    if let Some(only) = rules.only.filter(|only| *only != value) {
        return here(format!("expected {only}, found {value}"));
    }
    for choices in [rules.any_of, rules.one_of].into_iter().flatten() {
        if !choices.iter().any(|choice| check(choice, value, root, depth).is_ok()) {
            let all: Vec<String> = choices.iter().map(expectation).collect();
            return here(format!("expected {}, found {}", all.join(" or "), found(value)));
        }
    }
    match value {
        Value::Number(_) => check_number(&rules, value),
        Value::Array(values) => {
            let Some(items) = rules.items else { return Ok(()) };
            values.iter().enumerate().try_for_each(|(index, value)| {
                check(items, value, root, depth).map_err(|fault| below(&index.to_string(), fault))
            })
        }
        Value::Object(values) => check_object(&rules, values, root, depth),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

fn check_number(rules: &Rules<'_>, value: &Value) -> Result<(), Fault> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    let faults = [
        rules.minimum.filter(|limit| number < *limit).map(|limit| ("at least", limit)),
        rules.maximum.filter(|limit| number > *limit).map(|limit| ("at most", limit)),
        rules.above.filter(|limit| number <= *limit).map(|limit| ("more than", limit)),
        rules.below.filter(|limit| number >= *limit).map(|limit| ("less than", limit)),
    ];
    match faults.into_iter().flatten().next() {
        Some((words, limit)) => here(format!("must be {words} {limit}, not {value}")),
        None => Ok(()),
    }
}

fn check_object(
    rules: &Rules<'_>,
    values: &Map<String, Value>,
    root: &Value,
    depth: usize,
) -> Result<(), Fault> {
    for name in names(rules.required) {
        if !values.contains_key(name) {
            return here(format!("`{name}` is missing"));
        }
    }
    for (name, value) in values {
        match rules.properties.and_then(|properties| properties.get(name)) {
            Some(property) => {
                let step = || name.replace('~', "~0").replace('/', "~1");
                check(property, value, root, depth).map_err(|fault| below(&step(), fault))?;
            }
            // Deeper down, only what the schema says.
            None if rules.others == Some(&Value::Bool(false)) => {
                return here(unknown(name, rules.properties));
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
        Some(kinds) => names(Some(kinds)).map(word).collect::<Vec<_>>().join(" or "),
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
