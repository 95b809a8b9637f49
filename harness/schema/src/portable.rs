//! Rewrites schemas from servers and from hand-written code to an equivalent form that a vendor accepts. Such schemas
//! may contain keywords of older drafts, `null` for missing values, choices at the root, or member names that a vendor
//! does not allow. A schema without such parts is not changed.
//!
//! Sources: <https://json-schema.org/draft/2020-12/schema>, <https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools>,
//! <https://platform.openai.com/docs/guides/function-calling>, and the vendors' refusals: `input_schema does not support oneOf,
//! allOf, or anyOf at the top level`, `Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`, `It must match JSON Schema
//! draft 2020-12`, `schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level`,
//! `object schema missing properties`, `array schema missing items`, `when using anyOf, type should be defined in anyOf items
//! instead of the parent schema`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{StrictForm, limits::said_of, node::TypeSet, strict::is};

/// The maximum depth that is rewritten. Schemas with more levels cannot be compiled, so they are refused.
const DEEPEST: usize = 128;

/// The maximum length of a schema that is quoted in a description, in bytes.
const LONGEST: usize = 1_500;

/// The maximum total size of copied parts in bytes (`COPIED`), and the maximum number of copying passes (`ROUNDS`).
const COPIED: usize = 256 * 1024;
const ROUNDS: usize = 8;

/// Keywords whose value is data and may therefore be `null`.
const DATA: [&str; 4] = ["const", "default", "example", "examples"];

/// Keywords with a map of schemas (`MAPS`), a list of schemas (`LISTS`), and a single schema (`PARTS`).
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const PARTS: [&str; 11] = [
    "items",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
];

impl StrictForm {
    /// The schema of a tool's arguments in the form that this vendor accepts without strict mode.
    pub(super) fn portable(self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        // The definitions and the references to them get their current name, `$defs`.
        if let Value::Object(map) = &mut schema {
            renamed(map, "definitions", "$defs");
        }
        if schema.get("definitions").is_none() {
            each_reference(&mut schema, &mut |name| {
                if let Some(rest) = name.strip_prefix("#/definitions/") {
                    *name = format!("#/$defs/{rest}");
                }
            });
        }
        let mut room = COPIED;
        let mut mended = self.mended(&schema);
        for _ in 0..ROUNDS {
            let lost = lost(&mut mended, &schema);
            if lost.is_empty() {
                break;
            }
            define(&mut schema, lost, &mut room);
            mended = self.mended(&schema);
        }
        mended
    }

    fn mended(self, schema: &Value) -> Value {
        let mut mended = schema.clone();
        SchemaMender { form: self }.part(&mut mended, 0);
        without_flag(&mut mended);
        let source = mended.clone();
        if let Value::Object(map) = &mut mended {
            self.mend_root(map, &source);
        }
        mended
    }

    fn mend_root(self, map: &mut Map<String, Value>, source: &Value) {
        inline(map, source, 0);
        let mut rules = Vec::new();
        flatten(map, source, &mut rules, 0);
        if self != Self::Anthropic {
            for word in ["not", "enum", "const"] {
                let Some(rule) = map.shift_remove(word) else { continue };
                rules.push(match word {
                    "not" => format!("The arguments must not fit this schema: {}.", quoted(&rule)),
                    _ => format!("The arguments must be one of: {}.", quoted(&rule)),
                });
            }
        }
        for rule in rules {
            said_of(map, &rule);
        }
        if matches!(self, Self::OpenAI | Self::Common) && !map.contains_key("properties") {
            map.insert("properties".to_owned(), json!({}));
        }
    }
}

/// Rewrites the parts of a schema for one vendor.
struct SchemaMender {
    form: StrictForm,
}

