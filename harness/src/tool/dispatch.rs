//! Answers a call, whatever the model wrote: a mistake, an error, a panic and a time-out are
//! results that the model can read.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;

use super::{Tool, ToolContext, ToolError, ToolOutput, ToolRegistry};
use crate::message::{CallOutcome, ToolCall, ToolContent, ToolResult};

impl ToolRegistry {
    /// Runs a call to its end and answers it. It never fails: an unknown name is answered with
    /// the names that there are, arguments that do not fit with all that is wrong with them, an
    /// error with its text, a panic with the fact.
    ///
    /// Dropping the future stops the tool.
    pub async fn dispatch(&self, call: &ToolCall, context: &ToolContext) -> ToolResult {
        let Some(tool) = self.get(call.name()) else {
            return failed(call, self.unknown(call.name()));
        };
        let arguments = match parse(call.arguments()) {
            Ok(arguments) => arguments,
            Err(reason) => return failed(call, reason),
        };
        let run = AssertUnwindSafe(tool.call(context, arguments)).catch_unwind();
        let deadline = context
            .deadline()
            .into_iter()
            .chain(tool.time_limit().map(|limit| Instant::now() + limit))
            .min();
        let ended = match deadline {
            None => run.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, run).await {
                Ok(ended) => ended,
                Err(_) => return timed_out(call, tool),
            },
        };
        match ended {
            Ok(Ok(output)) => succeeded(call, output),
            Ok(Err(err)) => failed(call, text_of(&err)),
            Err(panic) => {
                failed(call, format!("the tool `{}` panicked: {}", call.name(), words_of(&*panic)))
            }
        }
    }

    /// Whether a call names a tool and its arguments fit it, so that it could run.
    pub fn accepts(&self, call: &ToolCall) -> bool {
        self.get(call.name()).is_some() && parse(call.arguments()).is_ok()
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools().iter().map(Tool::name).collect();
        match names.as_slice() {
            [] => format!("there is no tool `{name}`: there are no tools at all"),
            names => format!("there is no tool `{name}`; the tools are: {}", names.join(", ")),
        }
    }
}

/// Reads the arguments; nothing and `null` are an empty object.
fn parse(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(arguments).map_err(|err| {
        format!("the arguments are not valid JSON ({err}); nothing was run. You wrote: {arguments}")
    })
}

fn succeeded(call: &ToolCall, output: ToolOutput) -> ToolResult {
    ToolResult::new(call.id(), CallOutcome::Succeeded, output.into_content())
}

fn failed(call: &ToolCall, text: String) -> ToolResult {
    ToolResult::new(call.id(), CallOutcome::Failed, [ToolContent::Text(text)])
}

fn timed_out(call: &ToolCall, tool: &Tool) -> ToolResult {
    let (outcome, truth) = if tool.side_effects().is_read_only() {
        (CallOutcome::StoppedReading, "it only reads, so nothing has changed")
    } else {
        (CallOutcome::InDoubt, "it may have partly run: check what it did before you repeat it")
    };
    let text = format!("the tool `{}` took too long and was stopped; {truth}", call.name());
    ToolResult::new(call.id(), outcome, [ToolContent::Text(text)])
}

fn text_of(err: &ToolError) -> String {
    err.to_string()
}

/// The message of a panic, if it has one.
fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    if let Some(words) = panic.downcast_ref::<&str>() {
        words
    } else if let Some(words) = panic.downcast_ref::<String>() {
        words
    } else {
        "no message"
    }
}
