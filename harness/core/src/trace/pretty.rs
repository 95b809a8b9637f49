//! Formats a trace as text.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    mem,
};

use serde_json::Value;

use super::{AppendOutcome, Happened, HoldOutcome, TraceEvent, TracedCall, WaitsFor};
use crate::{
    journal::{Decider, InterruptCause, LimitScope},
    message::CallOutcome,
};

/// The maximum length of a shown text, in characters.
const SHOWN: usize = 160;

/// Formats the trace as text, in the order of the run:
///
/// ```text
/// user -> "Where are my orders?"
/// model -> search_orders
///   search_orders({"email":"a@b.com"})
///   -> [order #1021, #1044] (84 ms)
/// model -> "I found two orders .."
/// ```
///
/// Long texts are cut. A call is shown at the position of its result. If the call started at least a millisecond before
/// the end of the model's answer, the line shows this duration.
pub fn pretty(events: &[TraceEvent]) -> String {
    // Each event is read once, so the time is linear in the number of events.
    let mut shown = String::new();
    let mut runs: HashMap<&str, PrintedCalls<'_>> = HashMap::new();
    for event in events {
        let calls = runs.entry(&event.run).or_default();
        calls.note(event);
        let before = shown.len();
        // Writing to a string cannot fail.
        let _ = line(&mut shown, event, calls);
        // Two runs are separated by an empty line.
        if shown.len() > before && !mem::replace(&mut calls.shown, true) && before > 0 {
            shown.insert(before, '\n');
        }
    }
    shown
}

/// The calls of one run so far. If two calls have the same id, the later call replaces the earlier call.
#[derive(Default)]
struct PrintedCalls<'a> {
    known: HashMap<&'a str, PrintedCall<'a>>,
    /// The ids of the calls that started since the model's last answer.
    begun: Vec<&'a str>,
    /// Whether any line of the run was printed.
    shown: bool,
}

#[derive(Default)]
struct PrintedCall<'a> {
    tool: &'a str,
    arguments: &'a str,
    /// The cached text of the tool and the arguments.
    shown: Option<String>,
    /// The start time of a call that started before the model's answer was complete.
    early: Option<u64>,
    /// The time at which the model's answer with this call was complete.
    replied: Option<u64>,
}

