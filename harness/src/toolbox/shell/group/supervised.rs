//! A command below a supervisor: the program's side.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net, process::CommandExt as _, process::ExitStatusExt as _},
    },
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::Pid;
use tokio::{io::AsyncWriteExt as _, net::UnixStream};

use super::{
    Pipes, Spec, exited,
    order::{Order, Report},
    processes, reaped,
    supervisor::{ARGUMENT, NAME},
    traces::Traces,
};

/// The program itself, though its file is gone or another one by now.
pub(super) const PROGRAM: &str = "/proc/self/exe";

/// A process of the program's own executable that runs the command. When the line to it closes, it
/// kills all that it has started, and ends.
#[derive(Debug)]
pub(super) struct Supervised {
    supervisor: Child,
    id: Pid,
    line: Option<UnixStream>,
    order: Vec<u8>,
    /// By them are found those that have killed their supervisor.
    traces: Traces,
}

impl Supervised {
    pub(super) fn start(spec: &Spec<'_>) -> io::Result<(Self, Pipes)> {
        let mut traces = Traces::new();
        let mut variables = spec.variables.to_vec();
        variables.push(traces.variable());
        let folder = spec.folder.map(Into::into);
        let order = Order { folder, command: spec.command.into(), variables }.to_bytes()?;

        let failed = |err| io::Error::other(format!("its supervisor cannot be started: {err}"));
        let (ours, theirs) = net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let line = Some(UnixStream::from_std(ours).map_err(failed)?);
        let mut program = Command::new(PROGRAM);
        program.arg0(NAME).arg(ARGUMENT).env_clear();
        // Else a program that needs it to start could not be started again. What a command finds
        // in the environment of its parent is this alone.
        let libraries = std::env::var_os("LD_LIBRARY_PATH");
        program.envs(libraries.map(|libraries| ("LD_LIBRARY_PATH", libraries)));
        let pipes = Pipes::on(&mut program).map_err(failed)?;
        program.stdin(Stdio::from(OwnedFd::from(theirs)));
        let supervisor = program.spawn().map_err(failed)?;
        let id = Pid::from_child(&supervisor);
        traces.begin(id, &pipes);
        Ok((Self { supervisor, id, line, order, traces }, pipes))
    }

    /// Gives the order and waits until all is over.
    ///
    /// # Errors
    /// Fails if the command was not started.
    pub(super) async fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.reported().await?;
        exited(self.id).await;
        Ok(status)
    }

    async fn reported(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(line) = &mut self.line else { return Ok(None) };
        // Where it fails there is nobody to report either.
        let _ = line.write_all(&self.order).await;
        match Report::read(line).await {
            Ok(Report::Begins) => {}
            Ok(Report::NotStarted(_) | Report::Ended(_)) | Err(_) => {
                return Err(self.did_not_begin());
            }
        }
        match Report::read(line).await {
            Ok(Report::NotStarted(error)) => Err(io::Error::from_raw_os_error(error)),
            Ok(Report::Ended(status)) => Ok(Some(ExitStatus::from_raw(status))),
            // The command, or somebody else, has killed the supervisor.
            Ok(Report::Begins) | Err(_) => Ok(None),
        }
    }

    fn did_not_begin(&mut self) -> io::Error {
        let status = match self.end() {
            Some(status) => status.to_string(),
            None => "it could not be killed".to_owned(),
        };
        io::Error::other(format!(
            "its supervisor, this program started again, did not begin ({status}); the program \
             must call `harness::toolbox::supervise` in the first line of `main`"
        ))
    }

    /// Lets the supervisor kill all that is left, and reaps it. If it does not do so soon, or
    /// cannot any more, all is killed from here.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        let had_line = self.line.take().is_some();
        let status = reaped(&mut self.supervisor);
        if !had_line || status.is_some_and(|status| status.success()) {
            return status;
        }
        processes::end_all(|| {
            // Until it is reaped, nobody else has this id.
            self.traces.find(|process| status.is_none() && process.pid == self.id)
        });
        status.or_else(|| reaped(&mut self.supervisor))
    }
}
