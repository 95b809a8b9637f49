//! Which defaults and map keys a parameter accepts, which results are not possible, and what an
//! error keeps.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZero,
    sync::Arc,
};

use harness::{State, ToolContext, ToolError, ToolRegistry, tool, tool::StrictForm, tools};
use serde_json::{Value, json};

use crate::tool_macro::{at, call};

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    Desc,
}

type Title = String;
type Small = u8;

/// Takes literals.
#[tool(side_effects = "none")]
#[expect(clippy::too_many_arguments, reason = "one of each")]
fn literals(
    /// By an alias
    #[param(default = "t")]
    title: Title,
    /// By an alias
    #[param(default = 255)]
    small: Small,
    /// Not zero
    #[param(default = 7)]
    positive: Option<NonZero<i8>>,
    /// Shared
    #[param(default = "s")]
    shared: Arc<str>,
    /// Lists of an alias
    #[param(default = [["a"], []])]
    lists: Vec<Vec<Title>>,
    /// Pair
    #[param(default = [1, "b"])]
    pair: (u8, String),
    /// Two floats
    #[param(default = [1, 2.5])]
    floats: [f64; 2],
    /// Any
    #[param(default = [1, "c", []])]
    any: Value,
    /// Byte
    #[param(default = b'a')]
    byte: u8,
    /// Lent
    #[param(default = Some("l"))]
    lent: Option<&str>,
) -> String {
    let lent = lent.unwrap_or_default();
    format!(
        "{title} {small} {positive:?} {shared} {lists:?} {pair:?} {floats:?} {any} {byte}{lent}"
    )
}

#[tokio::test]
async fn a_literal_is_the_default_of_every_type_that_takes_all_of_its_kind() {
    assert_eq!(
        call(&literals::tool(), json!({})).await,
        r#"text t 255 Some(7) s [["a"], []] (1, "b") [1.0, 2.5] [1,"c",[]] 97l"#
    );
    ToolRegistry::new(tools![literals]).unwrap().check().unwrap();
}

/// Divides.
#[tool(side_effects = "none")]
fn divide(
    /// Dividend
    a: f64,
    /// Divisor
    b: f64,
) -> Quotient {
    Quotient { of: None, values: vec![("a/b".to_owned(), a / b)].into_iter().collect() }
}

#[derive(serde::Serialize)]
struct Quotient {
    of: Option<u8>,
    values: BTreeMap<String, f64>,
}

/// Takes a root.
#[tool(side_effects = "none")]
fn root(
    /// Number
    of: f32,
) -> f32 {
    of.sqrt()
}

#[tokio::test]
async fn a_number_that_json_does_not_have_is_an_error_with_its_place() {
    let begin = "failed The tool ran to its end, but parts of what it returned are errors:";
    let tool = divide::tool();
    let answer = call(&tool, json!({"a": 1, "b": 2})).await;
    assert_eq!(answer, r#"json {"of":null,"values":{"a/b":0.5}}"#);
    let answer = call(&tool, json!({"a": -1, "b": 0})).await;
    let reason = "- at `/values/a~1b`: it is minus infinity, which JSON does not have\n\
                  All other parts succeeded and stand: repeat only what failed. \
                  This is what it returned:\n{\"of\":null,\"values\":{\"a/b\":null}}";
    assert_eq!(answer, format!("{begin}\n{reason}"));
    let answer = call(&root::tool(), json!({"of": -1})).await;
    let expected = "failed the tool ran to its end, but what it returned cannot be written as JSON: \
                    it is NaN, which JSON does not have";
    assert_eq!(answer, expected);
}

#[derive(Debug, Hash, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(from = "String")]
struct Key(String);

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self(key)
    }
}

/// Takes maps.
#[tool(side_effects = "none")]
fn maps(
    /// By an enum
    by_name: HashMap<Order, u8>,
    /// By a type that is made of a string
    by_key: HashMap<Key, u8>,
    /// By a type of another crate
    by_address: HashMap<std::net::IpAddr, u8>,
    /// By an alias, lent
    by_title: &BTreeMap<Box<Title>, u8>,
) -> String {
    format!("{by_name:?} {by_key:?} {by_address:?} {by_title:?}")
}

#[tokio::test]
async fn the_key_of_a_map_is_what_is_read_from_a_string() {
    let arguments = json!({"by_name": {"asc": 1}, "by_key": {"k": 2}, "by_address": {"::1": 3},
        "by_title": {"t": 4}});
    assert_eq!(
        call(&maps::tool(), arguments).await,
        r#"text {Asc: 1} {Key("k"): 2} {::1: 3} {"t": 4}"#
    );
}

/// Needs what the program has.
#[tool(side_effects = "none")]
fn needs(
    store: State<String>,
    /// Number
    number: i64,
) -> String {
    format!("{} {number}", *store)
}

