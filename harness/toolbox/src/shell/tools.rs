//! The tool `bash` as the model sees it: its arguments and its result.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness_macros::{tool, toolset};

use super::{
    group::CommandSpec,
    run::{CommandEnd, CommandOutput, run},
    variables::CommandVariables,
};
use harness_core::{
    error::{Error, ErrorKind},
    message::Arguments,
    tool::{Review, ToolContext, ToolError},
};

/// The time limit of a command in seconds, if the call does not set one.
const DEFAULT_SECONDS: u64 = 30;
/// The longest time limit of a command, in seconds. The tool's own `timeout` is longer. So a command always reaches
/// this limit first, and the model gets the text about this limit.
const MAX_SECONDS: u64 = 300;

/// Runs a command with bash and answers with its exit status, its standard output and its
/// standard error.
///
/// Each call is a new shell that begins in the current folder of the program. It is not interactive:
/// standard input is closed. A command that takes too long is killed, and whatever a command
/// leaves running in the background is killed when it ends. Of each output the first and the last
/// 12 KiB are kept. A command can do anything: read, change and delete files, use the network.
///
/// # Errors
/// Fails if the command cannot be started. If it was stopped before its end, or if its end is not
/// known, the call is in doubt, and the text has the output so far. A command that ends with another
/// status than 0 is not an error.
///
/// # For the host
/// Everything that the command has started is killed when the command ends, its time limit is reached, the context's
/// token is cancelled, the future is dropped, or the program dies. How far this holds for processes that hide, and
/// after `kill -9`, depends on one line in `main`: see the table of [`supervise`](super::supervise).
///
/// A command may run for 30 s. The model can set another limit with `timeout_seconds`, up to 300 s. `Run::tool_time`
/// shortens the limit for one run. [`ToolLimits::time`](harness_core::tool::ToolLimits) does not apply.
///
/// From the program's environment, a command gets only `HOME`, `LANG`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `USER` and
/// the variables that begin with `LC_`, so that it cannot print a key. [`Bash`] can add others, such as variables for
/// proxies, `ssh` agents and toolchains (`CARGO_HOME`); this function cannot. A command also gets `HARNESS_COMMAND`, a
/// random mark by which a stop finds its processes, and the variables that bash itself sets.
///
/// A command is not confined to a folder, and can use the network and reach other processes of the same user. Every
/// side effect is declared, so that an agent requests an approval before each command.
///
/// # Examples
/// ```
/// use harness::{ToolContext, toolbox::bash};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let said = bash("echo $((6 * 7)); exit 3", 30, &ToolContext::new("call_1")).await?;
/// assert_eq!(said, "exit status: 3\nstdout:\n42\nstderr: (nothing)");
/// # Ok::<(), harness::ToolError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[tool(side_effects = ["read", "write", "network", "mutate"], timeout = "310s")]
pub async fn bash(
    /// such as `cargo test 2>&1 | tail -n 20`
    command: &str,
    /// after how many seconds the command is killed
    #[param(default = DEFAULT_SECONDS, range(1..=MAX_SECONDS))]
    timeout_seconds: u64,
    context: &ToolContext,
) -> Result<String, ToolError> {
    answer(command, None, &CommandVariables::default(), timeout_seconds, context).await
}

