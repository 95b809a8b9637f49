//! The check of the arguments of a tool made by hand: each keyword of its schema with a value that
//! fits and one that does not.

use harness::{SideEffects, Tool, ToolCall, ToolContext, ToolRegistry};
use serde_json::{Value, json};

/// A tool whose one argument `x` has this schema; `x` is required.
fn taking(x: Value) -> Tool {
    of(json!({"type": "object", "properties": {"x": x}, "required": ["x"]}))
}

fn of(schema: Value) -> Tool {
    Tool::new("by_hand", "By hand.", schema, SideEffects::NONE, |_, arguments| {
        Box::pin(async move { Ok(Value::Object(arguments).to_string().into()) })
    })
}

/// The lines about these arguments.
fn faults(tool: &Tool, arguments: Value) -> Vec<String> {
    tool.check(arguments.as_object().unwrap()).err().unwrap_or_default()
}

#[test]
fn every_keyword_is_kept() {
    let cases = [
        (json!({"type": "integer"}), json!(3.0), json!(3.5), "expected an integer, found 3.5"),
        (json!({"type": ["string", "null"]}), json!("a"), json!(1), "expected "),
        (json!({"type": "boolean"}), json!(true), json!("true"), "expected a boolean"),
        (json!({"type": "array"}), json!([]), json!({}), "expected an array"),
        (json!({"enum": ["a", 1]}), json!(1), json!("b"), "expected one of \"a\", 1, found \"b\""),
        (json!({"const": "a"}), json!("a"), json!("b"), "expected \"a\", found \"b\""),
        (json!({"minimum": 1}), json!(1), json!(0.5), "must be at least 1, not 0.5"),
        (json!({"maximum": 1}), json!(1), json!(2), "must be at most 1, not 2"),
        (json!({"exclusiveMinimum": 1}), json!(1.5), json!(1), "must be more than 1, not 1"),
        (json!({"exclusiveMaximum": 1}), json!(0), json!(1), "must be less than 1, not 1"),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!(1),
            json!(true),
            "expected a string or an integer, found true",
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
            json!("a"),
            json!([]),
            "expected a string or ",
        ),
        (json!({"items": {"type": "string"}}), json!(["a"]), json!(["a", 1]), "expected a string"),
        (
            json!({"required": ["a"], "properties": {"a": {}}}),
            json!({"a": 1}),
            json!({"b": 1}),
            "`x` at `/a` is required",
        ),
        (
            json!({"properties": {"name": {}}, "additionalProperties": false}),
            json!({"name": 1}),
            json!({"nme": 1}),
            "did you mean `name`?",
        ),
        (
            json!({"prefixItems": [{"type": "string"}, {"type": "integer"}]}),
            json!(["a", 1]),
            json!(["a", "b"]),
            "`x` at `/1`: expected an integer",
        ),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"a": "b"}),
            json!({"a": 1}),
            "`x` at `/a`: expected a string",
        ),
        (
            json!({"$ref": "#/properties/x/$defs/y", "$defs": {"y": {"type": "string"}}}),
            json!("a"),
            json!(1),
            "expected a string",
        ),
    ];
    for (schema, fits, fails, words) in cases {
        let tool = taking(schema.clone());
        assert_eq!(faults(&tool, json!({"x": fits})), [""; 0], "{schema}");
        let lines = faults(&tool, json!({"x": fails}));
        assert_eq!(lines.len(), 1, "{schema}: {lines:?}");
        assert!(lines[0].contains(words), "{schema}: {lines:?}");
    }
}

#[test]
fn a_type_that_is_not_of_the_standard_is_not_judged() {
    assert_eq!(faults(&taking(json!({"type": "money"})), json!({"x": 1})), [""; 0]);
}

#[test]
fn nothing_is_allowed_where_the_schema_is_false() {
    let lines = faults(&taking(json!(false)), json!({"x": 1}));
    assert_eq!(lines, ["`x`: nothing is allowed here"]);
}

#[test]
fn null_is_not_there_unless_the_schema_takes_it() {
    let required = taking(json!({"type": "string", "description": "A name"}));
    let missing = ["`x` is required: a string, \"A name\""];
    assert_eq!(faults(&required, json!({})), missing);
    assert_eq!(faults(&required, json!({"x": null})), missing);
    assert_eq!(faults(&taking(json!({"type": ["string", "null"]})), json!({"x": null})), [""; 0]);
    let optional = of(json!({"type": "object", "properties": {"x": {"type": "string"}}}));
    assert_eq!(faults(&optional, json!({"x": null})), [""; 0]);
}

