//! The description of a tool for the model, in both forms, and what a tool made by hand promises of
//! it.

use std::collections::{BTreeMap, HashSet};

use harness::{SideEffects, Tool, ToolContext, ToolError, ToolRegistry, tool, tool::StrictForm};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Query {
    /// Text to find
    text: String,
    /// How often
    times: Option<u16>,
    #[serde(default)]
    tags: HashSet<String>,
    shape: Shape,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Shape {
    Circle { r: f32 },
    Point,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Node {
    name: String,
    children: Vec<Node>,
}

/// Searches.
#[tool(side_effects = "read")]
fn search(
    /// What to find
    query: Query,
    /// How many
    #[param(default = 10, range(1..=100))]
    limit: u32,
    /// Anything
    extra: Value,
) -> bool {
    let _ = (query, limit, extra);
    true
}

/// Searches, in a form that can be strict.
#[tool(side_effects = "read")]
fn find(
    /// What to find
    query: Query,
    /// How many
    #[param(default = 10, range(1..=100))]
    limit: u32,
) -> bool {
    let _ = (query, limit);
    true
}

/// Walks.
#[tool(side_effects = "none")]
fn walk(
    /// The root
    root: Node,
) -> usize {
    root.children.len() + root.name.len()
}

/// Has no strict form.
#[tool(side_effects = "none")]
fn open(
    /// By name
    by_name: BTreeMap<String, i64>,
) -> usize {
    by_name.len()
}

/// Has no strict form either.
#[tool(side_effects = "none")]
fn pair(
    /// Pairs
    pairs: Vec<(i64, String)>,
) -> usize {
    pairs.len()
}

/// Every keyword of a schema that is not the name of a property.
fn keywords(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                found.push(key.clone());
                if key == "properties" || key == "$defs" {
                    value.as_object().unwrap().values().for_each(|child| keywords(child, found));
                } else {
                    keywords(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keywords(item, found)),
        _ => {}
    }
}

#[test]
fn the_schema_is_what_vendors_take() {
    let schema = search::TOOL.schema().input_schema.clone();
    let mut found = Vec::new();
    keywords(&schema, &mut found);
    for unwanted in ["title", "$schema", "$ref", "$defs"] {
        assert!(!found.iter().any(|key| key == unwanted), "{unwanted} in {schema:#}");
    }
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["query", "limit", "extra"]);
    assert_eq!(schema["required"], json!(["query", "extra"]));
    assert_eq!(schema["properties"]["extra"], json!({"description": "Anything"}));
    assert_eq!(schema["properties"]["query"]["description"], "What to find");
    assert_eq!(schema["properties"]["query"]["properties"]["text"]["description"], "Text to find");
    // `uint16` and `float` are no formats of JSON Schema.
    assert!(!found.iter().any(|key| key == "format"), "{schema:#}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[schemars(title = "A title")]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Titled {
    #[schemars(title = "Another")]
    name: String,
}

/// Takes titles.
#[tool(side_effects = "none")]
fn titled(
    /// Titled
    titled: Titled,
) {
    drop(titled);
}

#[test]
fn there_are_no_titles() {
    let mut found = Vec::new();
    keywords(&titled::TOOL.schema().input_schema, &mut found);
    assert!(!found.iter().any(|key| key == "title"), "{found:?}");
}

#[test]
fn a_type_that_contains_itself_is_defined_once() {
    let schema = &walk::TOOL.schema().input_schema;
    let root = &schema["properties"]["root"];
    assert_eq!(root["description"], "The root");
    let mut found = Vec::new();
    keywords(schema, &mut found);
    assert!(found.iter().any(|key| key == "$ref"), "{schema:#}");
    let pointer = schema.to_string();
    let target = pointer.split("\"$ref\":\"#").nth(1).unwrap().split('"').next().unwrap();
    assert!(schema.pointer(target).is_some(), "{target} in {schema:#}");
}

/// Checks every object of a strict schema.
fn assert_strict(schema: &Value) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(schema["required"], json!(names), "{schema:#}");
        assert_eq!(schema["additionalProperties"], false, "{schema:#}");
        properties.values().for_each(assert_strict);
    }
    for key in ["default", "oneOf", "const", "uniqueItems"] {
        assert!(schema.get(key).is_none(), "{key} in {schema:#}");
    }
    schema.get("items").into_iter().for_each(assert_strict);
    schema.get("anyOf").and_then(Value::as_array).into_iter().flatten().for_each(assert_strict);
}

