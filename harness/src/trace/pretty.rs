//! A trace that reads like the run itself.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Happened, TraceEvent, TracedCall};
use crate::{journal::InterruptCause, message::CallOutcome};

/// Characters of a text that are shown.
const SHOWN: usize = 160;

/// The trace as text that reads like the run itself:
///
/// ```text
/// user -> "Where are my orders?"
/// model -> search_orders
///   search_orders({"email":"a@b.com"})
///   -> [order #1021, #1044] (84 ms)
/// model -> "I found two orders .."
/// ```
///
/// Long texts are cut. Calls stand where they were answered; those that began a good while before
/// the model had ended say so.
pub fn pretty(events: &[TraceEvent]) -> String {
    let mut shown = String::new();
    for (at, event) in events.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = line(&mut shown, event, events, at);
    }
    shown
}

fn line(
    out: &mut String,
    event: &TraceEvent,
    events: &[TraceEvent],
    at: usize,
) -> std::fmt::Result {
    // An id may come again in a later turn: what counts is what came last.
    let before = events.get(..at).unwrap_or_default();
    match &event.what {
        Happened::RunStarted { said, .. } => {
            if !out.is_empty() {
                out.push('\n');
            }
            match said {
                Some(said) => writeln!(out, "user -> {}", quoted(said)),
                None => writeln!(out, "resumed"),
            }
        }
        Happened::ModelReplied { text, calls, .. } => {
            writeln!(out, "model -> {}", spoken(text, calls))
        }
        Happened::CallDecided { call, denied: Some(reason), .. } => {
            let (tool, arguments) = asked(before, &event.run, call);
            writeln!(out, "  {tool}({})", short(&arguments))?;
            writeln!(out, "  -> denied: {}", short(reason))
        }
        Happened::CallFinished { call, outcome, text, images, ran_us } => {
            let (tool, arguments) = asked(before, &event.run, call);
            writeln!(out, "  {tool}({})", short(&arguments))?;
            let outcome = match outcome {
                CallOutcome::Succeeded => "",
                CallOutcome::Failed => "failed: ",
                CallOutcome::Denied => "denied: ",
                CallOutcome::NotStarted => "not started: ",
                CallOutcome::StoppedReading => "stopped: ",
                CallOutcome::InDoubt => "in doubt: ",
            };
            let images = match images {
                0 => String::new(),
                1 => " and 1 picture".to_owned(),
                images => format!(" and {images} pictures"),
            };
            let mut notes: Vec<String> = ran_us.iter().map(|us| time(*us)).collect();
            notes.extend(
                lead(before, &event.run, call).map(|us| format!("began {} early", time(us))),
            );
            let notes =
                if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
            writeln!(out, "  -> {outcome}{}{images}{notes}", short(text))
        }
        Happened::CallDropped { call } => {
            let (tool, _) = asked(before, &event.run, call);
            writeln!(out, "  {tool}(..) began early and was dropped")
        }
        Happened::CallProgressed { message, .. } => writeln!(out, "  .. {}", short(message)),
        Happened::Retried { attempt, of, wait_us, cause } => {
            writeln!(out, "retrying in {} ({attempt} of {of}): {}", time(*wait_us), short(cause))
        }
        Happened::FellBack { from, to, cause } => {
            writeln!(out, "{from} is down, asking {to}: {}", short(cause))
        }
        Happened::Discarded { cause } => {
            writeln!(out, "the answer begins again: {}", short(cause))
        }
        Happened::LimitNear { detail, .. } | Happened::LimitUnknown { detail, .. } => {
            writeln!(out, "warning: {}", short(detail))
        }
        Happened::Interrupted { cause, text, calls, .. } => {
            if !text.is_empty() || !calls.is_empty() {
                writeln!(out, "model -> {} (cut off)", spoken(text, calls))?;
            }
            match cause {
                InterruptCause::Program => writeln!(out, "stopped by the program"),
                InterruptCause::Limit { limit, detail } => {
                    writeln!(out, "stopped by the limit of {limit}: {}", short(detail))
                }
                InterruptCause::Denial { .. } => writeln!(out, "stopped by a denial"),
                InterruptCause::Failure { error } => writeln!(out, "failed: {}", short(error)),
            }
        }
        Happened::RunEnded { .. }
        | Happened::TurnStarted { .. }
        | Happened::AnswerBegan { .. }
        | Happened::CallStarted { .. }
        | Happened::CallDecided { denied: None, .. }
        | Happened::Unknown => Ok(()),
    }
}

/// What the model said and asked for.
fn spoken(text: &str, calls: &[TracedCall]) -> String {
    let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
    match (text.trim().is_empty(), names.is_empty()) {
        (true, true) => "nothing".to_owned(),
        (false, true) => quoted(text),
        (true, false) => names.join(", "),
        (false, false) => format!("{} {}", quoted(text), names.join(", ")),
    }
}

/// The tool and the arguments of a call, from whichever event names them.
fn asked(events: &[TraceEvent], run: &str, id: &str) -> (String, String) {
    let of_run = events.iter().filter(|event| event.run == run);
    let found = of_run.rev().find_map(|event| match &event.what {
        Happened::CallStarted { call, tool, arguments, .. } if call == id => {
            Some((tool.clone(), arguments.clone()))
        }
        Happened::ModelReplied { calls, .. } | Happened::Interrupted { calls, .. } => {
            let call = calls.iter().find(|call| call.call == id)?;
            Some((call.tool.clone(), call.arguments.clone()))
        }
        _ => None,
    });
    found.unwrap_or_else(|| (id.to_owned(), String::new()))
}

/// How long before the end of the answer a call began, if that was long enough to tell.
fn lead(before: &[TraceEvent], run: &str, id: &str) -> Option<u64> {
    let mut replied = None;
    let began = before.iter().rev().filter(|event| event.run == run).find_map(|event| {
        match &event.what {
            Happened::ModelReplied { .. } => replied = Some(event.at_us),
            Happened::CallStarted { call, early, .. } if call == id => {
                return Some((*early).then_some(event.at_us));
            }
            _ => {}
        }
        None
    });
    Some(replied?.saturating_sub(began??)).filter(|us| *us >= 1000)
}

/// A time for a person.
pub(super) fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", short(text))
}

/// The text on one line, cut if it is long. A JSON value is spelled without spaces.
fn short(text: &str) -> String {
    let line = match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
        Ok(_) | Err(_) => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ..", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}