#[test]
fn the_place_of_a_fault_is_a_json_pointer() {
    let inner = json!({"properties": {"a/b~c": {"items": {"type": "string"}}}});
    let lines = faults(&taking(inner), json!({"x": {"a/b~c": ["ok", 1]}}));
    assert_eq!(lines, ["`x` at `/a~1b~0c/1`: expected a string, found 1"]);
}

#[test]
fn every_fault_of_an_argument_is_told_at_once_up_to_a_number() {
    let inner = json!({
        "properties": {
            "a": {"type": "string", "description": "A name"},
            "b": {"items": {"minimum": 3}},
            "c": {"anyOf": [{"$ref": "#/properties/x/$defs/c"}, {"type": "null"}]},
            "d": {"type": "boolean"},
        },
        "required": ["a", "d"],
        "additionalProperties": false,
        "$defs": {"c": {"type": "object", "properties": {"e": {"type": "integer"}}}},
    });
    let value = json!({"b": [1, 4, 2], "c": {"e": "f"}, "d": 1, "g": 2});
    let lines = faults(&taking(inner), json!({"x": value}));
    let expected = [
        "`x` at `/a` is required: a string, \"A name\"",
        "`x` at `/b/0`: must be at least 3, not 1",
        "`x` at `/b/2`: must be at least 3, not 2",
        "`x` at `/c/e`: expected an integer, found \"f\"",
        "`x` at `/d`: expected a boolean, found 1",
        "`x` at `/g`: there is no such field; the fields are `a`, `b`, `c`, `d`",
    ];
    assert_eq!(lines, expected);

    let many = faults(&taking(json!({"items": false})), json!({"x": vec![0; 1000]}));
    assert_eq!(many.len(), 16);
    let names: serde_json::Map<_, _> = (0..1000).map(|at| (at.to_string(), json!(0))).collect();
    let many = faults(&taking(json!({"additionalProperties": false})), json!({"x": names}));
    assert_eq!(many.len(), 16);
}

/// If each choice were looked at twice, the work would be four times as much with each step down: this
/// would take minutes.
#[test]
fn the_fault_at_the_bottom_of_many_choices_is_found() {
    let (node, nothing) = (json!({"$ref": "#/properties/x"}), json!({"type": "null"}));
    let next = json!({"anyOf": [{"type": "object", "anyOf": [node, nothing]}, nothing]});
    let node =
        json!({"type": "object", "properties": {"next": next}, "additionalProperties": false});
    let mut value = json!({"nxt": 1});
    for _ in 0..13 {
        value = json!({"next": value});
    }
    let expected = format!("`x` at `{}/nxt`: there is no such field", "/next".repeat(13));
    let lines = faults(&taking(node), json!({"x": value}));
    assert!(lines.len() == 1 && lines[0].starts_with(&expected), "{lines:?}");
}

#[test]
fn of_several_choices_the_one_that_is_meant_is_told_by_its_tag_or_its_names() {
    let circle = json!({"type": "object", "required": ["kind", "radius"], "properties":
        {"kind": {"const": "circle"}, "radius": {"type": "number"}}});
    let square = json!({"type": "object", "required": ["kind", "side"], "properties":
        {"kind": {"const": "square"}, "side": {"type": "number"}}});
    let tagged = taking(json!({"oneOf": [circle, square]}));
    let wrong = |value: Value| faults(&tagged, json!({"x": value}));
    assert_eq!(
        wrong(json!({"kind": "square", "side": "a"})),
        ["`x` at `/side`: expected a number, found \"a\""]
    );
    assert_eq!(wrong(json!({"kind": "square"})), ["`x` at `/side` is required: a number"]);
    let expected = "one of \"circle\", \"square\"";
    let neither = format!("`x` at `/kind`: expected {expected}, found \"line\"");
    assert_eq!(wrong(json!({"kind": "line"})), [neither]);
    assert_eq!(wrong(json!({})), [format!("`x` at `/kind` is required: {expected}")]);
    assert_eq!(wrong(json!(3)), ["`x`: expected an object, found 3"]);

    let of = |name: &str| {
        json!({"type": "object", "required": [name], "properties":
        {name: {"type": "integer"}}})
    };
    let named = taking(json!({"oneOf": [of("a"), of("b"), {"type": "string"}]}));
    assert_eq!(
        faults(&named, json!({"x": {"b": "c"}})),
        ["`x` at `/b`: expected an integer, found \"c\""]
    );
}

