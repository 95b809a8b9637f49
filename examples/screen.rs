//! Shows a run in a terminal as it happens: text as it streams, and each call and each result on a
//! line of its own. The examples share this file; it is not a part of the library.

use std::io::{self, Write};

use harness::{Event, Usage, policy::visible};

/// How many characters of a result are shown.
const SHOWN: usize = 200;

/// A terminal on which a run is shown.
pub(crate) struct Screen<W> {
    out: W,
    /// Whether the cursor is after streamed text, so that a new line has to begin with a line break.
    in_words: bool,
}

impl Screen<io::Stdout> {
    pub(crate) fn stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, in_words: false }
    }

    /// Shows one event. A screen that cannot be written to does not stop the run.
    pub(crate) fn show(&mut self, event: Event<'_>) {
        let _ = self.try_show(event);
    }

    fn try_show(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Text(text) => {
                write!(self.out, "{}", visible(text))?;
                self.in_words = !text.ends_with('\n');
            }
            Event::ToolCallStart { .. } => self.end_words()?,
            Event::ToolCall(call) => {
                let (name, arguments) = (one_line(call.name()), one_line(call.arguments()));
                self.line(&format!("⚙ {name}({arguments})"))?;
            }
            Event::ToolProgress { message, .. } => self.line(&format!("… {}", short(message)))?,
            Event::ToolDenied { call, reason } => {
                self.line(&format!("✗ {}: {}", one_line(call.name()), short(reason)))?;
            }
            Event::ToolResult { call, result, .. } => {
                let mark = if result.is_error() { '✗' } else { '→' };
                let (name, text) = (one_line(call.name()), short(&result.to_text()));
                // Calls run at the same time, so a result says whose it is.
                let text = if text.is_empty() { "done" } else { &text };
                self.line(&format!("{mark} {name}: {text}"))?;
            }
            Event::Retrying { attempt, of, wait, cause } => {
                let wait = wait.as_secs_f64();
                let cause = one_line(cause);
                self.line(&format!("↻ retrying in {wait:.1} s ({attempt} of {of}): {cause}"))?;
            }
            Event::FallingBack { from, to, cause } => {
                let cause = one_line(cause);
                self.line(&format!("↷ {from} is down, so {to} is asked: {cause}"))?;
            }
            Event::Discarded { cause } => {
                let cause = one_line(cause);
                self.line(&format!("↺ the answer broke off and begins again: {cause}"))?;
            }
            Event::LimitNear { detail, .. } | Event::LimitUnknown { detail, .. } => {
                self.line(&format!("! {detail}"))?;
            }
            Event::TurnEnded { .. } | Event::RunEnded { .. } => self.end_words()?,
            _ => {}
        }
        self.out.flush()
    }

    /// Shows a text on a line of its own. The text may come from anybody: it is made visible first.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.end_words()?;
        writeln!(self.out, "{}", visible(line))
    }

    fn end_words(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_words) {
            writeln!(self.out)?;
        }
        Ok(())
    }
}

/// A text as one line, so that text of a model or a tool cannot begin a new line.
pub(crate) fn one_line(text: &str) -> String {
    text.trim_end().replace('\n', " ⏎ ")
}

/// A text as one line, cut if it is long.
fn short(text: &str) -> String {
    cut(text, SHOWN)
}

/// A text as one line, cut after this many characters.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(characters) {
        Some((end, _)) => format!("{} …", line.get(..end).unwrap_or(&line)),
        None => line,
    }
}

/// The input and output tokens, with `?` for unknown ones.
pub(crate) fn tokens(usage: Usage) -> String {
    let count = |tokens: Option<u64>| tokens.map_or("?".to_owned(), |tokens| tokens.to_string());
    format!("{} tokens in, {} out", count(usage.input), count(usage.output))
}
