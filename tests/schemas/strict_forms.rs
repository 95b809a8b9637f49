//! The schema that each vendor gets to enforce, and that every value which fits it is accepted.
//!
//! `HARNESS_STRICT_CALLS=10000 cargo test -p harness-tests strict_forms -- --nocapture`

use std::collections::{BTreeMap, HashSet};

use harness::{
    SideEffects, Tool, tool,
    tool::{StrictForm, ToolSchema},
    tools,
};
use serde_json::{Map, Value, json};

use crate::{schema_random::Random, setting};

const FORMS: [StrictForm; 4] =
    [StrictForm::Anthropic, StrictForm::OpenAI, StrictForm::Gemini, StrictForm::Common];

/// The schema of a tool with one argument `x`, which is required.
fn with(x: Value) -> ToolSchema {
    ToolSchema {
        name: "t".to_owned(),
        description: "T.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"x": x}, "required": ["x"],
            "additionalProperties": false}),
    }
}

/// The four forms of a schema, with `-` where there is none.
fn forms(x: &Value) -> [Value; 4] {
    FORMS.map(|form| match with(x.clone()).strict(form) {
        Ok(schema) => schema["properties"]["x"].clone(),
        Err(_) => json!("-"),
    })
}

/// The table of the documentation, word by word.
#[test]
fn each_vendor_is_sent_the_words_that_it_takes() {
    let said = |words: &str| json!({"type": "integer", "description": words});
    let text = |words: &str| json!({"type": "string", "description": words});
    let list =
        |words: &str| json!({"type": "array", "items": {"type": "string"}, "description": words});
    let none = || json!("-");
    let object = |members: Value, required: Value| {
        json!({"type": "object", "properties": members,
        "required": required, "additionalProperties": false})
    };
    let open = |members: Value, required: Value| json!({"type": "object", "properties": members, "required": required});
    let choices = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let table = [
        (
            json!({"type": "integer", "minimum": 1, "maximum": 9}),
            [
                said("At least 1, at most 9."),
                json!({"type": "integer", "minimum": 1, "maximum": 9}),
                json!({"type": "integer", "minimum": 1, "maximum": 9}),
                said("At least 1, at most 9."),
            ],
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": 0, "description": "How many"}),
            [
                said("How many. More than 0."),
                json!({"type": "integer", "exclusiveMinimum": 0, "description": "How many"}),
                said("How many. More than 0."),
                said("How many. More than 0."),
            ],
        ),
        (
            json!({"type": "string", "minLength": 1, "maxLength": 5}),
            [
                text("At least 1 character, at most 5 characters."),
                text("At least 1 character, at most 5 characters."),
                json!({"type": "string", "minLength": 1, "maxLength": 5}),
                text("At least 1 character, at most 5 characters."),
            ],
        ),
        (
            json!({"type": "string", "pattern": "^a"}),
            [
                text("Matches the pattern `^a`."),
                json!({"type": "string", "pattern": "^a"}),
                json!({"type": "string", "pattern": "^a"}),
                text("Matches the pattern `^a`."),
            ],
        ),
        (
            json!({"type": "string", "pattern": "^(?!a)"}),
            [(); 4].map(|()| text("Matches the pattern `^(?!a)`.")),
        ),
        (
            // A pattern that nobody can read would have the whole request refused.
            json!({"type": "string", "pattern": "(["}),
            [(); 4].map(|()| text("Matches the pattern `([`.")),
        ),
        (
            json!({"type": "string", "pattern": "^(a)\\1$"}),
            [(); 4].map(|()| text("Matches the pattern `^(a)\\1$`.")),
        ),
        (
            json!({"type": "string", "format": "uri"}),
            [
                json!({"type": "string", "format": "uri"}),
                text("In the format uri."),
                text("In the format uri."),
                text("In the format uri."),
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3, "uniqueItems": true}),
            [
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1,
                "description": "At most 3 items, no item twice."}),
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3,
                "description": "No item twice."}),
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3,
                "description": "No item twice."}),
                list("At least 1 item, at most 3 items, no item twice."),
            ],
        ),
        (json!({"const": "a"}), [(); 4].map(|()| json!({"enum": ["a"], "type": "string"}))),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            [
                json!({"type": "integer", "enum": [1, 2]}),
                json!({"type": "integer", "enum": [1, 2]}),
                said("One of 1, 2."),
                json!({"type": "integer", "enum": [1, 2]}),
            ],
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            [(); 4].map(|()| choices.clone()),
        ),
        (
            json!({"type": ["string", "null"]}),
            [
                json!({"type": ["string", "null"]}),
                json!({"type": ["string", "null"]}),
                json!({"type": "string", "nullable": true}),
                json!({"type": ["string", "null"]}),
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string", "default": "c"}}}),
            [
                object(json!({"a": {"type": "string"}, "b": text("Default: \"c\".")}), json!([])),
                object(
                    json!({"a": {"type": ["string", "null"]}, "b": {"type": ["string", "null"], "description": "Default: \"c\"."}}),
                    json!(["a", "b"]),
                ),
                open(json!({"a": {"type": "string"}, "b": text("Default: \"c\".")}), json!([])),
                object(
                    json!({"a": {"type": ["string", "null"]}, "b": {"type": ["string", "null"], "description": "Default: \"c\"."}}),
                    json!(["a", "b"]),
                ),
            ],
        ),
        (
            json!({"type": "string", "not": {"const": "a"}}),
            [(); 4].map(|()| text("Must not be what this schema describes: {\"const\":\"a\"}.")),
        ),
        (
            json!({"allOf": [{"type": "string"}], "title": "T", "examples": ["a"]}),
            [(); 4].map(|()| text("For example: \"a\".")),
        ),
        (json!({"$ref": "#/properties/y", "description": "D."}), [(); 4].map(|()| none())),
        (json!({}), [(); 4].map(|()| none())),
        (json!(true), [(); 4].map(|()| none())),
        (json!({"type": "array"}), [(); 4].map(|()| none())),
        (json!({"type": "array", "prefixItems": [{"type": "string"}]}), [(); 4].map(|()| none())),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            [(); 4].map(|()| none()),
        ),
        (
            json!({"type": "object", "properties": {}, "oneOf": [{"type": "object"}]}),
            [(); 4].map(|()| none()),
        ),
        (json!({"allOf": [{"type": "string"}, {"minLength": 1}]}), [(); 4].map(|()| none())),
    ];
    for (schema, expected) in table {
        for ((form, found), expected) in FORMS.iter().zip(forms(&schema)).zip(expected) {
            assert_eq!(found, expected, "{form:?} of {schema}");
        }
    }
}

