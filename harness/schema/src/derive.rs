//! Derives the schema of a type, and the schema of a tool's arguments from the function's
//! parameters.

use std::iter;

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{close::close, length::Length, range::Range, strict::FORMATS};

/// The description of a tool for the model, with the schema against which calls are checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// The name of the tool.
    pub name: String,
    /// When and how to use the tool.
    pub description: String,
    /// The JSON Schema (draft 2020-12) of the arguments. It always describes an object.
    pub input_schema: Value,
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

/// The schema of a type's serialized form. `None` if that schema has no information.
pub fn output_schema<T: schemars::JsonSchema>() -> Option<Value> {
    let generator = settings().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    let says_something = schema.as_object().is_some_and(|schema| {
        !schema.is_empty() && schema.get("type").is_none_or(|kind| kind != "null")
    });
    says_something.then_some(schema)
}

/// A member of an object whose schema is derived.
#[derive(Debug)]
pub struct MemberSchema<'a> {
    /// The name of the member.
    pub name: &'a str,
    /// The description of the member for the model.
    pub description: &'a str,
    /// Makes the schema of the member's type.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// The range of a numeric member.
    pub range: Option<Range>,
    /// The length limits of a text or a list.
    pub length: Option<Length>,
    /// The regular expression that a text must match.
    pub pattern: Option<&'a str>,
    /// The value that is used if the member is missing.
    pub default: Option<Value>,
    /// Example values.
    pub examples: Vec<Value>,
    /// Whether the member may be missing.
    pub optional: bool,
}

/// The derived schema of an object.
#[derive(Debug)]
pub struct DerivedSchema {
    /// The schema that is sent to the model.
    pub told: Value,
    /// The schema for the check: the schema for the model, plus the limits of Rust's number types.
    pub checked: Value,
}

/// Derives the schema of an object with these members, in this order.
pub fn schema_of<'a>(members: impl Iterator<Item = MemberSchema<'a>>) -> DerivedSchema {
    let mut generator = settings().into_generator();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for member in members {
        let (name, optional) = (member.name, member.optional);
        let Some(schema) = property(member, &mut generator) else { continue };
        properties.insert(name.to_owned(), Value::Object(schema));
        if !optional {
            required.push(name);
        }
    }
    let mut definitions = generator.take_definitions(true);
    close(properties.values_mut(), &mut definitions);
    let checked = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    finished(checked, definitions)
}

/// Completes the schema of an object to which these definitions belong.
fn finished(mut checked: Value, definitions: Map<String, Value>) -> DerivedSchema {
    if let (Some(schema), false) = (checked.as_object_mut(), definitions.is_empty()) {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let mut told = checked.clone();
    tidy(&mut told);
    limit(&mut checked);
    tidy(&mut checked);
    DerivedSchema { told, checked }
}

/// The name of the member that contains a wrapped answer. Vendors accept only objects, so an answer
/// that is not an object is wrapped in an object.
pub const WRAPPED: &str = "answer";

/// The derived schema of an answer.
#[derive(Debug)]
pub struct DerivedAnswer {
    /// The schema that is sent to the model. It always describes an object.
    pub told: Value,
    /// The schema for the check: the schema for the model, plus the limits of Rust's number types.
    pub checked: Value,
    /// Whether the answer is wrapped in an object, as its member [`WRAPPED`].
    pub wrapped: bool,
}

/// Derives the schema of an answer from its type.
pub fn schema_of_answer<T: schemars::JsonSchema>() -> DerivedAnswer {
    let mut generator = settings().into_generator();
    let mut checked = generator.subschema_for::<T>().to_value();
    let mut definitions = generator.take_definitions(true);
    close(iter::once(&mut checked), &mut definitions);
    let joins = ["$ref", "anyOf", "oneOf", "allOf", "not", "if"];
    let is_object = checked.as_object().is_some_and(|schema| {
        schema.get("type").is_some_and(|kind| kind == "object")
            && !joins.iter().any(|word| schema.contains_key(*word))
    });
    if !is_object {
        checked = json!({
            "type": "object",
            "properties": { WRAPPED: checked },
            "required": [WRAPPED],
            "additionalProperties": false,
        });
    }
    let DerivedSchema { told, checked } = finished(checked, definitions);
    DerivedAnswer { told, checked, wrapped: !is_object }
}

/// Adds the limits of Rust's number types, for which `schemars` only writes a `format`.
fn limit(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let limits = match map.get("format").and_then(Value::as_str) {
        Some("int64" | "int") => Some((json!(i64::MIN), json!(i64::MAX))),
        Some("uint64" | "uint" | "uint128") => Some((json!(0), json!(u64::MAX))),
        // The JSON reader of this library is not exact for larger integers.
        Some("int128") => Some((json!(i64::MIN), json!(u64::MAX))),
        // Values beyond these limits would become infinite in an `f32`.
        Some("float") => Some((json!(f64::from(f32::MIN)), json!(f64::from(f32::MAX)))),
        _ => None,
    };
    if let Some((least, most)) = limits {
        let says = |words: [&str; 2]| words.iter().any(|word| map.contains_key(*word));
        let (low, high) =
            (says(["minimum", "exclusiveMinimum"]), says(["maximum", "exclusiveMaximum"]));
        if !low {
            map.insert("minimum".to_owned(), least);
        }
        if !high {
            map.insert("maximum".to_owned(), most);
        }
    }
    for key in ["properties", "patternProperties", "$defs"] {
        if let Some(Value::Object(children)) = map.get_mut(key) {
            children.values_mut().for_each(limit);
        }
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).into_iter().for_each(limit);
    }
    for key in ["oneOf", "anyOf", "allOf", "prefixItems"] {
        if let Some(Value::Array(children)) = map.get_mut(key) {
            children.iter_mut().for_each(limit);
        }
    }
}

