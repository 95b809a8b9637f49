//! Calls a tool with JSON, as a model does, and runs the cases of the shell both ways.

use harness::{Tool, ToolContext, message::ToolContent};
use serde_json::Value;

/// What the model reads of a call: the text of the answer or of the failure.
pub(crate) async fn call(tools: &[Tool], name: &str, arguments: Value) -> Result<String, String> {
    call_in(&ToolContext::new("call_1"), tools, name, arguments).await
}

pub(crate) async fn call_in(
    context: &ToolContext,
    tools: &[Tool],
    name: &str,
    arguments: Value,
) -> Result<String, String> {
    let tool = tools.iter().find(|tool| tool.name() == name).expect(name);
    match tool.call(context, arguments).await {
        Ok(output) => {
            Ok(output.content().iter().filter_map(ToolContent::to_text).collect::<String>())
        }
        Err(err) => Err(err.to_string()),
    }
}

/// A name and what is to hold.
#[cfg_attr(not(unix), expect(dead_code, reason = "there is no shell"))]
pub(crate) type Case<Name = &'static str> = (Name, fn());

/// Makes tests of async functions without arguments, and a list of them for the program that runs
/// them once more with a supervisor.
macro_rules! cases {
    ($($name:ident)*) => {
        #[allow(dead_code, reason = "the one of two programs that has a supervisor reads it")]
        pub(crate) const CASES: &[super::calls::Case] = &[$((
            stringify!($name),
            || tokio::runtime::Runtime::new().expect("a runtime").block_on($name()),
        )),*];

        mod plain {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name().await;
                }
            )*
        }
    };
}
pub(crate) use cases;

#[test]
fn ready_tools_are_not_collected() {
    let tools = harness::collected_tools();
    let ready: Vec<&str> = tools.iter().map(Tool::name).collect();
    assert!(!ready.contains(&"bash") && !ready.contains(&"calc"), "{ready:?}");
}
