//! The HTTP statuses after which a failed attempt is retried, as a setting.

use std::fmt;

use crate::error::is_transient_status;

/// The HTTP statuses after which a failed attempt is retried: a setting of [`RetryPolicy`](super::RetryPolicy).
///
/// Default: 408, 409, 429 and all statuses from 500 on, except 501 and 505.
///
/// ```
/// use harness::policy::{RetryPolicy, RetryStatuses};
///
/// // A gateway says 425 while it starts, and its 409 is final.
/// let statuses = RetryStatuses::default().with(425).without(409);
/// let policy = RetryPolicy { statuses, ..RetryPolicy::default() };
/// assert!(policy.statuses.contains(425) && policy.statuses.contains(503));
/// assert!(!policy.statuses.contains(409));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RetryStatuses {
    /// One bit for each status below 1024.
    bits: [u64; 16],
}

impl RetryStatuses {
    /// A set without any status: no HTTP status is retried. Failures without a status, such as a refused connection,
    /// are still retried.
    pub fn none() -> Self {
        Self { bits: [0; 16] }
    }

    /// Adds a status. A number of 1024 or more is no HTTP status and changes nothing.
    #[must_use]
    pub fn with(mut self, status: u16) -> Self {
        if let Some((word, bit)) = self.place(status) {
            *word |= bit;
        }
        self
    }

    /// Removes a status. Failures with this status are not retried.
    #[must_use]
    pub fn without(mut self, status: u16) -> Self {
        if let Some((word, bit)) = self.place(status) {
            *word &= !bit;
        }
        self
    }

    /// Whether this status is retried.
    pub fn contains(mut self, status: u16) -> bool {
        self.place(status).is_some_and(|(word, bit)| *word & bit != 0)
    }

    fn place(&mut self, status: u16) -> Option<(&mut u64, u64)> {
        let word = self.bits.get_mut(usize::from(status / 64))?;
        Some((word, 1 << (status % 64)))
    }
}

impl Default for RetryStatuses {
    fn default() -> Self {
        let transient = (0..1000).filter(|status| is_transient_status(*status));
        transient.fold(Self::none(), Self::with)
    }
}

impl fmt::Debug for RetryStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..1000).filter(|status| self.contains(*status))).finish()
    }
}
