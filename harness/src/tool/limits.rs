//! How long a call may take, how often it is tried, and how much it may say.

use std::{path::PathBuf, time::Duration};

/// How long a call may take, how often it is tried, and how much it may say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolLimits {
    /// Time of one try, unless the tool itself says otherwise; 60 s unless set. A call that takes
    /// longer is told to stop, and the model learns the truth about it.
    pub time: Duration,
    /// Tries of one call in all; 3 unless set. There is a second one only if the tool failed with
    /// [`ToolError::transient`](super::ToolError::transient) and what it declares may be repeated.
    pub tries: u32,
    /// Wait before the second try, doubled before each further one; 200 ms unless set.
    pub backoff: Duration,
    /// Bytes of text in one result, whether it is an output or an error; 64 KiB unless set. More is
    /// cut in the middle, with a note of how much. Pictures do not count.
    pub output: usize,
    /// A folder into which the whole output goes that was cut; the model is told the path.
    pub overflow_folder: Option<PathBuf>,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            tries: 3,
            backoff: Duration::from_millis(200),
            output: 64 * 1024,
            overflow_folder: None,
        }
    }
}

impl ToolLimits {
    /// Sets the time of one try.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets how often a call is tried in all; 1 means never again.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Sets the wait before the second try.
    #[must_use]
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the bytes of text in one result.
    #[must_use]
    pub fn output(mut self, bytes: usize) -> Self {
        self.output = bytes;
        self
    }

    /// Sets the folder into which the whole output goes that was cut.
    #[must_use]
    pub fn overflow_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.overflow_folder = Some(folder.into());
        self
    }
}
