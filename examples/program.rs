//! What the examples have in common as programs: `--help`, exit codes, errors in one line, and a
//! reader of the output that has gone away. It is no part of the library.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{ErrorKind, policy::visible};

/// The exit code of an example: 0 or what it gives itself, 1 if it failed, 2 if it is not set up. An
/// error is told on one line. When the output is closed, as by `| head`, nobody is there to be told,
/// so that is no error.
pub(crate) fn ended(ended: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match ended {
        Ok(code) => return code,
        Err(error) => error,
    };
    // Only an error of the output itself: one of a connection lies inside of another error.
    let output = error.downcast_ref::<io::Error>();
    if output.is_some_and(|err| err.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // `eprintln!` panics where the output is closed.
    let told = format!("{error:#}").replace('\n', " ");
    let _ = writeln!(io::stderr(), "{}", visible(&told));
    let error = error.downcast_ref::<harness::Error>();
    let not_set_up = error.is_some_and(harness::Error::is_configuration);
    ExitCode::from(if not_set_up { 2 } else { 1 })
}

/// Whether help is wanted, which is then shown.
///
/// # Errors
/// Fails if the output is closed.
pub(crate) fn helps(usage: &str) -> io::Result<bool> {
    let wanted = std::env::args_os().skip(1).any(|given| given == "--help" || given == "-h");
    if wanted {
        writeln!(io::stdout(), "{usage}")?;
    }
    Ok(wanted)
}

/// What was given to the program.
///
/// # Errors
/// Fails if it is no text.
pub(crate) fn arguments() -> anyhow::Result<Vec<String>> {
    let text = |given: OsString| {
        given.into_string().map_err(|given| wrong(format!("the argument {given:?} is not UTF-8")))
    };
    std::env::args_os().skip(1).map(text).collect()
}

/// What is wrong with the arguments of the program.
pub(crate) fn wrong(text: impl Into<String>) -> anyhow::Error {
    harness::Error::new(ErrorKind::Configuration, text.into()).into()
}
