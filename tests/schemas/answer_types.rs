//! Answers of any type: a value fits the schema in the form of each vendor, is shown while it arrives, and is
//! read back, whichever vendor has enforced the schema.
//!
//! `HARNESS_TYPES=10000 HARNESS_PYTHON=/path/to/python3 cargo test -p harness-tests answer_types -- --nocapture`

use std::{borrow::Cow, cell::RefCell};

use harness::{
    Agent, SideEffects, Tool,
    testing::{ScriptedProvider, reply},
    tool::{StrictForm, ToolSchema},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{answer_views::pushed, schema_oracle::judged, schema_random::Random, setting};

const FORMS: [StrictForm; 4] =
    [StrictForm::Anthropic, StrictForm::OpenAI, StrictForm::Gemini, StrictForm::Common];

thread_local! {
    /// The schema of [`Any`] on this thread.
    static SCHEMA: RefCell<Value> = const { RefCell::new(Value::Null) };
}

/// A type whose schema is made while the test runs.
#[derive(Debug, serde::Deserialize)]
struct Any(Value);

impl JsonSchema for Any {
    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        SCHEMA.with_borrow(|schema| schema.clone().try_into().expect("an object or a bool"))
    }
}

/// A type as people derive them.
enum Shape {
    Bool,
    Integer {
        least: i64,
        most: i64,
    },
    Number,
    Text {
        least: usize,
        most: Option<usize>,
    },
    Matching,
    Date,
    /// An enum without fields.
    Choice(Vec<String>),
    Maybe(Box<Shape>),
    List {
        of: Box<Shape>,
        least: usize,
        most: Option<usize>,
    },
    Struct(Vec<Member>),
    /// An enum by the member `kind`.
    Tagged(Vec<Vec<Member>>),
    /// An enum as `serde` writes it unless it is told otherwise.
    Outer(Vec<Shape>),
}

struct Member {
    name: String,
    shape: Shape,
    /// Whether it may be left out.
    has_default: bool,
}

const WORDS: [&str; 8] =
    ["title", "description", "enum", "required", "properties", "type", "answer", "größe"];

impl Shape {
    fn any(random: &mut Random, depth: usize) -> Self {
        let dice = &mut random.dice;
        match dice.u32(..if depth == 0 { 7 } else { 12 }) {
            0 => Self::Bool,
            1 => {
                let least = dice.i64(-100..100);
                Self::Integer { least, most: least + dice.i64(0..1_000) }
            }
            2 => Self::Number,
            3 => {
                let least = dice.usize(0..3);
                Self::Text { least, most: dice.bool().then(|| least + dice.usize(0..40)) }
            }
            4 => Self::Matching,
            5 => Self::Date,
            6 => Self::Choice((0..dice.usize(1..5)).map(|n| format!("choice {n}")).collect()),
            7 => Self::Maybe(Box::new(Self::any(random, depth - 1))),
            8 => {
                let least = dice.usize(0..3);
                let most = dice.bool().then(|| least + dice.usize(0..4));
                Self::List { of: Box::new(Self::any(random, depth - 1)), least, most }
            }
            9 => Self::Struct(members(random, depth - 1)),
            10 => {
                let count = dice.usize(1..4);
                Self::Tagged((0..count).map(|_| members(random, depth - 1)).collect())
            }
            _ => {
                let count = dice.usize(1..4);
                Self::Outer((0..count).map(|_| Self::any(random, depth - 1)).collect())
            }
        }
    }

