//! Shapes of functions that `#[tool]` accepts, in addition to those in `ui-tests/pass`, and the
//! result of a call of each.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    num::NonZero,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use harness::{
    Agent, CancellationToken, Media, Progress, State, Tool, ToolContent, ToolContext, ToolError,
    ToolOutput, ToolRegistry,
    testing::{ScriptedProvider, reply},
    tool, tools, toolset,
};
use serde_json::{Value, json};

/// Calls a tool and puts what it answers in one line.
pub(crate) async fn call(tool: &Tool, arguments: Value) -> String {
    said(tool.call(&ToolContext::new("call_1"), arguments).await)
}

fn said(answer: Result<ToolOutput, ToolError>) -> String {
    match answer {
        Ok(output) => {
            let parts = output.content().iter().map(|part| match part {
                ToolContent::Text(text) => format!("text {text}"),
                ToolContent::Json(value) => format!("json {value}"),
                ToolContent::Image(media) => format!("image {}", media.mime().unwrap_or_default()),
                other => format!("{other:?}"),
            });
            parts.collect::<Vec<_>>().join("; ")
        }
        Err(ToolError::BadArguments(lines)) => format!("bad {}", lines.join(" | ")),
        Err(err) => format!("failed {err}"),
    }
}

pub(crate) fn at<'a>(tool: &'a Tool, pointer: &str) -> &'a Value {
    tool.input_schema().pointer(pointer).unwrap_or(&Value::Null)
}

