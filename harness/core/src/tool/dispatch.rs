//! Runs a call and always produces a result for the model: also for a wrong call, an error, a panic and a timeout.

use std::{pin::Pin, time::Duration};

use harness_schema::nearest;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    ReconcileFault, Reconciled, Tool, ToolContext, ToolError, ToolOutput, ToolRegistry,
    detached_threads,
    error::Asks,
    reconciled::ReconcileFailure,
    truncate::{around, short_name},
};
use crate::{
    error::Error,
    message::{
        Arguments, CallOutcome, ToolCall, ToolContent, ToolResult, are_none, unreadable_reason,
    },
    unwind::{Panicked, Shielded, caught, dropped},
};

/// How long a tool may continue to run after the library has asked it to stop.
pub const GRACE: Duration = Duration::from_millis(100);

/// The number of bytes that are quoted around the fault in broken arguments.
const QUOTED: usize = 2000;

/// The maximum number of tool names in the error for an unknown tool.
const LISTED: usize = 50;

impl ToolRegistry {
    /// Runs a call to its end and returns its result. This method never fails. If the tool is unknown, the result lists
    /// the names of the existing tools. If the arguments do not fit, the result lists all faults. If the tool returns
    /// an error, the result contains the error's text. If the tool panics, the result reports the panic. After a
    /// timeout, the result describes what may have happened. Known secrets are removed from the result (see
    /// [`Secrets`](crate::secret::Secrets)). Texts over the limit are cut in the middle, also the texts of errors.
    ///
    /// A call that fails with [`ToolError::transient`] is retried, if the tool declares that its calls may be repeated.
    ///
    /// Dropping the future stops the tool.
    pub async fn dispatch(&self, call: &ToolCall, context: &ToolContext) -> ToolResult {
        match self.dispatch_call(call, context).await {
            DispatchOutcome::Result(result) => result,
            DispatchOutcome::Waits { question, token, .. } => {
                let text = ToolError::asks(question, token).text_for_model(self.secrets());
                self.failed(call, text, context).await
            }
        }
    }

    /// Like [`dispatch`](Self::dispatch), but returns a question of the tool to the caller. The caller can then wait
    /// for the answer to the question.
    pub async fn dispatch_call(&self, call: &ToolCall, context: &ToolContext) -> DispatchOutcome {
        match self.run(call, context).await {
            Ok(result) => DispatchOutcome::Result(result),
            Err(asks) => {
                let Asks { question, token, form } = *asks;
                let unreadable =
                    unreadable_reason(&token).or_else(|| form.as_ref().and_then(unreadable_reason));
                if let Some(why) = unreadable {
                    let text = format!("the tool asks a question, and its token or its form {why}");
                    return DispatchOutcome::Result(self.failed(call, text, context).await);
                }
                DispatchOutcome::Waits { question: self.readable_text(&question), token, form }
            }
        }
    }

    /// Finds out whether a call from an earlier process has happened.
    #[doc(hidden)]
    pub async fn reconcile(&self, call: &ToolCall, context: &ToolContext) -> ReconcileOutcome {
        let arguments = |why: String| ReconcileOutcome::Unknown((ReconcileFault::Arguments, why));
        let Some(tool) = self.get(call.name()) else {
            return arguments(format!("there is no tool `{}` any more", call.name()));
        };
        let decoded = match context.arguments_of(call, tool) {
            Ok(decoded) => decoded,
            Err(err) => return arguments(err.to_string()),
        };
        let limit = Instant::now().checked_add(tool.time_limit().unwrap_or(self.limits().time));
        let deadline = context.deadline().into_iter().chain(limit).min();
        let context = context.clone().with_deadline(deadline);
        let found = match tool.find_out(context.clone(), decoded.into_map()) {
            Ok(found) => found,
            Err(unfound) => return ReconcileOutcome::Unknown(unfound),
        };
        match within(deadline, Shielded::new(found)).await {
            Some(Ok(Ok(Reconciled::Happened(output)))) => {
                ReconcileOutcome::Happened(self.readable_output(call.id(), output, &context).await)
            }
            Some(Ok(Ok(Reconciled::NotHappened))) => ReconcileOutcome::NotHappened,
            Some(Ok(Err(err))) => {
                let words = caught(|| err.text_for_model(self.secrets()));
                dropped(err);
                ReconcileOutcome::Unknown(match words {
                    Ok(words) => (ReconcileFault::Failed, words),
                    Err(panicked) => (ReconcileFault::Panicked, panicked.to_string()),
                })
            }
            Some(Err(panicked)) => {
                ReconcileOutcome::Unknown((ReconcileFault::Panicked, panicked.to_string()))
            }
            None => {
                let words = "it did not end within its time limit".to_owned();
                ReconcileOutcome::Unknown((ReconcileFault::TimedOut, words))
            }
        }
    }