    /// As `schemars` writes it.
    fn schema(&self) -> Value {
        match self {
            Self::Bool => json!({"type": "boolean"}),
            Self::Integer { least, most } => {
                json!({"type": "integer", "format": "int64", "minimum": least, "maximum": most})
            }
            Self::Number => json!({"type": "number", "format": "double"}),
            Self::Text { least, most } => {
                let mut schema =
                    json!({"type": "string", "minLength": least, "description": "Some words."});
                if let Some(most) = most {
                    schema["maxLength"] = json!(most);
                }
                schema
            }
            Self::Matching => json!({"type": "string", "pattern": "^[a-z]{2}-[0-9]+$"}),
            Self::Date => json!({"type": "string", "format": "date"}),
            Self::Choice(names) => json!({"type": "string", "enum": names}),
            Self::Maybe(of) => {
                let of = of.schema();
                match (&of["type"], of.get("enum")) {
                    (Value::String(kind), None) => {
                        let mut schema = of.clone();
                        schema["type"] = json!([kind, "null"]);
                        schema
                    }
                    _ => json!({"anyOf": [of, {"type": "null"}]}),
                }
            }
            Self::List { of, least, most } => {
                let mut schema = json!({"type": "array", "items": of.schema()});
                if *least > 0 {
                    schema["minItems"] = json!(least);
                }
                if let Some(most) = most {
                    schema["maxItems"] = json!(most);
                }
                schema
            }
            Self::Struct(members) => object(members, None),
            Self::Tagged(variants) => {
                let all = variants.iter().enumerate();
                json!({"oneOf": all.map(|(n, members)| object(members, Some(n))).collect::<Value>()})
            }
            Self::Outer(variants) => {
                let all = variants.iter().enumerate().map(|(n, shape)| {
                    let name = format!("V{n}");
                    json!({"type": "object", "properties": {&*name: shape.schema()}, "required": [name],
                        "additionalProperties": false})
                });
                json!({"oneOf": all.collect::<Value>()})
            }
        }
    }

    /// A value of it. `all` writes `null` for each member that is left out: some vendors have the model write all
    /// members.
    fn value(&self, dice: &mut fastrand::Rng, all: bool) -> Value {
        match self {
            Self::Bool => json!(dice.bool()),
            Self::Integer { least, most } => json!(dice.i64(*least..=*most)),
            Self::Number => json!(f64::from(dice.i32(-1_000..1_000)) / 8.0),
            Self::Text { least, most } => {
                let most = most.unwrap_or(least + 20);
                let letters = ['a', 'ß', '"', '\\', '\n', '😀', '\u{1}', ' ', '}', ']'];
                (0..dice.usize(*least..=most))
                    .map(|_| letters[dice.usize(..letters.len())])
                    .collect::<String>()
                    .into()
            }
            Self::Matching => json!(format!("ab-{}", dice.u32(..))),
            Self::Date => json!(format!("2026-{:02}-{:02}", dice.u32(1..=12), dice.u32(1..=28))),
            Self::Choice(names) => json!(names[dice.usize(..names.len())]),
            Self::Maybe(of) => {
                if dice.bool() {
                    of.value(dice, all)
                } else {
                    Value::Null
                }
            }
            Self::List { of, least, most } => {
                let count = dice.usize(*least..=most.unwrap_or(least + 3));
                (0..count).map(|_| of.value(dice, all)).collect()
            }
            Self::Struct(members) => members_of(members, None, dice, all),
            Self::Tagged(variants) => {
                let at = dice.usize(..variants.len());
                members_of(&variants[at], Some(at), dice, all)
            }
            Self::Outer(variants) => {
                let at = dice.usize(..variants.len());
                json!({format!("V{at}"): variants[at].value(dice, all)})
            }
        }
    }
}

fn members(random: &mut Random, depth: usize) -> Vec<Member> {
    let count = random.dice.usize(0..5);
    let from = random.dice.usize(..WORDS.len());
    let names = WORDS.into_iter().cycle().skip(from).take(count);
    names
        .map(|name| {
            let shape = Shape::any(random, depth);
            // An optional field may be left out, and a field may have a default.
            let has_default = matches!(shape, Shape::Maybe(_)) || random.dice.u32(..4) == 0;
            Member { name: name.to_owned(), shape, has_default }
        })
        .collect()
}

