//! Tools that are made by hand in a list of functions.

use harness::{SideEffects, Tool, ToolError, tools};

struct Weather;
impl Weather {
    fn tool_of(city: &'static str) -> Tool {
        let schema = serde_json::json!({"type": "object"});
        Tool::new(city, "Tells.", schema, SideEffects::NONE, |_, _| Box::pin(async { Err(ToolError::new("rain")) }))
    }
}
fn made() -> Tool { Weather::tool_of("oslo") }

fn by_a_function() -> Vec<Tool> { tools![made()] }
fn by_a_type() -> Vec<Tool> { tools![Weather::tool_of("oslo")] }
fn in_place() -> Vec<Tool> {
    tools![Tool::new("a", "A.", serde_json::json!({}), SideEffects::NONE, |_, _| Box::pin(async { Ok("".into()) }))]
}
fn clone(tool: &Tool) -> Vec<Tool> { tools![tool.clone()] }
fn by_a_macro() -> Vec<Tool> { tools![my_tool!("oslo")] }

fn main() {}
