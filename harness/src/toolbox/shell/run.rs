//! Runs one command until it ends, is stopped, or has no time left, and keeps what it says.

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
    clipped::Clipped,
    group::{Group, Pipes, Spec},
};
use crate::tool::CancellationToken;

/// How much is read at once.
const PIECE: usize = 16 * 1024;
/// How much is still read from a pipe after the end: more than any pipe holds, and bounded, since
/// a process that has left the group may write for ever.
const LAST_WORDS: usize = 2 * 1024 * 1024;

/// What a command has written, so far or in all.
#[derive(Debug, Default)]
pub(super) struct Said {
    stdout: Mutex<Clipped>,
    stderr: Mutex<Clipped>,
}

impl Said {
    pub(super) fn is_empty(&self) -> bool {
        [&self.stdout, &self.stderr].iter().all(|heard| lock(heard).is_empty())
    }

    /// Both outputs, apart; `when` is said of each.
    pub(super) fn to_text(&self, when: &str) -> String {
        let outputs = [("stdout", &self.stdout), ("stderr", &self.stderr)];
        let texts = outputs.map(|(name, heard)| match lock(heard).to_text() {
            text if text.is_empty() => format!("{name}{when}: (nothing)"),
            text => format!("{name}{when}:\n{}", text.trim_end_matches('\n')),
        });
        texts.join("\n")
    }
}

fn lock(heard: &Mutex<Clipped>) -> MutexGuard<'_, Clipped> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a command ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// Nobody knows how: somebody else has taken the status, or killed who would have told it.
    Lost,
    /// It was ended at once, since who watches over it was killed.
    Unwatched,
    /// The time limit ran out.
    TimedOut,
    /// The token was cancelled.
    Stopped,
}

/// Runs a command. When this returns or is dropped, all that it has started is dead.
pub(super) async fn run(
    spec: &Spec<'_>,
    limit: Duration,
    stop: &CancellationToken,
    said: &Said,
) -> io::Result<End> {
    let (mut group, Pipes { stdout, stderr }) = Group::start(spec)?;
    let is_watched = group.watch().is_ok();
    let mut stdout = Listener { pipe: stdout, heard: &said.stdout };
    let mut stderr = Listener { pipe: stderr, heard: &said.stderr };

    let end = tokio::select! {
        // The end comes first: a command that has ended in time was not stopped.
        biased;
        () = std::future::ready(()), if !is_watched => End::Unwatched,
        status = group.ended() => status?.map_or(End::Lost, End::Exited),
        () = stop.cancelled() => End::Stopped,
        () = tokio::time::sleep(limit) => End::TimedOut,
        never = listen_to_both(&mut stdout, &mut stderr) => match never {},
    };
    group.close().await;
    group.end();
    // The pipes are read to their end after this, when they are dropped.
    Ok(end)
}

/// Reads as long as it is polled: closed pipes do not end a command.
async fn listen_to_both(
    stdout: &mut Listener<'_, ChildStdout>,
    stderr: &mut Listener<'_, ChildStderr>,
) -> std::convert::Infallible {
    tokio::join!(stdout.listen(), stderr.listen());
    std::future::pending().await
}

/// One pipe, and where what comes out of it is kept.
struct Listener<'s, P: AsFd> {
    pipe: P,
    heard: &'s Mutex<Clipped>,
}

impl<P: AsyncRead + AsFd + Unpin> Listener<'_, P> {
    /// Reads until the pipe is closed. Nothing that was read is lost when this is dropped.
    async fn listen(&mut self) {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = self.pipe.read(&mut piece).await {
            lock(self.heard).push(piece.get(..length).unwrap_or_default());
        }
    }
}

impl<P: AsFd> Drop for Listener<'_, P> {
    /// Reads what is in the pipe already and waits for nothing: a process that has left the group
    /// may keep the pipe open for ever.
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