#[test]
fn a_type_that_contains_itself_is_strict_where_the_vendor_takes_it() {
    let schema = walk::TOOL.schema();
    for form in [StrictForm::Anthropic, StrictForm::Gemini, StrictForm::Common] {
        let reason = schema.strict(form).unwrap_err().to_string();
        assert!(reason.ends_with("contains itself"), "{form:?}: {reason}");
    }
    let strict = schema.strict(StrictForm::OpenAI).unwrap();
    assert!(strict["$defs"].as_object().is_some_and(|all| all.len() == 1), "{strict:#}");
    let text = strict.to_string();
    let inner = strict["$defs"].as_object().unwrap().values().next().unwrap();
    assert_eq!(
        inner["required"].as_array().map(Vec::len),
        inner["properties"].as_object().map(Map::len),
        "{text}"
    );
    // Beside a reference stands nothing.
    fn alone(schema: &Value) -> bool {
        match schema {
            Value::Object(map) => {
                (!map.contains_key("$ref") || map.len() == 1) && map.values().all(alone)
            }
            Value::Array(items) => items.iter().all(alone),
            _ => true,
        }
    }
    assert!(alone(&strict), "{strict:#}");
}

/// The vendor finds the beginning of a request in its cache, also that of another process.
#[test]
fn a_form_is_written_the_same_each_time() {
    let names = ["tree", "list", "leaf", "node", "pair"];
    let refer = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    let all: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), refer(name))).collect();
    let one = json!({"type": "object", "properties": all, "additionalProperties": false});
    let definitions: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), one.clone())).collect();
    let mut schema = one.clone();
    schema["$defs"] = Value::Object(definitions);
    let forms: HashSet<String> = (0..20)
        .map(|_| {
            let tool = by_hand("grow", schema.clone());
            tool.schema().strict(StrictForm::OpenAI).unwrap().to_string()
        })
        .collect();
    assert_eq!(forms.len(), 1, "{forms:#?}");
}

