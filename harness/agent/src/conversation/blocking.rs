//! Runs without a runtime of the program: they block the thread.

use crate::{Agent, Chat, Outcome, Reply, Run, Stopped, run::outcome::RunRecord};
use harness_core::{
    error::{Error, ErrorKind},
    message::Message,
};

impl Agent {
    /// Runs one task to its end and blocks this thread meanwhile. Use it in scripts without a
    /// runtime.
    ///
    /// # Errors
    /// Fails as [`run`](Self::run) does. Fails at once if it is called inside a running runtime,
    /// because it would block a thread of that runtime, and if no runtime can be started.
    pub fn run_blocking(&self, message: impl Into<Message>) -> Result<Reply, Stopped> {
        block_on(self.run(message), "`run_blocking`", "`agent.run(..).await`")
    }
}

impl Chat {
    /// Sends what the user says, as [`send`](Self::send) does, and blocks this thread until the reply. Use it in
    /// scripts without a runtime.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// let model = ScriptedProvider::new([reply().text("Hello."), reply().text("Oslo.")]);
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// assert_eq!(chat.send_blocking("Hello!")?.text(), "Hello.");
    /// assert_eq!(chat.send_blocking("Where are you?")?.text(), "Oslo.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails as [`send`](Self::send) does. Fails at once, and nothing is said, if it is called inside a running
    /// runtime, because it would block a thread of that runtime, and if no runtime can be started.
    pub fn send_blocking(&mut self, message: impl Into<Message>) -> Result<Reply, Stopped> {
        block_on(self.send(message), "`send_blocking`", "`chat.send(..).await`")
    }
}

/// Drives a run on a runtime of its own. `name` is the method that blocks, `instead` the one for a program with a
/// runtime.
fn block_on(run: Run<'_>, name: &str, instead: &str) -> Result<Reply, Stopped> {
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
        failed(Error::new(ErrorKind::Configuration, "no runtime could be started").because(err))
    })?;
    let ended = runtime.block_on(async { run.await });
    // A blocking tool may still run on its own thread; `tool::still_running` lists it.
    runtime.shutdown_background();
    ended
}
