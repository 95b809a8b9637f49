//! Reads a trace that was written as JSON lines.

use super::{SCHEMA, TraceEvent};
use crate::{
    error::{Error, ErrorKind},
    secret::beginning,
};

/// Reads JSON lines. A last line that was cut off, as a process that is killed may leave it, is
/// left out; so are empty lines.
///
/// # Errors
/// Fails if another line is no event, or if the trace is of a newer format, and names the line.
// To read what can happen is a sixth of what this crate compiles to. Inline, it is compiled for
// the programs that read traces, and not for all that run an agent.
#[inline]
pub fn read(lines: &str) -> Result<Vec<TraceEvent>, Error> {
    let mut events = Vec::new();
    let whole = lines.ends_with('\n');
    let last = lines.lines().count();
    for (line, number) in lines.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<TraceEvent>(line) {
            Ok(event) if event.v > SCHEMA => {
                let message = format!(
                    "line {number} of the trace is of format {}, and this program knows {SCHEMA}",
                    event.v
                );
                return Err(Error::new(ErrorKind::Journal, message));
            }
            Ok(event) => events.push(event),
            Err(_) if number == last && !whole => {}
            Err(err) => {
                // It names what it did not expect, which may be all of a long line.
                let err = err.to_string();
                let message =
                    format!("line {number} of the trace is no event: {}", beginning(&err, 500));
                return Err(Error::new(ErrorKind::Journal, message));
            }
        }
    }
    Ok(events)
}
