//! Ready tools: arithmetic, files inside one folder, and commands of a shell.

mod arithmetic;
mod files;
#[cfg(unix)]
mod shell;

#[cfg(unix)]
pub use self::shell::{Bash, bash};
pub use self::{
    arithmetic::{CalcError, Number, calc},
    files::Files,
};
