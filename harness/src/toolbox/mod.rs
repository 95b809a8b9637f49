//! Ready tools: arithmetic, files inside one folder, shell commands, and pages of the web. Feature `toolbox`.
//!
//! | tool | declares | bounds |
//! |---|---|---|
//! | [`calc`](fn@calc) | nothing | 1,000 bytes, 64 levels |
//! | `read_file` of [`Files`] | read | one folder, 48 KiB of text a call |
//! | `write_file` of [`Files`] | write, idempotent | one folder, a file at once; asks before [`CodeFiles`] |
//! | `list_files` of [`Files`] | read | one folder, 1,000 paths |
//! | `search_files` of [`Files`] | read | one folder, 200 lines |
//! | `web_fetch` of `WebFetch` (feature `sockets`) | read, network | the public internet, 30 s, 2 MiB, 48 KiB of text a call |
//! | `bash`, also of `Bash` (Unix) | read, write, network, mutate | 300 s, 24 KiB of each output |
//!
//! A program with `bash` should call [`supervise`] in the first line of its `main`, so that no command outlives it.

mod arithmetic;
mod files;
mod shell;
#[cfg(feature = "sockets")]
mod web;

#[cfg(unix)]
pub use self::shell::{Bash, bash};
#[cfg(feature = "sockets")]
pub use self::web::WebFetch;
pub use self::{
    arithmetic::{CalcError, Number, calc},
    files::{CodeFiles, Files},
    shell::{make_undumpable, supervise},
};
