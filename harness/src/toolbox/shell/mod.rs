//! The tool `bash`: runs a command, and leaves nothing behind that it started.

mod clipped;
mod group;
#[cfg(target_os = "linux")]
mod mark;
mod run;
mod tools;

pub use self::tools::{Bash, bash};