/// The tool `bash` with a folder and variables that the program chooses. In all other respects, it is equal to the
/// function [`bash`](fn@bash).
///
/// An agent requests an approval for each command, and denies all commands if it has no approver:
///
/// ```no_run
/// use harness::{Agent, AnthropicProvider, policy::ApprovalRequest, toolbox::Bash};
///
/// #[tokio::main]
/// async fn main() -> Result<(), harness::Error> {
///     harness::toolbox::supervise();
///     let bash = Bash::in_folder(".")?
///         .with_variables([("CI", "true")])?
///         .with_inherited_variables(["CARGO_HOME", "SSH_AUTH_SOCK"])?;
///     let agent = Agent::builder(AnthropicProvider::from_env()?)
///         .tools(bash.tools())
///         .approver(|question: ApprovalRequest| async move {
///             match question.arguments.get("command").and_then(|it| it.as_str()) {
///                 Some("git status") => question.yes(),
///                 _ => question.no("only `git status` is allowed here"),
///             }
///         })
///         .build()?;
///     # let _ = agent;
///     Ok(())
/// }
/// ```
///
/// The returned tools can be combined with other tools:
///
/// ```
/// use harness::{ToolRegistry, toolbox::{Bash, Files, calc}, tools};
///
/// let mut tools = tools![calc];
/// tools.extend(Files::in_folder(".")?.tools());
/// tools.extend(Bash::in_folder(".")?.tools());
/// assert_eq!(ToolRegistry::new(tools)?.tools().len(), 6);
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bash {
    folder: PathBuf,
    variables: CommandVariables,
}

#[toolset]
impl Bash {
    /// Creates the tool. Commands start in `folder`, and can leave this folder.
    ///
    /// # Errors
    /// Fails if the folder does not exist or is not a folder.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Arc<Self>, Error> {
        let given = folder.as_ref();
        let wrong = |fault: &str| wrong("in_folder", &format!("`{}` {fault}", given.display()));
        let folder = given.canonicalize().map_err(|err| {
            wrong("cannot be opened; give the path of a folder that exists").with_source(err)
        })?;
        if !folder.is_dir() {
            return Err(wrong("is not a folder; give the path of a folder"));
        }
        Ok(Arc::new(Self { folder, variables: CommandVariables::default() }))
    }

    /// Sets environment variables for commands. A variable set here replaces the program's variable with the same name.
    ///
    /// ```
    /// use harness::toolbox::Bash;
    ///
    /// let bash = Bash::in_folder(".")?
    ///     .with_variables([("CI", "true"), ("CARGO_TERM_COLOR", "never")])?
    ///     .with_inherited_variables(["CARGO_HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY"])?;
    /// # Ok::<(), harness::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a name or a value cannot be used for an environment variable.
    pub fn with_variables<N: Into<OsString>, V: Into<OsString>>(
        self: Arc<Self>,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Arc<Self>, Error> {
        let mut this = Arc::unwrap_or_clone(self);
        for (name, value) in variables {
            let set = this.variables.set(name.into(), value.into());
            set.map_err(|fault| wrong("with_variables", &fault))?;
        }
        Ok(Arc::new(this))
    }

    /// Passes these variables of the program's environment to commands, with their values at the time when a command
    /// starts. Commands may print these values, and the model may then read them.
    ///
    /// # Errors
    /// Fails if a name cannot be used for an environment variable.
    pub fn with_inherited_variables<N: Into<OsString>>(
        self: Arc<Self>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Arc<Self>, Error> {
        let mut this = Arc::unwrap_or_clone(self);
        for name in names {
            let inherited = this.variables.inherit(name.into());
            inherited.map_err(|fault| wrong("with_inherited_variables", &fault))?;
        }
        Ok(Arc::new(this))
    }

    /// Runs a command with bash and answers with its exit status, its standard output and its
    /// standard error.
    ///
    /// Each call is a new shell that begins in the same folder. It is not interactive: standard
    /// input is closed. A command that takes too long is killed, and whatever a command
    /// leaves running in the background is killed when it ends. Of each output the first and the last
    /// 12 KiB are kept. A command can do anything: read, change and delete files, use the network.
    ///
    /// # Errors
    /// Fails if the command cannot be started. If it was stopped before its end, or if its end is not known, the call
    /// is in doubt, and the error contains the output so far. A command that ends with a status other than 0 is no
    /// error.
    #[tool(
        side_effects = ["read", "write", "network", "mutate"],
        timeout = "310s",
        review = Self::review_folder
    )]
    pub async fn bash(
        &self,
        /// such as `cargo test 2>&1 | tail -n 20`
        command: &str,
        /// after how many seconds the command is killed
        #[param(default = DEFAULT_SECONDS, range(1..=MAX_SECONDS))]
        timeout_seconds: u64,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let Self { folder, variables } = self;
        answer(command, Some(folder), variables, timeout_seconds, context).await
    }

    fn review_folder(&self, _: &Arguments) -> Review {
        Review::pass().in_folder(&self.folder)
    }
}