impl<'a> PrintedCalls<'a> {
    fn note(&mut self, event: &'a TraceEvent) {
        match &event.what {
            Happened::CallStarted { call, tool, arguments, early } => {
                let known = self.ask(call, tool, arguments);
                (known.early, known.replied) = (early.then_some(event.at_us), None);
                self.begun.push(call);
            }
            Happened::ModelReplied { calls, .. } => {
                for id in self.begun.drain(..) {
                    if let Some(call) = self.known.get_mut(id) {
                        call.replied.get_or_insert(event.at_us);
                    }
                }
                for TracedCall { call, tool, arguments } in calls {
                    self.ask(call, tool, arguments);
                }
            }
            Happened::Interrupted { calls, .. } => {
                for TracedCall { call, tool, arguments } in calls {
                    self.ask(call, tool, arguments);
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, id: &'a str, tool: &'a str, arguments: &'a str) -> &mut PrintedCall<'a> {
        let call = self.known.entry(id).or_default();
        (call.tool, call.arguments, call.shown) = (tool, arguments, None);
        call
    }

    /// The text of the call and its arguments.
    fn shown(&mut self, id: &'a str) -> &str {
        let call = self
            .known
            .entry(id)
            .or_insert_with(|| PrintedCall { tool: id, ..PrintedCall::default() });
        let PrintedCall { tool, arguments, shown, .. } = call;
        shown.get_or_insert_with(|| format!("{}({})", short(tool), short(arguments)))
    }

    /// Writes a line with the text of the call and its arguments.
    fn write(&mut self, out: &mut String, id: &'a str) {
        out.push_str("  ");
        out.push_str(self.shown(id));
        out.push('\n');
    }

    /// Like [`write`](Self::write). For a call from another run, the text has `..` in place of the unknown arguments.
    fn write_as(&mut self, out: &mut String, id: &'a str, tool: &'a str) {
        if self.known.contains_key(id) {
            self.write(out, id);
        } else {
            out.push_str(&format!("  {}(..)\n", short(tool)));
        }
    }

    fn tool(&self, id: &str) -> String {
        short(self.known.get(id).map_or(id, |call| call.tool))
    }

    /// The time from the start of the call to the end of the model's answer, in microseconds. `None` if the time is
    /// less than a millisecond.
    fn lead(&self, id: &str) -> Option<u64> {
        let PrintedCall { early, replied, .. } = self.known.get(id)?;
        Some((*replied)?.saturating_sub((*early)?)).filter(|us| *us >= 1000)
    }
}

fn line<'a>(out: &mut String, event: &'a TraceEvent, known: &mut PrintedCalls<'a>) -> fmt::Result {
    match &event.what {
        Happened::RunStarted { said, .. } => match said {
            Some(said) => writeln!(out, "user -> {}", quoted(said)),
            None => writeln!(out, "resumed"),
        },
        Happened::ModelReplied { text, calls, .. } => {
            writeln!(out, "model -> {}", spoken(text, calls))
        }
        Happened::CallDecided { call, denied: Some(reason), by, .. } => {
            known.write(out, call);
            writeln!(out, "  -> denied: {}", Short(reason))?;
            match by {
                Decider::Nobody => writeln!(
                    out,
                    "     the program can give an approver, or allow the tool: `Permissions::default().allow(..)`"
                ),
                _ => Ok(()),
            }
        }
        Happened::CallDecided { call, waited_ms: Some(waited), by, .. } => {
            let who = match by {
                Decider::Person { who, .. } => who.as_deref(),
                _ => None,
            };
            known.write(out, call);
            writeln!(out, "  -> allowed{}", answered(who, Some(*waited)))
        }
        Happened::CallWaits { call, tool, awaited, question, .. } => {
            let awaited = match awaited {
                WaitsFor::Approval => "an approval",
                WaitsFor::Result => "its result",
                WaitsFor::Answer => "an answer",
                WaitsFor::Agent => "its agent, which waits",
            };
            known.write_as(out, call, tool);
            match question {
                Some(question) => writeln!(out, "  -> waits for {awaited}: {}", Short(question)),
                None => writeln!(out, "  -> waits for {awaited}"),
            }
        }
        Happened::CallAnswered { call, tool, answer, who, waited_ms, .. } => {
            known.write_as(out, call, tool);
            let by = answered(who.as_deref(), *waited_ms);
            writeln!(out, "  -> answered{by}: {}", Short(answer))
        }
        Happened::CallSettled { call, tool, outcome, text, who, waited_ms, .. } => {
            known.write_as(out, call, tool);
            let by = answered(who.as_deref(), *waited_ms);
            writeln!(out, "  -> settled{by}: {}{}", became(*outcome), Short(text))
        }
        Happened::CallCleared { call, tool } => {
            known.write_as(out, call, tool);
            writeln!(out, "  -> nothing of it has happened: it runs")
        }
        Happened::CallUndecided { call, tool } => {
            known.write_as(out, call, tool);
            writeln!(out, "  -> is decided anew")
        }
        Happened::GrantRevoked { scope, .. } => {
            writeln!(out, "no longer always allowed: {}", Short(scope))
        }
        Happened::ReconcileFailed { call, tool, error, .. } => {
            known.write_as(out, call, tool);
            writeln!(out, "  -> its tool could not find out what became of it: {}", Short(error))
        }
        Happened::Reopened { in_doubt, runs_again } => {
            let (in_doubt, again) = (in_doubt.len(), runs_again.len());
            writeln!(
                out,
                "read again in the middle of a run (in doubt: {in_doubt}, run again: {again})"
            )
        }
        Happened::Forked { from, facts } => {
            writeln!(out, "forked from {} with {facts} facts", Short(from))
        }
        Happened::Hold { conversation, outcome, error, .. } => {
            let error = Short(error.as_deref().unwrap_or_default());
            let conversation = Short(conversation);
            match outcome {
                HoldOutcome::Taken => Ok(()),
                HoldOutcome::Busy => writeln!(out, "{conversation} is open elsewhere"),
                HoldOutcome::Failed => writeln!(out, "{conversation} cannot be held: {error}"),
                HoldOutcome::Interrupted => writeln!(out, "{conversation} was not waited for"),
                HoldOutcome::Lost => writeln!(out, "{conversation} is lost: {error}"),
            }
        }
        Happened::Appended { facts, outcome, error, .. } => {
            let error = Short(error.as_deref().unwrap_or_default());
            match outcome {
                AppendOutcome::Written | AppendOutcome::ReadBack => Ok(()),
                AppendOutcome::Conflict | AppendOutcome::Failed => {
                    writeln!(out, "{facts} facts are not written: {error}")
                }
                AppendOutcome::Interrupted => {
                    writeln!(out, "{facts} facts are perhaps not written: nobody waited for it")
                }
            }
        }
        Happened::Steered { text } => writeln!(out, "the user: {}", Short(text)),
        Happened::AnswerAccepted {} => writeln!(out, "the answer is accepted"),
        Happened::AnswerRejected { by: _, faults, again } => {
            let what = if *again { "the model answers anew" } else { "no try is left" };
            writeln!(out, "the answer is not accepted, {what}: {}", Short(&faults.join("; ")))
        }
        Happened::ToolsFound { call: _, tools } => {
            writeln!(
                out,
                "the model is told of {} more tools: {}",
                tools.len(),
                Short(&tools.join(", "))
            )
        }
        Happened::ContextCleared { results, arguments, before, after } => {
            let what = match arguments {
                0 => format!("{results} results"),
                _ => format!("{results} results and the arguments of {arguments} calls"),
            };
            writeln!(out, "{what} are no longer sent whole: {before} tokens, now {after}")
        }
        Happened::ContextCompacted { messages, text, vendor, before, after, .. } => {
            let by = if *vendor { " by the vendor" } else { "" };
            writeln!(out, "{messages} messages are summed up{by}: {before} tokens, now {after}")?;
            writeln!(out, "  {}", Short(text))
        }
        Happened::CompactionFailed { cause, .. } => {
            writeln!(out, "the conversation could not be summed up: {}", Short(cause))
        }
        Happened::VendorSummaryRefused { cause } => {
            writeln!(out, "the vendor has refused its own summary: {}", Short(cause))
        }
        Happened::ContextOverflowed { window, .. } => match window {
            Some(window) => writeln!(out, "the request did not fit into {window} tokens"),
            None => writeln!(out, "the request did not fit into the window of the model"),
        },
        Happened::ContextPinned { text } => writeln!(out, "pinned: {}", Short(text)),
        Happened::PrefixChanged { change, appended, left_out, refusal } => {
            let how = match (appended, refusal, change.is_empty()) {
                (true, ..) => "sent behind the messages so far",
                (false, Some(_), true) => "the vendor has refused earlier reasoning",
                (false, Some(_), false) => {
                    "sent before all messages, after the server refused a request"
                }
                (false, None, true) => {
                    "the instructions and tools of earlier reasoning are not known"
                }
                (false, None, false) => "changed",
            };
            let change =
                if change.is_empty() { String::new() } else { format!(": {}", Short(change)) };
            writeln!(out, "{how}{change} (messages whose reasoning is left out: {left_out})")
        }
        Happened::CallEnded { call, text, .. } => {
            writeln!(out, "  {call} has ended after it was stopped")?;
            writeln!(out, "  -> {}", Short(text))
        }
        Happened::CallFinished { call, outcome, text, files, ran_us } => {
            known.write(out, call);
            let outcome = became(*outcome);
            let files: String =
                files.iter().map(|file| format!(" and a {}", Short(file))).collect();
            let mut notes: Vec<String> = ran_us.iter().map(|us| time(*us)).collect();
            notes.extend(known.lead(call).map(|us| format!("began {} early", time(us))));
            let notes =
                if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
            writeln!(out, "  -> {outcome}{}{files}{notes}", Short(text))
        }
        Happened::CallDropped { call } => {
            writeln!(out, "  {}(..) began early and was dropped", known.tool(call))
        }
        Happened::CallQueued { tool, .. } => writeln!(out, "  .. {tool} waits for its turn"),
        Happened::CallProgressed { message, .. } => writeln!(out, "  .. {}", Short(message)),
        Happened::Retried { attempt, of, wait_us, cause } => {
            writeln!(out, "retrying in {} ({attempt} of {of}): {}", time(*wait_us), Short(cause))
        }
        Happened::FellBack { from, to, cause } => {
            writeln!(out, "{} is down, asking {}: {}", Short(from), Short(to), Short(cause))
        }
        Happened::ParameterDropped { parameter, cause } => {
            writeln!(
                out,
                "the server refuses `{}`, sent without: {}",
                Short(parameter),
                Short(cause)
            )
        }
        Happened::Discarded { cause } => {
            writeln!(out, "the answer begins again: {}", Short(cause))
        }
        Happened::LimitNear { detail, .. } | Happened::LimitUnknown { detail, .. } => {
            writeln!(out, "warning: {}", Short(detail))
        }
        Happened::Interrupted { cause, text, calls, .. } => {
            if !text.is_empty() || !calls.is_empty() {
                writeln!(out, "model -> {} (cut off)", spoken(text, calls))?;
            }
            match cause {
                InterruptCause::Program => writeln!(out, "stopped by the program"),
                InterruptCause::Limit { limit, scope: LimitScope::Run, detail } => {
                    writeln!(out, "stopped by the limit of {limit}: {}", Short(detail))
                }
                InterruptCause::Limit { limit, scope, detail } => {
                    writeln!(
                        out,
                        "stopped by the limit of {limit} of the {scope}: {}",
                        Short(detail)
                    )
                }
                InterruptCause::Denial { .. } => writeln!(out, "stopped by a denial"),
                InterruptCause::Failure { error, .. } => writeln!(out, "failed: {}", Short(error)),
            }
        }
        Happened::LinesLost { lines } => {
            writeln!(out, "({lines} events are missing here: the writer was too slow for them)")
        }
        Happened::RunEnded { .. }
        | Happened::TurnStarted { .. }
        | Happened::AnswerBegan { .. }
        | Happened::CallStarted { .. }
        | Happened::CallDecided { denied: None, waited_ms: None, .. }
        | Happened::Unknown => Ok(()),
    }
}

/// A text with the person who answered and the duration of the wait, as far as they are known.
fn answered(who: Option<&str>, waited_ms: Option<u64>) -> String {
    let who = who.map(|who| format!(" by {}", short(who))).unwrap_or_default();
    let waited = waited_ms.map(|ms| format!(" after {}", time(ms.saturating_mul(1000))));
    format!("{who}{}", waited.unwrap_or_default())
}

/// A prefix for the outcome of a call; empty for success.
fn became(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Succeeded => "",
        CallOutcome::Failed => "failed: ",
        CallOutcome::Denied => "denied: ",
        CallOutcome::NotStarted => "not started: ",
        CallOutcome::StoppedReading => "stopped: ",
        CallOutcome::InDoubt => "in doubt: ",
        CallOutcome::StillRunning => "still running: ",
    }
}

/// The text and the calls of a model's answer, on one line.
fn spoken(text: &str, calls: &[TracedCall]) -> String {
    let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
    let names = short(&names.join(", "));
    match (text.trim().is_empty(), names.is_empty()) {
        (true, true) => "nothing".to_owned(),
        (false, true) => quoted(text),
        (true, false) => names,
        (false, false) => format!("{} {names}", quoted(text)),
    }
}

/// A duration in microseconds, formatted with a unit.
fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", short(text))
}

/// Displays a text as [`short`] returns it.
struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(self.0))
    }
}

/// The text on one line, cut to [`SHOWN`] characters. JSON is written without spaces.
fn short(text: &str) -> String {
    let line = match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
        Ok(_) | Err(_) => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    match cut(&line, SHOWN) {
        Some(begin) => format!("{} ..", begin.trim_end()),
        None => line,
    }
}

/// The first `characters` characters of a text; `None` if the text is not longer.
fn cut(text: &str, characters: usize) -> Option<&str> {
    let (end, _) = text.char_indices().nth(characters)?;
    text.get(..end)
}
