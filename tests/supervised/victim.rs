//! Programs that run one command and are then killed, or that use the supervisor in another way.
//! Each is the executable of these tests under another name; its arguments are the command and, if
//! it is to hide its memory, `hidden`.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use harness::{
    toolbox::{Bash, bash, make_undumpable, supervise},
    tools,
};
use serde_json::json;
use tempfile::TempDir;

use crate::calls::call;

/// A program with the line, one without it, and one that calls it when much has begun.
pub(crate) const WITH: &str = "with-the-line";
pub(crate) const WITHOUT: &str = "without-the-line";
pub(crate) const LATE: &str = "late-with-the-line";
/// One that reads its arguments before the line.
pub(crate) const ARGUMENTS_FIRST: &str = "arguments-first";

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// A folder for a program and what its commands write, that every user may use.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program of this name, that will run the command.
    pub(crate) fn program(&self, name: &str, command: &str) -> Command {
        let file = self.path(name);
        if !file.exists() {
            let this = std::env::current_exe().unwrap();
            // A copy only where another file system is.
            fs::hard_link(&this, &file).or_else(|_| fs::copy(this, &file).map(drop)).unwrap();
        }
        let mut program = Command::new(file);
        program.arg(command).current_dir(self.folder.path());
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        program
    }

    /// What the model reads of the command in such a program.
    pub(crate) fn output(&self, program: &mut Command) -> String {
        let output = program.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// The users to try it as: who runs the tests, and an ordinary one if that is root.
pub(crate) fn users() -> Vec<Option<u32>> {
    if is_root() { vec![None, Some(NOBODY)] } else { vec![None] }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

pub(crate) fn as_user(program: &mut Command, user: Option<u32>) {
    if let Some(user) = user {
        program.uid(user).gid(user);
    }
}

pub(crate) fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run())
}

async fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().expect("a command");
    if arguments.next().is_some_and(|argument| argument == "hidden") {
        make_undumpable().unwrap();
    }
    let arguments = json!({"command": command, "timeout_seconds": 300});
    let (Ok(said) | Err(said)) = call(&tools![bash], "bash", arguments).await;
    println!("{said}");
    ExitCode::SUCCESS
}

/// Calls it when a runtime runs and threads work, and twice.
pub(crate) fn late() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let worker = std::thread::spawn(std::thread::park);
    let ended = runtime.block_on(async {
        let ticks = tokio::spawn(async { tokio::task::yield_now().await });
        assert!(supervise() && supervise());
        ticks.await.unwrap();
        run().await
    });
    worker.thread().unpark();
    worker.join().unwrap();
    ended
}

/// Does not know the argument that the supervisor is started with.
pub(crate) fn arguments_first() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument.starts_with("--") {
        eprintln!("unknown option {argument}");
        return ExitCode::from(7);
    }
    assert!(supervise());
    assert!(Bash::in_folder(".").is_ok());
    main()
}