#[test]
fn the_strict_form_is_closed_and_complete() {
    let strict = find::TOOL.schema().strict(StrictForm::OpenAI).unwrap();
    assert_strict(&strict);
    assert_eq!(strict["properties"]["limit"]["type"], json!(["integer", "null"]));
    let query = &strict["properties"]["query"]["properties"];
    assert_eq!(query["times"]["type"], json!(["integer", "null"]));
    assert_eq!(query["tags"]["type"], json!(["array", "null"]));
    assert_eq!(query["shape"]["anyOf"][0]["properties"]["kind"]["enum"], json!(["circle"]));
}

#[test]
fn what_has_no_strict_form_says_so_and_where() {
    let reason = |tool: Tool| tool.schema().strict(StrictForm::Anthropic).unwrap_err().to_string();
    assert_eq!(reason(search::tool()), "`/properties/extra` takes any value");
    assert_eq!(reason(open::tool()), "`/properties/by_name` takes any key");
    assert_eq!(reason(pair::tool()), "`/properties/pairs/items` is a tuple");
    assert!(reason(walk::tool()).ends_with("contains itself"), "{}", reason(walk::tool()));
}

fn by_hand(name: &'static str, schema: Value) -> Tool {
    Tool::new(name, "By hand.", schema, SideEffects::NONE, |_, arguments| {
        Box::pin(async move { Ok(Value::Object(arguments).to_string().into()) })
    })
}

#[tokio::test]
async fn the_arguments_of_a_tool_by_hand_are_checked_before_it_runs() {
    let tool = by_hand(
        "order",
        json!({
            "type": "object",
            "properties": {
                "size": {"type": "string", "enum": ["s", "m"], "description": "Which size"},
                "count": {"type": "integer", "minimum": 1},
                "notes": {"type": "array", "items": {"$ref": "#/$defs/note"}},
            },
            "required": ["size"],
            "$defs": {"note": {"type": "object", "properties": {"by": {"type": "string"}},
                "required": ["by"]}},
        }),
    );
    let context = ToolContext::new("c");
    let arguments = json!({"count": 0, "notes": [{"by": "me"}, {"by": 3}], "nots": 1});
    let Err(ToolError::BadArguments(lines)) = tool.call(&context, arguments.clone()).await else {
        panic!("it ran");
    };
    assert_eq!(
        lines,
        [
            "`size` is required: one of \"s\", \"m\", \"Which size\"",
            "`count`: must be at least 1, not 0",
            "`notes` at `/1/by`: expected a string, found 3",
            "`nots`: there is no such argument; did you mean `notes`?",
        ]
    );
    assert_eq!(tool.check(arguments.as_object().unwrap()), Err(lines));
    // What may be left out may be `null`, and the tool sees it left out.
    let said = tool.call(&context, json!({"size": "m", "count": null})).await.unwrap();
    assert_eq!(said, r#"{"size":"m"}"#.into());
}

#[test]
fn a_schema_that_refers_to_itself_without_end_is_refused() {
    let tool = by_hand(
        "loop",
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    );
    assert!(tool.check(json!({"a": 1}).as_object().unwrap()).is_err());
    let refused = ToolRegistry::new([tool]).unwrap_err().to_string();
    assert!(refused.contains("`loop`") && refused.contains("a check would not end"), "{refused}");
}

#[test]
fn what_is_wrong_with_a_tool_by_hand_is_said_by_the_registry() {
    let object = json!({"type": "object"});
    let refused = |tool: Tool| ToolRegistry::new([tool]).unwrap_err().to_string();
    assert!(refused(by_hand("read file", object.clone())).contains("contains ' '"));
    assert!(refused(by_hand("", object)).contains("empty name"));
    assert!(refused(by_hand("list", json!({"type": "array"}))).contains("not that of an object"));
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_nearest() {
    let registry = ToolRegistry::new(harness::tools![search, find]).unwrap();
    let call = harness::ToolCall::new("c", "serch", "{}");
    let result = registry.dispatch(&call, &ToolContext::new("c")).await;
    assert_eq!(
        result.to_text(),
        "there is no tool `serch`; did you mean `search`? the tools are: search, find"
    );
}
