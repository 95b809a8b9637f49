//! Leaves the oldest files out of what is sent, where a server takes no more of them: those of tools
//! first, and those of the user last.

use super::{Chat, machine::SentFiles, run::Run};
use crate::{
    context::{FileLimits, TooMuch, too_much},
    error::Error,
    journal::{ClearedResult, Fact},
    message::{Block, Media, MediaKind, Message, Role},
    provider::tokens_of,
};

/// How many pictures and how many bytes of files are sent.
#[derive(Clone, Copy)]
struct Total {
    images: usize,
    bytes: u64,
}

impl Total {
    fn of(sent: &[SentFiles<'_>]) -> Self {
        let files = || sent.iter().flat_map(|sent| &sent.files);
        let images = files().filter(|(kind, _)| *kind == MediaKind::Image).count();
        Self { images, bytes: files().map(|(_, media)| bytes_of(media)).sum() }
    }

    fn fits(self, limits: FileLimits) -> bool {
        limits.allow(self.images, self.bytes)
    }
}

fn bytes_of(media: &Media) -> u64 {
    u64::try_from(media.room()).unwrap_or(u64::MAX)
}

impl Chat {
    /// What a request to the model may have, as far as that is known.
    fn file_limits(&self) -> FileLimits {
        let (name, model) = self.agent.answers();
        let known = self.agent.models().find(name, model);
        let images = known.request_images.and_then(|most| usize::try_from(most).ok());
        // The rest of the request needs some room, too.
        let bytes = known.request_bytes.map(|most| most - most / 8);
        self.file_limits.and(FileLimits { images, bytes })
    }

    /// The fact that leaves files out before the model is asked, if a request may not have so many.
    pub(super) fn files_due(&mut self) -> Option<Fact> {
        if !self.machine.has_files() {
            return None;
        }
        let limits = self.file_limits();
        match Total::of(&self.machine.sent_files()).fits(limits) {
            true => None,
            false => self.leave_out(limits),
        }
    }

    /// The fact that leaves out the oldest files, so that a request does not have more than these.
    /// Of the older files of tools, so many are left out that it has only half of it: each such
    /// fact changes the beginning of requests, which costs the vendor's prompt cache.
    fn leave_out(&mut self, limits: FileLimits) -> Option<Fact> {
        let before = self.used();
        let sent = self.machine.sent_files();
        let mut total = Total::of(&sent);
        let all = self.machine.transcript().messages();
        let answered = all.iter().rposition(|message| message.role() == Role::Assistant);
        let is_unread = |files: &SentFiles<'_>| answered.is_none_or(|at| files.message > at);
        let mut order: Vec<&SentFiles<'_>> = sent.iter().collect();
        order.sort_by_key(|files| (is_unread(files), files.call.is_none(), files.message));
        let (mut results, mut saved) = (Vec::new(), 0_u64);
        for files in order {
            let is_old = files.call.is_some() && !is_unread(files);
            let limits = if is_old { limits.halved() } else { limits };
            let mut gone = Vec::new();
            for (kind, media) in &files.files {
                if total.fits(limits) {
                    break;
                }
                total.images -= usize::from(*kind == MediaKind::Image);
                total.bytes -= bytes_of(media);
                gone.push((*kind, *media));
            }
            if !gone.is_empty() {
                saved = saved.saturating_add(tokens_of(&as_message(&gone)));
                results.push(self.line_for(files, gone.len()));
            }
        }
        let after = before.tokens.saturating_sub(before.scaled(saved));
        let (arguments, before) = (Vec::new(), before.tokens);
        (!results.is_empty()).then_some(Fact::ContextCleared { results, arguments, before, after })
    }

    /// Leaves out these files, from the first one that is still sent.
    fn line_for(&self, files: &SentFiles<'_>, gone: usize) -> ClearedResult {
        let count = files.left_out.saturating_add(gone);
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let Some((call, tool)) = files.call else {
            let line = "[A file of the user was left out here, because a request takes no more of them. Ask for it if you \
                        need it.]";
            return ClearedResult::files_of_user(number(files.message), number(count), line);
        };
        let them = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        let tool_of = self.tools().get(tool);
        let reads = tool_of.is_some_and(|tool| tool.side_effects().is_read_only());
        let again = match reads {
            true => format!(" Call `{tool}` again if you need more of it."),
            false => String::new(),
        };
        let line = format!(
            "[{them} of this result were left out, because a request takes no more of them.{again}]"
        );
        ClearedResult::files(call, number(count), line)
    }
}

fn as_message(files: &[(MediaKind, &Media)]) -> Message {
    let blocks = files.iter().map(|(kind, media)| match kind {
        MediaKind::Image => Block::Image((*media).clone()),
        MediaKind::Audio => Block::Audio((*media).clone()),
        MediaKind::Document => Block::Document((*media).clone()),
    });
    Message::new(Role::User, blocks)
}

impl Run<'_> {
    /// Leaves files out if a vendor has refused a request because it has too many. Returns whether
    /// the model can be asked again.
    pub(super) fn leaves_out_after(&mut self, error: &Error) -> Result<bool, Error> {
        let chat = &mut *self.chat;
        if chat.agent.window().is_off() || !chat.machine.can_move() || !chat.machine.has_files() {
            return Ok(false);
        }
        let Total { images, bytes } = Total::of(&chat.machine.sent_files());
        // At least one file has to go, whatever the server says.
        let limits = match too_much(error.last(), images) {
            None => return Ok(false),
            Some(TooMuch::Images(named)) => {
                let limits = FileLimits { images: named, bytes: None };
                chat.file_limits = chat.file_limits.and(limits);
                FileLimits { images: named.or(images.checked_sub(1)), bytes: None }
            }
            Some(TooMuch::Bytes) => FileLimits { images: None, bytes: bytes.checked_sub(1) },
        };
        match chat.leave_out(limits) {
            Some(fact) => self.clears(&fact).map(|()| true),
            None => Ok(false),
        }
    }
}