impl SchemaMender {
    fn part(&self, schema: &mut Value, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        match schema {
            Value::Object(_) => {}
            // Some servers write the name of a type in place of a schema.
            Value::String(kind) => *schema = json!({ "type": kind }),
            Value::Bool(_) => return,
            _ => *schema = json!({}),
        }
        let Value::Object(map) = schema else { return };
        self.mend(map);
        for word in MAPS {
            match map.get_mut(word) {
                Some(Value::Object(parts)) => {
                    for part in parts.values_mut() {
                        self.named(part, depth + 1);
                        // The boolean `required` of a property is still needed: the method `required` reads it.
                        if word != "properties" {
                            without_flag(part);
                        }
                    }
                }
                Some(_) => _ = map.shift_remove(word),
                None => {}
            }
        }
        for word in LISTS {
            match map.get_mut(word) {
                Some(Value::Array(parts)) if !parts.is_empty() => {
                    for part in parts {
                        self.part(part, depth + 1);
                        without_flag(part);
                    }
                }
                Some(_) => _ = map.shift_remove(word),
                None => {}
            }
        }
        for word in PARTS {
            if let Some(part) = map.get_mut(word) {
                self.part(part, depth + 1);
                without_flag(part);
            }
        }
        self.required(map);
        self.for_vendor(map, depth);
    }

    /// Rewrites a schema in a map. Vendors accept no booleans as schemas in a map.
    fn named(&self, schema: &mut Value, depth: usize) {
        match schema {
            Value::Bool(true) => *schema = json!({}),
            Value::Bool(false) => *schema = json!({ "not": {} }),
            _ => self.part(schema, depth),
        }
    }

    /// Rewrites the keywords of this schema, but not of its parts.
    fn mend(&self, map: &mut Map<String, Value>) {
        map.retain(|word, value| !value.is_null() || DATA.contains(&word.as_str()));
        if map.get("$schema").is_some_and(|it| !it.to_string().contains("2020-12")) {
            map.shift_remove("$schema");
        }
        // Up to draft 4, `$id` was named `id`.
        if map.get("id").is_some_and(Value::is_string) {
            map.shift_remove("id");
        }
        for (word, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            let Some(Value::Bool(is)) = map.get(word) else { continue };
            match map.get(limit).cloned().filter(|_| *is) {
                Some(limited) => {
                    map.insert(word.to_owned(), limited);
                    map.shift_remove(limit);
                }
                None => _ = map.shift_remove(word),
            }
        }
        if matches!(map.get("items"), Some(Value::Array(_))) {
            renamed(map, "items", "prefixItems");
            renamed(map, "additionalItems", "items");
        }
        if let Some(Value::Object(pairs)) = map.shift_remove("dependencies") {
            let (names, schemas): (Map<_, _>, Map<_, _>) =
                pairs.into_iter().partition(|(_, needed)| needed.is_array() || needed.is_string());
            let names = names.into_iter().map(|(name, needed)| match needed {
                Value::String(one) => (name, json!([one])),
                needed => (name, needed),
            });
            for (word, pairs) in
                [("dependentRequired", names.collect()), ("dependentSchemas", schemas)]
            {
                if !pairs.is_empty() && !map.contains_key(word) {
                    map.insert(word.to_owned(), Value::Object(pairs));
                }
            }
        }
        kinds(map);
        if let Some(Value::Array(values)) = map.get_mut("enum") {
            unique(values);
            if values.is_empty() {
                map.shift_remove("enum");
                said_of(map, "No value is allowed here");
            }
        }
    }

