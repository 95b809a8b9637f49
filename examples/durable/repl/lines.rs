//! Lines from the keyboard, edited and with a history, on a thread of their own: reading one
//! blocks.
//!
//! The thread reads only while a line is asked for. In between the terminal is as it was, so that
//! Ctrl-C is a signal again and a question of an approver has the keyboard for itself.

use std::{
    io::{self, Write as _},
    sync::mpsc,
    thread,
};

use anyhow::Context as _;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{Config, DefaultEditor, error::ReadlineError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const PROMPT: &str = "> ";

/// What came from the keyboard.
pub(crate) enum Line {
    Said(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of a file.
    End,
    Failed(String),
}

/// The lines. When they are dropped the terminal is as it was, also if the thread still reads.
pub(crate) struct Lines {
    ask: mpsc::Sender<()>,
    lines: UnboundedReceiver<Line>,
    asked: bool,
    /// How the terminal was; nothing if the input is none.
    terminal: Option<Termios>,
}

impl Lines {
    /// Starts the thread. It ends with the program: nothing can end a read of the keyboard.
    ///
    /// # Errors
    /// Fails if the terminal cannot be set up or the system gives no thread.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let config = Config::builder().auto_add_history(true).build();
        let editor = DefaultEditor::with_config(config).context("no line can be edited here")?;
        let terminal = tcgetattr(io::stdin()).ok();
        let (ask, asked) = mpsc::channel();
        let (say, lines) = unbounded_channel();
        thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || read(editor, &asked, &say))
            .context("no thread for the keyboard")?;
        Ok(Self { ask, lines, asked: false, terminal })
    }

    /// Shows the prompt and waits for a line. If this is dropped, the line is not lost: the next
    /// call gives it.
    pub(crate) async fn next(&mut self) -> Line {
        if !self.asked {
            self.asked = self.ask.send(()).is_ok();
        }
        let line = self.lines.recv().await;
        self.asked = false;
        line.unwrap_or_else(|| Line::Failed("the thread of the keyboard is gone".to_owned()))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let (true, Some(terminal)) = (self.asked, &self.terminal) {
            // The thread has it in raw mode, and nobody will read any more.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
            let _ = writeln!(io::stdout());
        }
    }
}

fn read(mut editor: DefaultEditor, asked: &mpsc::Receiver<()>, say: &UnboundedSender<Line>) {
    while asked.recv().is_ok() {
        let line = match editor.readline(PROMPT) {
            Ok(text) => Line::Said(text),
            Err(ReadlineError::Interrupted) => Line::Interrupt,
            Err(ReadlineError::Eof) => Line::End,
            // The window has another size: the line is asked for again.
            Err(ReadlineError::Signal(_)) => Line::Said(String::new()),
            Err(err) => Line::Failed(err.to_string()),
        };
        if say.send(line).is_err() {
            return;
        }
    }
}
