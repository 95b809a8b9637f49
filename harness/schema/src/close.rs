//! Closes the objects in the schemas of types: a closed schema forbids members that the type does not have. `serde`
//! ignores unknown members. So without a closed schema, an unknown member from the model would be dropped without an
//! error. A struct that stores unknown members (`#[serde(flatten)]` of a map) allows them in its own schema.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Keywords whose subschemas apply to the same value as the schema itself.
const IN_PLACE: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Whether a schema is the only schema that describes its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// The schema describes the whole value.
    Alone,
    /// Another schema describes the same value, too, because of `allOf`, `anyOf` or `oneOf`.
    Beside,
}

/// Closes the objects in these schemas and in the definitions to which they refer.
pub(super) fn close<'a>(
    schemas: impl Iterator<Item = &'a mut Value>,
    definitions: &mut Map<String, Value>,
) {
    let mut schemas: Vec<&mut Value> = schemas.collect();
    // Some definitions describe only a part of an object. Such a definition must not forbid members
    // that another schema of the object lists.
    let mut parts = HashSet::new();
    loop {
        let before = parts.len();
        let known = parts.clone();
        for schema in &mut schemas {
            walk(schema, SchemaPosition::Alone, &mut |_, stand, name| {
                note(&mut parts, stand, name)
            });
        }
        for (name, schema) in definitions.iter_mut() {
            let stand =
                if known.contains(name) { SchemaPosition::Beside } else { SchemaPosition::Alone };
            walk(schema, stand, &mut |_, stand, name| note(&mut parts, stand, name));
        }
        if parts.len() == before {
            break;
        }
    }
    for schema in schemas {
        walk(schema, SchemaPosition::Alone, &mut |map, stand, _| close_one(map, stand));
    }
    for (name, schema) in definitions {
        let stand =
            if parts.contains(name) { SchemaPosition::Beside } else { SchemaPosition::Alone };
        walk(schema, stand, &mut |map, stand, _| close_one(map, stand));
    }
}

fn note(parts: &mut HashSet<String>, stand: SchemaPosition, name: Option<&str>) {
    if let (SchemaPosition::Beside, Some(name)) = (stand, name) {
        parts.insert(name.to_owned());
    }
}

fn close_one(map: &mut Map<String, Value>, stand: SchemaPosition) {
    let says = ["additionalProperties", "unevaluatedProperties", "patternProperties"];
    if stand == SchemaPosition::Beside || says.iter().any(|word| map.contains_key(*word)) {
        return;
    }
    let joins = IN_PLACE.iter().chain(&["$ref"]).any(|word| map.contains_key(*word));
    let has_properties = map.contains_key("properties");
    let word = match (has_properties, joins) {
        (true, false) => "additionalProperties",
        (true, true) => "unevaluatedProperties",
        (false, _) if several(map) => "unevaluatedProperties",
        (false, _) => return,
    };
    map.insert(word.to_owned(), Value::Bool(false));
}

/// Whether several schemas together describe one object.
fn several(map: &Map<String, Value>) -> bool {
    map.get("allOf").and_then(Value::as_array).is_some_and(|all| all.len() > 1)
}

/// A callback for each object schema. Its arguments are the object schema and its position, and, for a reference, the
/// name of the definition.
type VisitObject<'a> = dyn FnMut(&mut Map<String, Value>, SchemaPosition, Option<&str>) + 'a;

/// Visits every object of a schema, innermost first.
fn walk(schema: &mut Value, stand: SchemaPosition, visit: &mut VisitObject<'_>) {
    let Value::Object(map) = schema else { return };
    for word in ["properties", "patternProperties"] {
        if let Some(Value::Object(children)) = map.get_mut(word) {
            children.values_mut().for_each(|child| walk(child, SchemaPosition::Alone, visit));
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(word) {
            walk(child, SchemaPosition::Alone, visit);
        }
    }
    if let Some(Value::Array(children)) = map.get_mut("prefixItems") {
        children.iter_mut().for_each(|child| walk(child, SchemaPosition::Alone, visit));
    }
    let is_whole = !map.contains_key("properties") && !several(map);
    let below = if is_whole { stand } else { SchemaPosition::Beside };
    for word in IN_PLACE {
        if let Some(Value::Array(children)) = map.get_mut(word) {
            children.iter_mut().for_each(|child| walk(child, below, visit));
        }
    }
    let name = map.get("$ref").and_then(Value::as_str);
    let name = name.and_then(|name| name.strip_prefix("#/$defs/")).map(str::to_owned);
    let refers = if map.contains_key("properties") { SchemaPosition::Beside } else { stand };
    match name {
        // The target of a reference has the same position as the reference.
        Some(name) if refers == SchemaPosition::Beside => {
            visit(map, SchemaPosition::Beside, Some(&name));
            if stand == SchemaPosition::Alone {
                visit(map, SchemaPosition::Alone, None);
            }
        }
        name => visit(map, stand, name.as_deref()),
    }
}
