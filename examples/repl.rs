//! A chat in the terminal, with line editing and history.
//!
//!     cargo run --example repl
//!
//! needs no key; `PROVIDER=anthropic`, `openai` or `chat_completions` talks to a real model. Its tools are
//! `calc`, the files of the current folder, and `bash`, which asks before it runs; a file that is
//! there already is not replaced unasked, neither by the model nor by `/save`. Ctrl-C stops an
//! answer; a second one within 1.5 s at the prompt quits, and so does Ctrl-D. `--resume FILE` goes
//! on with a conversation that `/save FILE` wrote. It is for Unix. Exit codes: 0 quit, 1 failed, 2
//! not set up, 130 stopped while an answer was still running.

mod answering;
#[path = "repl/commands.rs"]
mod commands;
mod ending;
#[path = "repl/lines.rs"]
mod lines;
mod offline;
mod program;
mod screen;
#[path = "repl/turn.rs"]
mod turn;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use commands::Command;
use harness::{
    Agent, Chat,
    policy::{Permissions, TerminalApprover, Verdict},
    toolbox::{Files, bash, calc, supervise},
    tools,
};
use lines::{Line, Lines};
use screen::Screen;
use tokio::signal::unix::{Signal, SignalKind, signal};
use turn::Ended;

const USAGE: &str = "repl [--resume FILE]: a chat in the terminal";

/// A second Ctrl-C within this time quits.
const TWICE: Duration = Duration::from_millis(1500);
const STOPPED: u8 = 130;

/// Where the files of the tools are.
const FOLDER: &str = ".";

#[tokio::main]
async fn main() -> ExitCode {
    // No command outlives this program, whatever ends it.
    supervise();
    program::ended(run().await)
}

/// What the system tells the program. The default of each would end the program at once; from
/// here on nothing does but the program itself.
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

    /// Waits until the program is told to end, by something else than Ctrl-C.
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
    let resumed = resumed(program::arguments()?)?;
    let mut signals = Signals::listen()?;
    let answering = answering::from_env().await?;
    let agent = Agent::builder(answering.provider)
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .tools(Files::in_folder(FOLDER)?.tools())
        .tools(tools![bash])
        .permissions(permissions())
        .approver(TerminalApprover::default())
        .build()?;
    let mut chat = match &resumed {
        Some(file) => commands::resume(&agent, file)?,
        None => agent.chat(),
    };
    let mut screen = Screen::stdout();
    screen.line(&answering.introduction)?;
    if let Some(file) = &resumed {
        let messages = chat.transcript().messages().len();
        screen.line(&format!("{file} goes on after {messages} messages."))?;
    }
    screen.line("Ctrl-C stops an answer, Ctrl-D quits, /help tells more.")?;
    talk(&mut chat, &mut signals, &mut screen).await
}

/// What is asked about beside what the tools declare: no file is replaced unasked.
fn permissions() -> Permissions {
    Permissions::default().rule("a file is there already", |call| {
        let path = Path::new(FOLDER).join(call.text("path")?);
        let replaces = call.tool == "write_file" && path.symlink_metadata().is_ok();
        replaces.then_some(Verdict::Ask)
    })
}

/// The file to go on with, if one is given.
fn resumed(given: Vec<String>) -> anyhow::Result<Option<String>> {
    match given.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        ["--resume", file] => Ok(Some((*file).to_owned())),
        ["--resume"] => Err(program::wrong("`--resume` needs a FILE")),
        ["--resume", _, more, ..] => {
            Err(program::wrong(format!("`{more}` is too much; expected `--resume FILE`")))
        }
        [other, ..] => {
            Err(program::wrong(format!("`{other}` is unknown; expected `--resume FILE`")))
        }
    }
}

/// Reads lines and answers them until the person quits.
async fn talk(
    chat: &mut Chat,
    signals: &mut Signals,
    screen: &mut Screen<std::io::Stdout>,
) -> anyhow::Result<ExitCode> {
    let mut lines = Lines::start()?;
    let mut interrupted: Option<Instant> = None;
    // The file that is replaced if the next line says so.
    let mut replaces: Option<String> = None;
    loop {
        let Signals { interrupt, terminate, hang_up } = signals;
        let line = tokio::select! {
            line = lines.next() => line,
            // Pressed in the moment between an answer and the prompt, or sent by a program.
            _ = interrupt.recv() => Line::Interrupt,
            () = Signals::end(terminate, hang_up) => return Ok(ExitCode::from(STOPPED)),
        };
        let text = match line {
            Line::Said(text) => {
                interrupted = None;
                text
            }
            Line::Interrupt => {
                if interrupted.is_some_and(|last| last.elapsed() < TWICE) {
                    return Ok(ExitCode::SUCCESS);
                }
                interrupted = Some(Instant::now());
                replaces = None;
                screen.line("(Ctrl-C again quits)")?;
                continue;
            }
            Line::End => return Ok(ExitCode::SUCCESS),
            Line::Failed(err) => return Err(anyhow::anyhow!("no line could be read: {err}")),
        };
        if let Some(file) = replaces.take() {
            let told = match text.trim() {
                "y" | "yes" | "Y" => commands::replace(chat, &file),
                _ => format!("`{file}` was left as it is"),
            };
            screen.line(&told)?;
            continue;
        }
        match Command::of(&text) {
            Command::Nothing => {}
            Command::Quit => return Ok(ExitCode::SUCCESS),
            Command::Show(show) => screen.line(&show.text(chat))?,
            Command::Save(file) => match commands::save(chat, file) {
                Some(told) => screen.line(&told)?,
                None => {
                    screen.line(&format!("`{file}` is there already. Replace it? [y]es, [n]o"))?;
                    replaces = Some(file.to_owned());
                }
            },
            Command::Unknown(text) => screen.line(&text)?,
            Command::Say(text) => match turn::take(chat, text, signals, screen).await? {
                Ended::Answered => {}
                Ended::Interrupted => interrupted = Some(Instant::now()),
                Ended::Quit => return Ok(ExitCode::from(STOPPED)),
            },
        }
    }
}
