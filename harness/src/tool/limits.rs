//! How long a call may take, how often it is tried, and how much it may say.

use std::time::Duration;

/// How long a call may take, how often it is tried, and how much it may say. All of it is set unless
/// the program says otherwise.
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

/// The bytes of text in one result, unless something else is said.
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
    /// Sets the time of one try, unless the tool itself says otherwise; 60 s unless set. A call that
    /// takes longer is told to stop, and the model learns the truth about it.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets how often a call is tried in all; 3 unless set, and 1 means never again. There is a
    /// second try only if the tool failed with
    /// [`ToolError::transient`](super::ToolError::transient) and what it declares may be repeated.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Sets the wait before the second try, which is doubled before each further one; 200 ms unless
    /// set.
    #[must_use]
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the bytes of text that a model reads of one result, whether it is an output or an error. More is cut in
    /// the middle, with a note of how much; JSON is cut so that it stays JSON. Files do not count, but for the text of
    /// documents.
    ///
    /// Unless set, it is 64 KiB; where large results are [kept whole](crate::agent::AgentBuilder::spills), so that
    /// nothing is lost, it is less for a model with a small window: a sixteenth of it, at four bytes a token, and at
    /// least 1 KiB.
    #[must_use]
    pub fn output(mut self, bytes: usize) -> Self {
        self.output = Some(bytes);
        self
    }

    /// The bytes of text in one result.
    pub(super) fn said(&self) -> usize {
        self.output.unwrap_or(OUTPUT)
    }

    /// The same where more is kept, for a model with a window of so many tokens.
    pub(crate) fn output_in(&self, window: Option<u64>) -> usize {
        let fitting =
            |window: u64| usize::try_from(window / 4).unwrap_or(OUTPUT).clamp(1024, OUTPUT);
        self.output.unwrap_or_else(|| window.map_or(OUTPUT, fitting))
    }

    /// Sets the bytes of JSON of the value for the program
    /// ([`ToolOutput::with_value`](super::ToolOutput::with_value)) in one result; 1 MiB unless set. A larger
    /// one is left out, since it is kept with the conversation, and whoever asks for it reads why. The call
    /// succeeds all the same.
    #[must_use]
    pub fn value(mut self, bytes: usize) -> Self {
        self.value = bytes;
        self
    }
}
