//! Ready-made tools: arithmetic, files inside one folder, and shell commands. Feature `toolbox`.
//!
//! | tool | declares | bounds |
//! |---|---|---|
//! | [`calc`](fn@calc) | nothing | 1,000 bytes, 64 levels |
//! | `read_file` of [`Files`] | read | one folder, 48 KiB of text a call |
//! | `write_file` of [`Files`] | write, idempotent | one folder, a file at once; asks before [`CodeFiles`] |
//! | `list_files` of [`Files`] | read | one folder, 1,000 paths |
//! | `search_files` of [`Files`] | read | one folder, 200 lines |
//! | `bash`, also of `Bash` (Unix) | read, write, network, mutate | 300 s, 24 KiB of each output |
//!
//! A program with `bash` should call [`supervise`] in the first line of its `main`, so that no command outlives it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod arithmetic;
mod files;
mod shell;

#[cfg(unix)]
pub use self::shell::{Bash, bash};
pub use self::{
    arithmetic::{CalcError, Number, calc},
    files::{CodeFiles, Files},
    shell::{make_undumpable, supervise},
};
