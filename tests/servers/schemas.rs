//! Schemas of tools as servers and hands write them, and the rules of the vendors that read them.

use harness::{
    Message, Transcript,
    provider::Request,
    tool::{StrictForm, ToolSchema},
    wire::{anthropic, chat, responses},
};
use serde_json::{Map, Value, json};

/// A schema that is sent by each wire.
fn sent(schema: &Value) -> [(&'static str, Value); 4] {
    let tools = [ToolSchema {
        name: "t".into(),
        description: "A tool.".into(),
        input_schema: schema.clone(),
    }];
    let mut said = Transcript::default();
    said.push(Message::user("Go.")).unwrap();
    let request = Request::new(&said).unwrap().with_tools(&tools);
    let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).unwrap();
    let of_chat = |form| {
        let options = chat::Options { strict_form: form, ..chat::Options::new("m") };
        read(chat::encode(&request, &options).unwrap())["tools"][0]["function"]["parameters"].take()
    };
    let messages = read(anthropic::encode(&request, &anthropic::Options::new("m")).unwrap());
    let items = read(responses::encode(&request, &responses::Options::new("m")).unwrap());
    [
        ("anthropic", messages["tools"][0]["input_schema"].clone()),
        ("openai", items["tools"][0]["parameters"].clone()),
        ("openai", of_chat(StrictForm::OpenAI)),
        ("openai", of_chat(StrictForm::Common)),
    ]
}

/// The rules of JSON Schema 2020-12 that old and wrong schemas break.
///
/// Source: <https://json-schema.org/draft/2020-12/schema>.
fn standard(schema: &Value, at: &str, faults: &mut Vec<String>) {
    let Value::Object(map) = schema else {
        if !schema.is_boolean() {
            faults.push(format!("{at}: {schema} is no schema"));
        }
        return;
    };
    for (word, value) in map {
        let is_fit = match word.as_str() {
            "const" | "default" | "examples" | "example" => true,
            "type" => match value {
                Value::Array(all) => !all.is_empty() && all.iter().all(is_type),
                one => is_type(one),
            },
            "required" => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            "exclusiveMinimum" | "exclusiveMaximum" | "minimum" | "maximum" => value.is_number(),
            "items" => !value.is_array(),
            "properties" | "$defs" | "patternProperties" | "dependentSchemas" => value.is_object(),
            "enum" => value.as_array().is_some_and(|all| !all.is_empty()),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array().is_some_and(|all| !all.is_empty())
            }
            "definitions" | "dependencies" => false,
            "$schema" => value.as_str().is_some_and(|it| it.contains("2020-12")),
            _ => !value.is_null(),
        };
        if !is_fit {
            faults.push(format!("{at}/{word}: {value}"));
        }
    }
    below(map, &mut |place, part| standard(part, &format!("{at}/{place}"), faults));
}

fn is_type(kind: &Value) -> bool {
    let all = ["null", "boolean", "integer", "number", "string", "array", "object"];
    kind.as_str().is_some_and(|kind| all.contains(&kind))
}

/// Calls `each` with the schemas inside of one.
fn below(map: &Map<String, Value>, each: &mut dyn FnMut(String, &Value)) {
    for (word, value) in map {
        match (word.as_str(), value) {
            (
                "properties" | "$defs" | "patternProperties" | "dependentSchemas",
                Value::Object(all),
            ) => {
                all.iter().for_each(|(name, part)| each(format!("{word}/{name}"), part));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                all.iter().enumerate().for_each(|(at, part)| each(format!("{word}/{at}"), part));
            }
            ("items" | "additionalProperties" | "not" | "contains", part) => {
                each(word.clone(), part)
            }
            _ => {}
        }
    }
}

/// Sources: <https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes> (top-level choices, names of members), and
/// the refusals `input_schema does not support oneOf, allOf, or anyOf at the top level`, `Property keys should match pattern
/// '^[a-zA-Z0-9_.-]{1,64}$'` and `It must match JSON Schema draft 2020-12`.
fn for_anthropic(schema: &Value) -> Vec<String> {
    fn names(schema: &Value, faults: &mut Vec<String>) {
        let Value::Object(map) = schema else { return };
        for name in map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
        {
            let is_fit = (1..=64).contains(&name.len())
                && name.chars().all(|it| it.is_ascii_alphanumeric() || "_.-".contains(it));
            if !is_fit {
                faults.push(format!("the name {name:?}"));
            }
        }
        below(map, &mut |_, part| names(part, faults));
    }
    let mut faults = Vec::new();
    standard(schema, "", &mut faults);
    names(schema, &mut faults);
    let root =
        ["oneOf", "allOf", "anyOf", "$ref"].into_iter().filter(|it| schema.get(*it).is_some());
    faults.extend(root.map(|word| format!("{word} at the root")));
    if schema["type"] != "object" {
        faults.push("no object".to_owned());
    }
    faults
}

