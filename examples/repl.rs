//! A chat in the terminal, with line editing and history.
//!
//!     cargo run --example repl
//!
//! needs no key; `PROVIDER=anthropic`, `openai` or `local` talks to a real model. Its tools are
//! `calc`, the files of the current folder, and `bash`, which asks before it runs. Ctrl-C stops an
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
mod screen;
#[path = "repl/turn.rs"]
mod turn;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use commands::Command;
use harness::{
    Agent, Chat,
    policy::{RetryPolicy, RetryProvider, TerminalApprover},
    toolbox::{Files, bash, calc},
    tools,
};
use lines::{Line, Lines};
use screen::Screen;
use tokio::signal::unix::{Signal, SignalKind, signal};
use turn::Ended;

/// A second Ctrl-C within this time quits.
const TWICE: Duration = Duration::from_millis(1500);
const STOPPED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|err| {
        eprintln!("{err:#}");
        ExitCode::from(answering::exit_code(&err))
    })
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
    let Some(resumed) = arguments(std::env::args().skip(1))? else {
        println!("repl [--resume FILE]: a chat in the terminal\n{}", commands::HELP);
        return Ok(ExitCode::SUCCESS);
    };
    let mut signals = Signals::listen()?;
    let answering = answering::from_env().await?;
    let agent = Agent::builder(RetryProvider::new(answering.provider, RetryPolicy::default()))
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .tools(Files::in_folder(".")?.tools())
        .tools(tools![bash])
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

/// The file to go on with, if one is given; nothing if help is wanted.
fn arguments(mut given: impl Iterator<Item = String>) -> anyhow::Result<Option<Option<String>>> {
    let wrong = |text: String| harness::Error::new(harness::ErrorKind::Configuration, text);
    let file = match given.next().as_deref() {
        None => return Ok(Some(None)),
        Some("--help" | "-h") => return Ok(None),
        Some("--resume") => given.next().ok_or_else(|| wrong("`--resume` needs a FILE".into()))?,
        Some(other) => {
            return Err(wrong(format!("`{other}` is unknown; expected `--resume FILE`")).into());
        }
    };
    match given.next() {
        Some(more) => Err(wrong(format!("`{more}` is too much; expected `--resume FILE`")).into()),
        None => Ok(Some(Some(file))),
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
                screen.line("(Ctrl-C again quits)")?;
                continue;
            }
            Line::End => return Ok(ExitCode::SUCCESS),
            Line::Failed(err) => return Err(anyhow::anyhow!("no line could be read: {err}")),
        };
        match Command::of(&text) {
            Command::Nothing => {}
            Command::Quit => return Ok(ExitCode::SUCCESS),
            Command::Show(show) => screen.line(&show.text(chat))?,
            Command::Save(file) => screen.line(&commands::save(chat, file))?,
            Command::Unknown(text) => screen.line(&text)?,
            Command::Say(text) => match turn::take(chat, text, signals, screen).await? {
                Ended::Answered => {}
                Ended::Interrupted => interrupted = Some(Instant::now()),
                Ended::Quit => return Ok(ExitCode::from(STOPPED)),
            },
        }
    }
}