/// `null` is among the types, and none of the values.
#[test]
fn what_the_values_leave_out_is_in_no_form() {
    for form in forms(&json!({"type": ["string", "null"], "enum": ["a", "b"]})) {
        assert_eq!(form["enum"], json!(["a", "b"]));
        assert_eq!(form.get("nullable"), None, "{form}");
    }
}

#[test]
fn what_a_request_may_hold_is_shared_by_its_tools() {
    let list = |optional: usize, unions: usize| {
        let mut properties = Map::new();
        for number in 0..optional {
            properties.insert(format!("o{number}"), json!({"type": "string"}));
        }
        let mut required = Vec::new();
        for number in 0..unions {
            properties.insert(format!("u{number}"), json!({"type": ["string", "integer"]}));
            required.push(format!("u{number}"));
        }
        let input_schema =
            json!({"type": "object", "properties": properties, "required": required});
        ToolSchema { name: "t".to_owned(), description: "T.".to_owned(), input_schema }
    };
    let strict = |tools: &[ToolSchema]| -> Vec<bool> {
        StrictForm::Anthropic.of_all(tools).iter().map(Result::is_ok).collect()
    };
    assert_eq!(strict(&[list(20, 0), list(5, 0), list(4, 0)]), [true, false, true]);
    assert_eq!(strict(&[list(0, 16), list(0, 1), list(1, 0)]), [true, false, true]);
    let many: Vec<ToolSchema> = (0..21).map(|_| list(0, 0)).collect();
    assert_eq!(strict(&many).iter().filter(|strict| **strict).count(), 20);
    let reason = StrictForm::Anthropic.of_all(&[list(25, 0)]).remove(0).unwrap_err().to_string();
    assert_eq!(reason, "the request has more members that may be left out than the vendor takes");
    let mut deep = json!({"type": "string"});
    for _ in 0..12 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let reason = with(deep).strict(StrictForm::OpenAI).unwrap_err().to_string();
    assert_eq!(reason, "has 13 levels of objects, and the vendor takes 10");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
struct Filter {
    /// Field
    field: String,
    #[serde(default)]
    weight: i32,
    #[serde(default)]
    tags: Vec<String>,
    limit: Option<u16>,
    #[serde(default = "yes")]
    exact: bool,
    mode: Option<Mode>,
    #[serde(default)]
    when: When,
}

fn yes() -> bool {
    true
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Quick
    Fast,
    /// Thorough
    Slow,
}

#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
struct When {
    hour: u8,
    minute: Option<u8>,
    zone: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "only whether it is read is of interest")]
