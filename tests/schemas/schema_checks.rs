//! Everything in a schema is checked, at every depth, for tools of the macro and for tools by hand;
//! and no schema makes a check run long or overflow.

use std::{collections::BTreeMap, time::Duration};

use harness::{SideEffects, Tool, ToolContext, ToolRegistry, tool, tools};
use serde_json::{Map, Value, json};

use crate::tool_macro::call;

fn by_hand(schema: Value) -> Tool {
    Tool::new("by_hand", "By hand.", schema, SideEffects::NONE, |_, arguments| {
        Box::pin(async move { Ok(Value::Object(arguments).to_string().into()) })
    })
}

/// A tool whose one argument `x` has this schema; `x` is required.
fn taking(x: Value) -> Tool {
    by_hand(json!({"type": "object", "properties": {"x": x}, "required": ["x"]}))
}

fn faults(tool: &Tool, arguments: Value) -> Vec<String> {
    tool.check(arguments.as_object().unwrap()).err().unwrap_or_default()
}

fn refusal(tool: Tool) -> String {
    ToolRegistry::new([tool]).unwrap_err().to_string()
}

/// Each word of the table in the documentation, with what fits, what does not, and what is said then.
#[test]
fn every_word_is_checked() {
    let integer = json!({"type": "integer"});
    let table = [
        (json!({"multipleOf": 0.01}), json!(19.99), json!(0.001), "must be a multiple of 0.01"),
        (json!({"minimum": 1, "maximum": 3}), json!(3), json!(4), "must be between 1 and 3, not 4"),
        (
            json!({"minLength": 2}),
            json!("éé"),
            json!("é"),
            "must have at least 2 characters, not 1",
        ),
        (
            json!({"maxLength": 2}),
            json!("éé"),
            json!("ééé"),
            "must have at most 2 characters, not 3",
        ),
        (
            json!({"minLength": 2, "maxLength": 2}),
            json!("ab"),
            json!(""),
            "exactly 2 characters, not 0",
        ),
        (
            json!({"pattern": "^[a-z]+$"}),
            json!("ab"),
            json!("a1"),
            "must match the pattern `^[a-z]+$`, not \"a1\"",
        ),
        (json!({"minItems": 1}), json!([1]), json!([]), "must have at least 1 item, not 0"),
        (json!({"maxItems": 1}), json!([1]), json!([1, 2]), "must have at most 1 item, not 2"),
        (
            json!({"uniqueItems": true}),
            json!([1, true]),
            json!([1, 2, 1.0]),
            "those at 0 and 2 are equal",
        ),
        (
            json!({"prefixItems": [integer], "items": false}),
            json!([1]),
            json!([1, 2]),
            "at `/1`: nothing is allowed here",
        ),
        (
            json!({"contains": integer, "maxContains": 1}),
            json!([1, "a"]),
            json!(["a"]),
            "must have exactly 1 item, not 0, that is an integer",
        ),
        (
            json!({"enum": [1, {"a": [2]}]}),
            json!({"a": [2.0]}),
            json!(true),
            "expected one of 1, an object, found true",
        ),
        (json!({"const": [1]}), json!([1.0]), json!([2]), "expected an array, found an array"),
        (
            json!({"minProperties": 1}),
            json!({"a": 1}),
            json!({}),
            "must have at least 1 member, not 0",
        ),
        (
            json!({"maxProperties": 1}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            "must have at most 1 member, not 2",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"a": 1}),
            json!({"ab": 1}),
            "at `/ab`: this name is not allowed: must have at most 1 character",
        ),
        (
            json!({"patternProperties": {"^n": integer}}),
            json!({"n": 1, "m": "a"}),
            json!({"n": "a"}),
            "at `/n`: expected an integer",
        ),
        (
            json!({"patternProperties": {"^n": integer}, "additionalProperties": false}),
            json!({"n": 1}),
            json!({"m": 1}),
            "at `/m`: there is no such field",
        ),
        (json!({"required": ["q"]}), json!({"q": 1}), json!({}), "at `/q` is required"),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"b": 1}),
            json!({"a": 1}),
            "at `/b` is required, because `a` is there",
        ),
        (
            json!({"dependentSchemas": {"a": {"required": ["b"]}}}),
            json!({"b": 1}),
            json!({"a": 1}),
            "at `/b` is required",
        ),
        (
            json!({"oneOf": [integer, {"minimum": 5}]}),
            json!(1),
            json!(7),
            "fits more than one of the choices",
        ),
        (
            json!({"allOf": [integer, {"minimum": 5}]}),
            json!(5),
            json!(4),
            "must be at least 5, not 4",
        ),
        (json!({"not": integer}), json!("a"), json!(1), "must not be an integer, found 1"),
        (
            json!({"if": integer, "then": {"minimum": 5}, "else": {"type": "null"}}),
            json!(null),
            json!("a"),
            "expected null, found \"a\"",
        ),
        (
            json!({"if": integer, "then": {"minimum": 5}}),
            json!("a"),
            json!(1),
            "must be at least 5",
        ),
        (
            json!({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}], "unevaluatedProperties": false}),
            json!({"a": 1, "b": 1}),
            json!({"c": 1}),
            "at `/c`: there is no such field; the fields are `a`, `b`",
        ),
        (
            json!({"prefixItems": [{}], "unevaluatedItems": integer}),
            json!(["a", 1]),
            json!(["a", "b"]),
            "at `/1`: expected an integer",
        ),
        (
            json!({"minimum": 1, "exclusiveMinimum": true}),
            json!(2),
            json!(1),
            "must be more than 1, not 1",
        ),
        (
            json!({"items": [integer], "additionalItems": false}),
            json!([1]),
            json!(["a"]),
            "at `/0`: expected an integer",
        ),
    ];
    for (schema, fits, fails, words) in table {
        let tool = taking(schema.clone());
        assert_eq!(tool.unchecked(), [], "{schema}");
        assert_eq!(faults(&tool, json!({"x": fits})), [""; 0], "{schema}");
        let lines = faults(&tool, json!({"x": fails}));
        assert_eq!(lines.len(), 1, "{schema}: {lines:?}");
        assert!(lines[0].starts_with("`x`") && lines[0].contains(words), "{schema}: {lines:?}");
        // The same one level down, and behind a reference.
        let deep = taking(json!({"items": {"$ref": "#/$defs/a%62"}}));
        let mut nested = deep.input_schema().clone();
        nested["$defs"] = json!({"ab": schema});
        let lines = faults(&by_hand(nested), json!({"x": [fits, fails]}));
        assert!(lines.len() == 1 && lines[0].starts_with("`x` at `/1"), "{schema}: {lines:?}");
    }
}

