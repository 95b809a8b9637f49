//! Constants, macros and modules of the user with the names that a generated function would use.

include!("../support.rs");

use harness::tools;

#[allow(dead_code, non_upper_case_globals)]
mod foreign {
    pub const call: i32 = 0;
    pub const this: i32 = 0;
    pub const out: i32 = 0;
    pub const way: i32 = 0;
    pub const carried: i32 = 0;
    pub const never: i32 = 0;
    pub const taken: i32 = 0;
    pub const sent: i32 = 0;
    pub const arguments: i32 = 0;
    pub const a0: i32 = 0;
    pub const a1: i32 = 0;
    pub const f: i32 = 0;
}
mod inner {
    #[allow(unused_imports)]
    use super::foreign::*;
    use harness::{tool, toolset};
    macro_rules! refuse {
        ($($name:ident)*) => {$(
            #[allow(unused_macros)]
            macro_rules! $name { ($dollar:tt) => { compile_error!(stringify!($name)) } }
        )*};
    }
    refuse!(vec format concat stringify panic assert matches module_path);

    /// Works.
    #[tool(side_effects = "write", reconcile = was_done, review = look)]
    pub(crate) async fn work(/// A
                  #[param(default = "x")] a: &str, /// B
                  b: Vec<String>) -> Result<u8, String> { let _ = (a, b); Ok(1) }
    async fn was_done(_: &str, _: Vec<String>) -> harness::tool::Reconciled<u8> { harness::tool::Reconciled::NotHappened }
    fn look(_: &harness::message::Arguments) -> harness::tool::Review { harness::tool::Review::pass() }
    pub(crate) struct Set;
    #[toolset]
    impl Set {
        /// Works.
        #[tool(side_effects = "none")]
        async fn own(&self, /// A
                     a: serde_json::Value) -> serde_json::Value { a }
    }
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![inner::work].remove(0);
    said(&t, &cx, r#"{"b":[]}"#, r#"json 1"#).await;
    let t = std::sync::Arc::new(inner::Set).tools().remove(0);
    said(&t, &cx, r#"{"a":2}"#, r#"json 2"#).await;
}
