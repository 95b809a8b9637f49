//! Applies facts that remove results, arguments and files from requests.

use std::collections::HashMap;

use super::{indexes::Indexes, window::place};
use harness_core::{
    journal::ClearedResult,
    message::{Block, Media, MediaKind, Message, Role, ToolContent, ToolResult},
};

/// The files that requests leave out.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    /// The numbers of the left-out files, and the line that is sent in their place. The key is the index of the
    /// message and the id of the call, which is empty for a message of the user.
    files: HashMap<(usize, String), (Indexes, String)>,
}

impl LeftOut {
    pub(super) fn insert(&mut self, at: usize, cleared: &ClearedResult, files: Indexes) {
        let place = (at, cleared.call.clone());
        match files.is_empty() {
            true => self.files.remove(&place),
            false => self.files.insert(place, (files, cleared.text.clone())),
        };
    }

    pub(super) fn of(&self, at: usize, call: &str) -> Indexes {
        let files = self.files.get(&(at, call.to_owned()));
        files.map(|(files, _)| files.clone()).unwrap_or_default()
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.files.retain(|(at, _), _| is_kept(*at));
    }

    /// The message in requests, without the left-out files.
    pub(super) fn as_sent(&self, at: usize, message: &Message) -> Message {
        if self.files.is_empty() || !has_files(message) {
            return message.clone();
        }
        let of = |call: &str| self.files.get(&(at, call.to_owned()));
        let mut number = 0..;
        message.with_blocks(|block| match block {
            Block::ToolResult(result) => {
                let (files, line) = of(result.call_id())?;
                Some(Block::ToolResult(without_files(result, files, line)))
            }
            block => {
                block.media()?;
                let (files, line) = of("")?;
                files.contains(number.next()?).then(|| Block::text(line))
            }
        })
    }
}

/// The result without these files. `line` replaces the first left-out file.
fn without_files(result: &ToolResult, files: &Indexes, line: &str) -> ToolResult {
    let mut number = 0..;
    let content = result.content().iter().filter_map(|part| {
        let number = part.media().and_then(|_| number.next());
        match number.filter(|number| files.contains(*number)) {
            None => Some(part.clone()),
            gone => (gone.as_ref() == files.first()).then(|| ToolContent::Text(line.to_owned())),
        }
    });
    let content: Vec<ToolContent> = content.collect();
    ToolResult::new(result.call_id(), result.outcome(), content)
}

/// Whether a message has files that are sent.
pub(super) fn has_files(message: &Message) -> bool {
    let has = |block: &Block| match block {
        Block::ToolResult(result) => result.content().iter().any(|part| part.media().is_some()),
        block => block.media().is_some(),
    };
    message.role() != Role::Assistant && message.blocks().iter().any(has)
}

/// A file that is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentFile<'a> {
    /// The number of the file among the files of its result or message, from 0.
    pub(crate) number: usize,
    pub(crate) kind: MediaKind,
    pub(crate) media: &'a Media,
}

/// The files of a result, or of a message of the user, that are sent.
#[derive(Clone, Debug)]
pub(crate) struct SentFiles<'a> {
    /// The index of the message in the transcript.
    pub(crate) message: usize,
    /// The id of the call and the name of its tool. `None` for a message of the user.
    pub(crate) call: Option<(&'a str, &'a str)>,
    /// The numbers of the files that are left out already.
    pub(crate) left_out: Indexes,
    pub(crate) files: Vec<SentFile<'a>>,
}

impl<'a> SentFiles<'a> {
    pub(super) fn new(
        message: usize,
        call: Option<(&'a str, &'a str)>,
        left_out: Indexes,
        files: impl Iterator<Item = (MediaKind, &'a Media)>,
    ) -> Self {
        let files = files.enumerate().filter(|(number, _)| !left_out.contains(*number));
        let files = files.map(|(number, (kind, media))| SentFile { number, kind, media }).collect();
        Self { message, call, left_out, files }
    }

    /// Whether an entry of a fact is about these files.
    pub(crate) fn are_of(&self, cleared: &ClearedResult) -> bool {
        match (cleared.message, self.call) {
            (Some(message), None) => place(message) == self.message,
            (None, Some((id, _))) => id == cleared.call,
            _ => false,
        }
    }
}
