//! Two functions that a program calls in the first lines of its `main`. `supervise` turns on the supervision of
//! commands. `make_undumpable` hides the environment and the memory of the program from its commands.

use harness_core::error::{Error, ErrorKind};

/// Turns on the supervision of all commands of this program. Supervised commands end when the program ends and when the
/// call is stopped. Every program that uses `bash` or `Bash` should call this function once, in the first line of
/// `main`:
///
/// ```no_run
/// use harness::{toolbox::bash, tools};
///
/// #[tokio::main]
/// async fn main() {
///     harness::toolbox::supervise();
///     let tools = tools![bash];
///     // ..
/// }
/// ```
///
/// From then on, [`bash`](fn@super::bash) and [`Bash`](super::Bash) start this program a second time for each command,
/// with an empty environment and one argument. The second process runs `main` up to this line and never returns from
/// it: it becomes the supervisor of the command. The command is a child of the supervisor. If a descendant of the
/// command loses its parent, it also becomes a child of the supervisor. The supervisor learns from a socket that the
/// program stops the command or has died. The supervisor then stops and kills all its descendants, and ends.
///
/// Returns whether commands are supervised. Returns `false` and changes nothing if the system is not Linux or has no
/// `/proc` that shows the processes: commands then run as without this call. A program that must not run unsupervised
/// commands should refuse to start:
///
/// ```no_run
/// assert!(harness::toolbox::supervise(), "commands cannot be supervised on this system");
/// ```
///
/// # What ends when
///
/// These tables are valid on Linux with `/proc`, for commands that run as the same user as the program, root or not.
/// *Ends* means that no such process lives when the call returns its result, or a moment after the program has died.
/// *With* and *without* refer to the line that calls `supervise`.
///
/// | what the command starts | a stop, with the line | without | `kill -9` of the program, with | without |
/// |---|---|---|---|---|
/// | a child in the background | ends | ends | ends | ends |
/// | `timeout`, a job of `set -m` | ends | ends | ends | ends |
/// | `setsid`, a daemon that forked twice | ends | ends | ends | ends |
/// | `env -i setsid` | ends | ends [^found] | ends | lives |
/// | `env -i setsid`, as a daemon that has closed its outputs | ends | lives | ends | lives |
/// | a daemon that rewrites its title | ends | lives | ends | lives |
/// | a process that keeps replacing itself by a child | ends | lives if it leaves its group | ends | lives if it leaves its group |
/// | a process that kills the supervisor (`kill -9 $PPID`), which leaves the call in doubt | as without the line | | at once, as by a stop without the line | |
/// | a process that halts the supervisor (`kill -STOP $PPID`) | ends | | lives | |
/// | a process of another user (`sudo`), if the program does not run as root | lives | lives | lives | lives |
/// | a process that another program starts (`systemd-run`, `at`, `docker run -d`) | lives | lives | lives | lives |
///
/// [^found]: if its parent lives, if it writes to an output of the command, or if its session has another process that
/// is found.
///
/// | what the command reads | with the line | without |
/// |---|---|---|
/// | its own environment | the variables on the list of [`bash`](fn@super::bash) | the same |
/// | `/proc/$PPID/environ` | only the program's `LD_LIBRARY_PATH` | the program's environment |
/// | `/proc/<program>/environ`, found by a search through `/proc` | the program's environment | the same |
/// | the same after [`make_undumpable`], if the program does not run as root | refused | refused |
/// | the same after [`make_undumpable`] as root | the program's environment | the same |
/// | the terminal of the program, as `/dev/tty` | refused | open |
/// | a file that the program inherited with the descriptor 3 or above (`3< key`) | open | open |
///
/// Without this call, a stop searches for the process group, for processes with a mark in the environment
/// (`HARNESS_COMMAND`), for processes that write to the outputs of the command, and for descendants of all these. A
/// `/bin/sh` beside each command waits for the death of the program, and then kills the group and all processes with
/// the mark. On other Unix systems, and without `/proc`, only the process group can be found: there, a process that
/// uses `timeout` or `setsid` survives. On Windows there is no `bash`.
///
/// A supervised command costs about as much as an unsupervised one, because starting the program replaces a search
/// through all processes.
///
/// # Where to call it
///
/// Everything that a program does before this line is repeated for each command, without the program's environment. So
/// put nothing before it. `#[tokio::main]` may stay: it only starts the threads of the runtime for each command. A
/// program that reads its arguments before this line finds an unknown argument. If the program then ends, or does not
/// reach this line for another reason, each command fails with an error about this. A second call changes nothing. A
/// late call applies to later commands. A program that is itself a command of another program can make this call too.
///
/// The program becomes a supervisor only if its first argument requests this and its standard input is a socket. A user
/// who can start it in this way can also start a shell, so nobody gains any rights.
pub fn supervise() -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|first| first == supervisor::ARGUMENT)
            && arguments.next().is_none()
        {
            supervisor::be();
        }
        if can_be_supervised() {
            ON.store(true, Ordering::Relaxed);
        }
        is_on()
    }
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(target_os = "linux")]
use {
    super::group::{can_be_supervised, supervisor},
    std::sync::atomic::{AtomicBool, Ordering},
};

#[cfg(target_os = "linux")]
static ON: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
pub(super) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Hides the environment and the memory of this program from other processes of the same user. These processes can then
/// neither read `/proc/<program>/environ` nor attach a debugger.
///
/// A command runs as the user of the program, and the program's environment may contain keys of model vendors. With
/// [`supervise`], a command does not find this environment by accident, but a search through `/proc` can still find it.
/// After this call, the system refuses such access. The call also disables core dumps and debuggers, so each program
/// has to decide whether to make the call. The call does not help if commands run as root, or if the keys can be read
/// elsewhere: in a file, or in the environment of the shell that started the program.
///
/// ```no_run
/// # fn main() -> Result<(), harness::Error> {
/// harness::toolbox::supervise();
/// harness::toolbox::make_undumpable()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the system refuses, and on every system except Linux, because only Linux supports this.
pub fn make_undumpable() -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|err| {
            let text = "`make_undumpable`: the system refuses; leave the call out, or run commands \
                        as another user";
            Error::new(ErrorKind::Configuration, text).with_source(err)
        })
    }
    #[cfg(not(target_os = "linux"))]
    Err(Error::new(
        ErrorKind::Configuration,
        "`make_undumpable`: only Linux has this switch; leave the call out here",
    ))
}
