//! Tools that a macro writes: whole items, parts of them, a toolset.

include!("../support.rs");

use harness::{tool, tools, toolset};

macro_rules! whole { ($item:item) => { #[tool(side_effects = "none")] $item } }
whole! {
    /// Echoes.
    fn echo(/// A
            #[param(default = 1)] a: u8) -> u8 { a }
}
macro_rules! parts {
    ($(#[$about:meta])* $name:ident, $said:literal, $ty:ty, $default:expr) => {
        $(#[$about])*
        #[tool(side_effects = "none", name = $said)]
        fn $name(/// A
                 #[param(default = $default)] a: $ty) -> $ty { a }
    };
}
parts!(/** Says a number. */ number, "num", Option<u8>, 2);
parts!(/** Says names. */ names, "names", std::collections::BTreeMap<String, u8>, std::collections::BTreeMap::new());
macro_rules! set {
    ($name:ident, $method:ident) => {
        struct $name;
        #[toolset]
        impl $name {
            /// Counts.
            #[tool(side_effects = "none")]
            async fn $method(&self, /// A
                             a: &str) -> usize { a.len() }
        }
    };
}
set!(Counter, count);

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![echo, number, names];
    said(&t[0], &cx, r#"{}"#, r#"json 1"#).await;
    said(&t[1], &cx, r#"{}"#, r#"json 2"#).await;
    said(&t[2], &cx, r#"{}"#, r#"json {}"#).await;
    assert_eq!(t[1].name(), "num");
    said(&std::sync::Arc::new(Counter).tools()[0], &cx, r#"{"a":"abc"}"#, r#"json 3"#).await;
}
