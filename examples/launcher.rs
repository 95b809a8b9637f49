//! Replaces the process of an example by a program of the package `durable`, with the same process id and
//! the same arguments. Only that package is built with SQLite; the other examples are built without it.
//! The first start builds the program.

use std::{
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
};

/// Becomes this program of the package `durable`; returns only if that fails.
pub(crate) fn start(name: &str) -> ExitCode {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("durable/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut program = Command::new(cargo);
    program.args(["run", "--bin", name, "--manifest-path"]).arg(manifest);
    program.arg("--").args(std::env::args_os().skip(1));
    // Cargo's variables of this program would make cargo build the other one again each time.
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

/// Becomes the program, which keeps the id of this process, so that a kill reaches it.
#[cfg(unix)]
fn become_it(mut program: Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(&mut program)
}

/// Runs the program and ends with its exit code.
#[cfg(not(unix))]
fn become_it(mut program: Command) -> io::Error {
    match program.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(failed) => failed,
    }
}