    /// Boxed, so that its code is in this package only, and not in each package that calls a tool.
    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a ToolContext,
    ) -> Pin<Box<dyn Future<Output = Result<ToolResult, Box<Asks>>> + Send + 'a>> {
        Box::pin(self.run_call(call, context))
    }

    async fn run_call(
        &self,
        call: &ToolCall,
        context: &ToolContext,
    ) -> Result<ToolResult, Box<Asks>> {
        let Some(tool) = self.get(call.name()) else {
            return Ok(self.failed(call, self.unknown(call.name()), context).await);
        };
        // The arguments include the defaults, like the arguments in the review and in the decision.
        let decoded = match context.arguments_of(call, tool) {
            Ok(decoded) => decoded,
            Err(err) => {
                return Ok(self.failed(call, self.broken(call.arguments(), &err), context).await);
            }
        };
        if context.is_only_refused() {
            return Ok(self.checked_only(tool, call, &decoded, context).await);
        }
        // In a run, the call already has its permit here, because the run acquires the permit before it records the
        // start. A permit is needed here only if a program, or another tool with its own context, calls this tool.
        let (_permit, seated) =
            match tool.concurrency_limit().filter(|limit| !limit.is_among(context.held_limits())) {
                None => (None, None),
                Some(limit) => {
                    let permit = tokio::select! {
                        biased;
                        permit = limit.acquire() => permit,
                        () = context.cancellation().cancelled() => return Ok(not_begun(call)),
                    };
                    let seated =
                        context.clone().with_permit(permit.as_ref()).inside_limits([limit]);
                    (permit, Some(seated))
                }
            };
        let context = seated.as_ref().unwrap_or(context);
        let begun = Instant::now();
        let limit = begun.checked_add(tool.time_limit().unwrap_or(self.limits().time));
        let deadline = context.deadline().into_iter().chain(limit).min();
        if let Err(err) =
            within(deadline, recheck(tool, context, &decoded)).await.unwrap_or_else(|| {
                Err(ToolError::new(
                    "its review took too long right before the call, so it did not run",
                ))
            })
        {
            return Ok(self.failed(call, err.text_for_model(self.secrets()), context).await);
        }
        let may_repeat = tool.side_effects().may_repeat(tool.is_idempotent());
        let tries = if may_repeat { self.limits().tries.max(1) } else { 1 };
        let mut wait = self.limits().backoff;
        let mut decoded = Some(decoded);
        let mut attempt = 1;
        loop {
            // A further attempt decodes the arguments again. Keeping a copy for this rare case would make every call
            // slower.
            let arguments = match decoded.take() {
                Some(decoded) => decoded,
                None => context.arguments_of(call, tool).unwrap_or_default(),
            };
            let arguments = Value::Object(arguments.into_map());
            let (outcome, content) =
                match self.attempt(tool, context.clone().tried(attempt), arguments).await {
                    AttemptOutcome::Ended(Ok(output)) => {
                        return Ok(self.readable_output(call.id(), output, context).await);
                    }
                    AttemptOutcome::Ended(Err(ToolError::Asks(asks))) => return Err(asks),
                    AttemptOutcome::Ended(Err(err)) if err.is_transient() && attempt < tries => {
                        attempt += 1;
                        context
                            .progress()
                            .report(format!("{err}; trying again ({attempt} of {tries})"));
                        let waited = within(context.deadline(), tokio::time::sleep(wait)).await;
                        if waited.is_some() {
                            dropped(err);
                            wait = wait.saturating_mul(2);
                            continue;
                        }
                        self.words(tool, err)
                    }
                    AttemptOutcome::Ended(Err(err)) => self.words(tool, err),
                    AttemptOutcome::Panicked(panicked) => {
                        in_doubt(tool, format!("the tool `{}` {panicked}", call.name()))
                    }
                    AttemptOutcome::TimedOut(after, said) => timed_out(tool, context, after, said),
                };
            return Ok(self.readable(call.id(), outcome, content, context).await);
        }
    }

    /// Checks the arguments of a call that was refused because its arguments did not fit. The tool does not run, even
    /// if the arguments fit now because the tool has changed.
    async fn checked_only(
        &self,
        tool: &Tool,
        call: &ToolCall,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> ToolResult {
        let text = match caught(|| tool.check(arguments)) {
            Ok(Err(faults)) => ToolError::BadArguments(faults).text_for_model(self.secrets()),
            Err(panicked) => {
                format!("the arguments cannot be read: the tool `{}` {panicked}", call.name())
            }
            Ok(Ok(())) => {
                let text = "This call was not started: its arguments did not fit when it was decided whether it may run, \
                            and now they do. Nothing of it has happened. Call it again if it is still needed.";
                return ToolResult::new(call.id(), CallOutcome::NotStarted, [text.into()]);
            }
        };
        self.failed(call, text, context).await
    }

    /// The outcome and the text of an error. Displaying and dropping an error runs code of the program, which may
    /// panic.
    fn words(&self, tool: &Tool, err: ToolError) -> (CallOutcome, Vec<ToolContent>) {
        let doubtful = err.is_in_doubt();
        let text = caught(|| err.text_for_model(self.secrets()));
        dropped(err);
        match text {
            Ok(text) if doubtful => in_doubt(tool, text),
            Ok(text) => (CallOutcome::Failed, vec![text.into()]),
            Err(panicked) => {
                in_doubt(tool, format!("the tool failed, and displaying its error {panicked}"))
            }
        }
    }

    async fn failed(&self, call: &ToolCall, text: String, context: &ToolContext) -> ToolResult {
        self.readable(call.id(), CallOutcome::Failed, vec![text.into()], context).await
    }

    /// Whether the called tool exists and accepts the call's arguments, so that the call could run.
    pub fn accepts(&self, call: &ToolCall) -> bool {
        let Some(tool) = self.get(call.name()) else { return false };
        let fits = |arguments: Arguments| caught(|| tool.check(&arguments).is_ok());
        call.decoded().is_ok_and(|arguments| fits(arguments).unwrap_or(false))
    }

    /// Whether a call has no arguments although its tool has parameters. The arguments may still arrive, because some
    /// servers send an empty object first.
    #[doc(hidden)]
    pub fn may_be_filled(&self, call: &ToolCall) -> bool {
        const OTHERS: [&str; 5] = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
        let takes_some = |tool: &Tool| {
            let schema = tool.input_schema();
            let properties = schema.get("properties").and_then(Value::as_object);
            properties.is_some_and(|properties| !properties.is_empty())
                || OTHERS.iter().any(|name| schema.get(*name).is_some())
                || schema
                    .get("additionalProperties")
                    .is_some_and(|more| *more != Value::Bool(false))
        };
        let arguments = call.arguments();
        let is_empty = are_none(arguments);
        is_empty && self.get(call.name()).is_some_and(takes_some)
    }

    async fn attempt(&self, tool: &Tool, context: ToolContext, arguments: Value) -> AttemptOutcome {
        // A tool on its own thread learns only from this token that its call has ended.
        let stop = context.cancellation().child_token();
        let stop_at_the_end = stop.clone().drop_guard();
        let begun = Instant::now();
        let limit = begun.checked_add(tool.time_limit().unwrap_or(self.limits().time));
        let deadline = context.deadline().into_iter().chain(limit).min();
        let context = context.with_cancellation(stop).with_deadline(deadline);
        let mut run = Shielded::new(tool.call(&context, arguments));
        let in_time = match deadline {
            Some(deadline) => tokio::select! {
                biased;
                ended = &mut run => Some(ended),
                () = context.human_wait().wait_until(deadline) => None,
            },
            None => Some((&mut run).await),
        };
        match in_time {
            Some(Ok(Ok(output))) => AttemptOutcome::Ended(Ok(output)),
            Some(Ok(Err(err))) => AttemptOutcome::Ended(Err(err)),
            Some(Err(panicked)) => AttemptOutcome::Panicked(panicked),
            None => {
                // The time limit is computed from the deadline, because the elapsed time also includes the time in
                // which an agent waited for a person.
                let after = deadline.unwrap_or(begun).saturating_duration_since(begun);
                drop(stop_at_the_end);
                // The text that a stopped tool returns contains more than the tool's output so far.
                let said = match timeout(GRACE, &mut run).await {
                    // The tool has completed during the grace period.
                    Ok(Ok(Ok(output))) => return AttemptOutcome::Ended(Ok(output)),
                    Ok(Ok(Err(err))) => {
                        let said = caught(|| err.to_string()).ok();
                        dropped(err);
                        said
                    }
                    Ok(Err(_)) | Err(_) => context.output_so_far(),
                };
                AttemptOutcome::TimedOut(after, said)
            }
        }
    }

    /// The error text for arguments that cannot be decoded. The text quotes the arguments around the fault.
    fn broken(&self, arguments: &str, err: &Error) -> String {
        let place = match serde_json::from_str::<IgnoredAny>(arguments) {
            Ok(_) => 0,
            Err(err) => {
                let before = arguments.split_inclusive('\n').take(err.line().saturating_sub(1));
                before.map(str::len).sum::<usize>().saturating_add(err.column())
            }
        };
        let arguments = self.secrets().hide(arguments);
        let wrote = around(&arguments, place, QUOTED);
        format!("{err}; nothing was run. You wrote: {wrote}")
    }

    pub(super) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools().iter().map(Tool::name).collect();
        if self.is_left_out(name) {
            let now = match names.as_slice() {
                [] => "no tool is offered".to_owned(),
                _ => format!("the offered tools are: {}", self.listed()),
            };
            return format!("the tool `{name}` is not offered now, so it did not run; {now}");
        }
        let name = self.secrets().hide(name);
        let name = &*short_name(&name);
        match names.as_slice() {
            [] => format!("there is no tool `{name}`: there are no tools at all"),
            names => {
                let near = nearest(name, names.iter().copied());
                let near = near.map(|near| format!("; did you mean `{near}`?"));
                let near = near.unwrap_or_else(|| ";".to_owned());
                format!("there is no tool `{name}`{near} the tools are: {}", self.listed())
            }
        }
    }

    /// Lists at most [`LISTED`] tools that the model gets without a search.
    fn listed(&self) -> String {
        let told = || self.tools().iter().map(Tool::name).filter(|name| !self.is_searched(name));
        let names: Vec<&str> = told().take(LISTED).collect();
        let mut listed = names.join(", ");
        let more = told().count().saturating_sub(LISTED);
        if more > 0 {
            listed = format!("{listed} and {more} more");
        }
        match self.search() {
            Some(search) => format!("{listed}; find others by `{search}`"),
            None => listed,
        }
    }
}