#[tokio::test]
async fn what_the_model_can_mend_comes_before_what_it_cannot() {
    let tool = needs::tool();
    assert_eq!(call(&tool, json!({"number": "x"})).await.split(':').next(), Some("bad `number`"));
    let missing = "failed the program has no `alloc::string::String` to share; add one with \
                   `ToolContext::with`";
    assert_eq!(call(&tool, json!({"number": 1})).await, missing);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Odd {
    #[serde(rename = "a/b~c")]
    slashed: i64,
}

/// Takes odd names.
#[tool(side_effects = "none")]
fn odd(
    /// Odd
    odd: Odd,
) -> i64 {
    odd.slashed
}

#[tokio::test]
async fn a_place_is_a_json_pointer() {
    let tool = odd::tool();
    assert_eq!(call(&tool, json!({"odd": {"a/b~c": 2.0}})).await, "json 2");
    let wrong = call(&tool, json!({"odd": {"a/b~c": "x"}})).await;
    assert!(wrong.starts_with("bad `odd` at `/a~1b~0c`: "), "{wrong}");
    // Beyond 2^53 a float does not say which integer is meant.
    let wrong = call(&tool, json!({"odd": {"a/b~c": 1e16}})).await;
    assert!(wrong.starts_with("bad `odd` at `/a~1b~0c`: "), "{wrong}");
}

/// Counts its calls.
#[tool(side_effects = "write")]
fn counted(count: State<std::sync::atomic::AtomicU8>) {
    count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
}

#[test]
fn a_blocking_tool_that_has_not_begun_never_begins_once_its_call_is_dropped() {
    use std::sync::{atomic::AtomicU8, mpsc};

    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let context = ToolContext::new("c").with(AtomicU8::new(0));
    let begun = |context: &ToolContext| context.state::<AtomicU8>().unwrap();
    runtime.block_on(async {
        // The only thread is taken until it is told to go on.
        let (go_on, until) = mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || until.recv());
        let tool = counted::tool();
        {
            let mut run = Box::pin(tool.call(&context, json!({})));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(run.as_mut().poll(&mut cx).is_pending());
        }
        go_on.send(()).unwrap();
        busy.await.unwrap().unwrap();
        // Behind everything that was queued.
        tokio::task::spawn_blocking(|| {}).await.unwrap();
        assert_eq!(begun(&context).load(std::sync::atomic::Ordering::SeqCst), 0);
        tool.call(&context, json!({})).await.unwrap();
        assert_eq!(begun(&context).load(std::sync::atomic::Ordering::SeqCst), 1);
    });
}

/// Is busy.
#[tool(side_effects = "none")]
fn busy() -> Result<(), ToolError> {
    Err(ToolError::transient("busy"))
}

/// Is busy, in a box.
#[tool(side_effects = "none")]
fn busy_in_a_box() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err(ToolError::transient("busy").into())
}

/// Is busy, in a box that stays in its thread.
#[tool(side_effects = "none")]
fn busy_in_its_thread() -> Result<(), Box<dyn std::error::Error>> {
    Err(ToolError::transient("busy").into())
}

/// Is busy, by anyhow.
#[tool(side_effects = "none")]
fn busy_by_anyhow() -> anyhow::Result<()> {
    Err(ToolError::transient("busy").into())
}

/// Has nothing.
#[tool(side_effects = "none")]
fn has_nothing() -> Option<String> {
    None
}

#[tokio::test]
async fn a_tool_error_stays_what_it_is_whatever_is_around_it() {
    for tool in tools![busy, busy_in_a_box, busy_in_its_thread, busy_by_anyhow] {
        let err = tool.call(&ToolContext::new("c"), json!({})).await.unwrap_err();
        assert!(err.is_transient() && err.to_string() == "busy", "{}: {err:?}", tool.name());
    }
    assert_eq!(call(&has_nothing::tool(), json!({})).await, "");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Around(#[expect(dead_code, reason = "only its schema is of interest")] Order);

/// Takes a type around an enum.
#[tool(side_effects = "none")]
fn around(
    /// Direction
    #[param(default = Around(Order::Desc))]
    order: Around,
    /// Other direction
    other: Option<Order>,
) {
    let _ = (order, other);
}

#[test]
fn a_default_is_in_the_schema_only_if_its_name_is_sure() {
    assert_eq!(at(&around::tool(), "/properties/order/enum"), &json!(["asc", "desc"]));
    assert_eq!(at(&around::tool(), "/properties/order/default"), &Value::Null);
}

#[test]
fn an_enum_that_may_be_left_out_may_be_null_in_the_strict_form() {
    let strict = around::TOOL.schema().strict(StrictForm::OpenAI).unwrap();
    let order = &strict["properties"]["order"];
    assert_eq!(order["type"], json!(["string", "null"]));
    assert_eq!(order["enum"], json!(["asc", "desc", null]));
}
