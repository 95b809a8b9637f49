//! What an error of a vendor has said of the model's window.

/// The size of a window, as an error of the vendor has stated it.
#[derive(Clone, Debug)]
pub(super) struct StatedWindow {
    pub(super) provider: String,
    pub(super) model: String,
    /// Whether it is the window of another provider, to which the agent of this model fell back.
    pub(super) fallback: bool,
    pub(super) tokens: u64,
    /// Whether the error named the window. Then `tokens` is the window, else the size of the refused request.
    pub(super) is_named: bool,
}

impl StatedWindow {
    /// Whether it is about this model.
    pub(super) fn is_of(&self, provider: &str, model: &str) -> bool {
        (&*self.provider, &*self.model) == (provider, model)
    }
}