enum Step {
    Move {
        x: f32,
        y: Option<f32>,
    },
    Say {
        text: String,
        #[serde(default)]
        loud: bool,
    },
    Stop,
    With(When),
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
enum Target {
    Name(String),
    Number(u32),
    Place {
        x: i64,
        #[serde(default)]
        y: i64,
    },
    Range {
        from: u8,
        to: Option<u8>,
    },
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
enum Outer {
    Unit,
    Tuple(Box<Filter>),
    Fields { at: Target },
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
struct Node {
    name: String,
    #[serde(default)]
    children: Vec<Node>,
    next: Option<Box<Node>>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
struct Flat {
    id: u8,
    #[serde(flatten)]
    when: When,
    #[serde(flatten)]
    filter: Option<Limits>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
struct Limits {
    most: Option<u32>,
    #[serde(default)]
    least: u32,
}

/// Searches.
#[tool(side_effects = "none")]
fn search(
    /// Filters
    filters: Vec<Filter>,
    /// The first
    first: Option<Filter>,
    /// How many
    #[param(default = 10, range(0..=1000))]
    limit: i32,
    /// In which mode
    #[param(default = "fast")]
    mode: String,
) {
    let _ = (filters, first, limit, mode);
}

/// Does steps.
#[tool(side_effects = "none")]
fn steps(
    /// Steps
    steps: Vec<Step>,
    /// The last
    last: Option<Step>,
    /// Targets
    targets: Option<Vec<Target>>,
    /// Outer
    outer: Outer,
) {
    let _ = (steps, last, targets, outer);
}

/// Walks.
#[tool(side_effects = "none")]
fn walk(
    /// Root
    root: Node,
    /// Another
    other: Option<Node>,
) {
    let _ = (root, other);
}

/// Flat.
#[tool(side_effects = "none")]
fn flat(
    /// Flat
    flat: Flat,
    /// When
    when: Option<When>,
    /// Letter
    #[param(default = 'a')]
    letter: char,
) {
    let _ = (flat, when, letter);
}

/// Has no strict form.
#[tool(side_effects = "none")]
fn map(
    /// By name
    map: BTreeMap<String, Option<Filter>>,
) {
    let _ = map;
}

/// Writes calls that follow a strict form as a model would that is held to it.
struct Follower<'a> {
    random: Random,
    root: &'a Value,
}

impl Follower<'_> {
    fn sometimes(&mut self, of: u32) -> bool {
        self.random.dice.u32(..of) == 0
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.value(self.root.pointer(&name[1..]).unwrap(), depth);
        }
        if schema["nullable"] == true && self.sometimes(2) {
            return Value::Null;
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let is_null = |choice: &&Value| choice["type"] == "null";
            let null = choices.iter().find(is_null).filter(|_| depth == 0 || self.sometimes(2));
            let at = self.random.dice.usize(..choices.len());
            return self.value(null.unwrap_or(&choices[at]), depth);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values[self.random.dice.usize(..values.len())].clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => {
                let null =
                    kinds.iter().any(|kind| kind == "null") && (depth == 0 || self.sometimes(2));
                if null { "null" } else { kinds[0].as_str().unwrap() }
            }
            kind => kind.as_str().unwrap_or_else(|| panic!("{schema}")),
        };
        match kind {
            "null" => Value::Null,
            "boolean" => json!(self.random.dice.bool()),
            "integer" => {
                json!(schema["minimum"].as_i64().unwrap_or(0) + self.random.dice.i64(0..3))
            }
            "number" => json!(f64::from(self.random.dice.i32(0..40)) / 8.0),
            "string" => json!("a"),
            "array" => {
                let least = schema["minItems"].as_u64();
                let least = least.and_then(|least| usize::try_from(least).ok()).unwrap_or(0);
                let count = if depth == 0 { least } else { least + self.random.dice.usize(..3) };
                (0..count).map(|_| self.value(&schema["items"], depth.saturating_sub(1))).collect()
            }
            "object" => {
                let required: Vec<&str> = schema["required"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(Value::as_str)
                    .collect();
                let mut members = Map::new();
                for (name, property) in schema["properties"].as_object().unwrap() {
                    if required.contains(&name.as_str()) || depth > 0 && self.sometimes(2) {
                        members.insert(name.clone(), self.value(property, depth.saturating_sub(1)));
                    }
                }
                Value::Object(members)
            }
            other => panic!("{other}"),
        }
    }
}

fn by_hand(name: &str, schema: Value) -> Tool {
    Tool::new(name.to_owned(), "By hand.", schema, SideEffects::NONE, |_, _| {
        Box::pin(async { Ok("".into()) })
    })
}

#[test]
fn whatever_follows_a_strict_form_is_taken() {
    let calls = setting("HARNESS_STRICT_CALLS", 2_000);
    let mut all = tools![search, steps, walk, flat, map];
    let point = json!({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": ["integer", "null"]},
        "z": {"const": "three"}}, "required": ["x"], "additionalProperties": false});
    all.push(by_hand(
        "refers",
        json!({"type": "object", "properties": {
        "a": {"$ref": "#/$defs/point"}, "b": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        "c": {"oneOf": [{"$ref": "#/$defs/point"}, {"type": "string"}]},
        "d": {"allOf": [{"type": "object", "properties": {"e": {"enum": ["a", "b"]}}}]}},
        "required": ["b"], "$defs": {"point": point}}),
    ));
    all.push(by_hand("nothing", json!({"type": "object"})));
    all.push(by_hand("tree", json!({"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}, "$defs": {
        "t": {"type": "object", "properties": {"v": {"type": "number"}, "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}}}})));
    let (mut made, mut pairs) = (0, 0);
    let forms: Vec<(&Tool, StrictForm, Value)> = all
        .iter()
        .flat_map(|tool| FORMS.map(|form| (tool, form, tool.schema().strict(form))))
        .filter_map(|(tool, form, strict)| Some((tool, form, strict.ok()?)))
        .collect();
    for (tool, form, strict) in &forms {
        pairs += 1;
        for seed in 0..calls.div_ceil(forms.len()) as u64 {
            let mut follower = Follower { random: Random::new(seed), root: strict };
            let arguments = follower.value(strict, 5);
            made += 1;
            if let Err(lines) = tool.check(arguments.as_object().unwrap()) {
                panic!("{} {form:?}: {lines:?}\n  {arguments}\n  {strict}", tool.name());
            }
        }
    }
    println!("{made} calls by {pairs} strict forms of {} tools, none refused", all.len());
    assert!(pairs >= 20, "{pairs}");
}

/// Words that servers write and vendors do not know: of one of them the whole request would be refused.
#[test]
fn a_word_that_a_vendor_does_not_know_is_in_no_form() {
    let bases = [
        json!({"type": "string"}),
        json!({"type": "integer", "format": "int32"}),
        json!({"type": "object", "properties": {"q": {"type": "string"}}}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    ];
    let words = json!({"x-order": 3, "example": 1, "nullable": true, "discriminator": {"propertyName": "q"},
        "contentEncoding": "base64", "contentSchema": {}, "$dynamicAnchor": "a", "$vocabulary": {},
        "$recursiveAnchor": true, "xml": {}, "externalDocs": {}, "minimum": "3", "minLength": "3",
        "exclusiveMinimum": true, "description": 3});
    for base in bases {
        let mut x = base.clone();
        let members = x.as_object_mut().expect("an object");
        members.extend(words.as_object().expect("an object").clone());
        let mut schema = with(x);
        let root = schema.input_schema.as_object_mut().expect("an object");
        root.extend([("x-root".to_owned(), json!(1)), ("externalDocs".to_owned(), json!({}))]);
        for form in FORMS {
            let sent = schema.strict(form).expect("a strict form");
            let x = sent["properties"]["x"].as_object().expect("an object");
            for (word, value) in words.as_object().expect("an object") {
                let is_left_out = x.get(word) != Some(value) || base.get(word).is_some();
                assert!(is_left_out, "{form:?}: {word} in {sent}");
            }
            assert!(sent.get("x-root").is_none() && sent.get("externalDocs").is_none(), "{sent}");
        }
    }
}

/// What stands beside each other holds together, and no vendor takes that.
#[test]
fn choices_beside_what_limits_them_have_no_strict_form() {
    let [text, number] = [json!({"type": "string"}), json!({"type": "integer"})];
    for x in [
        json!({"anyOf": [text, number], "oneOf": [text, {"type": "null"}]}),
        json!({"type": "string", "anyOf": [text, number]}),
        json!({"type": []}),
        json!({"type": "text"}),
    ] {
        assert_eq!(forms(&x), [json!("-"), json!("-"), json!("-"), json!("-")], "{x}");
    }
    let same = json!({"type": ["string", "number"], "anyOf": [text, number]});
    assert!(forms(&same).iter().all(|form| *form != json!("-")), "{same}");
}
