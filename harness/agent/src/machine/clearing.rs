//! Applies the fact that clears: results, arguments and files are left out of what is sent.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    machine::{Machine, cannot},
    window::{open_turn, place},
};
use harness_core::{
    error::Error,
    journal::{ClearedArguments, ClearedResult},
    message::{Arguments, Block, Media, MediaKind, Message, Role, ToolContent, ToolResult},
};

/// The files that are left out of what is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    /// Which files are left out, and the line in their place: by the index of the message and the id
    /// of the call, which is empty for a message of the user.
    files: HashMap<(usize, String), (BTreeSet<usize>, String)>,
}

impl LeftOut {
    fn insert(&mut self, at: usize, cleared: &ClearedResult, files: BTreeSet<usize>) {
        let place = (at, cleared.call.clone());
        match files.is_empty() {
            true => self.files.remove(&place),
            false => self.files.insert(place, (files, cleared.text.clone())),
        };
    }

    fn of(&self, at: usize, call: &str) -> BTreeSet<usize> {
        let files = self.files.get(&(at, call.to_owned()));
        files.map(|(files, _)| files.clone()).unwrap_or_default()
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.files.retain(|(at, _), _| is_kept(*at));
    }

    /// A message as it is sent.
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
                files.contains(&number.next()?).then(|| Block::text(line))
            }
        })
    }
}

/// The result without these files, and with the line in the place of the first of them.
fn without_files(result: &ToolResult, files: &BTreeSet<usize>, line: &str) -> ToolResult {
    let mut number = 0..;
    let content = result.content().iter().filter_map(|part| {
        let number = part.media().and_then(|_| number.next());
        match number.filter(|number| files.contains(number)) {
            None => Some(part.clone()),
            gone => (gone.as_ref() == files.first()).then(|| ToolContent::Text(line.to_owned())),
        }
    });
    let content: Vec<ToolContent> = content.collect();
    ToolResult::new(result.call_id(), result.outcome(), content)
}

/// Whether a message is sent with files.
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
    /// Its number among the files of its result or message.
    pub(crate) number: usize,
    pub(crate) kind: MediaKind,
    pub(crate) media: &'a Media,
}

/// The files of a result, or of a message of the user, that are sent.
#[derive(Clone, Debug)]
pub(crate) struct SentFiles<'a> {
    /// The index of the message in the transcript.
    pub(crate) message: usize,
    /// The call of the result, and the name of its tool.
    pub(crate) call: Option<(&'a str, &'a str)>,
    /// The numbers of those that are left out already.
    pub(crate) left_out: BTreeSet<usize>,
    pub(crate) files: Vec<SentFile<'a>>,
}

impl<'a> SentFiles<'a> {
    fn new(
        message: usize,
        call: Option<(&'a str, &'a str)>,
        left_out: BTreeSet<usize>,
        files: impl Iterator<Item = (MediaKind, &'a Media)>,
    ) -> Self {
        let files = files.enumerate().filter(|(number, _)| !left_out.contains(number));
        let files = files.map(|(number, (kind, media))| SentFile { number, kind, media }).collect();
        Self { message, call, left_out, files }
    }

    /// Whether they are the files that this part of a fact is about.
    pub(crate) fn are_of(&self, cleared: &ClearedResult) -> bool {
        match (cleared.message, self.call) {
            (Some(message), None) => place(message) == self.message,
            (None, Some((id, _))) => id == cleared.call,
            _ => false,
        }
    }
}

impl Machine {
    /// Whether any message has files.
    pub(crate) fn has_files(&self) -> bool {
        !self.window.with_files.is_empty()
    }

