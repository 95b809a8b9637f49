//! Runs the loop one action at a time, for drivers outside of the library.

pub(crate) mod live;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
pub(crate) mod steps;
