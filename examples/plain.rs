//! What all examples without arguments do as programs: `--help`, exit codes, and errors on one line.

#[path = "program.rs"]
mod program;

use std::{future::Future, process::ExitCode};

/// Runs an example that takes no arguments.
pub(crate) async fn ended(usage: &str, run: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    program::ended(started(usage, run).await)
}

async fn started(
    usage: &str,
    run: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<ExitCode> {
    if program::helps(usage)? {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(given) = program::arguments()?.first() {
        return Err(program::wrong(format!("`{given}` is unknown; expected nothing or `--help`")));
    }
    run.await?;
    Ok(ExitCode::SUCCESS)
}
