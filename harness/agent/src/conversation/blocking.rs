//! Runs that block the thread, for programs without a runtime.

use crate::{Outcome, Reply, Run, Stopped, run::reply::RunRecord};
use harness_core::error::{Error, ErrorKind};

/// Drives a run on a runtime of its own. `name` is the method that blocks, for error messages. `instead` is the
/// method for a program that has a runtime.
pub(crate) fn block_on(run: Run<'_>, name: &str, instead: &str) -> Result<Reply, Stopped> {
    let failed = |error| Stopped::new(Outcome::Failed, Some(error), None, RunRecord::default());
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(failed(Error::new(
            ErrorKind::Configuration,
            format!(
                "{name} was called inside a running runtime, whose thread it would block; use {instead} there"
            ),
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| {
        failed(Error::new(ErrorKind::Configuration, "no runtime could be started").with_source(err))
    })?;
    let ended = runtime.block_on(async { run.await });
    // A blocking tool may still run on its own thread; `tool::still_running` lists it.
    runtime.shutdown_background();
    ended
}
