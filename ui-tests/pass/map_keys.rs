//! Every key that is read from a string.

include!("../support.rs");

use harness::{tool, tools};

use std::{borrow::Cow, collections::{BTreeMap, HashMap}, sync::Arc};
#[derive(Debug, Hash, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
enum Order { Asc, Desc }
#[derive(Debug, Hash, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
struct Id(u32);
impl std::str::FromStr for Id {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> { text.parse().map(Id) }
}
/// Maps.
#[tool(side_effects = "none")]
fn maps(/// A
        a: HashMap<Order, u8>, /// B
        b: HashMap<Id, BTreeMap<u8, bool>>, /// C
        c: &HashMap<uuid::Uuid, u8>, /// D
        d: Vec<HashMap<Cow<'_, str>, u8>>, /// E
        e: HashMap<Arc<str>, u8>, /// F
        f: HashMap<Option<Order>, u8>, /// G
        g: BTreeMap<chrono::DateTime<chrono::Utc>, u8>) -> String { format!("{a:?} {b:?} {} {d:?} {e:?} {f:?} {}", c.len(), g.len()) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![maps].remove(0);
    let arguments = r#"{"a":{"Asc":1},"b":{"2":{"3":true}},"c":{"00000000-0000-0000-0000-000000000000":1},"d":[{"x":1}],"e":{"y":1},"f":{"Desc":1},"g":{}}"#;
    said(&t, &cx, arguments, r#"text {Asc: 1} {Id(2): {3: true}} 1 [{"x": 1}] {"y": 1} {Some(Desc): 1} 0"#).await;
}
