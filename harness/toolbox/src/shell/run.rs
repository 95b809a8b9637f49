//! Runs one command until it ends, is stopped, or reaches its time limit, and keeps its output.

use std::{
    io,
    os::fd::AsFd,
    process::ExitStatus,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStderr, ChildStdout},
};

use super::{
    clipped_output::ClippedOutput,
    group::{CommandSpec, OutputPipes, ProcessGroup},
};
use harness_core::{secret::CUT, tool::CancellationToken};

/// The number of bytes that are read at once.
const PIECE: usize = 16 * 1024;
/// The number of bytes that are still read from a pipe after the end. It is more than any pipe holds, and bounded,
/// since a process that has left the group may write for ever.
const LAST_WORDS: usize = 2 * 1024 * 1024;

/// The output of a command, so far or in all.
#[derive(Debug, Default)]
pub(super) struct CommandOutput {
    stdout: Mutex<ClippedOutput>,
    stderr: Mutex<ClippedOutput>,
}

impl CommandOutput {
    pub(super) fn is_empty(&self) -> bool {
        [&self.stdout, &self.stderr].iter().all(|heard| lock(heard).is_empty())
    }

    /// Both outputs, separately; `when` is added to the name of each if there may be more to come. A line that is not at
    /// its end is then marked as cut, so that the beginning of a secret is taken out there, too.
    pub(super) fn to_text(&self, when: &str) -> String {
        let outputs = [("stdout", &self.stdout), ("stderr", &self.stderr)];
        let texts = outputs.map(|(name, heard)| match lock(heard).to_text() {
            text if text.is_empty() => format!("{name}{when}: (nothing)"),
            text if when.is_empty() || text.ends_with('\n') => {
                format!("{name}{when}:\n{}", text.trim_end_matches('\n'))
            }
            text => format!("{name}{when}:\n{text}{CUT}"),
        });
        texts.join("\n")
    }
}

fn lock(heard: &Mutex<ClippedOutput>) -> MutexGuard<'_, ClippedOutput> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a command ended.
#[derive(Debug)]
pub(super) enum CommandEnd {
    /// By itself.
    Exited(ExitStatus),
    /// It is unknown how: another process has taken the status, or killed the supervisor.
    Lost,
    /// It was ended at once, since its watchdog was killed.
    Unwatched,
    /// The time limit ran out.
    TimedOut,
    /// The token was cancelled.
    Stopped,
}

/// Runs a command. When this returns or is dropped, everything that the command has started is dead.
pub(super) async fn run(
    spec: &CommandSpec<'_>,
    limit: Duration,
    stop: &CancellationToken,
    said: &CommandOutput,
) -> io::Result<CommandEnd> {
    let (mut group, OutputPipes { stdout, stderr }) = ProcessGroup::start(spec)?;
    let is_watched = group.watch().is_ok();
    let mut stdout = PipeReader { pipe: stdout, heard: &said.stdout };
    let mut stderr = PipeReader { pipe: stderr, heard: &said.stderr };

    let end = tokio::select! {
        // The end is checked first: a command that has ended in time was not stopped.
        biased;
        () = std::future::ready(()), if !is_watched => CommandEnd::Unwatched,
        status = group.ended() => status?.map_or(CommandEnd::Lost, CommandEnd::Exited),
        () = stop.cancelled() => CommandEnd::Stopped,
        () = tokio::time::sleep(limit) => CommandEnd::TimedOut,
        never = listen_to_both(&mut stdout, &mut stderr) => match never {},
    };
    group.close().await;
    group.end();
    // The rest in the pipes is read after this, when they are dropped.
    Ok(end)
}

/// Reads as long as it is polled: closed pipes do not end the command.
async fn listen_to_both(
    stdout: &mut PipeReader<'_, ChildStdout>,
    stderr: &mut PipeReader<'_, ChildStderr>,
) -> std::convert::Infallible {
    tokio::join!(stdout.listen(), stderr.listen());
    std::future::pending().await
}

/// A pipe, and the place where its bytes are kept.
struct PipeReader<'s, P: AsFd> {
    pipe: P,
    heard: &'s Mutex<ClippedOutput>,
}

impl<P: AsyncRead + AsFd + Unpin> PipeReader<'_, P> {
    /// Reads until the pipe is closed. Nothing that was read is lost when this is dropped.
    async fn listen(&mut self) {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = self.pipe.read(&mut piece).await {
            lock(self.heard).push(piece.get(..length).unwrap_or_default());
        }
    }
}

impl<P: AsFd> Drop for PipeReader<'_, P> {
    /// Reads what is already in the pipe, without waiting: a process that has left the group may keep the pipe open
    /// for ever.
    fn drop(&mut self) {
        let mut piece = vec![0; PIECE];
        let mut left = LAST_WORDS;
        while left > 0 {
            match rustix::io::read(&self.pipe, &mut piece) {
                Ok(length @ 1..) => {
                    lock(self.heard).push(piece.get(..length).unwrap_or_default());
                    left = left.saturating_sub(length);
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
    }
}
