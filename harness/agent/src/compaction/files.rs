//! Leaves the oldest files out of what is sent, where a server takes no more of them: those of tools
//! first, and those of the user last.

use super::window::ContextUsage;
use crate::{
    Chat,
    machine::{SentFile, SentFiles},
    run::driver::RunDriver,
};
use harness_core::{
    context::{FileLimits, TooMuch, too_much},
    error::Error,
    journal::{ClearedResult, Fact},
    message::{Block, MediaKind, Message, Role},
    provider::tokens_of,
};

/// Why files are left out, in words for the model.
const TOO_MANY: &str = "a request takes no more of them";
const TOO_LARGE: &str = "the server takes none of this size or form";

/// About how many bytes of a request one token is.
const BYTES: u64 = 4;

/// How many pictures and how many bytes of files are sent.
#[derive(Clone, Copy)]
struct FileTotals {
    images: usize,
    bytes: u64,
}

impl FileTotals {
    fn of(sent: &[SentFiles<'_>]) -> Self {
        let files = || sent.iter().flat_map(|sent| &sent.files);
        let images = files().filter(|file| file.is_image()).count();
        Self { images, bytes: files().map(|file| file.bytes()).sum() }
    }

    fn is_within(self, limits: FileLimits) -> bool {
        limits.allow(self.images, self.bytes)
    }

    /// Takes a file away if there are too many like it. Returns whether it did.
    fn leave_out_file(&mut self, file: &SentFile<'_>, limits: FileLimits) -> bool {
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

    /// How much of the request it is. The data of others is elsewhere.
    fn bytes(&self) -> u64 {
        let room = self.media.size().map_or(0, |_| self.media.room());
        u64::try_from(room).unwrap_or(u64::MAX)
    }
}

/// Less than this, by a fourth: where a server does not say how much it takes, few requests find it
/// out.
fn less(than: u64) -> Option<u64> {
    than.checked_sub((than / 4).max(1))
}

impl Chat {
    /// What a request to the model may have, as far as that is known.
    fn file_limits(&self) -> FileLimits {
        let (name, model) = self.agent.provider_and_model();
        let known = self.agent.models().find(name, model);
        let images = known.request_images.and_then(|most| usize::try_from(most).ok());
        // The rest of the request needs some room, too.
        let bytes = known.request_bytes.map(|most| most - most / 8);
        self.file_limits.and(FileLimits { images, bytes })
    }

    /// The fact that leaves files out before the model is asked, if a request may not have so many.
    pub(crate) fn files_due(&mut self) -> Option<Fact> {
        if !self.machine.has_files() {
            return None;
        }
        let limits = self.file_limits();
        let fits = FileTotals::of(&self.machine.sent_files()).is_within(limits);
        let used = self.context_usage();
        (!fits).then(|| self.leave_out(limits, used)).flatten()
    }

    /// The index of the first message that the model has not read yet.
    fn unread_from(&self) -> usize {
        let all = self.machine.transcript().messages();
        let answered = all.iter().rposition(|message| message.role() == Role::Assistant);
        answered.map_or(0, |at| at.saturating_add(1))
    }

    /// The fact that leaves out the oldest files, so that a request does not have more than these.
    /// Of the older files of tools, so many are left out that it has only half of it: each such
    /// fact changes the beginning of requests, which costs the vendor's prompt cache.
    fn leave_out(&self, limits: FileLimits, used: ContextUsage) -> Option<Fact> {
        let sent = self.machine.sent_files();
        let (mut total, unread_from) = (FileTotals::of(&sent), self.unread_from());
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
        self.without(gone, TOO_MANY, used)
    }

    /// The fact that leaves out the largest picture: of those that the model has not read yet, since
    /// the server has taken the others.
    fn leave_out_picture(&self, used: ContextUsage) -> Option<Fact> {
        let (sent, unread_from) = (self.machine.sent_files(), self.unread_from());
        let all = sent.iter().flat_map(|files| files.files.iter().map(move |file| (files, file)));
        let pictures = all.filter(|(_, file)| file.is_image());
        let size = |files: &SentFiles<'_>, file: &SentFile<'_>| {
            (files.message >= unread_from, file.bytes())
        };
        let (files, largest) = pictures.max_by_key(|(files, file)| size(files, file))?;
        self.without(vec![(files, vec![*largest])], TOO_LARGE, used)
    }

    /// The fact that leaves out these files, besides those that are left out already.
    fn without(
        &self,
        gone: Vec<(&SentFiles<'_>, Vec<SentFile<'_>>)>,
        why: &str,
        used: ContextUsage,
    ) -> Option<Fact> {
        let some = gone.iter().filter(|(_, gone)| !gone.is_empty());
        let results: Vec<ClearedResult> =
            some.map(|(files, gone)| self.line_for(files, gone, why)).collect();
        let saved = gone.iter().map(|(_, gone)| tokens(gone)).sum();
        let (arguments, before) = (Vec::new(), used.tokens);
        let after = before.saturating_sub(used.scaled(saved));
        (!results.is_empty()).then_some(Fact::ContextCleared { results, arguments, before, after })
    }

    /// Leaves out these files, besides those that are left out already.
    fn line_for(&self, files: &SentFiles<'_>, gone: &[SentFile<'_>], why: &str) -> ClearedResult {
        let place = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let mut numbers = files.left_out.clone();
        numbers.extend(gone.iter().map(|file| file.number));
        let count = numbers.len();
        let numbers = numbers.into_iter().map(place);
        let Some((call, tool)) = files.call else {
            let line = format!(
                "[A file of the user was left out here, because {why}. Ask for it if you need it.]"
            );
            return ClearedResult::files_of_user(place(files.message), numbers, line);
        };
        let them = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        let tool_of = self.tools().get(tool);
        let reads = tool_of.is_some_and(|tool| tool.side_effects().is_read_only());
        let again = match reads {
            true => format!(" Call `{tool}` again if you need more of it."),
            false => String::new(),
        };
        let line = format!("[{them} of this result were left out, because {why}.{again}]");
        ClearedResult::files(call, numbers, line)
    }

    /// The files of these results and messages as they are sent now.
    fn files_now(&self, results: &[ClearedResult]) -> Vec<ClearedResult> {
        let sent = self.machine.sent_files();
        let of = results.iter().filter_map(|it| sent.iter().find(|files| files.are_of(it)));
        of.map(|files| self.line_for(files, &[], TOO_MANY)).collect()
    }
}

/// About how many tokens these files are.
fn tokens(files: &[SentFile<'_>]) -> u64 {
    let blocks = files.iter().map(|file| match file.kind {
        MediaKind::Image => Block::Image(file.media.clone()),
        MediaKind::Audio => Block::Audio(file.media.clone()),
        MediaKind::Document => Block::Document(file.media.clone()),
    });
    tokens_of(&Message::new(Role::User, blocks))
}

impl RunDriver<'_> {
    /// Leaves files out if a vendor has refused a request because it has too many. Returns whether
    /// the model can be asked again. If that has not helped, all of them are sent again later.
    pub(crate) fn leave_out_after(&mut self, error: &Error) -> Result<bool, Error> {
        let chat = &mut *self.chat;
        if chat.agent.window().is_off()
            || !chat.machine.can_edit_context()
            || !chat.machine.has_files()
        {
            return Ok(false);
        }
        let used = chat.context_usage();
        let sent = chat.machine.sent_files();
        let FileTotals { images, bytes } = FileTotals::of(&sent);
        // At least one file has to go, whatever the server says.
        let fact = match too_much(error.last(), images) {
            None => return Ok(false),
            Some(TooMuch::OneImage) => chat.leave_out_picture(used),
            Some(TooMuch::Images(named)) => {
                let fewer = || usize::try_from(less(u64::try_from(images).ok()?)?).ok();
                let most = named.or_else(fewer);
                chat.file_limits = chat.file_limits.and(FileLimits { images: named, bytes: None });
                chat.leave_out(FileLimits { images: most, bytes: None }, used)
            }
            Some(TooMuch::Bytes) => {
                let files: u64 = sent.iter().map(|sent| tokens(&sent.files)).sum();
                let rest = used.tokens.saturating_sub(used.scaled(files)).saturating_mul(BYTES);
                // If most of the request is text, it would be too large without files, too.
                let may_help = bytes >= rest || !chat.files_before.is_empty();
                let limits = FileLimits { images: None, bytes: less(bytes) };
                may_help.then(|| chat.leave_out(limits, used)).flatten()
            }
        };
        let Some(fact) = fact else { return self.restore_files(used).map(|()| false) };
        if let Fact::ContextCleared { results, .. } = &fact {
            for before in chat.files_now(results) {
                let is_it =
                    |it: &ClearedResult| (&it.call, it.message) == (&before.call, before.message);
                if !chat.files_before.iter().any(is_it) {
                    chat.files_before.push(before);
                }
            }
        }
        self.apply_clearing(&fact).map(|()| true)
    }

    /// Sends the files again that were left out since the last answer.
    fn restore_files(&mut self, used: ContextUsage) -> Result<(), Error> {
        let results = std::mem::take(&mut self.chat.files_before);
        if results.is_empty() {
            return Ok(());
        }
        self.chat.file_limits = FileLimits::default();
        let (arguments, before) = (Vec::new(), used.tokens);
        self.chat.record(&Fact::ContextCleared { results, arguments, before, after: before })
    }
}
