//! Lists the processes of this machine from `/proc`, and ends a set of processes. Processes that this set starts
//! meanwhile are also ended.

use std::{collections::HashSet, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

use super::LOOKS;

/// The maximum number of searches for new processes. More searches would not find a process that replaces itself by a
/// child during each search.
const ROUNDS: usize = 32;

/// A process, with its data at the time of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SystemProcess {
    pub(super) pid: Pid,
    parent: i32,
    pub(super) group: i32,
    session: i32,
    /// The start time, in ticks of the system. A process id may be reused, but not together with the same start time.
    started: u64,
}

impl SystemProcess {
    /// Reads a process. Returns `None` if the process does not exist, or is dead and not yet reaped.
    pub(super) fn look_at(pid: Pid) -> Option<Self> {
        parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    pub(super) fn id(&self) -> i32 {
        Pid::as_raw(Some(self.pid))
    }

    /// Sends the signal, unless the id belongs to another process by now.
    fn signal(self, signal: Signal) {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            // The opened handle always refers to the same process.
            Ok(opened) if self.is_still_there() => pidfd_send_signal(&opened, signal),
            Err(Errno::NOSYS) if self.is_still_there() => kill_process(self.pid, signal),
            Ok(_) | Err(_) => return,
        };
        // Sending fails if the process has ended or belongs to another user, such as one started by `sudo`.
        let _ = sent;
    }

    fn is_still_there(self) -> bool {
        Self::look_at(self.pid).is_some_and(|now| now.started == self.started)
    }
}

/// All living processes that were started at the time `since` or later, in ticks.
pub(super) fn all(since: u64) -> Vec<SystemProcess> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter_map(SystemProcess::look_at)
        .filter(|process| process.started >= since)
        .collect()
}

/// The start time of a process in ticks, or 0 if the process does not exist.
pub(super) fn started(pid: Pid) -> u64 {
    SystemProcess::look_at(pid).map_or(0, |process| process.started)
}

/// The state of a process, as the letter of the system; `None` if the process does not exist.
pub(super) fn state(pid: Pid) -> Option<u8> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    stat.get(memchr::memrchr(b')', &stat)? + 2).copied()
}

/// Whether `/proc` exists and shows at least this process.
pub(super) fn can_be_seen() -> bool {
    SystemProcess::look_at(rustix::process::getpid()).is_some()
}

/// Parses `/proc/PID/stat`: id, name in parentheses, state, parent, group, session, .., start time.
fn parse(pid: Pid, stat: &[u8]) -> Option<SystemProcess> {
    // The name may contain any bytes, including parentheses and line breaks.
    let after_name = memchr::memrchr(b')', stat)? + 1;
    let fields = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let started = fields.nth(15)?.parse().ok()?;
    Some(SystemProcess { pid, parent, group, session, started })
}

/// Adds all descendants to `found`. No process can join the session of another process. So if a found process has
/// started a session, all processes of this session are its descendants, even if they have lost their parents. The
/// calling process is never added.
pub(super) fn add_descendants(found: &mut Vec<SystemProcess>, all: &[SystemProcess]) {
    let me = rustix::process::getpid();
    let mut ids: HashSet<i32> = found.iter().map(|process| process.id()).collect();
    let mut sessions: HashSet<i32> = found.iter().map(|process| process.session).collect();
    // In a container, session 0 contains all processes that were started outside of the container. So a process in
    // session 0 may be no descendant.
    let not_theirs = [0, SystemProcess::look_at(me).map_or(0, |me| me.session)];
    loop {
        for session in not_theirs {
            sessions.remove(&session);
        }
        let before = found.len();
        for process in all {
            let is_theirs = ids.contains(&process.parent) || sessions.contains(&process.session);
            if is_theirs && process.pid != me && ids.insert(process.id()) {
                found.push(*process);
            }
        }
        let Some(new) = found.get(before..).filter(|new| !new.is_empty()) else { return };
        sessions.extend(new.iter().map(|process| process.session));
    }
}

/// All living descendants of a process, without the process itself.
pub(super) fn below(top: Pid) -> Vec<SystemProcess> {
    let mut parents = vec![top];
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        let Some(children) = children(parent) else { return below_by_scan(top) };
        parents.extend(&children);
        found.extend(children.into_iter().filter_map(SystemProcess::look_at));
    }
    found
}