/// Sources: <https://platform.openai.com/docs/guides/function-calling>, and the refusals `schema must have type 'object' and not have
/// 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level`, `object schema missing properties` and `array schema missing
/// items`.
fn for_openai(schema: &Value) -> Vec<String> {
    fn lists(schema: &Value, at: &str, faults: &mut Vec<String>) {
        let Value::Object(map) = schema else { return };
        let is_list = match map.get("type") {
            Some(Value::Array(all)) => all.contains(&json!("array")),
            kind => kind == Some(&json!("array")),
        };
        if is_list && !map.get("items").is_some_and(Value::is_object) {
            faults.push(format!("{at}: array schema missing items"));
        }
        below(map, &mut |place, part| lists(part, &format!("{at}/{place}"), faults));
    }
    let mut faults = Vec::new();
    standard(schema, "", &mut faults);
    lists(schema, "", &mut faults);
    let root = ["oneOf", "allOf", "anyOf", "enum", "const", "not", "$ref"];
    let root = root.into_iter().filter(|it| schema.get(*it).is_some());
    faults.extend(root.map(|word| format!("{word} at the root")));
    if schema["type"] != "object" || !schema["properties"].is_object() {
        faults.push("object schema missing properties".to_owned());
    }
    faults
}

fn references(schema: &Value) -> Vec<&str> {
    match schema {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(map.values().flat_map(references)).collect()
        }
        Value::Array(all) => all.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

fn faults(vendor: &str, schema: &Value) -> Vec<String> {
    if vendor == "anthropic" { for_anthropic(schema) } else { for_openai(schema) }
}

/// Schemas with faults, and what of them has to be said in some form.
fn faulty() -> Vec<(Value, Vec<&'static str>)> {
    let text = || json!({"type": "string"});
    vec![
        (json!({"type": "object"}), vec![]),
        (
            json!({"type": "object", "properties": {"a": text(), "b": text()}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            vec!["at least one of these", r#"has \"a\""#],
        ),
        (
            json!({"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"], "oneOf": [
                {"properties": {"url": text(), "how": {"const": "u"}}, "required": ["url", "how"]},
                {"properties": {"file": text(), "how": {"const": "f"}}, "required": ["file", "how"], "additionalProperties": false},
            ]}),
            vec![
                "exactly one of these",
                r#""url":{"type":"string"}"#,
                r#""file":{"#,
                r#""enum":["u","f"]"#,
                r#""required":["k","how"]"#,
            ],
        ),
        (
            json!({"type": "object", "allOf": [
                {"properties": {"a": text()}, "required": ["a"]},
                {"$ref": "#/$defs/B"},
                {"not": {"required": ["c"]}},
            ], "$defs": {"B": {"type": "object", "properties": {"b": {"type": "integer"}}}}}),
            vec![
                r#""a":{"type":"string"}"#,
                r#""b":{"type":"integer"}"#,
                r#""required":["a"]"#,
                "must also fit",
            ],
        ),
        (
            json!({"type": "object", "$ref": "#/definitions/A", "definitions": {"A": {"type": "object", "properties": {"a": text()}}}}),
            vec![r#""a":{"type":"string"}"#],
        ),
        (
            json!({"type": "object", "properties": {"xs": {"type": "array"}, "ys": {"type": ["array", "null"]}}}),
            vec!["xs", "ys"],
        ),
        (
            json!({"type": "object", "properties": {"p": {"type": "array", "items": [{"type": "number"}, {"type": "number"}], "additionalItems": false}}}),
            vec!["prefixItems"],
        ),
        (
            json!({"type": "object", "properties": {"p": {"type": "array", "prefixItems": [{"type": "number"}]}}}),
            vec!["prefixItems"],
        ),
        (
            json!({"type": "object", "description": null, "required": null, "properties": {"a": {"type": "string", "description": null, "enum": null, "default": null}}}),
            vec![r#""default":null"#],
        ),
        (json!({"type": "object", "properties": null}), vec![]),
        (
            json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}}}),
            vec![r#""exclusiveMinimum":0"#, r#""maximum":9"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "required": true}, "b": {"type": "string", "required": false}}}),
            vec![r#""required":["a"]"#],
        ),
        (
            json!({"type": "object", "properties": {"o": {"type": "object", "properties": {"a": {"type": "any", "required": true}}}}}),
            vec![r#""required":["a"]"#],
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "id": "x", "type": "object", "properties": {"a": {"$ref": "#/definitions/A"}, "b": text()}, "definitions": {"A": {"type": "float"}}, "dependencies": {"a": ["b"], "b": {"required": ["a"]}}}),
            vec![r##""$ref":"#/$defs/A""##, "dependentRequired", "dependentSchemas"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"enum": []}, "b": {"enum": ["x", "x"]}, "c": true, "d": "string", "e": 7}}),
            vec![r#""enum":["x"]"#, r#""d":{"type":"string"}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": text()}, "not": {"required": ["z"]}, "enum": [{"a": "b"}]}),
            vec!["z"],
        ),
        (
            json!({"type": "object", "$ref": "#/$defs/A", "description": "Own.", "properties": {"b": {"type": "integer"}}, "required": ["b"],
                "$defs": {"A": {"type": "object", "description": "More.", "properties": {"a": text(), "b": {"minimum": 1}}, "required": ["a"]}}}),
            vec![
                r#""a":{"type":"string"}"#,
                r#""required":["b","a"]"#,
                r#""allOf":[{"type":"integer"},{"minimum":1}]"#,
                "Own. More.",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"type": "string", "required": true}}}),
            vec![],
        ),
        (
            json!({"type": "object", "properties": {
                "p": {"type": "array", "items": [{"type": "object", "properties": {"deep": text()}}, {"type": "number"}]},
                "q": {"$ref": "#/properties/p/items/0"},
            }}),
            vec![r##""q":{"$ref":"#/$defs/"##],
        ),
        (
            json!({"$ref": "#/definitions/Args/items/0", "definitions": {"Args": {"items": [{"type": "object", "properties": {"a": text()}}]}}}),
            vec![r#""a":{"type":"string"}"#],
        ),
        (
            json!({"type": "object", "anyOf": [
                {"type": "object", "properties": {"a": {"type": "object", "properties": {"next": {"$ref": "#/anyOf/0/properties/a"}}}}},
                {"type": "object", "properties": {"b": {"$ref": "#/anyOf/0/properties/a"}}},
            ]}),
            vec![r##""b":{"$ref":"#/$defs/"##, r##""next":{"$ref":"#/$defs/"##],
        ),
    ]
}

#[test]
fn each_vendor_takes_the_schemas_of_servers_and_loses_none_of_their_rules() {
    for (schema, rules) in faulty() {
        let before = [for_anthropic(&schema), for_openai(&schema)];
        assert!(before.iter().any(|faults| !faults.is_empty()), "{schema}");
        for (vendor, sent) in sent(&schema) {
            assert_eq!(faults(vendor, &sent), [""; 0], "{vendor}: {schema} became {sent}");
            for name in references(&sent) {
                assert!(sent.pointer(&name[1..]).is_some(), "{vendor}: {name} in {sent}");
            }
            let words = sent.to_string();
            for rule in &rules {
                assert!(words.contains(rule), "{vendor}: `{rule}` of {schema} is not in {sent}");
            }
        }
    }
}

#[test]
fn a_member_with_a_name_that_anthropic_refuses_is_told_in_words() {
    let long = "x".repeat(65);
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["dry run"],
        "properties": {"a": {"type": "string"}, "dry run": {"type": "boolean"}, "$top": {"type": "integer"}, (long.clone()): {}}});
    for (vendor, sent) in sent(&schema) {
        assert_eq!(faults(vendor, &sent), [""; 0], "{sent}");
        if vendor == "openai" {
            assert_eq!(sent, schema);
            continue;
        }
        assert_eq!(sent["properties"], json!({"a": {"type": "string"}}));
        let about = sent["description"].as_str().unwrap();
        for part in
            ["must have the member \"dry run\"", "may have the member \"$top\"", &long, "boolean"]
        {
            assert!(about.contains(part), "{about}");
        }
        assert_eq!(sent.get("additionalProperties"), None, "the others may come");
    }
}

/// A cache finds a request only by its bytes.
#[test]
fn a_schema_without_faults_is_sent_byte_by_byte() {
    let schema = json!({"type": "object", "description": "All.", "properties": {
        "z": {"type": "string", "pattern": "^a", "default": null},
        "a": {"$ref": "#/$defs/Other", "description": "Another."},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"anyOf": [{"type": "object", "properties": {"k": {"const": null}}}, {"type": "null"}]},
        "l": {"type": "array", "items": {"type": "array", "items": {}}},
        "id": {"type": "string"}, "required": {"type": "boolean"}, "$schema": {"type": "string"},
    }, "required": ["z", "id"], "additionalProperties": false, "$defs": {"Other": {"type": "string", "enum": ["b", "a"]}}});
    assert!(
        for_anthropic(&json!({"type": "object", "properties": {"id": {"type": "string"}}}))
            .is_empty()
    );
    for (vendor, sent) in sent(&schema) {
        let names = |vendor: &str| vendor == "anthropic";
        // Anthropic takes no `$` in a name.
        if !names(vendor) {
            assert_eq!(sent.to_string(), schema.to_string(), "{vendor}");
        }
    }
    let mut plain = schema;
    plain["properties"].as_object_mut().unwrap().shift_remove("$schema");
    for (vendor, sent) in sent(&plain) {
        assert_eq!(sent.to_string(), plain.to_string(), "{vendor}");
    }
}
