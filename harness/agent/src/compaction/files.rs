//! Leaves the oldest files out of requests if a server does not accept so many files. Files of tools are left
//! out first, files of the user last.

use super::{context_usage::context_usage, gauge::ContextUsage};
use crate::{
    conversation::state::ConversationState,
    machine::{SentFile, SentFiles},
    model_notices::{TOO_LARGE, TOO_MANY, left_out_of_result, left_out_of_user},
};
use harness_core::{
    context::FileLimits,
    journal::{ClearedResult, Fact},
    message::{Block, MediaKind, Message, Role},
    provider::tokens_of,
};

/// The approximate number of bytes per token in a request.
pub(crate) const BYTES: u64 = 4;

/// How many images a request has, and how many bytes its files have.
#[derive(Clone, Copy)]
pub(crate) struct FileTotals {
    pub(crate) images: usize,
    pub(crate) bytes: u64,
}

impl FileTotals {
    pub(crate) fn of(sent: &[SentFiles<'_>]) -> Self {
        let files = || sent.iter().flat_map(|sent| &sent.files);
        let images = files().filter(|file| file.is_image()).count();
        Self { images, bytes: files().map(|file| file.bytes()).sum() }
    }

    pub(crate) fn is_within(self, limits: FileLimits) -> bool {
        limits.allow(self.images, self.bytes)
    }

    /// If the file counts toward an exceeded limit on images or bytes, subtracts the file from the totals and
    /// returns `true`.
    pub(crate) fn leave_out_file(&mut self, file: &SentFile<'_>, limits: FileLimits) -> bool {
        let is_one = file.is_image() && limits.images.is_some_and(|most| self.images > most);
        let is_part = file.bytes() > 0 && limits.bytes.is_some_and(|most| self.bytes > most);
        if is_one || is_part {
            self.images = self.images.saturating_sub(usize::from(file.is_image()));
            self.bytes = self.bytes.saturating_sub(file.bytes());
        }
        is_one || is_part
    }
}

impl SentFile<'_> {
    fn is_image(&self) -> bool {
        self.kind == MediaKind::Image
    }

    /// The bytes of this file in the request. A file that is only referenced has no bytes there.
    fn bytes(&self) -> u64 {
        let room = self.media.size().map_or(0, |_| self.media.room());
        u64::try_from(room).unwrap_or(u64::MAX)
    }
}

/// Three quarters of this number: the next limit to try if a server does not state its limit. With this step,
/// the limit is found after a few requests.
pub(crate) fn less(than: u64) -> Option<u64> {
    than.checked_sub((than / 4).max(1))
}

