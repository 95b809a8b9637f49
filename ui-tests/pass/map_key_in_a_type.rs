//! Maps inside of own types and behind aliases: keys that no string can be are refused when the
//! registry is built, with the place; all other keys are good. Where one is returned, the error of the
//! call names the place.

use std::collections::{BTreeMap, HashMap};

use harness::{ToolContext, ToolRegistry, tool};
use schemars::JsonSchema;
use serde::Deserialize;

include!("../support.rs");

#[derive(Deserialize, serde::Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    x: i32,
    y: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Field {
    name: String,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Row {
    Full { cells: Option<BTreeMap<Point, serde_json::Value>> },
    Empty,
}

/// Counts.
#[tool(side_effects = "none")]
fn count(/** field */ field: Field) -> usize {
    let cells = |row: &Row| match row {
        Row::Full { cells } => cells.iter().flatten().map(|(at, _)| at.x + at.y).count(),
        Row::Empty => 0,
    };
    field.name.len() + field.rows.iter().map(cells).sum::<usize>()
}

type Cells = HashMap<(u8, u8), u8>;

/// Counts.
#[tool(side_effects = "none")]
fn alias(/** cells */ cells: Option<Cells>) -> usize {
    cells.map_or(0, |cells| cells.len())
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
    by_point: BTreeMap<Point, u8>,
}

/// Counts.
#[tool(side_effects = "none")]
fn tree(/** tree */ tree: Tree) -> usize {
    tree.name.len() + tree.children.len() + tree.by_point.len()
}

/// Behind the tag of an enum serde reads a number in a string as a string.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Tagged {
    Numbers { by_number: BTreeMap<u8, u8> },
    Texts { by_text: BTreeMap<String, u8> },
}

/// Counts.
#[tool(side_effects = "none")]
fn tagged(/** tagged */ tagged: Tagged) -> usize {
    match tagged {
        Tagged::Numbers { by_number } => by_number.len(),
        Tagged::Texts { by_text } => by_text.len(),
    }
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
enum Side {
    Left,
    Right,
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq, Hash)]
#[serde(try_from = "String")]
struct Code(u32);

impl TryFrom<String> for Code {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Good {
    text: HashMap<String, u8>,
    integer: HashMap<i64, Vec<BTreeMap<u8, ()>>>,
    bool: HashMap<bool, u8>,
    char: HashMap<char, u8>,
    side: HashMap<Side, u8>,
    code: HashMap<Code, Option<HashMap<uuid::Uuid, u8>>>,
    path: BTreeMap<std::path::PathBuf, serde_json::Value>,
    children: Vec<Good>,
    #[serde(flatten)]
    rest: HashMap<String, serde_json::Value>,
}

/// Counts.
#[tool(side_effects = "none")]
fn good(/** all */ good: Good) -> usize {
    let Good { text, integer, bool, char, side, code, path, children, rest } = good;
    let codes = code.keys().filter(|code| code.0 > 0).count();
    let maps = text.len() + integer.len() + bool.len() + char.len() + side.len() + path.len();
    maps + codes + children.len() + rest.len()
}

#[derive(serde::Serialize)]
struct Board {
    rows: Vec<BTreeMap<Point, u8>>,
}

/// Returns one.
#[tool(side_effects = "none")]
fn board() -> Board {
    Board { rows: vec![BTreeMap::new(), BTreeMap::from([(Point { x: 1, y: 2 }, 3)])] }
}

fn refused(tool: harness::Tool, place: &str, expected: &str) {
    let name = tool.name().to_owned();
    let said = ToolRegistry::new([tool]).unwrap().check().unwrap_err().to_string();
    assert!(said.contains(&format!("of the tool `{name}` takes a map{place} whose")), "{said}");
    assert!(said.contains(&format!("({expected} is expected)")), "{said}");
}

#[tokio::main]
pub(crate) async fn main() {
    refused(count::tool(), " at `/rows/0/cells`", "struct Point");
    refused(alias::tool(), "", "a tuple of size 2");
    refused(tree::tool(), " at `/children/0/by_point`", "struct Point");
    refused(tagged::tool(), " at `/by_number`", "u8");
    ToolRegistry::new([good::tool()]).unwrap().check().unwrap();
    // What is returned is known only when it is.
    let words = "failed the tool ran to its end, but what it returned cannot be written as JSON: at \
                 `/rows/1`: the keys of a JSON object are strings, and this map has others (key must \
                 be a string); return a list of entries";
    said(&board::tool(), &ToolContext::new("call_1"), "{}", words).await;
}