fn below_by_scan(top: Pid) -> Vec<SystemProcess> {
    let all = all(started(top));
    let mut found = all.iter().filter(|process| process.pid == top).copied().collect();
    add_descendants(&mut found, &all);
    found.retain(|process| process.pid != top);
    found
}

/// The children of a process, including dead ones; empty if the process is gone. `None` if the kernel cannot list
/// children.
pub(super) fn children(parent: Pid) -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten()
    {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(ids) => {
                let ids = ids.split_ascii_whitespace().filter_map(|id| id.parse().ok());
                children.extend(ids.filter_map(Pid::from_raw));
            }
            // The file of this thread cannot be read. If the thread still exists, the kernel cannot list children.
            Err(_) if thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

/// Kills every process that `find` returns, and calls `find` again until it returns no new process. Then waits until
/// all killed processes are dead.
///
/// All processes are stopped before the first process is killed, because a stopped process cannot start another
/// process. As long as no parent is dead, `find` can reach each child through its parent.
pub(super) fn end_all(mut find: impl FnMut() -> Vec<SystemProcess>) {
    let mut known = HashSet::new();
    let mut stopped = Vec::new();
    let mut killed = Vec::new();
    for _ in 0..ROUNDS {
        let mut new = find();
        new.retain(|process| known.insert((process.id(), process.started)));
        new.iter().for_each(|process| process.signal(Signal::STOP));
        if new.is_empty() && stopped.is_empty() {
            break;
        }
        if new.is_empty() {
            stopped.iter().for_each(|process: &SystemProcess| process.signal(Signal::KILL));
            killed.append(&mut stopped);
        }
        stopped.append(&mut new);
    }
    stopped.iter().for_each(|process| process.signal(Signal::KILL));
    killed.append(&mut stopped);
    // A signal takes effect some time after it was sent. It has no effect on a process of another user, such as one
    // started by `sudo`.
    for _ in 0..LOOKS {
        killed.retain(|process| process.is_still_there());
        if killed.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_anything_in_it_is_no_field() {
        let pid = Pid::from_raw(7).unwrap();
        let rest = "S 3 7 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2 3";
        for name in ["sleep", "a b", ") S 1 1 1", "a\n) Z 9 (", "\u{ff}"] {
            let process = parse(pid, format!("7 ({name}) {rest}\n").as_bytes()).unwrap();
            assert_eq!((process.parent, process.group, process.session), (3, 7, 5), "{name:?}");
            assert_eq!(process.started, 4242, "{name:?}");
        }
        for dead in ["Z", "X"] {
            assert_eq!(parse(pid, format!("7 (a) {dead}{}", &rest[1..]).as_bytes()), None);
        }
        for broken in ["", "7", "7 (a)", "7 (a) S 3", "7 (a) S x 7 5"] {
            assert_eq!(parse(pid, broken.as_bytes()), None, "{broken:?}");
        }
    }

    fn process(id: i32, parent: i32, session: i32) -> SystemProcess {
        SystemProcess { pid: Pid::from_raw(id).unwrap(), parent, group: id, session, started: 1 }
    }

    #[test]
    fn descendants_are_found_by_parents_and_by_sessions_of_their_own() {
        let mine = SystemProcess::look_at(rustix::process::getpid()).unwrap();
        // All process ids are less than this number.
        let base = 1 << 28;
        let all = [
            mine,
            process(base + 5, base + 4, mine.session),
            process(base + 4, base + 1, mine.session),
            process(base + 1, mine.id(), mine.session),
            // The first process has started a session. The second process in this session has lost its parent. The
            // third process is a child of the second process, and has started its own session.
            process(base + 2, base + 1, base + 2),
            process(base + 3, 1, base + 2),
            process(base + 6, base + 3, base + 6),
            // Unrelated processes: one in the session of the program, one in session 0, and one in its own session.
            process(base + 7, 1, mine.session),
            process(base + 8, 1, 0),
            process(base + 9, 1, base + 9),
        ];
        let mut found = vec![all[3]];
        add_descendants(&mut found, &all);
        let mut ids: Vec<i32> = found.iter().map(|process| process.id() - base).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    }
}