fn object(members: &[Member], tag: Option<usize>) -> Value {
    let mut properties: Map<String, Value> =
        members.iter().map(|member| (member.name.clone(), member.shape.schema())).collect();
    let required =
        members.iter().filter(|member| !member.has_default).map(|member| member.name.as_str());
    let mut required: Vec<&str> = required.collect();
    if let Some(tag) = tag {
        properties.insert("kind".to_owned(), json!({"type": "string", "const": format!("k{tag}")}));
        required.push("kind");
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn members_of(
    members: &[Member],
    tag: Option<usize>,
    dice: &mut fastrand::Rng,
    all: bool,
) -> Value {
    let mut map = Map::new();
    if let Some(tag) = tag {
        map.insert("kind".to_owned(), json!(format!("k{tag}")));
    }
    for member in members {
        let value = member.shape.value(dice, all);
        let is_left_out = member.has_default && (value.is_null() || dice.bool());
        match (is_left_out, all) {
            (false, _) => drop(map.insert(member.name.clone(), value)),
            (true, true) => drop(map.insert(member.name.clone(), Value::Null)),
            (true, false) => {}
        }
    }
    Value::Object(map)
}

/// The value without the members that are `null`: some forms write what others leave out.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), bare(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// Gemini's `nullable` in the words of JSON Schema.
fn in_json_schema(form: &Value) -> Value {
    match form {
        Value::Object(map) => {
            let map = map.iter().map(|(name, value)| (name.clone(), in_json_schema(value)));
            let mut map: Map<String, Value> = map.collect();
            if map.get("nullable") == Some(&Value::Bool(true)) {
                map.shift_remove("nullable");
                return json!({"anyOf": [map, {"type": "null"}]});
            }
            map.into()
        }
        Value::Array(items) => items.iter().map(in_json_schema).collect(),
        other => other.clone(),
    }
}

fn takes(schema: &Value, value: &Value) -> Result<(), String> {
    let tool = Tool::new("t", "T.", schema.clone(), SideEffects::NONE, |_, _| {
        Box::pin(async { Ok("".into()) })
    });
    let members = value.as_object().expect("an answer is an object");
    tool.check(members).map(drop).map_err(|faults| format!("{faults:?}"))
}

#[tokio::test]
async fn a_value_of_any_type_fits_each_form_is_shown_and_is_read() {
    let types = setting("HARNESS_TYPES", 40);
    let (mut pairs, mut forms, mut objects) = (Vec::new(), [0; 4], 0);
    for seed in 0..types as u64 {
        let mut random = Random::new(seed);
        let shape = Shape::any(&mut random, 4);
        SCHEMA.set(shape.schema());
        let first = shape.value(&mut random.dice, false);
        let is_object = matches!(shape, Shape::Struct(_));
        objects += usize::from(is_object);
        let wrap = |value: &Value| if is_object { value.clone() } else { json!({"answer": value}) };
        let model = ScriptedProvider::new([reply().text(wrap(&first).to_string())]);
        let agent = Agent::builder(model.clone()).build().unwrap();
        let read = agent.run("Which?").answer::<Any>().await;
        let read = read.unwrap_or_else(|stopped| {
            panic!("{seed}: {:?}\n{first}\n{}", stopped.faults(), shape.schema())
        });
        assert_eq!(bare(&read.into_value().0), bare(&first), "{seed}");
        let words = model.requests()[0].last_text();
        let (_, schema) = words.split_once("JSON Schema:\n").expect("the model is told the schema");
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let whole = ToolSchema {
            name: "answer".to_owned(),
            description: "A.".to_owned(),
            input_schema: schema.clone(),
        };
        for (form, count) in FORMS.into_iter().zip(&mut forms) {
            let Ok(strict) = whole.strict(form) else { continue };
            *count += 1;
            let all = matches!(form, StrictForm::OpenAI | StrictForm::Common);
            let value = shape.value(&mut random.dice, all);
            let answer = wrap(&value);
            let strict = in_json_schema(&strict);
            takes(&strict, &answer).unwrap_or_else(|faults| {
                panic!("{seed}, {form:?}: {faults}\n  {answer}\n  {strict}")
            });
            pairs.push((strict, answer.clone()));
            let text = answer.to_string();
            assert_eq!(pushed(&text).as_ref(), Some(&answer), "{seed}: {text}");
            let model = ScriptedProvider::new([reply().text(text)]);
            let agent = Agent::builder(model).build().unwrap();
            let read = agent.run("Which?").answer::<Any>().await;
            let read = read.unwrap_or_else(|stopped| {
                panic!("{seed}, {form:?}: {:?}\n  {answer}", stopped.faults())
            });
            assert_eq!(bare(&read.into_value().0), bare(&value), "{seed}, {form:?}");
        }
    }
    println!("{types} types, {objects} of them objects; in the forms of {FORMS:?}: {forms:?}");
    assert!(forms.iter().all(|count| count * 5 > types * 2), "{forms:?}");
    match judged(&pairs) {
        None => println!("skipped: there is no python3 with jsonschema (set HARNESS_PYTHON)"),
        Some(theirs) => {
            let wrong = pairs.iter().zip(&theirs).find(|(_, fits)| **fits != true);
            assert!(wrong.is_none(), "{wrong:#?}");
            println!("{} values fit their forms by python-jsonschema, too", theirs.len());
        }
    }
}
