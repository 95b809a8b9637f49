//! A module without the prelude.

include!("../support.rs");

use harness::tools;

struct Point { x: u8 }
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
enum Order { Asc }
#[no_implicit_prelude]
mod inner {
    use super::{Order, Point};
    /// Does it.
    #[::harness::tool(side_effects = "none")]
    pub(crate) fn one(/// A
                      #[param(default = 3, range(1..=5))] a: u8, /// B
                      #[param(default = ["x"])] b: ::std::vec::Vec<::std::string::String>, /// C
                      c: ::std::option::Option<&str>, /// D
                      #[param(default = Order::Asc)] d: Order) -> ::std::result::Result<u8, ::std::string::String> {
        let _ = (b, c, d);
        ::std::result::Result::Ok(a)
    }
    #[::harness::toolset]
    impl Point {
        /// Is old.
        #[deprecated]
        #[tool(side_effects = "none")]
        pub(crate) async fn two(&self) -> u8 { self.x }
    }
    pub(crate) fn list() -> ::std::vec::Vec<::harness::Tool> { ::harness::tools![one] }
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    assert_eq!(tools![inner::one].len(), 1);
    said(&inner::list()[0], &cx, r#"{}"#, r#"json 3"#).await;
    said(&std::sync::Arc::new(Point { x: 2 }).tools()[0], &cx, r#"{}"#, r#"json 2"#).await;
}