#[test]
fn a_format_is_not_checked_and_is_told() {
    let tool = taking(json!({"type": "string", "format": "date"}));
    assert_eq!(faults(&tool, json!({"x": "soon"})), [""; 0]);
    assert_eq!(faults(&tool, json!({})), ["`x` is required: a string (date)"]);
}

#[test]
fn what_is_wrong_with_all_arguments_together_is_told() {
    let tool = by_hand(json!({"type": "object", "properties": {"a": {}, "b": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "minProperties": 1}));
    assert_eq!(
        faults(&tool, json!({})),
        [
            "the arguments: must have at least 1 member, not 0",
            "the arguments: expected another value, found an object"
        ]
    );
    assert_eq!(faults(&tool, json!({"b": 1})), [""; 0]);
}

#[test]
fn what_cannot_be_checked_is_told_to_the_program() {
    let tool = by_hand(json!({"type": "object", "properties": {"a": {}}, "minProperties": "1"}));
    let told = tool.unchecked()[0].to_string();
    assert!(told.starts_with("`minProperties` at the root is not checked: "), "{told}");
    let tool = taking(json!({"pattern": "(?=a)", "type": "money", "minimum": "1",
        "patternProperties": {"(a)\\1": {}}, "additionalProperties": false}));
    let told: Vec<String> = tool.unchecked().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(tool.unchecked()[0].pointer(), "/properties/x");
    assert!(
        told.iter()
            .any(|told| told
                .contains("`pattern` at `/properties/x` is not checked: it looks around"))
    );
    assert!(
        told.iter().any(
            |told| told.starts_with("`minimum`") && told.contains("not what the standard says")
        )
    );
    // A name may fit the pattern that is not read, so none is refused.
    assert_eq!(faults(&tool, json!({"x": {"b": 1}})), [""; 0]);
    assert!(ToolRegistry::new([tool]).is_ok());
}

#[test]
fn a_schema_that_cannot_be_kept_is_refused_when_the_tool_is_added() {
    let remote = refusal(taking(json!({"$ref": "https://example.com/schema.json"})));
    assert!(remote.contains("at `/properties/x`: `$ref` names `https://example.com"), "{remote}");
    assert!(remote.contains("nothing is fetched"), "{remote}");
    let missing = refusal(taking(json!({"$ref": "#/$defs/none"})));
    assert!(missing.contains("`#/$defs/none`, and there is no such place"), "{missing}");
    let endless = refusal(taking(json!({"anyOf": [{"$ref": "#/properties/x"}, {"type": "null"}]})));
    assert!(endless.contains("a check would not end"), "{endless}");
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"items": deep});
    }
    let deep = refusal(taking(deep));
    assert!(deep.contains("nested more than 128 levels deep"), "{deep}");
    let mut chain = json!({"type": "object"});
    for number in 0..100 {
        chain["$defs"][format!("d{number}")] =
            json!({"allOf": [{"$ref": format!("#/$defs/d{}", number + 1)}]});
    }
    chain["$defs"]["d100"] = json!({"type": "integer"});
    chain["properties"] = json!({"x": {"$ref": "#/$defs/d0"}});
    let chain = refusal(by_hand(chain));
    assert!(chain.contains("follow each other"), "{chain}");
}

