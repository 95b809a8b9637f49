//! Shows how a run without an answer ended: the kept text, and the outcome of each call. This file is
//! not a part of the library.

use std::io::{self, Write};

use harness::{CallOutcome, Message, Outcome, Role, Stopped, ToolCall, Transcript};

use crate::screen::{Screen, cut, one_line, tokens};

/// How many words of the kept text are shown.
const WORDS: usize = 10;
/// How many characters of a call's arguments are shown.
const LETTERS: usize = 80;

/// Shows why the run stopped and what it leaves. The outcome of each call is the one that the model
/// will be told.
///
/// # Errors
/// Fails if the screen cannot be written to.
pub(crate) fn show<W: Write>(screen: &mut Screen<W>, stopped: &Stopped) -> io::Result<()> {
    match (stopped.outcome(), stopped.error()) {
        (Outcome::Cancelled, None) => screen.line("■ interrupted")?,
        _ => screen.line(&format!("■ {}", one_line(&stopped.to_string())))?,
    }
    if !stopped.text().is_empty() {
        screen.line(&format!("  kept: {}", end_of(stopped.text())))?;
    }
    for line in calls(stopped.transcript()) {
        screen.line(&format!("  {line}"))?;
    }
    screen.line(&format!("  {} at least", tokens(stopped.usage())))
}

/// The end of a text as one line. Its beginning is on the screen already.
fn end_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.len().checked_sub(WORDS) {
        Some(left_out @ 1..) => format!("… {}", words.get(left_out..).unwrap_or(&words).join(" ")),
        Some(0) | None => words.join(" "),
    }
}

/// A call as one line, with its arguments cut.
pub(crate) fn named(call: &ToolCall) -> String {
    format!("{}({})", one_line(call.name()), cut(call.arguments(), LETTERS))
}

/// The outcome of each call since the last message of the user.
fn calls(transcript: &Transcript) -> Vec<String> {
    let messages = transcript.messages();
    let begun = messages.iter().rposition(|message| message.role() == Role::User).unwrap_or(0);
    let run = messages.range(begun..);
    let results: Vec<_> = run.iter().flat_map(Message::results).collect();
    let mut lines = Vec::new();
    for call in run.iter().flat_map(Message::calls) {
        let result = results.iter().find(|result| result.call_id() == call.id());
        let truth = result.map_or("has no result", |result| truth(result.outcome()));
        lines.push(format!("{}: {truth}", named(call)));
    }
    lines
}

/// The outcome of a call, in words for the user.
fn truth(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Succeeded => "ran to its end",
        CallOutcome::Failed => "failed",
        CallOutcome::Denied => "was not allowed and did not run",
        CallOutcome::NotStarted => "did not start",
        CallOutcome::StoppedReading => "was stopped; it only reads, so nothing has changed",
        CallOutcome::StillRunning => "was told to stop and may still be running",
        CallOutcome::InDoubt => "was stopped and may have partly run",
    }
}
