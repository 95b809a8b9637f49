//! Hostile schemas and values: their check ends, and a value that could not be checked is neither
//! accepted nor refused because of it.

use harness::{
    SideEffects, Tool, ToolContent, ToolContext, ToolRegistry,
    tool::{StrictForm, ToolSchema},
};
use serde_json::{Map, Value, json};

fn schema(x: Value, definitions: Value) -> Value {
    json!({"type": "object", "properties": {"x": x}, "required": ["x"], "$defs": definitions})
}

fn taking(x: Value, definitions: Value) -> Tool {
    let schema = schema(x, definitions);
    let tool = Tool::new("t", "T.", schema, SideEffects::NONE, |_, arguments| {
        Box::pin(async move { Ok(Value::Object(arguments)["x"].to_string().into()) })
    });
    ToolRegistry::new([tool.clone()]).expect("a schema that can be used");
    tool
}

/// What the tool was given as `x`, or what it says.
async fn called(tool: &Tool, x: Value) -> Result<String, String> {
    let output = tool.call(&ToolContext::new("c"), json!({ "x": x })).await;
    let output = output.map_err(|err| err.to_string())?;
    match output.content() {
        [ToolContent::Text(text)] => Ok(text.clone()),
        other => panic!("{other:?}"),
    }
}

/// Definitions of which each refers twice to the next one.
fn tower(word: &str, height: usize, last: Value) -> Value {
    let mut floors: Map<String, Value> = (0..height)
        .map(|floor| {
            let next = json!({"$ref": format!("#/$defs/{}", floor + 1)});
            (floor.to_string(), json!({word: [next, next]}))
        })
        .collect();
    floors.insert(height.to_string(), last);
    Value::Object(floors)
}

