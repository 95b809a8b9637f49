//! Runs one command until it ends, is stopped, or reaches its time limit, and collects its output.

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
/// The maximum number of bytes that are read from a pipe after the end of the command. A pipe never contains this many
/// bytes. But a process that has left the group may write for ever.
const LAST_WORDS: usize = 2 * 1024 * 1024;

/// The output of a command that runs or has ended.
#[derive(Debug, Default)]
pub(super) struct CommandOutput {
    stdout: Mutex<ClippedOutput>,
    stderr: Mutex<ClippedOutput>,
}

impl CommandOutput {
    pub(super) fn is_empty(&self) -> bool {
        [&self.stdout, &self.stderr].iter().all(|heard| lock(heard).is_empty())
    }

    /// Both outputs as text. While more output may follow, `when` is not empty. Then `when` is appended to the name of
    /// each output, and an incomplete last line gets the mark `CUT`. The code that removes secrets recognizes the
    /// beginning of a secret by this mark.
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

/// How a command has ended.
#[derive(Debug)]
pub(super) enum CommandEnd {
    /// The command has exited.
    Exited(ExitStatus),
    /// The exit status is unknown: another process has reaped the command, or killed the supervisor.
    Lost,
    /// The command was ended at once, because its watchdog was killed.
    Unwatched,
    /// The command has reached its time limit.
    TimedOut,
    /// The call was cancelled.
    Stopped,
}

/// Runs a command. When the future completes or is dropped, everything that the command has started is dead.
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
        // The end is checked first, so that a command that has ended in time does not count as stopped.
        biased;
        () = std::future::ready(()), if !is_watched => CommandEnd::Unwatched,
        status = group.ended() => status?.map_or(CommandEnd::Lost, CommandEnd::Exited),
        () = stop.cancelled() => CommandEnd::Stopped,
        () = tokio::time::sleep(limit) => CommandEnd::TimedOut,
        never = listen_to_both(&mut stdout, &mut stderr) => match never {},
    };
    group.close().await;
    group.end();
    // The rest of the output is read when the pipes are dropped.
    Ok(end)
}

/// Reads both pipes while polled. The future never completes, because a command can continue after closing its pipes.
async fn listen_to_both(
    stdout: &mut PipeReader<'_, ChildStdout>,
    stderr: &mut PipeReader<'_, ChildStderr>,
) -> std::convert::Infallible {
    tokio::join!(stdout.listen(), stderr.listen());
    std::future::pending().await
}

/// A pipe, and the buffer for its bytes.
struct PipeReader<'s, P: AsFd> {
    pipe: P,
    heard: &'s Mutex<ClippedOutput>,
}

impl<P: AsyncRead + AsFd + Unpin> PipeReader<'_, P> {
    /// Reads until the pipe is closed. Dropping this future loses no bytes.
    async fn listen(&mut self) {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = self.pipe.read(&mut piece).await {
            lock(self.heard).push(piece.get(..length).unwrap_or_default());
        }
    }
}

impl<P: AsFd> Drop for PipeReader<'_, P> {
    /// Reads what is in the pipe, without waiting, because a process that has left the group may keep the pipe open for
    /// ever.
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
