//! Reads a trace that was written as JSON lines.

use super::{SCHEMA, TraceEvent};
use crate::{
    error::{Error, ErrorKind},
    secret::beginning,
};

/// Parses a trace that was written as JSON lines. Skips empty lines. Also skips an incomplete last line, which a killed
/// process may leave.
///
/// # Errors
/// Fails if any other line is not an event, or if the trace has a newer format. The error has the number of the line.
// The code that parses events is a sixth of this crate. `inline` compiles the code only into programs that read traces.
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
                // The error quotes the unexpected value. This value may be long, so the error is cut.
                let err = err.to_string();
                let message =
                    format!("line {number} of the trace is no event: {}", beginning(&err, 500));
                return Err(Error::new(ErrorKind::Journal, message));
            }
        }
    }
    Ok(events)
}
