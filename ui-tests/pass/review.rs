//! Reviews: functions, constants, methods with and without `&self`, in another block, of a trait.

include!("../support.rs");

use harness::{message::Arguments, tool, tool::Review, toolset};

mod hosts {
    use harness::{message::Arguments, tool::Review};
    pub(super) fn each(arguments: &Arguments) -> Review {
        Review::ask(format!("{} arguments", arguments.len()))
    }
    pub(super) fn of<T>(_: &Arguments) -> Review { Review::ask(std::any::type_name::<T>()) }
}

const NAMED: fn(&Arguments) -> Review = hosts::each;

/// By a path.
#[tool(side_effects = "network", review = hosts::each)]
fn by_path(/** Where */ url: &str) -> String { url.to_owned() }

/// By a constant.
#[tool(side_effects = "network", review = NAMED, timeout = "1s")]
async fn by_constant() {}

/// By one of several.
#[tool(side_effects = "network", review = hosts::of::<u8>, idempotent)]
fn by_type() {}

/// Is old.
#[deprecated]
#[tool(side_effects = "network", review = hosts::each)]
fn old() {}

/// Named like its review.
#[tool(side_effects = "network", review = review)]
fn this() {}
fn review(arguments: &Arguments) -> Review { hosts::each(arguments) }

trait Careful {
    fn careful(&self, _: &Arguments) -> Review { Review::ask("careful") }
}

struct Files<T> { root: String, kind: T }
impl Careful for Files<u8> {}
impl Files<u8> {
    fn elsewhere(&self, _: &Arguments) -> Review { Review::ask(format!("{}{}", self.root, self.kind)) }
}
#[toolset]
impl Files<u8> {
    fn inside(&self, arguments: &Arguments) -> Review {
        Review::ask(format!("{}/{}", self.root, arguments.len()))
    }
    fn without(_: &Arguments) -> Review { Review::ask("without") }
    /// One.
    #[tool(side_effects = "write", review = Self::inside)]
    fn one(&self, /** Path */ path: String) -> String { path }
    /// Two.
    #[tool(side_effects = "write", review = Self::elsewhere)]
    async fn two(&self) {}
    /// Three.
    #[tool(side_effects = "write", review = Self::without)]
    fn three() {}
    /// Four.
    #[tool(side_effects = "write", review = self::hosts::each)]
    fn four(&self) {}
    /// Five.
    #[tool(side_effects = "write", review = <Self as Careful>::careful)]
    fn five(&self) {}
    /// Six: without a `&self` of its own, with a review that has one.
    #[tool(side_effects = "write", review = Self::elsewhere)]
    fn six() {}
    /// Seven.
    #[deprecated]
    #[tool(side_effects = "write", review = Self::inside)]
    fn seven(&self) {}
}

#[tokio::main]
pub(crate) async fn main() {
    let reason = |tool: &harness::Tool| {
        let arguments = serde_json::json!({"url": "a"}).as_object().cloned().unwrap();
        tool.review(&arguments.into()).unwrap().asks.unwrap()
    };
    let functions = [by_path::tool(), by_constant::tool(), by_type::tool(), old::tool(), this::tool()];
    let reasons: Vec<_> = functions.iter().map(reason).collect();
    assert_eq!(reasons, ["1 arguments", "1 arguments", "u8", "1 arguments", "1 arguments"]);
    let files = std::sync::Arc::new(Files { root: "r".into(), kind: 1 });
    let reasons: Vec<_> = files.tools().iter().map(reason).collect();
    assert_eq!(reasons, ["r/1", "r1", "without", "1 arguments", "careful", "r1", "r/1"]);
    let cx = harness::ToolContext::new("call_1");
    said(&by_path::tool(), &cx, r#"{"url":"a"}"#, "text a").await;
    schema(&by_path::tool(), "/properties/url/type", r#""string""#);
}
