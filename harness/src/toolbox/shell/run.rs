//! Runs one command until it ends, is stopped, or has no time left, and keeps what it says.

use std::{
    io,
    os::fd::AsFd,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStderr, ChildStdout},
};

use super::{clipped::Clipped, group::Group};
use crate::tool::CancellationToken;

/// How much is read at once.
const PIECE: usize = 16 * 1024;
/// How much is still read from a pipe after the end: more than any pipe holds, and bounded, since
/// a process that has left the group may write for ever.
const LAST_WORDS: usize = 2 * 1024 * 1024;

/// What became of a command.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) end: End,
    pub(super) stdout: Clipped,
    pub(super) stderr: Clipped,
}

/// Why it ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself; without a status if somebody else has taken it.
    Exited(Option<ExitStatus>),
    /// The time limit ran out.
    TimedOut,
    /// The token was cancelled.
    Stopped,
}

/// Runs the command in `folder`, or in the program's own. When this returns or is dropped, the
/// process group is dead.
pub(super) async fn run(
    command: &str,
    folder: Option<&Path>,
    limit: Duration,
    stop: &CancellationToken,
) -> io::Result<Finished> {
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = folder {
        bash.current_dir(folder);
    }
    let mut group = Group::spawn(&mut bash)?;
    let leader = group.leader();
    let (Some(stdout), Some(stderr)) = (leader.stdout.take(), leader.stderr.take()) else {
        return Err(io::Error::other("the process has no pipes"));
    };
    let mut stdout = Listener::new(ChildStdout::from_std(stdout)?);
    let mut stderr = Listener::new(ChildStderr::from_std(stderr)?);

    let end: fn(Option<ExitStatus>) -> End = tokio::select! {
        // The end comes first: a command that has ended in time was not stopped.
        biased;
        () = group.leader_ended() => End::Exited,
        () = stop.cancelled() => |_| End::Stopped,
        () = tokio::time::sleep(limit) => |_| End::TimedOut,
        never = listen_to_both(&mut stdout, &mut stderr) => match never {},
    };
    let end = end(group.end());
    Ok(Finished { end, stdout: stdout.last_words(), stderr: stderr.last_words() })
}

/// Reads as long as it is polled: closed pipes do not end a command.
async fn listen_to_both(
    stdout: &mut Listener<ChildStdout>,
    stderr: &mut Listener<ChildStderr>,
) -> std::convert::Infallible {
    tokio::join!(stdout.listen(), stderr.listen());
    std::future::pending().await
}

/// One pipe and what came out of it.
struct Listener<P> {
    pipe: P,
    heard: Clipped,
}

impl<P: AsyncRead + AsFd + Unpin> Listener<P> {
    fn new(pipe: P) -> Self {
        Self { pipe, heard: Clipped::default() }
    }

    /// Reads until the pipe is closed. Nothing that was read is lost when this is dropped.
    async fn listen(&mut self) {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = self.pipe.read(&mut piece).await {
            self.heard.push(piece.get(..length).unwrap_or_default());
        }
    }

    /// Reads what is in the pipe already and waits for nothing: a process that has left the group
    /// may keep the pipe open for ever.
    fn last_words(mut self) -> Clipped {
        let mut piece = vec![0; PIECE];
        let mut left = LAST_WORDS;
        while left > 0 {
            match rustix::io::read(&self.pipe, &mut piece) {
                Ok(length @ 1..) => {
                    self.heard.push(piece.get(..length).unwrap_or_default());
                    left = left.saturating_sub(length);
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.heard
    }
}
