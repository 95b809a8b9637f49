//! Answers a call, whatever the model wrote: a mistake, an error, a panic and a time-out are
//! results that the model can read.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Tool, ToolContext, ToolError, ToolRegistry, cap::capped, nearest::nearest};
use crate::message::{CallOutcome, ToolCall, ToolContent, ToolResult};

/// How long a tool that was told to stop may take to do so.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

impl ToolRegistry {
    /// Runs a call to its end and answers it. It never fails: an unknown name is answered with
    /// the names that there are, arguments that do not fit with all that is wrong with them, an
    /// error with its text, a panic with the fact, a time-out with the truth about what may have
    /// happened. Output over the limit is cut in the middle.
    ///
    /// A tool that fails for a passing reason is tried again, if what it declares may be repeated.
    ///
    /// Dropping the future stops the tool.
    pub async fn dispatch(&self, call: &ToolCall, context: &ToolContext) -> ToolResult {
        let Some(tool) = self.get(call.name()) else {
            return failed(call, self.unknown(call.name()));
        };
        let may_repeat = tool.side_effects().may_repeat(tool.is_idempotent());
        let tries = if may_repeat { self.limits().tries.max(1) } else { 1 };
        let mut wait = self.limits().backoff;
        let mut attempt = 1;
        loop {
            // Read anew for each try: there is seldom a second one.
            let arguments = match parse(call.arguments()) {
                Ok(arguments) => arguments,
                Err(reason) => return failed(call, reason),
            };
            let (outcome, content) = match self.attempt(tool, context, arguments).await {
                Attempt::Ended(Ok(content)) => (CallOutcome::Succeeded, content),
                Attempt::Ended(Err(err)) if err.is_transient() && attempt < tries => {
                    attempt += 1;
                    context
                        .progress()
                        .report(format!("{err}; trying again ({attempt} of {tries})"));
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(2);
                    continue;
                }
                Attempt::Ended(Err(err)) => (CallOutcome::Failed, vec![err.to_string().into()]),
                Attempt::Panicked(words) => {
                    let text = format!("the tool `{}` panicked: {words}", call.name());
                    (CallOutcome::Failed, vec![text.into()])
                }
                Attempt::TimedOut(after, said) => timed_out(tool, after, said),
            };
            let content = capped(content, self.limits(), call.id()).await;
            return ToolResult::new(call.id(), outcome, content);
        }
    }

    /// Whether a call names a tool and its arguments fit it, so that it could run.
    pub fn accepts(&self, call: &ToolCall) -> bool {
        let Some(tool) = self.get(call.name()) else { return false };
        match parse(call.arguments()) {
            Ok(Value::Object(arguments)) => tool.check(&arguments).is_ok(),
            Ok(Value::Null) => tool.check(&Map::new()).is_ok(),
            Ok(_) | Err(_) => false,
        }
    }

    async fn attempt(&self, tool: &Tool, context: &ToolContext, arguments: Value) -> Attempt {
        // A tool on a thread of its own hears of its end only by this token.
        let stop = context.cancellation().child_token();
        let stop_at_the_end = stop.clone().drop_guard();
        let begun = Instant::now();
        let limit = begun.checked_add(tool.time_limit().unwrap_or(self.limits().time));
        let deadline = context.deadline().into_iter().chain(limit).min();
        let context = context.clone().with_cancellation(stop).with_deadline(deadline);
        let mut run = Box::pin(AssertUnwindSafe(tool.call(&context, arguments)).catch_unwind());
        let in_time = match deadline {
            Some(deadline) => timeout_at(deadline, &mut run).await.ok(),
            None => Some((&mut run).await),
        };
        match in_time {
            Some(Ok(Ok(output))) => Attempt::Ended(Ok(output.into_content())),
            Some(Ok(Err(err))) => Attempt::Ended(Err(err)),
            Some(Err(panic)) => Attempt::Panicked(words_of(&*panic).to_owned()),
            None => {
                let after = begun.elapsed();
                drop(stop_at_the_end);
                // What a tool says when it stops by itself is the better part of the truth.
                let said = match timeout(GRACE, &mut run).await {
                    Ok(Ok(Err(err))) => Some(err.to_string()),
                    Ok(Ok(Ok(_)) | Err(_)) | Err(_) => context.output_so_far(),
                };
                Attempt::TimedOut(after, said)
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools().iter().map(Tool::name).collect();
        match names.as_slice() {
            [] => format!("there is no tool `{name}`: there are no tools at all"),
            names => {
                let near = nearest(name, names.iter().copied());
                let near = near.map(|near| format!("; did you mean `{near}`?"));
                let near = near.unwrap_or_else(|| ";".to_owned());
                format!("there is no tool `{name}`{near} the tools are: {}", names.join(", "))
            }
        }
    }
}

/// How one try ended.
enum Attempt {
    Ended(Result<Vec<ToolContent>, ToolError>),
    Panicked(String),
    /// After so long; with what the tool had to say.
    TimedOut(Duration, Option<String>),
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

fn failed(call: &ToolCall, text: String) -> ToolResult {
    ToolResult::new(call.id(), CallOutcome::Failed, [ToolContent::Text(text)])
}

/// The truth about a call that took too long, with what it had said until then.
fn timed_out(
    tool: &Tool,
    after: Duration,
    said: Option<String>,
) -> (CallOutcome, Vec<ToolContent>) {
    let (outcome, truth) = if tool.side_effects().is_read_only() {
        (CallOutcome::StoppedReading, "It only reads, so nothing has changed.")
    } else {
        (CallOutcome::InDoubt, "It may have partly run: check what it did before you repeat it.")
    };
    let text = format!("The call took longer than {after:.0?} and was stopped. {truth}");
    let said = said.map(ToolContent::Text);
    (outcome, std::iter::once(ToolContent::Text(text)).chain(said).collect())
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
