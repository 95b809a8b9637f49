//! What all examples do as programs: `--help`, exit codes, errors on one line, and an output whose
//! reader has closed it. This file is not a part of the library.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{ErrorKind, policy::visible};

/// The exit code of an example: the one that it returns, 1 if it failed, 2 if its arguments or its
/// environment are wrong. An error is printed on one line. A closed output, as behind `| head`, is
/// not an error.
pub(crate) fn ended(ended: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match ended {
        Ok(code) => return code,
        Err(error) => error,
    };
    // Only an error of the output itself is an `io::Error` at the top: one of a connection is the
    // source of another error.
    let output = error.downcast_ref::<io::Error>();
    if output.is_some_and(|err| err.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // `eprintln!` panics where the output is closed.
    let _ = writeln!(io::stderr(), "{}", visible(&told(&error)));
    let error = error.downcast_ref::<harness::Error>();
    let not_set_up = error.is_some_and(harness::Error::is_configuration);
    ExitCode::from(if not_set_up { 2 } else { 1 })
}

/// The error and its causes on one line, up to the first text that already names the last cause: the
/// errors of the library name it themselves.
fn told(error: &anyhow::Error) -> String {
    let last = error.root_cause().to_string();
    let mut told = String::new();
    for cause in error.chain() {
        if !told.is_empty() {
            told += ": ";
        }
        told += &cause.to_string();
        if told.contains(&last) {
            break;
        }
    }
    told.replace('\n', " ")
}

/// Prints the help if the arguments ask for it, and returns whether they do.
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

/// The arguments of the program.
///
/// # Errors
/// Fails if one of them is not UTF-8.
pub(crate) fn arguments() -> anyhow::Result<Vec<String>> {
    let text = |given: OsString| {
        given.into_string().map_err(|given| wrong(format!("the argument {given:?} is not UTF-8")))
    };
    std::env::args_os().skip(1).map(text).collect()
}

/// The error of wrong arguments, which ends the program with exit code 2.
pub(crate) fn wrong(text: impl Into<String>) -> anyhow::Error {
    harness::Error::new(ErrorKind::Configuration, text.into()).into()
}
