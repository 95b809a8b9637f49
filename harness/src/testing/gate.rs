//! A gate that a test opens, so that order is controlled without a clock.

use tokio_util::sync::CancellationToken;

/// A gate in a script: whoever comes to it waits until the test opens it, and the test can wait
/// until somebody has come. Once open, it stays open. A clone is the same gate.
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
    // Each is a latch: set once, never unset, and any number may wait for it.
    opened: CancellationToken,
    reached: CancellationToken,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets through everybody who waits, and everybody who comes later.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Waits until somebody has come to the gate.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    /// Comes to the gate, and waits until it is open.
    pub async fn pass(&self) {
        self.reached.cancel();
        self.opened.cancelled().await;
    }
}