#[test]
fn anchors_and_the_own_name_of_a_schema_are_local() {
    let mut schema = json!({"$id": "https://a.b/c", "type": "object", "properties": {
        "x": {"$ref": "#here"}, "y": {"$ref": "https://a.b/c#/$defs/z"}}});
    schema["$defs"] = json!({"z": {"$anchor": "here", "type": "integer"}});
    assert_eq!(faults(&by_hand(schema), json!({"x": "a", "y": "b"})).len(), 2);
}

/// What an attacker may write as the schema of a server's tool. A check that does the work twice at each
/// level would never end here.
#[test]
fn no_schema_makes_a_check_long() {
    for word in ["anyOf", "allOf", "oneOf"] {
        for last in [json!({"type": "integer"}), json!({"type": "string"})] {
            let mut schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}});
            for number in 0..30 {
                let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
                schema["$defs"][format!("d{number}")] = json!({word: [next, next, next]});
            }
            schema["$defs"]["d30"] = last;
            let lines = faults(&by_hand(schema), json!({"x": 1}));
            assert!(lines.len() <= 16, "{lines:?}");
        }
    }
    let names: Vec<String> = (0..200_000).map(|number| format!("name{number}")).collect();
    let many = taking(json!({"items": {"enum": names}}));
    let wrong = faults(&many, json!({"x": ["name199999", "nome"]}));
    assert!(
        wrong.len() == 1 && wrong[0].len() < 1_000 && wrong[0].contains("199960 more"),
        "{wrong:?}"
    );
    let items: Vec<Value> = (0..20_000).map(|number| json!([number])).collect();
    assert_eq!(faults(&taking(json!({"uniqueItems": true})), json!({"x": items})), [""; 0]);
    // A thousand choices for each of many thousand items.
    let choices: Vec<Value> = (0..1_000).map(|number| json!({"const": number})).collect();
    let items: Vec<Value> = (0..60_000).map(|_| json!(1_000)).collect();
    let wrong = faults(&taking(json!({"items": {"anyOf": choices}})), json!({"x": items}));
    assert!(!wrong.is_empty() && wrong.len() <= 100, "{}", wrong.len());
    let slow = taking(json!({"pattern": "^(a+)+$"}));
    assert_eq!(faults(&slow, json!({"x": format!("{}b", "a".repeat(5_000))})).len(), 1);
    // A pattern that is a large program, and much text: half a minute, if it were searched.
    let large = taking(json!({"pattern": "(?:a?){500}b"}));
    let wrong = faults(&large, json!({"x": "a".repeat(1024 * 1024)}));
    let words = "the arguments: too large to be checked against the schema; write less at once";
    assert_eq!(wrong, [words]);
}

#[test]
fn no_value_overflows_the_stack() {
    let node = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
        "required": ["next"]});
    let tool = by_hand(
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}),
    );
    let nested = |depth: usize| (0..depth).fold(Value::Null, |value, _| json!({"next": value}));
    let check = move || {
        // As deep as JSON is read, and deeper.
        assert_eq!(faults(&tool, json!({"x": nested(120)})), [""; 0]);
        let lines = faults(&tool, json!({"x": nested(1_000)}));
        assert!(lines.iter().any(|line| line.contains("nested too deeply")), "{lines:?}");
    };
    // Half of what a thread of the runtime has.
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(check).unwrap().join().unwrap();
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    #[schemars(range(min = 1, max = 5))]
    count: i64,
    #[schemars(length(min = 2, max = 4))]
    code: String,
    #[schemars(regex(pattern = "^[A-Z]+$"))]
    size: String,
    #[schemars(length(max = 2))]
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    weight: f32,
    note: Option<Note>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    #[serde(default)]
    text: String,
    #[serde(default)]
    times: u32,
}

