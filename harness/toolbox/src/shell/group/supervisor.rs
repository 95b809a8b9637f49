//! The supervisor of a command: the program, started a second time.
//!
//! The supervisor runs one command with the given environment, and ends the command with all its processes. It has no
//! other task.

use std::{
    io,
    os::{
        fd::AsFd as _,
        unix::{net, process::CommandExt as _},
    },
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, setsid, wait},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    signal::unix::{self, SignalKind, signal},
};

use super::{
    order::{CommandOrder, SupervisorReport},
    processes,
};

/// The only argument of a supervisor.
pub(in super::super) const ARGUMENT: &str = "--harness-supervises-a-command";
/// The name of a supervisor in a list of processes. The name does not contain the command, so that a `pkill -f` inside
/// the command does not kill the supervisor.
pub(super) const NAME: &str = "harness-supervisor";

/// The number of checks whether all processes are dead: `AT_ONCE` checks without a pause, then one check a millisecond.
/// More checks are needed only if the system does not let a process die, or if a process belongs to another user.
const LOOKS: usize = 10_000;
const AT_ONCE: usize = 1_000;

/// Reads an order from standard input, which is a socket, and runs it. The command writes to the outputs of this
/// process.
pub(in super::super) fn be() -> ! {
    // The runtime gets a thread of its own, because the caller may be inside another runtime.
    let served = std::thread::Builder::new().spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve())
    });
    let served = served.map(std::thread::JoinHandle::join);
    std::process::exit(match served {
        Ok(Ok(Ok(()))) => 0,
        Ok(Ok(Err(err))) => {
            eprintln!("{NAME}: {err}; `{ARGUMENT}` is only for this program itself");
            2
        }
        Ok(Err(_)) | Err(_) => 2,
    })
}

async fn serve() -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let line = net::UnixStream::from(stdin);
    // Fails if standard input is no Unix socket.
    line.local_addr()?;
    line.set_nonblocking(true)?;
    let mut line = UnixStream::from_std(line)?;
    let mut deaths = signal(SignalKind::child())?;
    let mut told = PoliteSignals::listen()?;
    let order = CommandOrder::read(&mut line).await?;

    // This write fails if the program has closed the connection by now. Then no command is started.
    line.write_all(&SupervisorReport::Begins.to_bytes()).await?;
    let command = match start(order) {
        Ok(command) => command,
        Err(err) => {
            let invalid = Errno::INVAL.raw_os_error();
            let error = err.raw_os_error().unwrap_or(invalid);
            return line.write_all(&SupervisorReport::NotStarted(error).to_bytes()).await;
        }
    };
    let status = loop {
        tokio::select! {
            biased;
            _ = deaths.recv() => {
                if let (Some(status), _) = reap(command) {
                    break Some(status);
                }
            }
            // The program sends nothing more, so this read ends when the program closes the connection or dies.
            _ = line.read_u8() => break None,
            () = told.received() => break None,
        }
    };
    end_all(command);
    if let Some(status) = status {
        let _ = line.write_all(&SupervisorReport::Ended(status).to_bytes()).await;
    }
    Ok(())
}

fn start(order: CommandOrder) -> io::Result<Pid> {
    // A descendant that loses its parent becomes a child of this process.
    set_child_subreaper(Some(getpid()))?;
    // The new session has no terminal. So the command gets no keys that a person presses, and cannot use the terminal.
    setsid()?;
    let CommandOrder { folder, command, variables } = order;
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(command).env_clear().envs(variables).stdin(Stdio::null());
    if let Some(folder) = folder {
        bash.current_dir(folder);
    }
    // The command gets its own group, so that `kill 0` in the command does not reach this process.
    Ok(Pid::from_child(&bash.process_group(0).spawn()?))
}

/// Reaps dead children. Returns the status of the command, if the command is one of these children, and whether any
/// child is left.
fn reap(command: Pid) -> (Option<i32>, bool) {
    let mut status = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) if pid == command => status = Some(ended.as_raw()),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return (status, true),
            Err(_) => return (status, false),
        }
    }
}

/// Kills all living descendants of this process, until there are none.
fn end_all(command: Pid) {
    let me = getpid();
    for look in 0..LOOKS {
        let (_, anybody) = reap(command);
        if !anybody {
            return;
        }
        if look == 0 {
            processes::end_all(|| processes::below(me));
            continue;
        }
        // There are two reasons why a process still lives. Either its parent was killed, or the process replaces itself
        // by a child before it can be seen. If the parent was killed, the process is now a child of this process. Its
        // id cannot be reused before this process reaps it.
        match processes::children(me) {
            Some(children) => {
                let kill = |child| kill_process(child, Signal::KILL) == Err(Errno::PERM);
                let refused = children.iter().filter(|child| kill(**child)).count();
                // This process must not kill a process of another user.
                if refused > 0 && refused == children.len() {
                    return;
                }
            }
            None => processes::end_all(|| processes::below(me)),
        }
        if look > AT_ONCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The signals that ask a process to end. After such a signal, the supervisor ends all its descendants and then itself.
struct PoliteSignals([unix::Signal; 4]);

impl PoliteSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn received(&mut self) {
        let Self([terminate, interrupt, hang_up, quit]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
            _ = quit.recv() => {}
        }
    }
}