/// The schema of one member.
fn property(
    member: MemberSchema<'_>,
    generator: &mut SchemaGenerator,
) -> Option<Map<String, Value>> {
    let mut value = (member.schema)(generator).to_value();
    // If the program gives examples, no example is generated.
    let written = if member.examples.is_empty() { written_as(&value) } else { None };
    // `true` accepts everything, but cannot have a description.
    if value == Value::Bool(true) {
        value = Value::Object(Map::new());
    }
    let Value::Object(mut schema) = value else { return None };
    merge_names_into_enum(&mut schema);
    let description = member.description.trim();
    let with_example = written.map(|written| format!("{description} ({written})"));
    let description = with_example.as_deref().unwrap_or(description);
    let description = match schema.get("description").and_then(Value::as_str) {
        // An enum's list of names follows the parameter's description. Any other description of the type is replaced.
        Some(about) if about.starts_with(NAMES) => format!("{description}\n{about}"),
        Some(about) => match about.split_once(&format!("\n{NAMES}")) {
            Some((_, names)) => format!("{description}\n{NAMES}{names}"),
            None => description.to_owned(),
        },
        None => description.to_owned(),
    };
    schema.insert("description".to_owned(), Value::String(description));
    if let Some(range) = member.range {
        range.describe(&mut schema);
    }
    if let Some(length) = member.length {
        length.describe(&mut schema);
    }
    if let Some(pattern) = member.pattern {
        schema.insert("pattern".to_owned(), pattern.into());
    }
    if let Some(default) = member.default {
        schema.insert("default".to_owned(), default);
    }
    if !member.examples.is_empty() {
        schema.insert("examples".to_owned(), Value::Array(member.examples));
    }
    Some(schema)
}

/// The schema of one type.
pub fn schema_of_type<T: schemars::JsonSchema>() -> Value {
    let mut value = settings().into_generator().subschema_for::<T>().to_value();
    tidy(&mut value);
    value
}

/// The beginning of each line in the list of an enum's names.
const NAMES: &str = "- `";

/// Adapts a schema to models and vendors: replaces `true` by an object, removes titles and
/// Rust-only formats, and lists an enum's names in `enum`.
fn tidy(schema: &mut Value) {
    match schema {
        // `true` accepts everything, but cannot have a description.
        Value::Bool(true) => *schema = Value::Object(Map::new()),
        Value::Object(map) => {
            tidy_object(map);
        }
        Value::Null
        | Value::Bool(false)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => {}
    }
}