/// Two ways lead to each part of these schemas, so that there are 2^40 to the last one.
#[tokio::test]
async fn no_value_takes_a_time_that_doubles_with_each_level_of_the_schema() {
    let first = json!({"$ref": "#/$defs/0"});
    let point = json!({"type": "object", "properties": {"y": {"type": "integer"}}});
    for word in ["allOf", "anyOf"] {
        let integer = taking(first.clone(), tower(word, 40, json!({"type": "integer"})));
        assert_eq!(called(&integer, json!(3.0)).await, Ok("3".to_owned()), "{word}");
        assert!(called(&integer, json!({"y": null})).await.is_err(), "{word}");
        let tool = taking(first.clone(), tower(word, 40, point.clone()));
        assert_eq!(called(&tool, json!({"y": 3.0})).await, Ok(r#"{"y":3}"#.to_owned()), "{word}");
        assert_eq!(called(&tool, json!({"y": null})).await, Ok("{}".to_owned()), "{word}");
    }
    let closed = json!({"$ref": "#/$defs/0", "unevaluatedProperties": false});
    let tool = taking(closed, tower("allOf", 40, point));
    let said = called(&tool, json!({"y": 1, "z": 2})).await.unwrap_err();
    assert!(said.contains("`x` at `/z`: there is no such field; the fields are `y`"), "{said}");
}

/// The same where each level of the schema is one of the value.
#[tokio::test]
async fn a_deep_value_is_shaped_once_for_each_of_its_parts() {
    let mut floors = Map::new();
    for floor in 0..40 {
        let below = json!({"type": "object", "properties": {
            "n": {"$ref": format!("#/$defs/{}", floor + 1)}}});
        floors.insert(floor.to_string(), json!({"allOf": [below, below]}));
    }
    floors.insert("40".to_owned(), json!({"type": "integer"}));
    let tool = taking(json!({"$ref": "#/$defs/0"}), Value::Object(floors));
    let nested = |last: Value| (0..40).fold(last, |below, _| json!({ "n": below }));
    assert_eq!(called(&tool, nested(json!(3.0))).await, Ok(nested(json!(3)).to_string()));
    let without = (0..39).fold(json!({}), |below, _| json!({ "n": below }));
    assert_eq!(called(&tool, nested(Value::Null)).await, Ok(without.to_string()));
}

/// To find out which part of a schema a value means, patterns search as much text as a check does, and not more.
/// These take many minutes if they do.
#[tokio::test]
async fn a_value_is_not_searched_longer_to_be_shaped_than_to_be_checked() {
    let costly = "([a-z]{0,50}){0,20}!";
    let integer = json!({"type": "integer"});
    let by_name = json!({"type": "object", "patternProperties": {costly: integer},
        "properties": {"n": integer}});
    let long = "a".repeat(3 << 20);
    for value in [json!({"n": null, long.clone(): 1}), json!({"n": 3.0, long.clone(): 1})] {
        let said = called(&taking(by_name.clone(), json!({})), value).await.unwrap_err();
        assert!(said.contains("too large to be checked"), "{said:.300}");
    }
    let choice =
        json!({"type": "object", "properties": {"text": {"pattern": costly}, "n": integer}});
    let other = json!({"type": "object", "properties": {"n": {"type": "string"}}});
    let items = json!({"type": "array", "items": {"anyOf": [choice, other]}});
    let item = json!({"text": "a".repeat(200_000), "n": null});
    let said = called(&taking(items, json!({})), json!(vec![item; 20])).await.unwrap_err();
    assert!(said.contains("too large to be checked"), "{said:.300}");
}

/// Each of these takes very long if only those members and items count of which a part of the schema speaks.
#[tokio::test]
async fn what_nobody_speaks_of_counts_too() {
    let parts = |part: &dyn Fn(usize) -> Value| (0..50).map(part).collect::<Vec<_>>();
    let named = parts(&|at| json!({"properties": {format!("p{at}"): {"type": "integer"}}}));
    let closed = json!({"type": "object", "allOf": named, "unevaluatedProperties": false});
    let members: Map<String, Value> = (0..10_000).map(|at| (format!("p{at}"), json!(1))).collect();
    let counted = parts(&|at| json!({"prefixItems": vec![json!({"type": "integer"}); at]}));
    let full = json!({"type": "array", "anyOf": counted, "unevaluatedItems": false});
    let items = json!(vec![json!(1); 10_000]);
    for (schema, value) in [(closed, Value::Object(members)), (full, items)] {
        let said = called(&taking(schema, json!({})), value).await.unwrap_err();
        assert!(said.contains("too large to be checked"), "{said:.300}");
    }
}

/// Once no more text is searched for patterns, nobody knows of which parts a schema speaks.
#[tokio::test]
async fn a_check_that_breaks_off_tells_no_fault_that_is_none() {
    let costly = "([a-z]{0,50}){0,20}!";
    let by_name = json!({"type": "object", "properties": {"first": {"type": "integer"}},
        "patternProperties": {costly: {"type": "integer"}}});
    let value = json!({"first": "a", "a".repeat(1 << 20): 1, "b": null, "c": "c"});
    let said = called(&taking(by_name, json!({})), value).await.unwrap_err();
    assert!(said.contains("too large to be checked"), "{said:.300}");
    assert!(said.contains("`/first`"), "{said:.300}");
    assert!(!said.contains("`/b`") && !said.contains("`/c`"), "{said:.300}");
}

/// No answer is not the answer "no", which `not`, `oneOf` and `if` would turn around.
#[tokio::test]
async fn a_value_that_is_too_deep_to_be_checked_is_refused_by_every_word() {
    let item =
        json!({"anyOf": [{"const": 1}, {"type": "array", "items": {"$ref": "#/$defs/list"}}]});
    let list = (0..4).fold(item, |below, _| json!({"allOf": [below, {"minItems": 0}]}));
    let list = json!({ "list": list });
    let is = json!({"$ref": "#/$defs/list"});
    let deep = (0..110).fold(json!(1), |below, _| json!([below]));
    for x in [
        is.clone(),
        json!({"not": is}),
        json!({"oneOf": [{"type": "array"}, is]}),
        json!({"if": is, "then": false}),
        json!({"propertyNames": true, "not": {"contains": is}}),
    ] {
        let tool = taking(x.clone(), list.clone());
        let said = called(&tool, deep.clone()).await.unwrap_err();
        assert!(said.contains("nested too deeply"), "{x}: {said}");
    }
}

/// What cannot be checked takes whatever there is; what would turn that around is not checked either.
#[tokio::test]
async fn a_part_that_is_not_checked_refuses_nothing() {
    let unread = json!({"type": "string", "pattern": "^(?!a)"});
    let table = [
        (json!({"not": unread}), json!("b"), "not"),
        (json!({"not": {"$ref": "#/$defs/unread"}}), json!("b"), "not"),
        (
            json!({"not": {"properties": {"q": unread}, "required": ["q"]}}),
            json!({"q": "b"}),
            "not",
        ),
        (json!({"not": 3}), json!("b"), "not"),
        (json!({"oneOf": [unread, {"type": "string", "maxLength": 1}]}), json!("b"), "oneOf"),
        (json!({"if": unread, "then": {"const": "q"}}), json!("b"), "if"),
        (json!({"contains": unread, "maxContains": 1}), json!(["b", "c"]), "maxContains"),
        (
            json!({"if": {"required": ["a"], "properties": {"a": unread}}, "then": {"properties": {"b": true}},
                "unevaluatedProperties": false}),
            json!({"a": "b", "b": 1}),
            "if",
        ),
    ];
    for (x, value, word) in table {
        let tool = taking(x.clone(), json!({ "unread": unread }));
        assert_eq!(called(&tool, value.clone()).await, Ok(value.to_string()), "{x}");
        let told = |part: &harness::tool::Unchecked| {
            part.keyword() == word && part.pointer() == "/properties/x"
        };
        assert!(tool.unchecked().iter().any(told), "{x}: {:?}", tool.unchecked());
    }
    // Read twice, told once.
    let twice = taking(
        json!({"$ref": "#/properties/x/properties/y", "properties": {"y": unread}}),
        json!({}),
    );
    assert_eq!(twice.unchecked().len(), 1, "{:?}", twice.unchecked());
}

#[tokio::test]
async fn a_schema_that_takes_nothing_says_so() {
    for x in [
        json!({"type": []}),
        json!({"enum": []}),
        json!({"anyOf": []}),
        json!({"oneOf": []}),
        json!({"enum": [1, 2], "const": 3}),
    ] {
        let said = called(&taking(x.clone(), json!({})), json!(1)).await.unwrap_err();
        let expected = "`x`: expected nothing, because the schema allows no value here, found 1";
        assert!(said.contains(expected), "{x}: {said}");
    }
}

/// What is wrong inside of the choice that is meant, also below `null` or that choice.
#[tokio::test]
async fn a_fault_inside_of_a_choice_among_choices_is_told_with_its_place() {
    let point = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let named = |name: &str| {
        json!({"type": "object", "properties": {name: point}, "required": [name],
            "additionalProperties": false})
    };
    let choice = json!({"oneOf": [{"const": "none"}, named("a"), named("b")]});
    let tool = taking(json!({"anyOf": [choice, {"type": "null"}]}), json!({}));
    let said = called(&tool, json!({"b": {"n": "x", "o": 1}})).await.unwrap_err();
    assert!(said.contains("`x` at `/b/n`: expected an integer, found \"x\""), "{said}");
    assert!(said.contains("`x` at `/b/o`: there is no such field"), "{said}");
}

/// Each definition is as deep as a schema may be, and holds the next one.
#[test]
fn a_strict_form_is_no_deeper_than_a_schema_may_be() {
    let definitions: Map<String, Value> = (0..=60)
        .map(|floor| {
            let last = match floor {
                60 => json!({"type": "string"}),
                _ => json!({"$ref": format!("#/$defs/{}", floor + 1)}),
            };
            let deep = (0..70).fold(last, |below, _| json!({"type": "array", "items": below}));
            (floor.to_string(), deep)
        })
        .collect();
    let schema = ToolSchema {
        name: "t".to_owned(),
        description: "T.".to_owned(),
        input_schema: schema(json!({"$ref": "#/$defs/0"}), Value::Object(definitions)),
    };
    for form in [StrictForm::Anthropic, StrictForm::OpenAI, StrictForm::Gemini, StrictForm::Common]
    {
        let said = schema.strict(form).unwrap_err().to_string();
        assert!(said.ends_with("is nested too deeply"), "{said}");
    }
}
