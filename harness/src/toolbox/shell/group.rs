//! A process and all that it starts, as one thing that ends.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::signal::unix::{SignalKind, signal};

#[cfg(target_os = "linux")]
use super::mark::{self, Mark};

/// How often a killed process is looked at before it is left alone, a millisecond apart.
const LOOKS: usize = 100;

/// A process that leads a group of its own. When it is dropped, the group is killed and the
/// leader reaped.
///
/// Who leaves the group is found by its [`Mark`] on Linux, and not found elsewhere.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    #[cfg(target_os = "linux")]
    mark: Mark,
    ended: bool,
}

impl Group {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let mark = Mark::new();
        #[cfg(target_os = "linux")]
        command.env(mark::VARIABLE, mark.value());
        let leader = command.process_group(0).spawn()?;
        let id = Pid::from_child(&leader);
        Ok(Self {
            leader,
            id,
            #[cfg(target_os = "linux")]
            mark,
            ended: false,
        })
    }

    pub(super) fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// Waits until the leader has ended. It is not reaped by this: its id stays taken, so that the
    /// group of this id cannot be somebody else's.
    pub(super) async fn leader_ended(&self) {
        // Listening begins before the first look, so no end is missed.
        let mut child_ended = signal(SignalKind::child()).ok();
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error says that there is no such child any more: somebody else has reaped it.
        while let Ok(None) = waitid(WaitId::Pid(self.id), look) {
            match &mut child_ended {
                Some(child_ended) => _ = child_ended.recv().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Kills what is left of the group and reaps the leader. The status is missing if somebody
    /// else has reaped it, or if the kernel does not let it die.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        if !self.ended {
            self.ended = true;
            // It fails only if nobody is left.
            let _ = kill_process_group(self.id, Signal::KILL);
            #[cfg(target_os = "linux")]
            self.mark.kill_all();
        }
        for _ in 0..LOOKS {
            match self.leader.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}
