//! The size of the model's window, if an error of the vendor has stated it.

/// A size of a window that follows from an error of the vendor.
#[derive(Clone, Debug)]
pub(super) struct StatedWindow {
    pub(super) provider: String,
    pub(super) model: String,
    /// Whether the window belongs to a fallback provider.
    pub(super) fallback: bool,
    pub(super) tokens: u64,
    /// Whether the error stated the size of the window. Otherwise `tokens` is the size of the refused request.
    pub(super) is_named: bool,
}

impl StatedWindow {
    /// Whether this is the size of the given model's window.
    pub(super) fn is_of(&self, provider: &str, model: &str) -> bool {
        (&*self.provider, &*self.model) == (provider, model)
    }
}
