//! What is sent of a long conversation: cleared results, summaries, and files that are left out.

pub(crate) mod files;
pub(crate) mod summarize;
pub(crate) mod vendors_summary;
pub(crate) mod window;
