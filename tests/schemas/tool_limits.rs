//! Limits of an argument: the model is told of them, and the program's own defaults and examples
//! must fit them.

use std::sync::Arc;

use harness::{
    Agent, State, ToolCall, ToolContext, ToolRegistry, testing::ScriptedProvider, tool, tools,
    toolset,
};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Booking {
    seats: Vec<u32>,
    #[schemars(range(max = 5))]
    rank: i32,
}

/// Books.
#[tool(side_effects = "write")]
fn book(
    /// What
    booking: Booking,
    /// How many
    #[param(range(2..))]
    many: u32,
    /// How far
    far: Option<i32>,
    /// How long
    long: i64,
    /// How rough
    rough: std::num::NonZeroU16,
) -> bool {
    let _ = (booking, many, far, long, rough);
    true
}

fn at<'a>(schema: &'a Value, pointer: &str) -> &'a Value {
    schema.pointer(pointer).unwrap_or(&Value::Null)
}

#[test]
fn the_bounds_of_integers_are_told_at_every_depth() {
    let schema = &book::TOOL.schema().input_schema;
    let told = |place: &str| {
        let pointer = format!("/properties/{place}");
        (at(schema, &format!("{pointer}/minimum")), at(schema, &format!("{pointer}/maximum")))
    };
    assert_eq!(told("many"), (&json!(2), &json!(u32::MAX)));
    assert_eq!(told("far"), (&json!(i32::MIN), &json!(i32::MAX)));
    assert_eq!(told("rough"), (&json!(1), &json!(u16::MAX)));
    assert_eq!(told("booking/properties/seats/items"), (&json!(0), &json!(u32::MAX)));
    assert_eq!(told("booking/properties/rank"), (&json!(i32::MIN), &json!(5)));
    // Both ends of 64 bits are taken for no end at all by some servers, which then refuse them.
    assert_eq!(told("long"), (&Value::Null, &Value::Null));
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only what is read is of interest")]
struct Large {
    huge: u128,
    vast: i128,
}

/// Counts.
#[tool(side_effects = "none")]
fn count(
    /// Up to where
    many: u64,
    /// In which place
    place: usize,
    /// By how much
    by: isize,
    /// How large
    large: Large,
) -> bool {
    let _ = (many, place, by, large);
    true
}

#[tokio::test]
async fn the_ends_of_large_integers_are_checked_and_only_those_told_that_every_server_reads() {
    let schema = &count::TOOL.schema().input_schema;
    for name in ["many", "place", "large/properties/huge"] {
        assert_eq!(*at(schema, &format!("/properties/{name}/minimum")), 0, "{name}");
        assert_eq!(*at(schema, &format!("/properties/{name}/maximum")), Value::Null, "{name}");
    }
    for name in ["by", "large/properties/vast"] {
        assert_eq!(*at(schema, &format!("/properties/{name}/minimum")), Value::Null, "{name}");
    }
    let registry = ToolRegistry::new(tools![count]).unwrap();
    let ends = [
        ("many", "-1", "18446744073709551616", "18446744073709551615"),
        ("place", "-1", "18446744073709551616", "18446744073709551615"),
        ("by", "-9223372036854777856", "9223372036854775808", "9223372036854775807"),
        ("large/huge", "-1", "18446744073709551616", "18446744073709551615"),
        ("large/vast", "-9223372036854777856", "18446744073709551616", "18446744073709551615"),
    ];
    let call = |name: &str, number: &str| {
        let [many, place, by, huge, vast] =
            ends.map(|(other, ..)| if other == name { number } else { "1" });
        let large = format!(r#"{{"huge": {huge}, "vast": {vast}}}"#);
        let arguments =
            format!(r#"{{"many": {many}, "place": {place}, "by": {by}, "large": {large}}}"#);
        let call = ToolCall::new("c", "count", arguments);
        let registry = &registry;
        async move { registry.dispatch(&call, &ToolContext::new("c")).await }
    };
    for (name, below, above, most) in ends {
        let said = call(name, most).await;
        assert!(!said.is_error(), "{name}: {}", said.to_text());
        for number in [below, above] {
            let said = call(name, number).await;
            let text = said.to_text();
            let name = name.rsplit('/').next().unwrap_or(name);
            let says = ["must be at least", "must be at most", "must be between"];
            let names_end = says.iter().any(|words| text.contains(words));
            assert!(said.is_error() && text.contains(name) && names_end, "{text}");
        }
    }
}

fn odd() -> u8 {
    7
}

/// Does it.
#[tool(side_effects = "none")]
fn too_large(
    /// X
    #[param(range(..=5), example = odd())]
    x: u8,
) -> u8 {
    x
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Up,
    Down,
}

/// Does it.
#[tool(side_effects = "none")]
fn misspelt(
    /// X
    #[param(example = "up", example = "donw")]
    x: Order,
) -> bool {
    matches!(x, Order::Up | Order::Down)
}

struct Secret;

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        String::deserialize(reader).map(|_| Self)
    }
}

impl schemars::JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// Does it.
#[tool(side_effects = "none")]
fn unspeakable(
    /// X
    #[param(example = Secret)]
    x: Secret,
) {
    let _ = x;
}

#[test]
fn an_example_that_cannot_be_written_or_does_not_fit_is_said_when_an_agent_is_built() {
    let said = |tools| {
        let agent = Agent::builder(ScriptedProvider::new([])).tools(tools);
        agent.build().map(|_| ()).unwrap_err().to_string()
    };
    assert!(said(tools![too_large]).contains(
        "the example of the parameter `x` of the tool `too_large` does not fit: must be between 0 and 5"
    ));
    let misspelt = said(tools![misspelt]);
    let expected = "the example of the parameter `x` of the tool `misspelt` does not fit";
    assert!(misspelt.contains(expected) && misspelt.contains("donw"), "{misspelt}");
    assert!(said(tools![unspeakable]).contains(
        "the example of the parameter `x` of the tool `unspeakable` cannot be written as JSON: put \
         `#[derive(serde::Serialize)]` on its type"
    ));
}

/// Spells.
#[tool(side_effects = "none")]
fn spell(
    /// A name
    #[param(pattern = r"^\p{Lu}")]
    name: Option<String>,
) -> bool {
    name.is_some()
}

#[test]
fn a_pattern_that_cannot_be_checked_is_said_when_an_agent_is_built() {
    let agent = Agent::builder(ScriptedProvider::new([])).tools(tools![spell]);
    let said = agent.build().map(|_| ()).unwrap_err().to_string();
    let expected = "the pattern of the parameter `name` of the tool `spell` cannot be checked: it names a \
                    class of Unicode; write it without that, or check it in the function";
    assert!(said.contains(expected), "{said}");
}

struct Desk;

#[toolset]
impl Desk {
    /// Orders.
    #[tool(side_effects = "write")]
    fn order(
        &self,
        /// What
        #[param(length(2..=4), pattern = "^[a-zß]+$")]
        what: &str,
        /// Sizes
        #[param(length(1..3))]
        sizes: Vec<u8>,
        /// A note
        #[param(length(..=3))]
        note: Option<String>,
        shared: Option<State<u8>>,
    ) -> String {
        let _ = (sizes, note, shared);
        what.to_owned()
    }
}

#[test]
fn lengths_and_patterns_are_checked_at_each_call() {
    let tool = Arc::new(Desk).tools().remove(0);
    let check = |arguments: Value| {
        let Value::Object(arguments) = arguments else { unreachable!() };
        tool.check(&arguments).map_err(|lines| lines.len())
    };
    assert_eq!(check(json!({"what": "ßß", "sizes": [1], "note": "äöü"})), Ok(()));
    assert_eq!(check(json!({"what": "abcd", "sizes": [1, 2], "note": null})), Ok(()));
    assert_eq!(check(json!({"what": "a", "sizes": [1]})), Err(1));
    assert_eq!(check(json!({"what": "abcde", "sizes": [1]})), Err(1));
    assert_eq!(check(json!({"what": "aBc", "sizes": [1]})), Err(1));
    assert_eq!(check(json!({"what": "A", "sizes": [], "note": "abcd"})), Err(4));
    assert_eq!(check(json!({"what": "ab", "sizes": [1, 2, 3]})), Err(1));
}

#[test]
fn what_limits_a_text_or_a_list_is_told() {
    let registry = ToolRegistry::new(Arc::new(Desk).tools()).expect("a registry");
    let schema = &registry.schemas()[0].input_schema;
    let told = |place: &str| at(schema, &format!("/properties/{place}")).clone();
    assert_eq!(told("what/minLength"), json!(2));
    assert_eq!(told("what/maxLength"), json!(4));
    assert_eq!(told("what/pattern"), json!("^[a-zß]+$"));
    assert_eq!((told("sizes/minItems"), told("sizes/maxItems")), (json!(1), json!(2)));
    assert_eq!((told("note/minLength"), told("note/maxLength")), (Value::Null, json!(3)));
    registry.check().expect("all is right");
}