/// The approximate number of tokens of these files.
pub(crate) fn tokens(files: &[SentFile<'_>]) -> u64 {
    let blocks = files.iter().map(|file| match file.kind {
        MediaKind::Image => Block::Image(file.media.clone()),
        MediaKind::Audio => Block::Audio(file.media.clone()),
        MediaKind::Document => Block::Document(file.media.clone()),
    });
    tokens_of(&Message::new(Role::User, blocks))
}

/// The known limits on the number of images and the bytes of files in a request to the model.
pub(crate) fn file_limits(state: &ConversationState) -> FileLimits {
    let (name, model) = state.agent.provider_and_model();
    let known = state.agent.models().find(name, model);
    let images = known.request_images.and_then(|most| usize::try_from(most).ok());
    // An eighth of the bytes stays free for the text of the request.
    let bytes = known.request_bytes.map(|most| most - most / 8);
    state.requests.file_limits.and(FileLimits { images, bytes })
}

/// The fact that leaves out files if the next request would have too many files.
pub(crate) fn files_due(state: &mut ConversationState) -> Option<Fact> {
    if !state.machine.has_files() {
        return None;
    }
    let limits = file_limits(state);
    let fits = FileTotals::of(&state.machine.sent_files()).is_within(limits);
    let used = context_usage(state);
    (!fits).then(|| leave_out(state, limits, used)).flatten()
}

/// The index of the first message that the model has not read yet.
fn unread_from(state: &ConversationState) -> usize {
    let all = state.machine.transcript().messages();
    let answered = all.iter().rposition(|message| message.role() == Role::Assistant);
    answered.map_or(0, |at| at.saturating_add(1))
}

/// The fact that leaves out the oldest files, so that a request stays within these limits. Each such fact
/// changes the beginning of requests, so the next request cannot use the vendor's prompt cache. To make such
/// facts rare, files of tools that the model has already read are left out until the request uses only half of
/// a limit.
pub(crate) fn leave_out(
    state: &ConversationState,
    limits: FileLimits,
    used: ContextUsage,
) -> Option<Fact> {
    let sent = state.machine.sent_files();
    let (mut total, unread_from) = (FileTotals::of(&sent), unread_from(state));
    let is_unread = |files: &SentFiles<'_>| files.message >= unread_from;
    let mut order: Vec<&SentFiles<'_>> = sent.iter().collect();
    order.sort_by_key(|files| (is_unread(files), files.call.is_none(), files.message));
    let mut gone = Vec::new();
    for files in order {
        let is_old = files.call.is_some() && !is_unread(files);
        let limits = if is_old { limits.halved() } else { limits };
        let all = files.files.iter().copied();
        gone.push((files, all.filter(|file| total.leave_out_file(file, limits)).collect()));
    }
    without_files(state, gone, TOO_MANY, used)
}

/// The fact that leaves out the largest image that the model has not read yet. The server has already accepted
/// the images that the model has read. If the model has read all images, the largest of them is left out.
pub(crate) fn leave_out_picture(state: &ConversationState, used: ContextUsage) -> Option<Fact> {
    let (sent, unread_from) = (state.machine.sent_files(), unread_from(state));
    let all = sent.iter().flat_map(|files| files.files.iter().map(move |file| (files, file)));
    let pictures = all.filter(|(_, file)| file.is_image());
    let size =
        |files: &SentFiles<'_>, file: &SentFile<'_>| (files.message >= unread_from, file.bytes());
    let (files, largest) = pictures.max_by_key(|(files, file)| size(files, file))?;
    without_files(state, vec![(files, vec![*largest])], TOO_LARGE, used)
}

/// The fact that leaves out these files, in addition to the files that are left out already.
pub(crate) fn without_files(
    state: &ConversationState,
    gone: Vec<(&SentFiles<'_>, Vec<SentFile<'_>>)>,
    why: &str,
    used: ContextUsage,
) -> Option<Fact> {
    let some = gone.iter().filter(|(_, gone)| !gone.is_empty());
    let results: Vec<ClearedResult> =
        some.map(|(files, gone)| line_for_files(state, files, gone, why)).collect();
    let saved = gone.iter().map(|(_, gone)| tokens(gone)).sum();
    let (arguments, before) = (Vec::new(), used.tokens);
    let after = before.saturating_sub(used.scaled(saved));
    (!results.is_empty()).then_some(Fact::ContextCleared { results, arguments, before, after })
}

/// The entry that leaves these files out of a result or message, in addition to the files that are left out
/// already.
fn line_for_files(
    state: &ConversationState,
    files: &SentFiles<'_>,
    gone: &[SentFile<'_>],
    why: &str,
) -> ClearedResult {
    let place = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let mut numbers = files.left_out.clone();
    gone.iter().for_each(|file| numbers.insert(file.number));
    let count = numbers.len();
    let numbers = numbers.iter().copied().map(place);
    let Some((call, tool)) = files.call else {
        let line = left_out_of_user(why);
        return ClearedResult::files_of_user(place(files.message), numbers, line);
    };
    let tool_of = state.tools().get(tool);
    let reads = tool_of.is_some_and(|tool| tool.side_effects().is_read_only());
    let line = left_out_of_result(count, why, reads.then_some(tool));
    ClearedResult::files(call, numbers, line)
}

/// For each of these results and messages, the entry with the files that are left out so far.
pub(crate) fn files_now(
    state: &ConversationState,
    results: &[ClearedResult],
) -> Vec<ClearedResult> {
    let sent = state.machine.sent_files();
    let of = results.iter().filter_map(|it| sent.iter().find(|files| files.are_of(it)));
    of.map(|files| line_for_files(state, files, &[], TOO_MANY)).collect()
}
