//! A run that is killed and goes on.
//!
//!     cargo run --example durable -- --journal FILE --ledger FILE
//!
//! The program is `examples/durable/durable.rs`. It is in a package of its own, so that the other examples
//! are built without SQLite; this one starts it in its place, with the same process id. The first start
//! builds it. So does each later start, since `cargo` within `cargo` finds another environment:
//! `cargo run -p harness-durable-examples --bin durable -- --journal FILE --ledger FILE` starts it at once.

use std::{
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("durable/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut program = Command::new(cargo);
    program.args(["run", "--bin", "durable", "--manifest-path"]).arg(manifest);
    program.arg("--").args(std::env::args_os().skip(1));
    // What cargo says to this program is not for the other one, and would have it built anew each time.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_")
            || name.to_string_lossy().starts_with("CARGO_MANIFEST_")
        {
            program.env_remove(name);
        }
    }
    let failed = become_it(program);
    let _ = writeln!(io::stderr(), "`cargo` cannot be started: {failed}");
    ExitCode::from(2)
}

/// Becomes the program: it has the id of this process, so that who kills this one kills it.
#[cfg(unix)]
fn become_it(mut program: Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(&mut program)
}

/// Runs the program and ends as it does.
#[cfg(not(unix))]
fn become_it(mut program: Command) -> io::Error {
    match program.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(failed) => failed,
    }
}
