//! Keeps long conversations within the window: cleared results, summaries, and files that are left out.

pub(crate) mod context_edit;
pub(crate) mod context_usage;
pub(crate) mod files;
pub(crate) mod gauge;
pub(crate) mod summarize;
pub(crate) mod summary_cut;
pub(crate) mod summary_request;
pub(crate) mod vendors_summary;
pub(crate) mod window;
