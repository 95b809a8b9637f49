//! What is sent of the transcript. Facts of its own change it; the transcript keeps all that was said.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{Machine, Phase, cannot};
use crate::{
    error::Error,
    journal::{ClearedResult, Entry},
    message::{Block, Message, Messages, Role, ToolContent, ToolResult, Transcript},
    provider::Usage,
};

/// What is sent of a transcript, and what is known of its size.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// What is sent, if it is something else than the transcript.
    view: Option<Box<View>>,
    /// The places of results that only read and that nobody has looked at to be cleared: the message, and the
    /// number of the result in it.
    pub(super) reads: VecDeque<(usize, usize)>,
    /// The last request whose tokens the vendor has counted, or what was estimated at the last move after it.
    measured: Option<Measured>,
    /// How many tokens the window of the model has, by an error of its vendor.
    told: Option<u64>,
    /// How many requests in a row did not fit.
    overflows: u32,
    /// Whether nothing was moved since then.
    refused: bool,
    /// How often a summary was asked for in vain since the last one, in this run.
    pub(super) failures: u32,
    /// What the program wants in each summary.
    pins: Arc<Vec<String>>,
}

/// A request whose tokens the vendor has counted.
#[derive(Clone, Copy, Debug)]
pub(in crate::agent) struct Measured {
    /// How many messages it had.
    pub(in crate::agent) messages: usize,
    /// How many tokens.
    pub(in crate::agent) tokens: u64,
}

#[derive(Clone, Debug, Default)]
struct View {
    /// So many messages of the transcript are summed up.
    summed_up: usize,
    /// Those of them that are sent all the same.
    kept: Vec<usize>,
    summary: Option<Message>,
    /// What is sent in the place of results, by the place of their message and the id of the call.
    cleared: HashMap<(usize, String), String>,
    /// What is sent.
    sent: Transcript,
    /// Of the first of these messages, no thinking is sent.
    thinking_from: usize,
}

impl View {
    /// Makes what is sent anew, after a move.
    fn made_of(&mut self, all: &Messages) {
        let kept = self.kept.iter().filter_map(|at| all.get(*at).cloned());
        let mut sent: Messages = kept.chain(self.summary.clone()).collect();
        for (at, message) in all.iter().enumerate().skip(self.summed_up) {
            sent.push(self.as_sent(at, message));
        }
        self.thinking_from = sent.len();
        self.sent = Transcript::of_sent(sent);
    }

    /// A message as it is sent.
    fn as_sent(&self, at: usize, message: &Message) -> Message {
        let line =
            |result: &ToolResult| self.cleared.get(&(at, result.call_id().to_owned())).cloned();
        if message.role() != Role::Tool || !message.results().any(|result| line(result).is_some()) {
            return message.clone();
        }
        message.with_blocks(|block| {
            let Block::ToolResult(result) = block else { return None };
            let content = [ToolContent::Text(line(result)?)];
            Some(Block::ToolResult(ToolResult::new(result.call_id(), result.outcome(), content)))
        })
    }
}

impl Window {
    /// The model has answered a request with so many messages.
    pub(super) fn was_sent(&mut self, messages: usize, usage: &Usage) {
        (self.overflows, self.refused) = (0, false);
        // There are servers that count nothing and say so by a zero.
        if let Some(input) = usage.input.filter(|input| *input > 0) {
            let tokens = input.saturating_sub(usage.compaction.unwrap_or(0));
            self.measured = Some(Measured { messages, tokens });
        }
    }
}

impl Machine {
    /// What is sent: the transcript, or what facts have put in the place of its parts. Between runs it can be sent.
    pub fn sent(&self) -> &Transcript {
        self.window.view.as_ref().map_or(&self.transcript, |view| &view.sent)
    }

