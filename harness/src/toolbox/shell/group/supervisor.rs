//! A command below a supervisor: the supervisor, which is the program started again.
//!
//! It does what a shell would do for whoever starts it, and nothing more: it runs one command with
//! the environment that it is told, and ends it.

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
    order::{Order, Report},
    processes,
};

/// Its one argument.
pub(in super::super) const ARGUMENT: &str = "--harness-supervises-a-command";
/// What it is called in a list of processes: the command's words do not stand there, so that a
/// `pkill -f` inside of the command does not hit it.
pub(super) const NAME: &str = "harness-supervisor";

/// How often is looked whether all are dead: at first without a pause, then a millisecond apart. It
/// takes long only where the system does not let a process die, or it is somebody else's.
const LOOKS: usize = 10_000;
const AT_ONCE: usize = 1_000;

/// Reads an order from the standard input, a socket, and runs it. What the command writes goes to
/// the outputs of this process.
pub(in super::super) fn be() -> ! {
    // A runtime in a thread of its own, since the caller may be inside of one.
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
    // It fails if it is anything but a Unix socket.
    line.local_addr()?;
    line.set_nonblocking(true)?;
    let mut line = UnixStream::from_std(line)?;
    let mut deaths = signal(SignalKind::child())?;
    let mut told = Told::listen()?;
    let order = Order::read(&mut line).await?;

    // Who has hung up by now gets no command.
    line.write_all(&Report::Begins.to_bytes()).await?;
    let command = match start(order) {
        Ok(command) => command,
        Err(err) => {
            let invalid = Errno::INVAL.raw_os_error();
            let error = err.raw_os_error().unwrap_or(invalid);
            return line.write_all(&Report::NotStarted(error).to_bytes()).await;
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
            // The program says nothing more: it hangs up, or has died.
            _ = line.read_u8() => break None,
            () = told.received() => break None,
        }
    };
    end_all(command);
    if let Some(status) = status {
        let _ = line.write_all(&Report::Ended(status).to_bytes()).await;
    }
    Ok(())
}

fn start(order: Order) -> io::Result<Pid> {
    // Whoever loses its parent below here is a child of this process from then on.
    set_child_subreaper(Some(getpid()))?;
    // No key at the terminal reaches the command, and it does not reach the terminal.
    setsid()?;
    let Order { folder, command, variables } = order;
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(command).env_clear().envs(variables).stdin(Stdio::null());
    if let Some(folder) = folder {
        bash.current_dir(folder);
    }
    // A group of its own: `kill 0` in the command does not reach this process.
    Ok(Pid::from_child(&bash.process_group(0).spawn()?))
}

/// Takes the dead. The status is the command's if it is among them; the other value says whether
/// anybody is left.
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

/// Kills all that lives below this process, until there is nobody.
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
        // Who lives on has lost its parent to one that was killed, or gives way to a child of its
        // own before one can look at it. Whoever has lost its parent is a child of this process,
        // and its id cannot be another's before it is reaped here.
        match processes::children(me) {
            Some(children) => {
                let kill = |child| kill_process(child, Signal::KILL) == Err(Errno::PERM);
                let refused = children.iter().filter(|child| kill(**child)).count();
                // What another user has is not this one's to kill.
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

/// The signals that politely ask a process to end. For this one they mean: with all that is below.
struct Told([unix::Signal; 4]);

impl Told {
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