/// Joins.
#[tool(side_effects = "none")]
fn lent(
    /// A text
    text: &str,
    /// Words
    words: &[String],
    /// A path
    path: &Path,
    /// A point
    point: &Point,
    /// Perhaps a text
    maybe: Option<&str>,
    /// Perhaps numbers
    numbers: Option<&[i64]>,
) -> String {
    format!("{text} {words:?} {} {} {maybe:?} {numbers:?}", path.display(), point.x)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Point {
    x: i64,
}

#[tokio::test]
async fn what_is_lent_is_read_owned() {
    let tool = lent::tool();
    let arguments = json!({"text": "a", "words": ["b"], "path": "c/d", "point": {"x": 1}});
    assert_eq!(call(&tool, arguments).await, r#"text a ["b"] c/d 1 None None"#);
    let arguments = json!({"text": "a", "words": [], "path": "c", "point": {"x": 1},
        "maybe": "m", "numbers": [1]});
    assert_eq!(call(&tool, arguments).await, r#"text a [] c 1 Some("m") Some([1])"#);
    assert_eq!(at(&tool, "/required"), &json!(["text", "words", "path", "point"]));
    assert_eq!(at(&tool, "/properties/path/type"), "string");
}

/// Takes the type of a thing.
#[tool(side_effects = "none")]
fn r#match(
    /// The type
    r#type: String,
) -> String {
    r#type
}

/// Prints.
#[tool(side_effects = "none")]
fn args(
    /// A
    cx: i64,
    /// B
    call: i64,
    /// C
    out: i64,
    /// D
    a0: i64,
    /// E
    this: i64,
) -> i64 {
    cx + call + out + a0 + this
}

#[tokio::test]
async fn any_name_will_do() {
    let tools = tools![r#match, args];
    assert_eq!(tools[0].name(), "match");
    assert_eq!(call(&tools[0], json!({"type": "x"})).await, "text x");
    let all = json!({"cx": 1, "call": 1, "out": 1, "a0": 1, "this": 1});
    assert_eq!(call(&tools[1], all).await, "json 5");
}

macro_rules! getter {
    ($(#[$meta:meta])* $name:ident($field:ident: $ty:ty = $default:expr, $effect:literal)) => {
        $(#[$meta])*
        #[tool(side_effects = $effect)]
        fn $name(
            /// The value
            #[param(default = $default)]
            $field: $ty,
        ) -> $ty {
            $field
        }
    };
}

getter! {
    /// Gets a number.
    get_number(number: Option<i64> = 7, "read")
}
getter! {
    /// Gets words.
    get_words(words: Vec<String> = ["a", "b"], "none")
}

#[tokio::test]
async fn a_macro_can_write_tools() {
    assert_eq!(call(&get_number::tool(), json!({})).await, "json 7");
    assert!(get_number::TOOL.side_effects.is_read_only());
    assert_eq!(call(&get_words::tool(), Value::Null).await, r#"json ["a","b"]"#);
    assert_eq!(at(&get_words::tool(), "/properties/words/default"), &json!(["a", "b"]));
}

type Fallible<T> = Result<T, std::num::ParseIntError>;

/// Parses.
#[tool(side_effects = "none")]
fn by_alias(
    /// Text
    text: &str,
) -> Fallible<i64> {
    text.parse()
}

/// Parses.
#[tool(side_effects = "none")]
fn by_impl(
    /// Text
    text: &str,
) -> impl serde::Serialize + use<> {
    vec![text.len()]
}

/// Parses.
#[tool(side_effects = "none")]
fn by_impl_result(
    /// Text
    text: String,
) -> Result<impl serde::Serialize, String> {
    if text.is_empty() { Err("nothing there".to_owned()) } else { Ok([1, 2]) }
}

/// Waits and parses.
#[tool(side_effects = "none")]
fn by_future(
    /// Text
    text: String,
) -> Result<String, Box<dyn std::error::Error>> {
    Err(format!("no {text}").into())
}

/// Returns a part of it.
#[tool(side_effects = "none")]
fn head<'a>(
    /// Text
    text: &'a str,
    /// Other
    other: Cow<'a, str>,
) -> &'a str {
    let _ = other;
    text.get(..1).unwrap_or(text)
}

/// Only words.
#[derive(Debug)]
struct Words;

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("words only")
    }
}

/// Fails with words.
#[tool(side_effects = "none")]
async fn by_words() -> Result<(), Words> {
    Err(Words)
}

#[tokio::test]
async fn every_kind_of_output_is_told_by_its_type() {
    assert_eq!(call(&by_alias::tool(), json!({"text": "4"})).await, "json 4");
    assert_eq!(
        call(&by_alias::tool(), json!({"text": "x"})).await,
        "failed invalid digit found in string"
    );
    assert_eq!(call(&by_impl::tool(), json!({"text": "abc"})).await, "json [3]");
    assert_eq!(call(&by_impl_result::tool(), json!({"text": "a"})).await, "json [1,2]");
    assert_eq!(call(&by_impl_result::tool(), json!({"text": ""})).await, "failed nothing there");
    assert_eq!(call(&by_future::tool(), json!({"text": "x"})).await, "failed no x");
    assert_eq!(call(&head::tool(), json!({"text": "abc", "other": ""})).await, "text a");
    assert_eq!(call(&by_words::tool(), json!({})).await, "failed words only");
}

/// Draws.
#[tool(side_effects = "none")]
fn draw_all() -> Vec<ToolContent> {
    vec!["two".into(), ToolContent::Image(Media::from_bytes("image/png", [1]))]
}

/// Draws or not.
#[tool(side_effects = "none")]
fn draw_or_fail(
    /// Whether
    fail: bool,
) -> anyhow::Result<ToolOutput> {
    use anyhow::Context as _;
    if fail {
        let cause: Result<(), _> = Err(std::io::Error::other("disk full"));
        cause.context("cannot draw")?;
    }
    Ok(ToolOutput::nothing())
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] Middle);

/// Names its cause already.
#[derive(Debug, thiserror::Error)]
#[error("middle: {0}")]
struct Middle(#[source] std::fmt::Error);

/// Fails deep down.
#[tool(side_effects = "none")]
fn fail_deep() -> Result<(), Outer> {
    Err(Outer(Middle(std::fmt::Error)))
}

/// Fails with a text for the model.
#[tool(side_effects = "none")]
fn fail_for_model() -> anyhow::Result<()> {
    Err(ToolError::new("try again later").with_source(std::io::Error::other("secret host")))?;
    Ok(())
}

#[tokio::test]
async fn an_error_tells_the_model_its_causes_once() {
    assert_eq!(call(&draw_all::tool(), json!({})).await, "text two; image image/png");
    assert_eq!(call(&draw_or_fail::tool(), json!({"fail": false})).await, "");
    assert_eq!(
        call(&draw_or_fail::tool(), json!({"fail": true})).await,
        "failed cannot draw: disk full"
    );
    let deep = format!("failed outer: middle: {}", std::fmt::Error);
    assert_eq!(call(&fail_deep::tool(), json!({})).await, deep);
    assert_eq!(call(&fail_for_model::tool(), json!({})).await, "failed try again later");
}

/// Everything that is JSON.
#[tool(side_effects = "none")]
#[expect(clippy::too_many_arguments, clippy::boxed_local, reason = "one of each")]
fn every_type(
    /// Shared text
    shared: Arc<str>,
    /// Boxed
    boxed: Box<Point>,
    /// Positive
    positive: NonZero<u32>,
    /// Pair
    pair: (i64, String),
    /// Map
    map: BTreeMap<String, i64>,
    /// Map by number
    by_number: HashMap<u8, bool>,
    /// Letter
    letter: char,
    /// Three
    three: [u8; 3],
    /// Lots
    nested: Option<Vec<Option<Point>>>,
) -> String {
    format!(
        "{shared} {} {positive} {pair:?} {map:?} {by_number:?} {letter} {three:?} {}",
        boxed.x,
        nested.map_or(0, |all| all.into_iter().flatten().map(|point| point.x).sum())
    )
}

#[tokio::test]
async fn every_type_of_serde_and_schemars_is_a_parameter() {
    let arguments = json!({
        "shared": "s", "boxed": {"x": 1}, "positive": 2, "pair": [3, "p"], "map": {"m": 4},
        "by_number": {"5": true}, "letter": "l", "three": [1, 2, 3], "nested": [null, {"x": 6}],
    });
    assert_eq!(
        call(&every_type::tool(), arguments).await,
        r#"text s 1 2 (3, "p") {"m": 4} {5: true} l [1, 2, 3] 6"#
    );
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// Smallest first
    Asc,
    /// Largest first
    Desc,
}

const LIMIT: u8 = 10;

fn home() -> String {
    "home".to_owned()
}

/// Lists.
#[tool(side_effects = "read", idempotent, timeout = "1.5s")]
fn list(
    /// How many
    #[param(default = LIMIT, range(1..=100))]
    limit: u8,
    /// Where
    #[param(default = home(), rename = "in")]
    place: String,
    /// Direction
    #[param(default = Order::Desc)]
    order: Order,
    /// Share
    #[param(range(0.0..1.0))]
    share: Option<f64>,
    /// Other direction
    #[param(default = Some(Order::Asc))]
    other: Option<Order>,
    /// Name
    #[param(default = "n")]
    name: &str,
) -> String {
    format!("{limit} {place} {order:?} {share:?} {other:?} {name}")
}

#[tokio::test]
async fn defaults_and_ranges_are_in_the_schema_and_kept() {
    let tool = list::tool();
    assert!(tool.is_idempotent());
    assert_eq!(tool.time_limit(), Some(std::time::Duration::from_millis(1500)));
    assert_eq!(call(&tool, json!({})).await, "text 10 home Desc None Some(Asc) n");
    let null = json!({"limit": null, "in": null, "order": null, "share": null, "other": null,
        "name": null});
    assert_eq!(call(&tool, null).await, "text 10 home Desc None Some(Asc) n");
    assert_eq!(
        call(&tool, json!({"limit": 0, "share": 1.0, "place": "x"})).await,
        "bad `limit`: must be between 1 and 100, not 0 | `share`: must be at least 0.0 and less \
         than 1.0, not 1.0 | `place`: there is no such argument; the arguments are `limit`, `in`, \
         `order`, `share`, `other`, `name`"
    );
    assert_eq!(
        at(&tool, "/properties/limit"),
        &json!({"type": "integer", "minimum": 1, "maximum": 100, "description": "How many",
            "default": 10})
    );
    assert_eq!(at(&tool, "/properties/share/exclusiveMaximum"), 1.0);
    // An enum that cannot be written as JSON is known by the name of which it is read.
    assert_eq!(
        at(&tool, "/properties/order"),
        &json!({"type": "string", "enum": ["asc", "desc"],
            "description": "Direction\n- `asc`: Smallest first\n- `desc`: Largest first",
            "default": "desc"})
    );
    // A default that cannot be written as JSON is not in the schema, and is taken all the same.
    assert_eq!(at(&tool, "/properties/other/default"), &Value::Null);
    assert_eq!(at(&tool, "/required"), &json!([]));
}

fn low() -> i64 {
    5
}

/// Takes a wrong default.
#[tool(side_effects = "none")]
fn wrong_default(
    /// Number
    #[param(default = low(), range(..5))]
    number: i64,
) -> i64 {
    number
}

/// Takes an empty range.
#[tool(side_effects = "none")]
fn empty_range(
    /// Number
    #[param(range(low()..=1))]
    number: i64,
) -> i64 {
    number
}

/// Takes an empty range of floats.
#[tool(side_effects = "none")]
fn empty_share(
    /// Number
    #[param(range(share()..0.5))]
    number: f64,
) -> f64 {
    number
}

fn share() -> f64 {
    0.5
}

#[test]
fn what_only_a_call_knows_is_said_when_the_agent_is_built() {
    let refused = |tools: Vec<Tool>| {
        let said = ToolRegistry::new(tools.clone()).unwrap().check().unwrap_err().to_string();
        let model = ScriptedProvider::new([]);
        assert_eq!(Agent::builder(model).tools(tools).build().unwrap_err().to_string(), said);
        said
    };
    let said = refused(tools![empty_share]);
    assert!(said.contains("range of the parameter `number` of the tool `empty_share`"), "{said}");
    let said = refused(tools![wrong_default]);
    assert!(
        said.contains("default of the parameter `number` of the tool `wrong_default`"),
        "{said}"
    );
    let said = refused(tools![empty_range]);
    assert!(said.contains("range of the parameter `number` of the tool `empty_range`"), "{said}");
}

static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

#[derive(serde::Deserialize)]
struct Counted(i64);

impl schemars::JsonSchema for Counted {
    fn schema_name() -> Cow<'static, str> {
        "Counted".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        DESCRIBED.fetch_add(1, Ordering::SeqCst);
        i64::json_schema(generator)
    }
}

/// Takes what says when it is described.
#[tool(side_effects = "none")]
fn takes_counted(
    /// Number
    number: Counted,
) -> i64 {
    number.0
}

#[tokio::test]
async fn nothing_is_done_at_registration_and_a_schema_is_made_once() {
    let described = || DESCRIBED.load(Ordering::SeqCst);
    let registry = ToolRegistry::new(tools![takes_counted]).unwrap();
    assert_eq!(described(), 0);
    registry.check().unwrap();
    let once = described();
    assert!(once > 0, "a type is asked for its schema");
    for _ in 0..2 {
        let model = ScriptedProvider::new([reply().text("Done.")]);
        let agent = Agent::builder(model).tools(tools![takes_counted]).build().unwrap();
        agent.run("Go.").await.unwrap();
        assert_eq!(call(&takes_counted::tool(), json!({"number": 3})).await, "json 3");
    }
    assert_eq!(described(), once);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Filter {
    #[serde(default)]
    any: Vec<Clause>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Clause {
    field: String,
    #[serde(default)]
    weight: i32,
}

/// Filters.
#[tool(side_effects = "read")]
fn filter(
    /// What to keep
    filter: Filter,
    /// How many
    limit: u8,
    /// In which order
    order: Order,
) -> usize {
    filter.any.iter().map(|clause| clause.field.len()).sum::<usize>()
        + usize::from(limit)
        + usize::from(order == Order::Asc)
        + filter.any.iter().filter(|clause| clause.weight > 0).count()
}

#[tokio::test]
async fn all_wrong_arguments_are_named_with_their_place() {
    let tool = filter::tool();
    let arguments = json!({"filter": {"any": [{"field": "a"}, {"field": 3}]}, "limt": 3});
    let expected = [
        "`filter` at `/any/1/field`: expected a string, found 3",
        "`limit` is required: an integer, \"How many\"",
        "`order` is required: one of \"asc\", \"desc\", \"In which order\"",
        "`limt`: there is no such argument; did you mean `limit`?",
    ];
    assert_eq!(tool.check(arguments.as_object().unwrap()).unwrap_err(), expected);
    assert_eq!(call(&tool, arguments).await, format!("bad {}", expected.join(" | ")));
    // Of each argument too, all is told; and what serde says of a field is told once.
    let arguments = json!({"filter": {"any": [{"weight": "x"}, {"field": 3}, 4]}, "limit": 300,
        "order": "up"});
    let expected = [
        "`filter` at `/any/0/field` is required: a string",
        "`filter` at `/any/0/weight`: expected an integer, found \"x\"",
        "`filter` at `/any/1/field`: expected a string, found 3",
        "`filter` at `/any/2`: expected an object, found 4",
        "`limit`: must be between 0 and 255, not 300",
        "`order`: expected one of \"asc\", \"desc\", found \"up\"",
    ];
    assert_eq!(tool.check(arguments.as_object().unwrap()).unwrap_err(), expected);
    assert_eq!(call(&tool, arguments).await, format!("bad {}", expected.join(" | ")));
    let missing = json!({"filter": {"any": [{}, {}]}, "limit": 3, "order": "asc"});
    let expected = [
        "`filter` at `/any/0/field` is required: a string",
        "`filter` at `/any/1/field` is required: a string",
    ];
    assert_eq!(tool.check(missing.as_object().unwrap()).unwrap_err(), expected);
    // JSON Schema counts 2.0 as an integer.
    let whole = json!({"filter": {"any": [{"field": "a", "weight": 1.0}]}, "limit": 2.0,
        "order": "asc"});
    assert_eq!(tool.check(whole.as_object().unwrap()), Ok(()));
    assert_eq!(call(&tool, whole).await, "json 5");
    assert_eq!(call(&tool, json!([1])).await, "bad the arguments must be a JSON object, not [1]");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Figure {
    Circle { radius: f64 },
    Square { side: f64 },
}

/// Draws.
#[tool(side_effects = "none")]
fn draw(
    /// What
    figure: Figure,
) -> f64 {
    match figure {
        Figure::Circle { radius } => radius,
        Figure::Square { side } => side,
    }
}

#[tokio::test]
async fn a_fault_inside_a_tagged_enum_has_its_place() {
    let wrong = async |figure: Value| call(&draw::tool(), json!({"figure": figure})).await;
    let inside = "bad `figure` at `/side`: expected a number, found \"x\"";
    assert_eq!(wrong(json!({"kind": "square", "side": "x"})).await, inside);
    let missing = "bad `figure` at `/radius` is required: a number";
    assert_eq!(wrong(json!({"kind": "circle"})).await, missing);
    let unknown = "bad `figure` at `/kind`: expected one of \"circle\", \"square\", found \"line\"";
    assert_eq!(wrong(json!({"kind": "line"})).await, unknown);
    assert_eq!(wrong(json!({"kind": "square", "side": 2})).await, "json 2.0");
}

struct Files {
    root: String,
}

#[toolset]
impl Files {
    const SUFFIX: &'static str = ".rs";

    /// Reads a file.
    #[tool(side_effects = "read")]
    async fn read(
        &self,
        cx: &ToolContext,
        /// Path
        path: &str,
        /// Suffix
        #[param(default = Self::SUFFIX)]
        suffix: &str,
    ) -> Result<String, std::io::Error> {
        Ok(format!("{}/{path}{suffix} for {}", self.root, cx.call_id()))
    }

    /// Counts.
    #[tool(side_effects = "none", name = "count-letters")]
    fn count(&self) -> usize {
        self.root.len()
    }

    /// Needs no value.
    #[tool(side_effects = "none")]
    fn suffix() -> &'static str {
        Self::SUFFIX
    }

    /// Is not there.
    #[cfg(any())]
    #[tool(side_effects = "none")]
    fn absent(&self) -> Missing {
        missing()
    }

    fn helper(&self) -> &str {
        &self.root
    }
}

#[toolset(method = more_tools)]
impl Files {
    /// Is old.
    #[deprecated]
    #[tool(side_effects = "none")]
    async fn old(&self) -> usize {
        self.root.len()
    }
}

#[tokio::test]
async fn the_methods_of_a_value_are_tools() {
    let files = Arc::new(Files { root: "r".to_owned() });
    let tools = files.tools();
    let names: Vec<&str> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, ["read", "count-letters", "suffix"]);
    assert_eq!(call(&tools[0], json!({"path": "a"})).await, "text r/a.rs for call_1");
    assert_eq!(call(&tools[1], json!({})).await, "json 1");
    assert_eq!(call(&tools[2], json!({})).await, "text .rs");
    assert_eq!(files.helper(), "r");
    assert_eq!(files.count(), 1);
    assert_eq!(call(&files.more_tools()[0], json!({})).await, "json 1");
}

/// Uses what the host has.
#[tool(side_effects = "none")]
async fn hosted(
    cx: ToolContext,
    count: State<i64>,
    name: Option<State<String>>,
    cancel: &CancellationToken,
    progress: &Progress,
) -> String {
    progress.report("here");
    format!("{} {} {} {}", cx.call_id(), *count, name.is_some(), cancel.is_cancelled())
}

#[tokio::test]
async fn what_the_host_supplies_is_told_by_its_type() {
    let context = ToolContext::new("c").with(3_i64);
    let tool = hosted::tool();
    assert_eq!(said(tool.call(&context, json!({})).await), "text c 3 false false");
    assert_eq!(context.progress_log(), ["here"]);
    assert_eq!(at(&tool, "/properties"), &json!({}));
    assert_eq!(
        said(tool.call(&ToolContext::new("c"), json!({})).await),
        "failed the program has no `i64` to share; add one with `ToolContext::with`"
    );
}

/// Off or on.
#[cfg(any())]
#[tool(side_effects = "none")]
fn off() -> Missing {
    missing()
}

/// On.
#[tool(side_effects = "none")]
fn on() {}

#[test]
fn a_list_can_leave_tools_out() {
    let tools = tools![
        #[cfg(any())]
        off,
        on,
    ];
    assert_eq!(tools.len(), 1);
    let none = tools![];
    assert!(ToolRegistry::new(none).unwrap().tools().is_empty());
}

/// Says on which thread it is.
#[tool(side_effects = "none")]
fn thread_of() -> String {
    format!("{:?}", std::thread::current().id())
}

/// Breaks.
#[tool(side_effects = "none")]
fn breaks() -> String {
    panic!("broken")
}

#[tokio::test]
async fn a_blocking_tool_leaves_the_loop_alone() {
    let here = format!("text {:?}", std::thread::current().id());
    assert_ne!(call(&thread_of::tool(), json!({})).await, here);
}

#[test]
fn without_a_runtime_it_runs_in_place() {
    let here = format!("text {:?}", std::thread::current().id());
    let said = futures_executor(call(&thread_of::tool(), json!({})));
    assert_eq!(said, here);
}

/// Polls once: a future that waits for nothing is ready at once.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[tokio::test]
async fn a_panic_in_a_blocking_tool_is_an_answer() {
    let registry = ToolRegistry::new(tools![breaks]).unwrap();
    let call = harness::ToolCall::new("c", "breaks", "");
    let result = registry.dispatch(&call, &ToolContext::new("c")).await;
    assert!(result.is_error());
    assert_eq!(result.to_text(), "the tool `breaks` panicked: broken");
}

/// Old.
#[deprecated(note = "use new")]
#[tool(side_effects = "none")]
fn old() {}

/// Reads.
#[tool(side_effects = "none", handle = ReadHandle)]
fn read_handle() -> i64 {
    1
}

#[test]
fn the_companion_can_have_another_name() {
    assert_eq!(ReadHandle::TOOL.name, "read_handle");
    assert_eq!(tools![ReadHandle].len() + tools![old].len(), 2);
    assert_eq!(read_handle(), 1);
}