    /// Of the first of the messages that are sent, no thinking is sent: how many these are.
    pub fn thinking_from(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.thinking_from)
    }

    /// How many messages of the transcript a summary stands for.
    pub fn summed_up(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.summed_up)
    }

    /// What the program wants in each summary.
    pub fn pins(&self) -> &[String] {
        &self.window.pins
    }

    /// A beginning of what is sent whose tokens are known.
    pub(in crate::agent) fn measured(&self) -> Option<Measured> {
        self.window.measured
    }

    /// How many tokens the window of the model has, by an error of its vendor.
    pub(in crate::agent) fn told_window(&self) -> Option<u64> {
        self.window.told
    }

    /// How many requests in a row did not fit into the window.
    pub(in crate::agent) fn overflows(&self) -> u32 {
        self.window.overflows
    }

    /// Whether the last request did not fit and nothing was moved since then.
    pub(in crate::agent) fn is_refused(&self) -> bool {
        self.window.refused
    }

    /// Which message of the transcript is the one that is sent at this place, or the first one behind a summary.
    pub(in crate::agent) fn place_of(&self, sent: usize) -> usize {
        let Some(view) = &self.window.view else { return sent };
        let head = view.kept.len().saturating_add(usize::from(view.summary.is_some()));
        view.summed_up.saturating_add(sent.saturating_sub(head))
    }

    /// What is sent of a message of the transcript that is not summed up.
    pub(in crate::agent) fn sent_for(&self, at: usize) -> Option<&Message> {
        let Some(view) = &self.window.view else { return self.transcript.messages().get(at) };
        let head = view.kept.len().saturating_add(usize::from(view.summary.is_some()));
        let behind = at.checked_sub(view.summed_up)?;
        view.sent.messages().get(head.saturating_add(behind))
    }

    /// How often a summary was asked for in vain since the last one, in this run.
    pub(in crate::agent) fn failed_compactions(&self) -> u32 {
        self.window.failures
    }

    /// Whether what is sent can be changed now: no call is open, and the vendor does not go on with an answer.
    pub(in crate::agent) fn can_move(&self) -> bool {
        let last = self.transcript.messages().last();
        matches!(self.phase, Phase::Asking | Phase::Ended(_))
            && last.is_some_and(|last| !last.is_paused())
    }

    /// The results that only read, are sent as they are and stand before this message of the transcript, with their
    /// places.
    pub(in crate::agent) fn clearable(
        &self,
        before: usize,
    ) -> impl Iterator<Item = (usize, &ToolResult)> {
        let from = self.summed_up();
        let reads = self.window.reads.iter().take_while(move |(at, _)| *at < before);
        reads.filter(move |(at, _)| *at >= from).filter_map(|(at, number)| {
            let message = self.transcript.messages().get(*at)?;
            Some((*at, message.results().nth(*number)?))
        })
    }

    pub(super) fn push(&mut self, message: Message) -> Result<(), Error> {
        self.transcript.push(message.clone())?;
        match &mut self.window.view {
            Some(view) => view.sent.push(message),
            None => Ok(()),
        }
    }

    /// Takes a fact that changes what is sent, or tells of it.
    pub(super) fn moves(&mut self, entry: &Entry) -> Result<(), Error> {
        match entry {
            Entry::ContextCleared { results, after, .. } => self.clear(results, *after),
            Entry::ContextCompacted { messages, kept, summary, request, after, .. } => {
                self.compact(*messages, kept, summary, *after)?;
                self.usage.add(&request.usage);
                Ok(())
            }
            Entry::CompactionFailed { request, stopped, cause: _ } => {
                let failures = u32::from(!stopped);
                self.window.failures = self.window.failures.saturating_add(failures);
                self.usage.add(&request.usage);
                Ok(())
            }
            Entry::ContextOverflowed { window, tokens, estimated } => {
                self.asking("a request cannot be refused")?;
                self.window.overflows = self.window.overflows.saturating_add(1);
                self.window.refused = true;
                let refused = window.or(*tokens).unwrap_or(*estimated);
                self.window.told = Some(self.window.told.map_or(refused, |told| told.min(refused)));
                if let Some(tokens) = tokens {
                    let messages = self.sent().messages().len();
                    self.window.measured = Some(Measured { messages, tokens: *tokens });
                }
                Ok(())
            }
            Entry::ContextPinned { text } => {
                if !self.window.pins.contains(text) {
                    Arc::make_mut(&mut self.window.pins).push(text.clone());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn may_move(&self) -> Result<(), Error> {
        match self.can_move() {
            true => Ok(()),
            false => Err(cannot(
                "what is sent cannot change while calls wait for results or an answer is paused",
            )),
        }
    }

    fn clear(&mut self, results: &[ClearedResult], after: u64) -> Result<(), Error> {
        self.may_move()?;
        // In a transcript that was kept elsewhere, it is not known what a call does.
        let can: HashMap<&str, usize> =
            self.clearable(usize::MAX).map(|(at, result)| (result.call_id(), at)).collect();
        let mut places = Vec::with_capacity(results.len());
        for cleared in results {
            let Some(at) = can.get(&*cleared.call) else {
                let id = &cleared.call;
                let what = "is not one that only read and is sent whole, so it stays as it is";
                return Err(cannot(format!("the result of the call `{id}` {what}")));
            };
            places.push((*at, cleared));
        }
        let Some(last) = places.iter().map(|(at, _)| *at).max() else {
            return Err(cannot("a fact that clears results names at least one"));
        };
        let window = &mut self.window;
        let view = window.view.get_or_insert_default();
        for (at, cleared) in places {
            view.cleared.insert((at, cleared.call.clone()), cleared.text.clone());
        }
        // What was left as it is among them is small, and stays.
        window.reads.retain(|(at, _)| *at > last);
        self.moved(after);
        Ok(())
    }

    fn compact(
        &mut self,
        messages: u64,
        kept: &[u64],
        summary: &Message,
        after: u64,
    ) -> Result<(), Error> {
        self.may_move()?;
        let all = self.transcript.messages();
        let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let summed_up = place(messages);
        let is_cut = summed_up > self.summed_up()
            && summed_up <= all.len()
            && all.get(summed_up).is_none_or(|next| next.role() != Role::Tool);
        if !is_cut || summary.role() != Role::User {
            return Err(cannot(
                "a summary is a message of the user in the place of more messages than before, up to the \
                 end of a turn",
            ));
        }
        let kept: Vec<usize> = kept.iter().map(|at| place(*at)).collect();
        let is_said = |at: &usize| {
            *at < summed_up && all.get(*at).is_some_and(|said| said.role() == Role::User)
        };
        if !kept.is_sorted_by(|one, next| one < next) || !kept.iter().all(is_said) {
            return Err(cannot("of what is summed up, messages of the user stay, in their order"));
        }
        let window = &mut self.window;
        let view = window.view.get_or_insert_default();
        (view.summed_up, view.kept) = (summed_up, kept);
        view.summary = Some(summary.clone());
        view.cleared.retain(|(at, _), _| *at >= summed_up);
        window.reads.retain(|(at, _)| *at >= summed_up);
        window.failures = 0;
        self.moved(after);
        Ok(())
    }

    fn moved(&mut self, after: u64) {
        if let Some(view) = &mut self.window.view {
            view.made_of(self.transcript.messages());
        }
        let messages = self.sent().messages().len();
        self.window.measured = Some(Measured { messages, tokens: after });
        self.window.refused = false;
    }
}
