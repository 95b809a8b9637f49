//! The tool `bash`: it runs a command, and ends everything that the command has started.

#[cfg(unix)]
mod clipped_output;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod run;
mod supervise;
#[cfg(unix)]
mod tools;
#[cfg(unix)]
mod variables;

pub use self::supervise::{make_undumpable, supervise};
#[cfg(unix)]
pub use self::tools::{Bash, bash};
