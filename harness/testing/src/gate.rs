//! A gate that a test opens to control the order of events without a clock.

use tokio_util::sync::CancellationToken;

/// A gate in a script. The script waits at the gate until the test opens it, and the test can wait
/// until the script has reached the gate. An opened gate stays open. Clones are the same gate.
///
/// ```
/// use harness::testing::Gate;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let gate = Gate::new();
/// let walker = async {
///     gate.pass().await;
///     "through"
/// };
/// let test = async {
///     gate.reached().await;
///     gate.open();
/// };
/// assert_eq!(tokio::join!(walker, test).0, "through");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gate {
    // Both tokens are latches: they are set once, never reset, and any number of tasks can wait for
    // them.
    opened: CancellationToken,
    reached: CancellationToken,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for all current and later waiters.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Waits until a script has reached the gate.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    /// Marks the gate as reached, and waits until it is open.
    pub async fn pass(&self) {
        self.reached.cancel();
        self.opened.cancelled().await;
    }
}