/// Orders.
#[tool(side_effects = "none")]
fn order(
    /// What
    orders: Vec<Order>,
) -> usize {
    orders
        .iter()
        .map(|it| {
            let note = it.note.as_ref().map_or(0, |note| note.text.len() + note.times as usize);
            usize::try_from(it.count).unwrap_or(0)
                + it.code.len()
                + it.size.len()
                + it.tags.len()
                + note
                + usize::from(it.weight > 1.0)
        })
        .sum()
}

#[tokio::test]
async fn limits_on_the_fields_of_a_struct_are_checked() {
    let tool = order::tool();
    let right = json!({"count": 5, "code": "ab", "size": "XL"});
    assert_eq!(call(&tool, json!({"orders": [right]})).await, "json 9");
    let wrong = json!({"count": 6, "code": "a", "size": "xl", "tags": ["a", "b", "c"], "weight": 1e39,
        "note": {"text": "a", "txt": "b"}, "cost": 1});
    let expected = [
        "`orders` at `/1/count`: must be between 1 and 5, not 6",
        "`orders` at `/1/code`: must have 2 to 4 characters, not 1",
        "`orders` at `/1/size`: must match the pattern `^[A-Z]+$`, not \"xl\"",
        "`orders` at `/1/tags`: must have at most 2 items, not 3",
        "`orders` at `/1/weight`: must be at most 3.4028234663852886e+38, not 1e+39",
        "`orders` at `/1/note/txt`: there is no such field; did you mean `text`?",
        "`orders` at `/1/cost`: there is no such field; the fields are `count`, `code`, `size`, `tags`, `weight`, `note`",
    ];
    let lines = faults(&tool, json!({"orders": [right, wrong]}));
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn null_is_taken_for_what_may_be_left_out_at_every_depth() {
    let tool = order::tool();
    let order = json!({"count": 1, "code": "ab", "size": "X", "tags": null, "weight": null,
        "note": {"text": null, "times": null}});
    assert_eq!(call(&tool, json!({"orders": [order]})).await, "json 4");
    let wrong = faults(&tool, json!({"orders": [{"count": null, "code": "ab", "size": "X"}]}));
    assert_eq!(wrong, ["`orders` at `/0/count` is required: an integer"]);
    // A tool by hand gets none of them.
    let inner = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["null", "string"]}}});
    let tool = taking(json!({"anyOf": [{"type": "integer"}, {"items": inner}]}));
    let said = tool.call(&ToolContext::new("c"), json!({"x": [{"a": null, "b": null}]})).await;
    assert_eq!(said.unwrap(), r#"{"x":[{"b":null}]}"#.into());
}

