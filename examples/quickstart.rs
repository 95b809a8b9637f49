//! The first example: a model with real tools writes a file, reads it back and calculates a sum.
//!
//!     cargo run --example quickstart
//!
//! needs no key and no network: a scripted model on this machine answers over real HTTP, and the
//! tools really run. With `PROVIDER=anthropic` and `ANTHROPIC_API_KEY` the same program talks to
//! the service; `PROVIDER=openai`, `chat_completions` and `local` likewise. Exit codes: 0 answered, 1 failed, 2 wrong arguments or no key.

mod answering;
mod offline;
mod program;
mod screen;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use harness::{Agent, State, tool, toolbox::calc, tools};
use screen::Screen;

const USAGE: &str = "\
quickstart: a model with tools writes a file, reads it back and works out a sum
PROVIDER=anthropic, openai, chat_completions or local asks a real model; without it a scripted one answers.";
const TASK: &str = "Write 'hello world' to a file, read it back, and work out 17 * 23 - 100.";

/// The folder of this program, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("harness-quickstart-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The place of a file with this name. `Files` of the feature `toolbox` knows folders and links, too.
    fn file(&self, name: &str) -> io::Result<PathBuf> {
        match Path::new(name).file_name() {
            Some(file) if file == name => Ok(self.0.join(file)),
            _ => Err(io::Error::other(
                "only a name such as `notes.txt` is allowed, without a folder",
            )),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a text file.
#[tool(side_effects = "write")]
fn write_file(
    /** The name, such as `notes.txt` */
    path: String,
    /** The whole text */
    content: String,
    folder: State<Folder>,
) -> io::Result<&'static str> {
    fs::write(folder.file(&path)?, content)?;
    Ok("written")
}

/// Reads a text file.
#[tool(side_effects = "read")]
fn read_file(
    /** The name */
    path: String,
    folder: State<Folder>,
) -> io::Result<String> {
    fs::read_to_string(folder.file(&path)?)
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(given) = program::arguments()?.first() {
        return Err(program::wrong(format!("`{given}` is unknown; expected nothing or `--help`")));
    }
    let mut screen = Screen::stdout();
    let answering = answering::from_env().await?;
    screen.line(&format!("{}\n", answering.introduction))?;

    let folder = Folder::create().context("no folder for the files")?;
    let agent = Agent::builder(answering.provider)
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc, write_file, read_file])
        .state(folder)
        .build()?;

    screen.line(&format!("> {TASK}"))?;
    let reply = agent.run(TASK).on_event(|event| screen.show(event)).await?;
    let turns = reply.turns();
    screen.line(&format!("\n{} · {turns} turns", screen::tokens(reply.usage())))?;
    Ok(ExitCode::SUCCESS)
}
