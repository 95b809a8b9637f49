//! Types of the standard library.

include!("../support.rs");

use harness::{tool, tools};

use std::{borrow::Cow, collections::{BTreeSet, VecDeque}, net::Ipv4Addr, num::NonZeroU32, time::Duration};
/// Takes all of them.
#[tool(side_effects = "none")]
fn all(/// A
       #[param(default = Duration::from_secs(3))] a: Duration, /// B
       b: Option<Option<u8>>, /// C
       c: (u8, String, bool), /// D
       d: [f32; 2], /// E
       e: Box<str>, /// F
       f: NonZeroU32, /// G
       g: Cow<'_, str>, /// H
       h: Ipv4Addr, /// I
       i: std::ops::Range<u8>, /// J
       j: BTreeSet<char>, /// K
       k: VecDeque<Box<u8>>, /// L
       l: Result<u8, String>) -> String { format!("{a:?} {b:?} {c:?} {d:?} {e} {f} {g} {h} {i:?} {j:?} {k:?} {l:?}") }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![all].remove(0);
    let arguments = r#"{"c":[1,"c",true],"d":[1,2.5],"e":"e","f":7,"g":"g","h":"1.2.3.4","i":{"start":1,"end":2},"j":["x"],"k":[1],"l":{"Ok":3}}"#;
    said(&t, &cx, arguments, r#"text 3s None (1, "c", true) [1.0, 2.5] e 7 g 1.2.3.4 1..2 {'x'} [1] Ok(3)"#).await;
    schema(&t, "/properties/a/default", r#"{"secs":3,"nanos":0}"#);
    schema(&t, "/properties/f/minimum", r#"1"#);
}