/// How [`ToolRegistry::dispatch_call`] ended.
#[derive(Debug)]
pub enum DispatchOutcome {
    /// The call has ended.
    Result(ToolResult),
    /// The call waits, because its tool has asked a question.
    Waits {
        /// The question, as text for a person.
        question: String,
        /// The token that the tool gets back with the answer.
        token: Value,
        /// The JSON Schema of the answer; `None` if the tool set none.
        form: Option<Value>,
    },
}

/// Whether a call from an earlier process has happened.
#[doc(hidden)]
#[derive(Debug)]
pub enum ReconcileOutcome {
    /// The call happened.
    Happened(ToolResult),
    /// The call did not happen.
    NotHappened,
    /// It is unknown whether the call happened, because the tool could not find out.
    Unknown(ReconcileFailure),
}

/// Waits for a future until the deadline; `None` if the deadline came first. Without a deadline, waits until the future
/// ends.
async fn within<F: Future>(deadline: Option<Instant>, future: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

/// How one attempt ended.
enum AttemptOutcome {
    Ended(Result<ToolOutput, ToolError>),
    Panicked(Panicked),
    /// The attempt exceeded this time. Contains the tool's output so far.
    TimedOut(Duration, Option<String>),
}

/// If the decision about the call was based on a review, lets the tool review the call again and compares the two
/// reviews.
async fn recheck(
    tool: &Tool,
    context: &ToolContext,
    arguments: &Arguments,
) -> Result<(), ToolError> {
    if !context.is_reviewed() {
        return Ok(());
    }
    match tool.review_off_loop(arguments).await {
        Some(now) => context.recheck(&now),
        None => Ok(()),
    }
}

/// The result of a call that was stopped while it waited for a permit of its tool's concurrency limit.
fn not_begun(call: &ToolCall) -> ToolResult {
    let text =
        "The call was stopped while it waited for others of its tool to end. It did not run.";
    ToolResult::new(call.id(), CallOutcome::NotStarted, [text.into()])
}

/// The text for the model about a call that may have had some of its effects.
const CHECK: &str = "It may have partly run: check what it did before you repeat it.";

/// The outcome of a call that may have had some of its effects. If the tool only reads, the call has failed.
fn in_doubt(tool: &Tool, what: String) -> (CallOutcome, Vec<ToolContent>) {
    if tool.side_effects().is_read_only() {
        return (CallOutcome::Failed, vec![what.into()]);
    }
    // A result from another program that also uses this library may already contain the text.
    if what.contains(CHECK) {
        return (CallOutcome::InDoubt, vec![what.into()]);
    }
    // The warning follows the first line, so that the text below, such as an output, stays unchanged.
    let (first, rest) = what.split_at(what.find('\n').unwrap_or(what.len()));
    let text = format!("{first}. {CHECK}{rest}");
    (CallOutcome::InDoubt, vec![text.into()])
}

/// The outcome of a call that exceeded its time limit, with the tool's output so far.
fn timed_out(
    tool: &Tool,
    context: &ToolContext,
    after: Duration,
    said: Option<String>,
) -> (CallOutcome, Vec<ToolContent>) {
    let runs_on = context.identity().is_some_and(detached_threads::is_still_running);
    let (outcome, truth) = if tool.side_effects().is_read_only() {
        (CallOutcome::StoppedReading, "It only reads, so nothing has changed.")
    } else if runs_on {
        (CallOutcome::StillRunning, RUNS_ON)
    } else {
        (CallOutcome::InDoubt, CHECK)
    };
    let was = if runs_on { "was told to stop" } else { "was stopped" };
    // Rounds to milliseconds, because the remaining time for a further attempt has many digits.
    let after = match u64::try_from((after.as_micros() + 500) / 1000) {
        Ok(millis) if millis > 0 => Duration::from_millis(millis),
        Ok(_) | Err(_) => after,
    };
    let text = format!("The call took longer than {after:?} and {was}. {truth}");
    let said = said.map(ToolContent::Text);
    (outcome, std::iter::once(ToolContent::Text(text)).chain(said).collect())
}

/// The text for the model about a call whose function cannot be stopped.
#[doc(hidden)]
pub const RUNS_ON: &str = "It has not ended: it may still be running, and what it does may \
                                  still happen. Do not repeat it; you will be told when it has ended.";
