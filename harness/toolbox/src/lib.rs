//! Ready-made tools: arithmetic, files inside one folder, and shell commands. Feature `toolbox`. The feature `calc`
//! contains only [`calc`](fn@calc), and builds quickly.
//!
//! | tool | declares | bounds |
//! |---|---|---|
//! | [`calc`](fn@calc) | nothing | 1,000 bytes, 64 levels |
//! | `read_file` of [`Files`] | read | one folder, 48 KiB of text a call |
//! | `write_file` of [`Files`] | write, idempotent | one folder, writes in one step; approval for [`CodeFiles`] |
//! | `list_files` of [`Files`] | read | one folder, 1,000 paths |
//! | `search_files` of [`Files`] | read | one folder, 200 lines |
//! | `bash`, also of `Bash` (Unix) | read, write, network, mutate | 300 s, 24 KiB of each output |
//!
//! A program with `bash` should call [`supervise`] in the first line of its `main`, so that no command outlives the
//! program.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod arithmetic;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "shell")]
mod shell;

pub use self::arithmetic::{CalcError, Number, calc};
#[cfg(feature = "files")]
#[cfg_attr(docsrs, doc(cfg(feature = "files")))]
pub use self::files::{CodeFiles, Files};
#[cfg(all(unix, feature = "shell"))]
#[cfg_attr(docsrs, doc(cfg(feature = "shell")))]
pub use self::shell::{Bash, bash};
#[cfg(feature = "shell")]
#[cfg_attr(docsrs, doc(cfg(feature = "shell")))]
pub use self::shell::{make_undumpable, supervise};