    /// Makes one list of required members. In draft 3, each member has its own boolean `required`. These booleans are
    /// replaced by entries of the list.
    fn required(&self, map: &mut Map<String, Value>) {
        let mut own = Vec::new();
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            for (name, property) in properties {
                let Value::Object(property) = property else { continue };
                if let Some(Value::Bool(is)) = property.get("required") {
                    own.extend(is.then(|| Value::String(name.clone())));
                    property.shift_remove("required");
                }
            }
        }
        match map.get_mut("required") {
            Some(Value::Array(names)) => {
                names.extend(own);
                names.retain(Value::is_string);
                unique(names);
            }
            // A boolean `required` belongs to the parent schema and is handled there.
            Some(Value::Bool(_)) if own.is_empty() => {}
            Some(_) | None if own.is_empty() => _ = map.shift_remove("required"),
            Some(_) | None => _ = map.insert("required".to_owned(), Value::Array(own)),
        }
    }

    fn for_vendor(&self, map: &mut Map<String, Value>, depth: usize) {
        match self.form {
            StrictForm::Anthropic => nameable(map),
            StrictForm::OpenAI | StrictForm::Common => {
                let items = match map.get("items") {
                    None if is(map, "array") => Some(json!({})),
                    Some(Value::Bool(true)) => Some(json!({})),
                    Some(Value::Bool(false)) => Some(json!({ "not": {} })),
                    _ => None,
                };
                if let Some(items) = items {
                    map.insert("items".to_owned(), items);
                }
            }
            StrictForm::Gemini => {}
        }
        // The root becomes a single object later.
        if self.form != StrictForm::Common || depth == 0 {
            return;
        }
        // Moonshot requires the type inside each choice.
        let Some(kind) = map.get("type").cloned() else { return };
        for word in ["anyOf", "oneOf"] {
            let Some(Value::Array(choices)) = map.get_mut(word) else { continue };
            if choices.iter().any(|choice| !choice.is_object() || choice.get("$ref").is_some()) {
                continue;
            }
            for choice in choices.iter_mut().filter_map(Value::as_object_mut) {
                choice.entry("type").or_insert_with(|| kind.clone());
            }
            map.shift_remove("type");
            return;
        }
    }
}

/// Removes a boolean `required`. Only the schema that contains the property uses this keyword.
fn without_flag(schema: &mut Value) {
    if let Value::Object(map) = schema
        && map.get("required").is_some_and(Value::is_boolean)
    {
        map.shift_remove("required");
    }
}

/// Keeps the first of equal values.
fn unique(values: &mut Vec<Value>) {
    let mut seen = Vec::new();
    values.retain(|value| {
        !seen.contains(value) && {
            seen.push(value.clone());
            true
        }
    });
}

/// Rewrites unknown or malformed types.
fn kinds(map: &mut Map<String, Value>) {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TypeSet::NAMES.contains(&kind));
    match map.get_mut("type") {
        Some(Value::String(kind)) if !TypeSet::NAMES.contains(&kind.as_str()) => {
            let kind = kind.clone();
            map.shift_remove("type");
            if kind != "any" {
                said_of(map, &format!("Of the type {kind}"));
            }
        }
        Some(Value::Array(all)) => {
            let is_any = all.iter().any(|kind| !is_known(kind));
            unique(all);
            // The list contains an unknown type, or a schema in place of a type as in draft 3.
            if is_any || all.is_empty() {
                map.shift_remove("type");
            }
        }
        Some(Value::String(_)) | None => {}
        Some(_) => _ = map.shift_remove("type"),
    }
}

/// Renames a keyword and keeps its position. Nothing happens if the new name is in use.
fn renamed(map: &mut Map<String, Value>, from: &str, to: &str) {
    if !map.contains_key(from) || map.contains_key(to) {
        return;
    }
    let name = |word: String| if word == from { to.to_owned() } else { word };
    *map = std::mem::take(map).into_iter().map(|(word, value)| (name(word), value)).collect();
}

/// Whether Anthropic allows this name for a member.
fn is_nameable(name: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
    (1..=64).contains(&name.len()) && name.bytes().all(is_letter)
}

/// Moves members into the description if Anthropic does not allow their names.
fn nameable(map: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = map.get_mut("properties") else { return };
    if properties.keys().all(|name| is_nameable(name)) {
        return;
    }
    let mut told = Vec::new();
    properties.retain(|name, schema| {
        let stays = is_nameable(name);
        if !stays {
            told.push((name.clone(), quoted(schema)));
        }
        stays
    });
    let mut needed = Vec::new();
    if let Some(Value::Array(names)) = map.get_mut("required") {
        names.retain(|name| match name.as_str() {
            Some(name) if !is_nameable(name) => {
                needed.push(name.to_owned());
                false
            }
            _ => true,
        });
    }
    for word in ["additionalProperties", "unevaluatedProperties"] {
        if map.get(word) == Some(&Value::Bool(false)) {
            map.shift_remove(word);
        }
    }
    for (name, schema) in told {
        let need = if needed.contains(&name) { "must" } else { "may" };
        said_of(
            map,
            &format!("It {need} have the member {}, of this schema: {schema}", json!(name)),
        );
    }
}