/// Takes anything beside a number.
#[tool(side_effects = "none")]
fn beside(
    /// Number
    number: i64,
    /// Anything
    any: Value,
    /// Both
    both: Both,
) -> String {
    format!("{number} {any} {} {}", both.number, both.any)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Both {
    number: u8,
    any: Value,
}

#[tokio::test]
async fn a_value_of_any_kind_stays_as_it_is_where_an_integer_beside_it_is_a_float() {
    let arguments =
        json!({"number": 3.0, "any": [1.0, 2], "both": {"number": 4.0, "any": {"a": 5.0}}});
    assert_eq!(call(&beside::tool(), arguments).await, r#"text 3 [1.0,2] 4 {"a":5.0}"#);
    let tool = by_hand(
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}, "c": {"type": "number"}}}),
    );
    let said = tool.call(&ToolContext::new("c"), json!({"a": 3.0, "b": 3.0, "c": 3.0})).await;
    assert_eq!(said.unwrap(), r#"{"a":3,"b":3.0,"c":3.0}"#.into());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape {
    Circle { radius: u8 },
    Of(Part),
    Tree(Box<Tree>),
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Part {
    name: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Tree {
    children: Vec<Tree>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    shape: Shape,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Open {
    id: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Takes types of many forms.
#[tool(side_effects = "none")]
fn forms(
    /// Shapes
    shapes: Vec<Shape>,
    /// Flat
    flat: Vec<Flat>,
    /// Open
    open: Vec<Open>,
    /// Tree
    tree: Option<Tree>,
) -> usize {
    fn size(tree: &Tree) -> usize {
        1 + tree.children.iter().map(size).sum::<usize>()
    }
    let shape = |shape: &Shape| match shape {
        Shape::Circle { radius } => usize::from(*radius),
        Shape::Of(part) => part.name.len(),
        Shape::Tree(tree) => size(tree),
    };
    shapes.iter().map(shape).sum::<usize>()
        + flat.iter().map(|flat| flat.id as usize + shape(&flat.shape)).sum::<usize>()
        + open.iter().map(|open| open.id as usize + open.rest.len()).sum::<usize>()
        + tree.as_ref().map_or(0, size)
}

#[tokio::test]
async fn no_member_of_a_type_is_passed_over_in_silence() {
    let tool = forms::tool();
    let tree = json!({"children": [{"children": []}]});
    let arguments = json!({
        "shapes": [{"kind": "circle", "radius": 1}, {"kind": "of", "name": "ab"}, {"kind": "tree", "children": [tree]}],
        "flat": [{"id": 1, "kind": "circle", "radius": 1}, {"id": 1, "kind": "of", "name": "a"}],
        "open": [{"id": 1, "other": 2}],
        "tree": tree,
    });
    assert_eq!(call(&tool, arguments.clone()).await, "json 14");
    for place in [
        "/shapes/0",
        "/shapes/1",
        "/shapes/2",
        "/shapes/2/children/0",
        "/flat/0",
        "/flat/1",
        "/tree",
        "/tree/children/0",
    ] {
        let mut wrong = arguments.clone();
        wrong.pointer_mut(place).unwrap()["other"] = json!(1);
        let lines = faults(&tool, wrong);
        assert!(
            lines.len() == 1 && lines[0].contains("/other`: there is no such field"),
            "{place}: {lines:?}"
        );
    }
    ToolRegistry::new(tools![order, beside, forms]).unwrap().check().unwrap();
}

#[tokio::test]
async fn the_same_schema_says_the_same_by_whichever_way_it_came() {
    let declared = order::tool();
    let made = by_hand(declared.input_schema().clone());
    let wrong = [
        json!({}),
        json!({"orders": 3}),
        json!({"orders": [{"count": 9, "code": 1, "sise": "A"}, null], "order": 1}),
        json!({"orders": [{"count": null, "note": {"times": -1, "text": 3}}]}),
    ];
    for wrong in wrong {
        assert_eq!(faults(&declared, wrong.clone()), faults(&made, wrong.clone()), "{wrong}");
    }
}

/// Waits.
#[tool(side_effects = "none")]
fn wait(
    /// How long
    time: Duration,
) -> u64 {
    time.as_secs()
}

#[tokio::test]
async fn a_type_of_the_standard_library_is_closed_too() {
    assert_eq!(call(&wait::tool(), json!({"time": {"secs": 2, "nanos": 0}})).await, "json 2");
    let lines = faults(&wait::tool(), json!({"time": {"secs": 2, "nanos": 0, "days": 1}}));
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn faults_are_told_up_to_a_number() {
    let many: Map<String, Value> = (0..500).map(|at| (format!("a{at}"), json!(0))).collect();
    let tool = by_hand(json!({"type": "object", "properties": {"b": {"type": "integer"}}}));
    assert_eq!(faults(&tool, Value::Object(many)).len(), 100);
}

/// A model that makes up a long name does not get it back with each fault.
#[test]
fn a_place_is_told_in_short() {
    let name = "é".repeat(100_000);
    let tool = taking(json!({"type": "object", "additionalProperties": {"type": "array",
        "items": {"type": "integer"}}}));
    let items = vec![json!("a"); 20];
    for arguments in [json!({name.clone(): 1}), json!({"x": {name: items}})] {
        let said = faults(&tool, arguments);
        assert!(said.len() > 1);
        for line in said {
            assert!(line.len() < 1000, "{} bytes", line.len());
        }
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum Spot {
    Line { x: i32 },
    Field { x: i32, y: i32 },
}

/// Draws.
#[tool(side_effects = "none")]
fn mark(
    /** What */
    spot: Spot,
) -> i32 {
    match spot {
        Spot::Line { x } => x,
        Spot::Field { x, y } => x * y,
    }
}

/// `serde` takes the first variant that it can read, which is the one that is meant if it ignores nothing.
#[tokio::test]
async fn an_untagged_enum_that_ignores_nothing_is_read_as_the_variant_that_is_meant() {
    let tool = tools![mark].into_iter().next().expect("one");
    for (spot, product) in [(json!({"x": 2, "y": 3}), "json 6"), (json!({"x": 2}), "json 2")] {
        let output = call(&tool, json!({ "spot": spot })).await;
        assert_eq!(output, product, "{spot}");
    }
}