fn wrong(method: &str, fault: &str) -> Error {
    Error::new(ErrorKind::Configuration, format!("`Bash::{method}`: {fault}"))
}

async fn answer(
    command: &str,
    folder: Option<&Path>,
    variables: &CommandVariables,
    seconds: u64,
    context: &ToolContext,
) -> Result<String, ToolError> {
    let stop = context.cancellation();
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(ToolError::BadArguments(vec![format!(
            "`timeout_seconds`: {seconds} is not between 1 and {MAX_SECONDS}; nothing was run"
        )]));
    }
    if stop.is_cancelled() {
        return Err(ToolError::new("the run was stopped before the command; nothing was run"));
    }
    let said = Arc::new(CommandOutput::default());
    let so_far = Arc::clone(&said);
    context.on_stop(move || so_far.to_text(" so far"));
    let limit = Duration::from_secs(seconds);
    let spec = CommandSpec { command, folder, variables: &variables.now() };
    let end = run(&spec, limit, stop, &said).await.map_err(|err| not_started(&spec, &said, err))?;
    report(&end, &said, seconds)
}

/// The text for the model about a command that was started.
fn report(end: &CommandEnd, said: &CommandOutput, seconds: u64) -> Result<String, ToolError> {
    let how = match end {
        CommandEnd::Exited(status) => return Ok(format!("{status}\n{}", said.to_text(""))),
        CommandEnd::TimedOut => format!(
            "the command was stopped after {seconds} s, its time limit; a longer one may be given \
             as `timeout_seconds`, up to {MAX_SECONDS}"
        ),
        CommandEnd::Stopped => "the command was stopped before its end".to_owned(),
        CommandEnd::Lost => "how the command ended is not known: another process has killed its \
                      supervisor, or taken its exit status"
            .to_owned(),
        CommandEnd::Unwatched => {
            "the command was stopped right after its start, since another process \
                           has killed its watchdog, a `/bin/sh`"
                .to_owned()
        }
    };
    // The effects of the command remain, so the call is in doubt and not just failed.
    Err(ToolError::in_doubt(format!("{how}\n{}", said.to_text(" so far"))))
}

fn not_started(spec: &CommandSpec<'_>, said: &CommandOutput, err: io::Error) -> ToolError {
    use io::ErrorKind::{ArgumentListTooLong, InvalidInput, NotFound, Other, PermissionDenied};

    let CommandSpec { command, folder, .. } = *spec;

    let reason = match (err.kind(), folder) {
        (NotFound, Some(folder)) if !folder.is_dir() => {
            "its working folder is gone; the program must be started again with one that exists"
                .to_owned()
        }
        (NotFound, _) => {
            "there is no `bash` in the program's PATH; do without a shell, or ask for it to be \
             installed"
                .to_owned()
        }
        (PermissionDenied, _) => "the system does not let it enter its working folder or start \
                                  `bash`; ask for that to be allowed"
            .to_owned(),
        (ArgumentListTooLong, _) => format!(
            "{} bytes are too long for a command; write it to a file and run that",
            command.len()
        ),
        (InvalidInput, _) => {
            "a command cannot contain the character 0; write it as `\\0`".to_owned()
        }
        // The output comes from the process that should have run the command.
        (Other, _) if !said.is_empty() => format!("{err}\n{}", said.to_text("")),
        (Other, _) => err.to_string(),
        (_, _) => format!("{err}; try again later"),
    };
    ToolError::new(format!("the command was not started: {reason}")).with_source(err)
}
