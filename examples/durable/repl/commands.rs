//! What a line of the person is: something to say, or a command of the program.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
};

use harness::{
    Chat, Tool, Transcript,
    message::Arguments,
    policy::{PolicyDecision, ProposedCall},
};
use tempfile::NamedTempFile;

use crate::screen::tokens;

pub(crate) const HELP: &str = "\
/go         go on with a run that came to no answer; what waits for you is asked again
/settle N ran|failed|not WORDS
            say what became of a call in doubt, before `/go`; `not` has it run
/new        begin another conversation
/list       the conversations that are kept, the last ones first; /more shows those before
/resume N   go on with number N of the list; /resume ID with the one of this name
/fork       go on in a copy of this conversation
/delete N   delete number N of the list
/tools      what the model can do, and what it must ask for
/usage      tokens so far
/thinking L how much the model thinks: off, minimal, low, medium, high, xhigh or max
/save FILE  write the conversation to a file; `--import FILE` begins another one with it
/quit       quit, as Ctrl-D does
/help       this
Ctrl-C stops an answer; twice within 1.5 s at the prompt it quits.";

/// A line, understood.
pub(crate) enum Command<'a> {
    Nothing,
    Quit,
    Show(Show),
    New,
    List,
    More,
    Resume(&'a str),
    Fork,
    Delete(&'a str),
    Go,
    Settle(&'a str),
    Save(&'a str),
    /// How much the model thinks from now on.
    Thinking(&'a str),
    /// No such command, and what to do.
    Unknown(String),
    /// For the model.
    Say(&'a str),
}

/// What a command shows.
pub(crate) enum Show {
    Help,
    Tools,
    Usage,
}

impl<'a> Command<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("", _) => Self::Nothing,
            ("/quit", "") => Self::Quit,
            ("/help", "") => Self::Show(Show::Help),
            ("/tools", "") => Self::Show(Show::Tools),
            ("/usage", "") => Self::Show(Show::Usage),
            ("/new", "") => Self::New,
            ("/list", "") => Self::List,
            ("/more", "") => Self::More,
            ("/fork", "") => Self::Fork,
            ("/go", "") => Self::Go,
            ("/settle", said) => Self::Settle(said),
            ("/resume" | "/delete", "") => {
                Self::Unknown(format!("`{word}` needs a number: `/list` shows them"))
            }
            ("/resume", which) => Self::Resume(which),
            ("/delete", which) => Self::Delete(which),
            ("/save", "") => Self::Unknown("`/save` needs a file: `/save FILE`".to_owned()),
            ("/save", file) => Self::Save(file),
            ("/thinking", level) => Self::Thinking(level),
            (word, _) if word.starts_with('/') => {
                Self::Unknown(format!("`{line}` is no command; `/help` lists them"))
            }
            _ => Self::Say(line),
        }
    }
}

impl Show {
    pub(crate) fn text(&self, chat: &Chat) -> String {
        match self {
            Self::Help => HELP.to_owned(),
            Self::Tools => {
                let tools = chat.agent().tools().tools();
                tools.iter().map(tool).collect::<Vec<_>>().join("\n")
            }
            Self::Usage => {
                let messages = chat.transcript().messages().len();
                format!("{messages} messages, {}", tokens(chat.usage()))
            }
        }
    }
}

/// One tool on one line: its name, what it declares, whether it asks, and its first sentence.
fn tool(tool: &Tool) -> String {
    let arguments = Arguments::default();
    let call = ProposedCall::new(tool.name(), &arguments, tool.side_effects());
    let asks = match crate::permissions().decide(&call) {
        PolicyDecision::Allow { .. } => "",
        PolicyDecision::Ask { .. } => ", asks first",
        PolicyDecision::Deny { .. } => ", is denied",
    };
    let does = tool.description().split_whitespace().collect::<Vec<_>>().join(" ");
    let does = does.split_once(". ").map_or(does.as_str(), |(first, _)| first);
    format!("{} ({}{asks}): {}", tool.name(), tool.side_effects(), does.trim_end_matches('.'))
}

/// Writes the conversation to a new file, whole or not at all, and says what came of it; nothing if
/// the file is there already.
pub(crate) fn save(chat: &Chat, file: &str) -> Option<String> {
    let written = write(chat.transcript(), Path::new(file), |new, file| {
        new.persist_noclobber(file).map_err(|err| err.error)
    });
    let exists = written.as_ref().is_err_and(|err| {
        let err = err.downcast_ref::<io::Error>();
        err.is_some_and(|err| err.kind() == io::ErrorKind::AlreadyExists)
    });
    (!exists).then(|| told(chat, file, written))
}

/// Writes the conversation in place of what the file holds, and says what came of it.
pub(crate) fn replace(chat: &Chat, file: &str) -> String {
    let written = write(chat.transcript(), Path::new(file), |new, file| {
        new.persist(file).map_err(|err| err.error)
    });
    told(chat, file, written)
}

fn told(chat: &Chat, file: &str, written: anyhow::Result<()>) -> String {
    let messages = chat.transcript().messages().len();
    match written {
        Ok(()) => {
            format!("saved {messages} messages; `--import {file}` begins a conversation with them")
        }
        Err(err) => format!("`{file}` was not written: {err:#}"),
    }
}

fn write(
    transcript: &Transcript,
    file: &Path,
    put: impl FnOnce(NamedTempFile, &Path) -> io::Result<File>,
) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    // A file beside it takes its place in one step; only its owner can read it.
    let mut new = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    serde_json::to_writer_pretty(&mut new, transcript)?;
    new.write_all(b"\n")?;
    put(new, file)?;
    Ok(())
}
