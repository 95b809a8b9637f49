//! Size limits of an answer.

/// The size limits of an answer, in bytes. An answer over a limit fails with
/// [`ErrorKind::TooLarge`](crate::error::ErrorKind::TooLarge), so that a broken or hostile server cannot
/// fill the memory.
///
/// ```
/// use harness::provider::ResponseSizeLimits;
///
/// let limits = ResponseSizeLimits { arguments: 64 * 1024, ..ResponseSizeLimits::default() };
/// assert_eq!(limits.event, 16 * 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseSizeLimits {
    /// The maximum size of one event of the stream. Default 16 MiB.
    pub event: usize,
    /// The maximum size of the arguments of one call. Default 4 MiB.
    pub arguments: usize,
    /// The maximum size of everything that is kept of one answer. Default 64 MiB. In addition, an answer can have at
    /// most 4,096 parts (blocks, items, calls).
    pub response: usize,
}

impl Default for ResponseSizeLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self { event: 16 * MIB, arguments: 4 * MIB, response: 64 * MIB }
    }
}