#[test]
fn what_is_not_listed_is_refused_unless_the_schema_is_open() {
    let listed = json!({"type": "object", "properties": {"x": {}}});
    let with = |key: &str, value: Value| {
        let mut schema = listed.clone();
        schema[key] = value;
        faults(&of(schema), json!({"y": 1}))
    };
    assert_eq!(
        faults(&of(listed.clone()), json!({"yy": 1})),
        ["`yy`: there is no such argument; the arguments are `x`"]
    );
    assert_eq!(with("additionalProperties", json!(false)).len(), 1);
    assert_eq!(with("additionalProperties", json!(true)), [""; 0]);
    assert_eq!(with("patternProperties", json!({"^y$": {}})), [""; 0]);
    assert_eq!(with("additionalProperties", json!({"type": "integer"})), [""; 0]);
    let others = with("additionalProperties", json!({"type": "string"}));
    assert_eq!(others, ["`y`: expected a string, found 1"]);
    let numbered = json!({"patternProperties": {"^\\d+$": {}}, "additionalProperties": false});
    assert_eq!(faults(&taking(numbered), json!({"x": {"1": 1}})), [""; 0]);
    assert_eq!(faults(&of(json!({"type": "object"})), json!({"y": 1})), [""; 0]);
    let none = of(json!({"type": "object", "properties": {}}));
    assert_eq!(
        faults(&none, json!({"y": 1})),
        ["`y`: there is no such argument; this tool takes none"]
    );
}

#[tokio::test]
async fn an_optional_null_is_left_out_and_one_that_is_meant_stays() {
    let tool = of(json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": "null"}},
        "required": ["c"]}));
    let arguments = json!({"a": null, "b": null, "c": null});
    let said = tool.call(&ToolContext::new("c"), arguments).await.unwrap();
    assert_eq!(said, r#"{"b":null,"c":null}"#.into());
}

#[test]
fn a_registry_refuses_what_it_cannot_hold() {
    let named = |name: String| {
        Tool::new(name, "D.", json!({"type": "object"}), SideEffects::NONE, |_, _| {
            Box::pin(async { Ok("".into()) })
        })
    };
    let longest = "a".repeat(64);
    assert!(ToolRegistry::new([named(longest.clone())]).is_ok());
    let refused = ToolRegistry::new([named(format!("{longest}a"))]).unwrap_err().to_string();
    assert!(refused.contains("65 characters"), "{refused}");
    // What is added later is told as well, and a second one of its name is not.
    let mut registry = ToolRegistry::new([named("one".to_owned())]).unwrap();
    assert_eq!(registry.schemas().len(), 1);
    registry.add(named("two".to_owned())).unwrap();
    assert_eq!(registry.schemas()[1].name, "two");
    let refused = registry.add(named("two".to_owned())).unwrap_err().to_string();
    assert!(refused.contains("two tools are both named `two`"), "{refused}");
    assert_eq!(registry.tools().len(), 2);
}

#[tokio::test]
async fn no_arguments_are_told_in_many_ways() {
    let none = of(json!({"type": "object", "properties": {}}));
    let registry = ToolRegistry::new([none]).unwrap();
    for arguments in ["", " \n", "null", "{}"] {
        let call = ToolCall::new("c", "by_hand", arguments);
        let result = registry.dispatch(&call, &ToolContext::new("c")).await;
        assert_eq!(result.to_text(), "{}", "{arguments:?}");
        assert!(registry.accepts(&call), "{arguments:?}");
    }
    for arguments in ["[]", "{", "3"] {
        let call = ToolCall::new("c", "by_hand", arguments);
        assert!(!registry.accepts(&call), "{arguments:?}");
        assert!(registry.dispatch(&call, &ToolContext::new("c")).await.is_error(), "{arguments:?}");
    }
}

#[test]
fn the_nearest_name_is_meant_if_it_is_near_enough() {
    let tool = of(json!({"type": "object",
        "properties": {"value_a": {}, "value_b1": {}, "limit": {}}}));
    let meant = |name: &str| {
        let line = faults(&tool, json!({ name: 1 })).remove(0);
        line.split_once("did you mean `").map(|(_, rest)| rest.trim_end_matches("`?").to_owned())
    };
    assert_eq!(meant("value_bb").as_deref(), Some("value_b1"), "one letter, and not two");
    assert_eq!(meant("lim").as_deref(), Some("limit"), "its beginning");
    assert_eq!(meant("lamit").as_deref(), Some("limit"), "one letter of five");
    assert_eq!(meant("lamat"), None, "two letters of five");
}