    /// The files that are sent, in their order.
    pub(crate) fn sent_files(&self) -> Vec<SentFiles<'_>> {
        let (view, summed_up) = (self.window.view.as_deref(), self.summed_up());
        let is_sent =
            |at: &usize| *at >= summed_up || view.is_some_and(|view| view.kept.contains(at));
        let all = self.transcript.messages();
        let mut found = Vec::new();
        for message in self.window.with_files.iter().copied().filter(is_sent) {
            let Some(said) = all.get(message) else { continue };
            let is_cleared = |call: &str| {
                view.is_some_and(|view| view.cleared.contains_key(&(message, call.to_owned())))
            };
            let left_out =
                |call: &str| view.map(|view| view.files.of(message, call)).unwrap_or_default();
            let asked = message.checked_sub(1).and_then(|before| all.get(before));
            for result in said.results().filter(|result| !is_cleared(result.call_id())) {
                let mut calls = asked.into_iter().flat_map(Message::calls);
                let tool = calls.find(|call| call.id() == result.call_id());
                let call = (result.call_id(), tool.map_or("", |call| call.name()));
                let files = result.content().iter().filter_map(ToolContent::media);
                found.push(SentFiles::new(message, Some(call), left_out(call.0), files));
            }
            let files = said.blocks().iter().filter_map(Block::media);
            found.push(SentFiles::new(message, None, left_out(""), files));
        }
        found
    }

    /// The message whose files are to be left out, and the numbers of these files.
    fn place_of_files(
        &self,
        cleared: &ClearedResult,
        files: &[u64],
    ) -> Result<(usize, BTreeSet<usize>), Error> {
        let gone: BTreeSet<usize> = files.iter().map(|number| place(*number)).collect();
        let sent = self.sent_files();
        let known = sent.iter().find(|files| files.are_of(cleared));
        let has_all = |it: &&SentFiles<'_>| {
            gone.last().is_none_or(|last| *last < it.left_out.len() + it.files.len())
        };
        match known.filter(has_all) {
            Some(files) => Ok((files.message, gone)),
            None => {
                let of = match cleared.message {
                    Some(message) => format!("the message {message}"),
                    None => format!("the result of the call `{}`", cleared.call),
                };
                Err(cannot(format!("{of} is not sent with the files {files:?}")))
            }
        }
    }

    pub(super) fn clear(
        &mut self,
        results: &[ClearedResult],
        arguments: &[ClearedArguments],
        after: u64,
    ) -> Result<(), Error> {
        self.check_can_edit()?;
        let can: HashMap<&str, usize> =
            self.clearable(usize::MAX).map(|(at, result)| (result.call_id(), at)).collect();
        let mut places = Vec::with_capacity(results.len());
        let mut files = Vec::new();
        for cleared in results {
            if let Some(gone) = &cleared.files {
                files.push((self.place_of_files(cleared, gone)?, cleared));
                continue;
            }
            let Some(at) = can.get(&*cleared.call) else {
                let id = &cleared.call;
                let what = "cannot be cleared: the call did not only read, or its result is not sent whole";
                return Err(cannot(format!("the result of the call `{id}` {what}")));
            };
            places.push((*at, cleared));
        }
        let long: HashSet<(usize, usize)> =
            self.long_calls(usize::MAX).map(|(place, _)| place).collect();
        let mut shorter = HashMap::with_capacity(arguments.len());
        for cleared in arguments {
            let place = (place(cleared.message), place(cleared.call));
            let is_object = Arguments::decode(&cleared.arguments).is_ok_and(|it| !it.is_empty());
            if !long.contains(&place) || !is_object {
                let (message, call) = place;
                let what = "cannot be shortened: it has no long arguments, did not succeed or is not sent whole, or \
                            the new arguments are not an object";
                return Err(cannot(format!("the call {call} of the message {message} {what}")));
            }
            shorter.insert(place, cleared.arguments.clone());
        }
        if places.is_empty() && shorter.is_empty() && files.is_empty() {
            return Err(cannot("a fact that clears must name at least one result or call"));
        }
        let last = places.iter().map(|(at, _)| *at).max();
        let window = &mut self.window;
        let view = window.view.get_or_insert_default();
        for (at, cleared) in places {
            view.cleared.insert((at, cleared.call.clone()), cleared.text.clone());
        }
        for ((at, gone), cleared) in files {
            view.files.insert(at, cleared, gone);
        }
        if let Some(vendor) = &mut view.vendor {
            let all = self.transcript.messages();
            (vendor.thinks_at, vendor.open_at) = (all.len(), open_turn(all));
        }
        // The results among them that were not cleared are small, and stay.
        window.reads.retain(|(at, _)| last.is_none_or(|last| *at > last));
        window.long.retain(|place| !shorter.contains_key(place));
        window.has_shortened |= !shorter.is_empty();
        view.shorter.extend(shorter);
        self.record_edit(after);
        Ok(())
    }
}
