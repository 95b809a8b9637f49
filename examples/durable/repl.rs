//! A chat in the terminal that keeps its conversations, with line editing and history.
//!
//!     cargo run -p harness-durable-examples --bin repl
//!
//! needs no key; `PROVIDER=anthropic`, `openai`, `chat_completions` or `local` asks a real model, and
//! `--thinking LEVEL` (`off` to `max`, `high` without LEVEL) sets how much it thinks. Its tools are
//! `calc`, the files of the current folder, and `bash`, which asks before it runs. An existing file is
//! not replaced without a question, neither by the model nor by `/save`. Ctrl-C stops an answer; a
//! second one within 1.5 s at the prompt quits, and so does Ctrl-D.
//!
//! Conversations are kept in the file of `--journal FILE`, and without it in
//! `$XDG_DATA_HOME/harness/chats.db` or `~/.local/share/harness/chats.db`. You can kill the program at any
//! time: `--resume` continues the conversation that changed last, `--resume ID` another one, and `/go` the
//! unfinished run. `--import FILE` begins a conversation with the messages that `/save FILE` wrote. It
//! needs Unix. Exit codes: 0 quit, 1 failed, 2 wrong arguments or no key, 130 stopped while an answer was
//! still running.

#[path = "../answering.rs"]
mod answering;
#[path = "repl/commands.rs"]
mod commands;
#[path = "../ending.rs"]
mod ending;
#[path = "repl/kept.rs"]
mod kept;
#[path = "repl/left.rs"]
mod left;
#[path = "repl/lines.rs"]
mod lines;
#[path = "../offline.rs"]
mod offline;
#[path = "../program.rs"]
mod program;
#[path = "../screen.rs"]
mod screen;
#[path = "repl/talk.rs"]
mod talk;
#[path = "repl/turn.rs"]
mod turn;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use harness::{
    Agent,
    policy::{Permissions, RuleDecision},
    provider::Effort,
    toolbox::{Files, bash, calc, supervise},
    tools,
};
use kept::Kept;
use screen::Screen;
use tokio::signal::unix::{Signal, SignalKind, signal};

const USAGE: &str = "repl [--journal FILE] [--resume [ID] | --import FILE] [--thinking [LEVEL]]: a chat in the terminal";

/// The folder of the tools.
const FOLDER: &str = ".";

#[tokio::main]
async fn main() -> ExitCode {
    // However this program ends, its commands end with it.
    supervise();
    program::ended(run().await)
}

/// The signals of the operating system. By default each ends the program at once; from here on only the
/// program ends itself.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("the system gives no signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to end other than Ctrl-C.
    async fn end(terminate: &mut Signal, hang_up: &mut Signal) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(&format!("{USAGE}\n{}", commands::HELP))? {
        return Ok(ExitCode::SUCCESS);
    }
    let Given { journal, begin, thinking } = Given::read(program::arguments()?)?;
    let mut signals = Signals::listen()?;
    let answering = answering::from_env().await?;
    let agent = Agent::builder(answering.provider)
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .tools(Files::in_folder(FOLDER)?.tools())
        .tools(tools![bash])
        .permissions(permissions())
        .approver(left::ask)
        .build()?;
    let mut kept = Kept::open(agent, journal).await?;
    kept.thinking = thinking;
    let begun = match begin {
        Begin::New => None,
        Begin::Newest => Some(kept.newest().await?),
        Begin::Of(id) => Some(kept.resume_named(&id).await?),
        Begin::Saved(file) => {
            kept.import(&file).await?;
            Some(kept.told())
        }
    };
    let mut screen = Screen::stdout();
    screen.line(&answering.introduction)?;
    screen.line(&format!("Conversations are kept in {}.", kept.place()))?;
    if let Some(told) = begun {
        screen.line(&told)?;
    }
    screen.line("Ctrl-C stops an answer, Ctrl-D quits, /help tells more.")?;
    talk::talk(&mut kept, &mut signals, &mut screen).await
}

/// Asks before a file is replaced, in addition to the calls whose side effects need approval.
fn permissions() -> Permissions {
    Permissions::default().rule("a file is there already", |call| {
        let path = Path::new(FOLDER).join(call.text("path")?);
        let replaces = call.tool == "write_file" && path.symlink_metadata().is_ok();
        replaces.then_some(RuleDecision::Ask)
    })
}

/// The arguments of the program.
struct Given {
    journal: Option<PathBuf>,
    begin: Begin,
    thinking: Option<Effort>,
}

/// The conversation with which the chat begins.
enum Begin {
    New,
    /// The one that changed last.
    Newest,
    /// The one of this name.
    Of(String),
    /// A new one, with the messages of this file.
    Saved(String),
}

impl Given {
    fn read(arguments: Vec<String>) -> anyhow::Result<Self> {
        let mut given = Self { journal: None, begin: Begin::New, thinking: None };
        let mut rest = arguments.into_iter().peekable();
        while let Some(word) = rest.next() {
            let value = rest.next_if(|next| !next.starts_with("--"));
            match (word.as_str(), value) {
                ("--journal", Some(file)) => given.journal = Some(file.into()),
                ("--import", Some(file)) => given.begin = Begin::Saved(file),
                ("--journal" | "--import", None) => {
                    return Err(program::wrong(format!("`{word}` needs a FILE")));
                }
                ("--resume", Some(id)) => given.begin = Begin::Of(id),
                ("--resume", None) => given.begin = Begin::Newest,
                ("--thinking", level) => {
                    given.thinking = Some(level.map_or(Ok(Effort::High), |level| level.parse())?);
                }
                _ => return Err(program::wrong(format!("`{word}` is unknown; {USAGE}"))),
            }
        }
        Ok(given)
    }
}
