//! The ready tools, called with JSON as a model calls them, on real files and processes.

mod calc;
#[cfg(unix)]
mod escape;
mod files;
mod search;
#[cfg(unix)]
mod shell;

use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Tool, ToolContext, message::ToolContent};
use serde_json::Value;

/// What the model reads of a call: the text of the answer or of the failure.
async fn call(tools: &[Tool], name: &str, arguments: Value) -> Result<String, String> {
    call_in(&ToolContext::new("call_1"), tools, name, arguments).await
}

async fn call_in(
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

/// Ends the thread that asks for it, also when the test fails.
struct SetWhenDropped<'b>(&'b AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