/// Calls `each` for every reference in a schema.
fn each_reference(schema: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match schema {
        Value::Object(map) => {
            for (word, value) in map {
                match value {
                    Value::String(name) if word == "$ref" => each(name),
                    value => each_reference(value, each),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| each_reference(value, each)),
        _ => {}
    }
}

/// The references in `mended` whose targets were lost by the rewriting: the targets exist in `schema`, but not in
/// `mended`.
fn lost(mended: &mut Value, schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    each_reference(mended, &mut |name| names.push(name.clone()));
    names.sort_unstable();
    names.dedup();
    let has =
        |of: &Value, name: &str| name.strip_prefix('#').is_some_and(|at| of.pointer(at).is_some());
    names.retain(|name| has(schema, name) && !has(mended, name));
    names
}

/// Copies each of these targets into `$defs` and makes the references point to the copies. The original targets stay.
fn define(schema: &mut Value, names: Vec<String>, room: &mut usize) {
    let mut places = HashMap::new();
    for name in names {
        let target = name.strip_prefix('#').and_then(|at| schema.pointer(at)).cloned();
        let Some((target, map)) = target.zip(schema.as_object_mut()) else { continue };
        let Some(left) = room.checked_sub(target.to_string().len()) else { continue };
        let known = map.entry("$defs").or_insert_with(|| json!({}));
        let Value::Object(known) = known else { continue };
        let own = (1..).map(|number| format!("part_{number}")).find(|own| !known.contains_key(own));
        let Some(own) = own else { continue };
        *room = left;
        places.insert(name, format!("#/$defs/{own}"));
        known.insert(own, target);
    }
    each_reference(schema, &mut |name| {
        if let Some(place) = places.get(name) {
            name.clone_from(place);
        }
    });
}

/// Replaces a reference at the root by its target, and merges the keywords beside the reference with the target.
fn inline(map: &mut Map<String, Value>, source: &Value, depth: usize) {
    let Some(Value::String(name)) = map.get("$ref") else { return };
    let target =
        name.strip_prefix('#').and_then(|place| source.pointer(place)).and_then(Value::as_object);
    let (Some(target), true) = (target.cloned(), depth < 16) else { return };
    map.shift_remove("$ref");
    let (mut both, mut rules) = (Map::new(), Vec::new());
    for (word, value) in target {
        match map.get(&word) {
            None => _ = map.insert(word, value),
            Some(own) if *own == value => {}
            Some(_) => _ = both.insert(word, value),
        }
    }
    join(map, both, &mut rules);
    for rule in rules {
        said_of(map, &rule);
    }
    inline(map, source, depth + 1);
}

/// Merges the subschemas of the root into one object. Rules that one object with members cannot express are written as
/// text.
fn flatten(map: &mut Map<String, Value>, source: &Value, rules: &mut Vec<String>, depth: usize) {
    let part = |value: Value| {
        let Value::Object(mut part) = value else { return None };
        inline(&mut part, source, 0);
        Some(part)
    };
    if depth > 8 {
        return;
    }
    if let Some(Value::Array(all)) = map.shift_remove("allOf") {
        for mut one in all.into_iter().filter_map(part) {
            flatten(&mut one, source, rules, depth + 1);
            join(map, one, rules);
        }
    }
    for (word, how) in [("anyOf", "at least one"), ("oneOf", "exactly one")] {
        let Some(Value::Array(choices)) = map.shift_remove(word) else { continue };
        let choices: Vec<Map<String, Value>> = choices.into_iter().filter_map(part).collect();
        let told: Vec<String> = choices.iter().map(choice_in_words).collect();
        let members: Vec<Map<String, Value>> = choices
            .into_iter()
            .map(|mut choice| {
                flatten(&mut choice, source, &mut Vec::new(), depth + 1);
                choice
            })
            .collect();
        choose(map, &members);
        let told = told.iter().enumerate().map(|(at, choice)| format!("({}) {choice}", at + 1));
        let told = told.collect::<Vec<_>>().join("; ");
        rules.push(format!("The arguments must fit {how} of these: {told}."));
    }
}

/// Merges another schema that applies to the same value.
fn join(map: &mut Map<String, Value>, one: Map<String, Value>, rules: &mut Vec<String>) {
    let mut rest = Map::new();
    for (word, value) in one {
        match (word.as_str(), value) {
            ("type" | "title" | "$schema" | "$defs", _) => {}
            ("description", Value::String(about)) => said_of(map, &about),
            ("properties", Value::Object(more)) => {
                let known = map.entry("properties").or_insert_with(|| json!({}));
                let Value::Object(known) = known else { continue };
                for (name, schema) in more {
                    match known.get_mut(&name) {
                        Some(both) if *both != schema => {
                            *both = json!({ "allOf": [both.take(), schema] })
                        }
                        Some(_) => {}
                        None => _ = known.insert(name, schema),
                    }
                }
            }
            ("required", Value::Array(more)) => require(map, more),
            (_, value) => _ = rest.insert(word, value),
        }
    }
    if !rest.is_empty() {
        rules.push(format!(
            "The arguments must also fit this schema: {}.",
            quoted(&Value::Object(rest))
        ));
    }
}

/// Adds the members of all choices. A member becomes required if every choice requires it.
fn choose(map: &mut Map<String, Value>, choices: &[Map<String, Value>]) {
    let mut found: Map<String, Value> = Map::new();
    let members = choices.iter().filter_map(|choice| choice.get("properties")?.as_object());
    for (name, schema) in members.flatten() {
        let all = found.entry(name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(all) = all
            && !all.contains(schema)
        {
            all.push(schema.clone());
        }
    }
    if !found.is_empty() {
        let known = map.entry("properties").or_insert_with(|| json!({}));
        for (name, all) in found {
            let Value::Array(mut all) = all else { continue };
            let schema = match all.as_mut_slice() {
                [one] => one.take(),
                several => match several
                    .iter()
                    .map(|it| it.get("const").cloned())
                    .collect::<Option<Vec<_>>>()
                {
                    Some(values) => json!({ "enum": values }),
                    None => json!({ "anyOf": all }),
                },
            };
            if let Value::Object(known) = known {
                known.entry(name).or_insert(schema);
            }
        }
    }
    let needs =
        |choice: &Map<String, Value>| choice.get("required").and_then(Value::as_array).cloned();
    let mut needed = choices.iter().map(|choice| needs(choice).unwrap_or_default());
    let first = needed.next().unwrap_or_default();
    let common = needed.fold(first, |mut common, next| {
        common.retain(|name| next.contains(name));
        common
    });
    require(map, common);
}

fn require(map: &mut Map<String, Value>, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    if let Value::Array(known) = map.entry("required").or_insert_with(|| json!([])) {
        known.extend(more);
        unique(known);
    }
}

/// A choice as a short text. If the choice only requires members, the text lists these members. Otherwise, the text is
/// the schema of the choice.
fn choice_in_words(choice: &Map<String, Value>) -> String {
    let needed = choice.get("required").and_then(Value::as_array).into_iter().flatten();
    let needed: Vec<String> = needed.map(Value::to_string).collect();
    let is_short = choice.keys().all(|word| matches!(word.as_str(), "required" | "type"));
    if is_short && !needed.is_empty() {
        return format!("has {}", needed.join(" and "));
    }
    let mut choice = choice.clone();
    choice.shift_remove("type");
    let schema = Value::Object(choice).to_string();
    match schema.len() <= LONGEST || needed.is_empty() {
        true => quoted_text(schema),
        false => format!("has {}", needed.join(" and ")),
    }
}

fn quoted(schema: &Value) -> String {
    quoted_text(schema.to_string())
}

/// The text itself, or a replacement if the text is too long for a description.
fn quoted_text(schema: String) -> String {
    if schema.len() <= LONGEST {
        schema
    } else {
        "(a schema that is too long to be told)".to_owned()
    }
}
