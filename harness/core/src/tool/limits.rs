//! The limits of a call: its time, its attempts, and the size of its result.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::message::is_deeper;

/// Limits the time, the attempts and the size of the result of each call. Every limit has a default.
///
/// ```
/// use std::time::Duration;
/// use harness::ToolLimits;
///
/// let limits = ToolLimits::default().time(Duration::from_secs(10)).tries(1);
/// # let _ = limits;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    pub(super) time: Duration,
    pub(super) tries: u32,
    pub(super) backoff: Duration,
    output: Option<usize>,
    pub(super) value: usize,
}

/// The default length of the text of one result, in bytes.
const OUTPUT: usize = 64 * 1024;

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            tries: 3,
            backoff: Duration::from_millis(200),
            output: None,
            value: 1024 * 1024,
        }
    }
}

impl ToolLimits {
    /// Sets the time limit of one attempt; 60 s unless set. A limit that the tool declares has precedence. A call that
    /// takes longer is stopped, and the result describes what may have happened.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets the maximum number of attempts of a call; 3 unless set. With 1, no call is retried. A call is retried only
    /// if the tool failed with [`ToolError::transient`](super::ToolError::transient) and declares that its calls may be
    /// repeated.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Sets the wait before the second attempt; 200 ms unless set. The wait is doubled before each further attempt.
    #[must_use]
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets how many bytes of text a model reads of one result, whether it is an output or an error. Longer text is cut
    /// in the middle, with a note about the missing length. JSON is still valid JSON after the cut. Files do not count,
    /// except for the text of documents.
    ///
    /// The default is 64 KiB, and less for a model with a small window: at most a quarter of the window, counting four
    /// bytes per token. If large results are kept whole, the default is at most a sixteenth of the window, because the
    /// model can read the rest later. The default is never less than 1 KiB.
    #[must_use]
    pub fn output(mut self, bytes: usize) -> Self {
        self.output = Some(bytes);
        self
    }

    /// The maximum length of the text of one result, in bytes.
    pub(super) fn output_bytes(&self) -> usize {
        self.output.unwrap_or(OUTPUT)
    }

    /// The maximum length of the text of one result, in bytes, for a model with a window of this many tokens. If large
    /// results are kept whole (`is_kept`), fewer bytes are enough.
    #[doc(hidden)]
    pub fn output_in(&self, window: Option<u64>, is_kept: bool) -> usize {
        let part = if is_kept { 4 } else { 1 };
        let fitting =
            |window: u64| usize::try_from(window / part).unwrap_or(OUTPUT).clamp(1024, OUTPUT);
        self.output.unwrap_or_else(|| window.map_or(OUTPUT, fitting))
    }

    /// Sets the maximum size of the value for the program ([`ToolOutput::with_value`](super::ToolOutput::with_value))
    /// in one result, in bytes of JSON; 1 MiB unless set. The conversation stores each value, so a larger value is
    /// omitted, and reading the value returns an error with the reason. The call still succeeds.
    #[must_use]
    pub fn value(mut self, bytes: usize) -> Self {
        self.value = bytes;
        self
    }
}

/// The maximum nesting depth of arguments. The JSON parser rejects deeper nesting, but a program can pass deeper
/// arguments. Copying and checking deeper arguments would need an unlimited stack.
const DEEPEST: usize = 128;

/// Checks that arguments are not nested too deeply.
pub(super) fn check_depth(arguments: &Map<String, Value>) -> Result<(), Vec<String>> {
    let deep = arguments.iter().filter(|(_, value)| is_deeper(value, DEEPEST));
    let lines: Vec<String> = deep
        .map(|(name, _)| format!("`{name}` is nested too deeply: more than {DEEPEST} levels"))
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(lines) }
}