fn tidy_object(schema: &mut Map<String, Value>) {
    schema.shift_remove("title");
    schema.shift_remove("$schema");
    say_bounds(schema);
    say_format(schema);
    // Other values of `format` are names of Rust types.
    let known = |format: &str| FORMATS.contains(&format) || ["uri", "regex"].contains(&format);
    if schema.get("format").is_some_and(|format| !format.as_str().is_some_and(known)) {
        schema.shift_remove("format");
    }
    merge_names_into_enum(schema);
    for key in ["properties", "patternProperties", "$defs", "dependentSchemas"] {
        if let Some(Value::Object(children)) = schema.get_mut(key) {
            children.values_mut().for_each(tidy);
        }
    }
    for key in ["items", "contains", "not", "if", "then", "else", "propertyNames"] {
        if let Some(child) = schema.get_mut(key) {
            tidy(child);
        }
    }
    // `additionalProperties: true` has no effect and is removed; `false` and schemas stay.
    match schema.get_mut("additionalProperties") {
        Some(Value::Bool(true)) => {
            schema.shift_remove("additionalProperties");
        }
        Some(child) => tidy(child),
        None => {}
    }
    for key in ["oneOf", "anyOf", "allOf", "prefixItems"] {
        if let Some(Value::Array(children)) = schema.get_mut(key) {
            children.iter_mut().for_each(tidy);
        }
    }
}

/// An example of a date, a time or a duration. The name of the format does not show the model that a time zone is
/// needed, but the example does. The example also works with vendors that do not support the format.
fn written_as(schema: &Value) -> Option<&'static str> {
    Some(match schema.get("format")?.as_str()? {
        "date-time" => "such as 2026-11-21T14:30:00Z",
        "date" => "such as 2026-11-21",
        "time" => "such as 14:30:00Z",
        "partial-date-time" => "such as 2026-11-21T14:30:00, without a zone",
        "partial-time" => "such as 14:30:00, without a zone",
        "zoned-date-time" => "such as 2026-11-21T14:30:00+01:00[Europe/Berlin]",
        "duration" => "such as PT1H30M",
        _ => return None,
    })
}

/// Adds an example to the description of a date, time or duration inside a type. `property` does
/// this for a parameter that is a date itself.
fn say_format(schema: &mut Map<String, Value>) {
    let Some(written) = written_as(&Value::Object(schema.clone())) else { return };
    let says = |about: &Value| about.as_str().is_some_and(|about| about.contains(written));
    if schema.contains_key("examples") || schema.get("description").is_some_and(says) {
        return;
    }
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} ({written})"),
        None => written.to_owned(),
    };
    schema.insert("description".to_owned(), Value::String(description));
}

/// Adds the limits of integer types of up to 32 bits. `schemars` writes these limits only as a `format`. 64-bit types
/// get no limits, except the minimum 0 of unsigned types, which `schemars` writes. llama.cpp reads limits as signed
/// 64-bit integers: `u64::MAX` becomes -1, so no value fits. llama.cpp also refuses a schema with both limits of `i64`.
/// JSON parsers that use floats would round these limits.
fn say_bounds(schema: &mut Map<String, Value>) {
    let bounds: [i64; 2] = match schema.get("format").and_then(Value::as_str) {
        Some("int8") => [i8::MIN.into(), i8::MAX.into()],
        Some("int16") => [i16::MIN.into(), i16::MAX.into()],
        Some("int32") => [i32::MIN.into(), i32::MAX.into()],
        Some("uint8") => [0, u8::MAX.into()],
        Some("uint16") => [0, u16::MAX.into()],
        Some("uint32") => [0, u32::MAX.into()],
        _ => return,
    };
    let words = [["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]];
    for (bound, words) in bounds.into_iter().zip(words) {
        if !words.iter().any(|word| schema.contains_key(*word)) {
            schema.insert(words[0].to_owned(), bound.into());
        }
    }
}

/// Converts a `oneOf` of constant strings, which is the schema of a documented enum, to one `enum`.
/// The descriptions of the names move to the schema's description.
fn merge_names_into_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    let mut names = Vec::new();
    let mut words = Vec::new();
    for choice in choices {
        let Some(choice) = choice.as_object() else { return };
        let listed = choice.get("enum").and_then(Value::as_array).cloned();
        let here = match (choice.get("const"), listed) {
            (Some(name @ Value::String(_)), _) => vec![name.clone()],
            (None, Some(listed)) if listed.iter().all(Value::is_string) => listed,
            _ => return,
        };
        if let Some(about) = choice.get("description").and_then(Value::as_str) {
            words.extend(here.iter().filter_map(Value::as_str).map(|name| {
                format!(
                    "{NAMES}{name}`: {}",
                    about.split_whitespace().collect::<Vec<_>>().join(" ")
                )
            }));
        }
        names.extend(here);
    }
    schema.shift_remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), Value::Array(names));
    if !words.is_empty() {
        let about = schema.get("description").and_then(Value::as_str);
        let words = about.into_iter().map(str::to_owned).chain(words).collect::<Vec<_>>();
        schema.insert("description".to_owned(), Value::String(words.join("\n")));
    }
}
