//! The differences between the transcript and the messages that are sent. Facts change the messages that are
//! sent; the transcript keeps everything.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    clearing::{LeftOut, has_files},
    given::InitialMessages,
    indexes::Indexes,
    stated::StatedWindow,
};
use harness_core::{
    context::has_line,
    journal::VendorSummary,
    message::{
        Block, Message, Messages, ReasoningBlock, Role, ToolCall, ToolContent, ToolResult,
        Transcript, VendorData,
    },
    provider::{FoundTools, Usage},
};

/// How many requests for a summary may be refused as too large before a refusal counts as a failure. Each of
/// these requests has half the size of the previous request.
pub(super) const REFUSALS: u32 = 4;

/// The differences between the transcript and the sent messages, and the known sizes of the sent messages.
#[derive(Clone, Debug, Default)]
pub(super) struct ContextState {
    /// The edited messages. `None` if the transcript is sent unchanged.
    pub(super) view: Option<Box<EditedContext>>,
    /// The results of read-only calls that were not considered for clearing yet: the index of the message, and
    /// the number of the result in the message.
    pub(super) reads: VecDeque<(usize, usize)>,
    /// The calls that succeeded and have long arguments: the index of the message, and the number of the call
    /// in the message.
    pub(super) long: VecDeque<(usize, usize)>,
    /// The last request whose tokens the vendor has counted, or the estimate for the next request if the
    /// context was edited since.
    pub(super) measured: Option<MeasuredRequest>,
    /// Whether shortened arguments were ever sent for some call.
    pub(super) has_shortened: bool,
    /// The index of the last message with the role user.
    pub(super) last_said: Option<usize>,
    /// The indexes of the messages that have files.
    pub(super) with_files: Vec<usize>,
    /// The results that also contain a report that an earlier call ended after it was stopped: the index of the
    /// message, and the number of the result in the message.
    pub(super) news: Vec<(usize, usize)>,
    /// The report about the end of each call that was stopped before, by the id of the call, and the names of
    /// the stored full result.
    pub(super) ended: HashMap<String, (String, Option<String>)>,
    /// What is known of the messages with which the conversation began.
    pub(super) given: Option<Box<InitialMessages>>,
    /// The texts of [`Chat::pin`](crate::Chat::pin), which are part of each summary.
    pub(super) pins: Arc<Vec<String>>,
    /// The tools that the model has found by searching.
    pub(super) found: Arc<Vec<FoundTools>>,
    pub(super) refusals: RefusedRequests,
    pub(super) compactions: FailedCompactions,
    /// The indexes of the messages whose reasoning was made after other content than that of
    /// [`sent_view`](EditedContext::sent_view).
    pub(super) foreign: Indexes,
}

impl ContextState {
    /// The edited messages. If the transcript was sent unchanged until now, these are all its messages.
    pub(super) fn edited(&mut self, all: &Messages) -> &mut EditedContext {
        self.view.get_or_insert_with(|| {
            let sent = Transcript::of_sent(all.clone());
            Box::new(EditedContext { sent, ..EditedContext::default() })
        })
    }

    /// Leaves out the reasoning of all messages so far.
    pub(super) fn leave_out_reasoning(&mut self, all: &Messages) {
        let open = self.open_turn(all);
        self.edited(all).leave_out_reasoning(all.len(), open);
        self.measured = None;
    }

    /// Leaves out the reasoning of these messages, each in the views in which its reasoning is not valid.
    pub(super) fn leave_out_reasoning_of(&mut self, all: &Messages, messages: &Indexes) {
        let silent = self.foreign.common(messages);
        let view = self.edited(all);
        view.silent.add(&silent);
        if let Some(vendor) = &mut view.vendor {
            vendor.silent.add(&vendor.foreign.common(messages));
        }
        view.update(all, messages);
        self.measured = None;
    }

    /// The index of the first message of the open turn, in which the model has called tools and not completed its
    /// answer. Without an open turn, the number of messages.
    pub(super) fn open_turn(&self, all: &Messages) -> usize {
        let is_open = all.last().is_some_and(|last| last.role() == Role::Tool);
        let first = || self.last_said.map_or(0, |at| at.saturating_add(1));
        if is_open { first() } else { all.len() }
    }

    /// Records that the reasoning of this message was made by the model with a summary of its own (`by_owner`) or by
    /// another model, so that it is not valid in the other view. If `by_owner` is `None`, the model is not known: the
    /// reasoning counts as valid in neither of two views. `unused`: it is valid in no view.
    pub(super) fn mark_origin(&mut self, at: usize, by_owner: Option<bool>, unused: bool) {
        let vendor = self.view.as_mut().and_then(|view| view.vendor.as_mut());
        if unused || vendor.is_some() && by_owner != Some(false) {
            self.foreign.insert(at);
        }
        if let Some(vendor) = vendor.filter(|_| unused || by_owner != Some(true)) {
            vendor.foreign.insert(at);
        }
    }

    /// Resets the counts of failures, because a summary was made or a run has begun.
    pub(super) fn reset_failures(&mut self) {
        let FailedCompactions { failures, refusals, vendor_failed, .. } = &mut self.compactions;
        (*failures, *refusals, *vendor_failed) = (0, 0, false);
    }

    /// Resets the counts at the beginning of a run: a request that is refused as too large may be repeated
    /// once, and summaries are requested again.
    pub(super) fn begin_run(&mut self) {
        self.reset_failures();
        (self.refusals.overflows, self.compactions.too_large) = (0, None);
        // The vendor may have refused the request by mistake, or because of something in the earlier run only. A
        // stated size of the window is kept.
        self.refusals.refused = false;
    }

    /// Reads the messages with which the conversation begins. Records which messages have files, whether
    /// arguments were shortened, and the reports about calls that ended after they were stopped.
    pub(super) fn set_initial_messages(&mut self, messages: &Messages) {
        self.has_shortened |= has_line(messages);
        let files = messages.iter().enumerate().filter(|(_, message)| has_files(message));
        self.with_files = files.map(|(at, _)| at).collect();
        self.last_said = messages.iter().rposition(|message| message.role() == Role::User);
        self.given = Some(Box::new(InitialMessages::of(messages)));
    }

    /// Whether this call is a search that has found tools.
    pub(super) fn is_search(&self, call: &str) -> bool {
        self.found.iter().any(|found| found.call == call)
    }

    /// Records the size of a request that the model has answered. `messages` is the number of messages in the
    /// request. Stated windows that are smaller than this request are wrong and are removed.
    pub(super) fn record_sent(
        &mut self,
        messages: usize,
        usage: &Usage,
        (provider, model): (&str, &str),
        is_same: bool,
    ) {
        (
            self.refusals.overflows,
            self.refusals.refused,
            self.compactions.too_large,
            self.refusals.doubted,
        ) = (0, false, None, false);
        let answered = usage.input.unwrap_or(0);
        self.refusals.answered =
            if is_same { self.refusals.answered.max(answered) } else { answered };
        self.refusals
            .stated_windows
            .retain(|it| it.fallback || !it.is_of(provider, model) || it.tokens > answered);
        // Some servers count nothing and report zero tokens.
        if let Some(input) = usage.input.filter(|input| *input > 0) {
            let tokens = input.saturating_sub(usage.compaction.unwrap_or(0));
            self.measured = Some(MeasuredRequest { messages, tokens });
        }
    }

    /// Adds a text of the program to all later summaries.
    pub(super) fn pin(&mut self, text: &String) {
        if !self.pins.contains(text) {
            Arc::make_mut(&mut self.pins).push(text.clone());
        }
    }
}

/// What is known of requests that did not fit into the window.
#[derive(Clone, Debug, Default)]
pub(super) struct RefusedRequests {
    /// The sizes of windows that errors of vendors have stated.
    pub(super) stated_windows: Vec<StatedWindow>,
    /// The largest request that the model has answered, in tokens, by the vendor's count.
    pub(super) answered: u64,
    /// Whether an error since the last answer stated a window smaller than a request that was answered before.
    pub(super) doubted: bool,
    /// How many requests in a row did not fit into the window.
    pub(super) overflows: u32,
    /// Whether the last request did not fit into the window, and the context was not edited since.
    pub(super) refused: bool,
}

/// The requests for summaries that have failed.
#[derive(Clone, Debug, Default)]
pub(super) struct FailedCompactions {
    /// How many requests for a summary as text have failed in this run since the last summary.
    pub(super) failures: u32,
    /// How many requests for a summary were refused as too large.
    pub(super) refusals: u32,
    /// The tokens of the conversation in the last summary request that the vendor has refused as too large.
    /// `None` after a new summary, after an answer of the model, and at the beginning of a run.
    pub(super) too_large: Option<u64>,
    /// Whether a request for the vendor's own summary has failed in this run since the last summary.
    pub(super) vendor_failed: bool,
    /// Whether the vendor has refused a request because of the vendor's own summary. If so, no new summary is
    /// requested from the vendor.
    pub(super) vendor_refused: bool,
}

impl FailedCompactions {
    /// Counts a request for a summary that has failed or was refused.
    pub(super) fn count(&mut self, stopped: bool, vendor: bool, too_large: Option<u64>) {
        let failures = u32::from(!stopped && !vendor && too_large.is_none());
        let refusals = u32::from(too_large.is_some());
        self.refusals = self.refusals.saturating_add(refusals);
        self.too_large = too_large.or(self.too_large);
        self.failures = self.failures.saturating_add(failures);
        self.vendor_failed |= vendor && !stopped;
    }
}

/// A request whose tokens the vendor has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredRequest {
    pub(crate) messages: usize,
    pub(crate) tokens: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EditedContext {
    /// How many messages of the transcript are summarized.
    pub(super) summed_up: usize,
    /// The indexes of the summarized messages that are still sent.
    pub(super) kept: Vec<usize>,
    pub(super) summary: Option<Message>,
    /// The lines that are sent in place of results, by the index of the message and the id of the call.
    pub(super) cleared: HashMap<(usize, String), String>,
    /// The files that are left out.
    pub(super) files: LeftOut,
    /// The shortened arguments that are sent for a call, by the index of the message and the number of the call
    /// in the message.
    pub(super) shorter: HashMap<(usize, usize), String>,
    /// The indexes of the messages that are sent without reasoning, although earlier ones are sent with it.
    pub(super) silent: Indexes,
    /// The messages in requests.
    pub(super) sent: Transcript,
    /// The number of messages at the beginning of `sent` that are sent without reasoning.
    pub(super) thinking_from: usize,
    /// The index of the first sent message of the turn that was open when the context was last edited. A turn
    /// is open if the model has called tools and not completed its answer. If no turn was open, this equals
    /// `thinking_from`.
    pub(super) open_turn: usize,
    /// The messages that are sent to the model that has made a summary of its own.
    pub(super) vendor: Option<Box<VendorView>>,
}

impl EditedContext {
    /// Leaves out the reasoning of the first `end` messages of the transcript, which are all messages so far. The open
    /// turn begins at the message `open`.
    pub(super) fn leave_out_reasoning(&mut self, end: usize, open: usize) {
        if let Some(vendor) = &mut self.vendor {
            (vendor.thinks_at, vendor.open_at) = (end, open);
        }
        self.leave_out_readable_reasoning(open);
    }

    /// As [`leave_out_reasoning`](Self::leave_out_reasoning), but the model that has made a summary of its own still
    /// gets its reasoning.
    pub(super) fn leave_out_readable_reasoning(&mut self, open: usize) {
        self.thinking_from = self.sent.messages().len();
        self.open_turn = self.sent_view().index_of(open.max(self.summed_up));
    }

    /// Sends these messages of the transcript as recorded now.
    pub(super) fn update(&mut self, all: &Messages, places: &[usize]) {
        for at in places {
            let Some(message) = all.get(*at) else { continue };
            let index = match *at >= self.summed_up {
                true => Some(self.sent_view().index_of(*at)),
                false => self.kept.binary_search(at).ok(),
            };
            if let Some(index) = index {
                self.sent.replace_sent(index, self.as_sent(*at, message, &self.silent));
            }
            let index = self.vendor_sent_view().map(|seen| seen.index_of(*at));
            if let Some(mut vendor) = self.vendor.take() {
                let index = index.filter(|_| *at >= self.summed_up);
                if let Some(index) = index {
                    vendor.sent.replace_sent(index, self.as_sent(*at, message, &vendor.silent));
                }
                self.vendor = Some(vendor);
            }
        }
    }

    /// Makes the sent messages anew, after a summary was made.
    pub(super) fn rebuild(&mut self, all: &Messages) {
        let sent_as = |at: usize, message: &Message| self.as_sent(at, message, &self.silent);
        let kept = self.kept.iter().filter_map(|at| Some(sent_as(*at, all.get(*at)?)));
        let mut sent: Messages = kept.chain(self.summary.clone()).collect();
        for (at, message) in all.iter().enumerate().skip(self.summed_up) {
            sent.push(sent_as(at, message));
        }
        self.sent = Transcript::of_sent(sent);
        let Some(mut vendor) = self.vendor.take() else { return };
        let summary = &vendor.summary;
        let mut sent: Messages = [summary.message.clone()].into_iter().collect();
        for (at, message) in all.iter().enumerate().skip(self.summed_up) {
            if at == vendor.words_at {
                summary.words.iter().for_each(|words| sent.push(words.clone()));
            }
            sent.push(self.as_sent(at, message, &vendor.silent));
        }
        if vendor.words_at >= all.len() {
            summary.words.iter().for_each(|words| sent.push(words.clone()));
        }
        vendor.sent = Transcript::of_sent(sent);
        self.vendor = Some(vendor);
    }

    /// The messages in requests to every model that has made no summary of its own.
    pub(super) fn sent_view(&self) -> ContextView<'_> {
        ContextView {
            sent: &self.sent,
            thinking_from: self.thinking_from,
            open_turn: self.open_turn,
            summed_up: self.summed_up,
            head: self.kept.len().saturating_add(usize::from(self.summary.is_some())),
            words_at: None,
        }
    }

    /// The messages in requests to the model that has made a summary of its own.
    pub(super) fn vendor_sent_view(&self) -> Option<ContextView<'_>> {
        let VendorView { summary, words_at, thinks_at, open_at, sent, .. } =
            self.vendor.as_deref()?;
        let words_at = summary.words.as_ref().map(|_| *words_at);
        let summed_up = self.summed_up;
        let mut seen =
            ContextView { sent, thinking_from: 0, open_turn: 0, summed_up, head: 1, words_at };
        seen.thinking_from = seen.index_of((*thinks_at).max(summed_up));
        seen.open_turn = seen.index_of((*open_at).max(summed_up));
        Some(seen)
    }

    /// The message of the transcript at this index, as it is sent.
    fn as_sent(&self, at: usize, message: &Message, silent: &Indexes) -> Message {
        if message.role() == Role::Assistant {
            let message = self.with_shorter_calls(at, message);
            return if silent.contains(at) { without_signatures(&message) } else { message };
        }
        let line =
            |result: &ToolResult| self.cleared.get(&(at, result.call_id().to_owned())).cloned();
        let message = &self.files.as_sent(at, message);
        if message.role() != Role::Tool || !message.results().any(|result| line(result).is_some()) {
            return message.clone();
        }
        message.with_blocks(|block| {
            let Block::ToolResult(result) = block else { return None };
            let content = [ToolContent::Text(line(result)?)];
            Some(Block::ToolResult(ToolResult::new(result.call_id(), result.outcome(), content)))
        })
    }

    fn with_shorter_calls(&self, at: usize, message: &Message) -> Message {
        let count = message.calls().count();
        if self.shorter.is_empty() || !(0..count).any(|it| self.shorter.contains_key(&(at, it))) {
            return message.clone();
        }
        let mut number = 0_usize;
        message.with_blocks(|block| {
            let Block::ToolCall(call) = block else { return None };
            let shorter = self.shorter.get(&(at, number));
            number = number.saturating_add(1);
            let vendor = call.vendor().cloned();
            Some(Block::ToolCall(
                ToolCall::new(call.id(), call.name(), shorter?).with_vendor(vendor),
            ))
        })
    }
}

/// The messages that are sent to the model that has made a summary of its own.
#[derive(Clone, Debug)]
pub(super) struct VendorView {
    pub(super) summary: VendorSummary,
    /// The number of transcript messages before the additional text of the summary.
    pub(super) words_at: usize,
    /// The index of the first message of the transcript that is sent with its reasoning.
    pub(super) thinks_at: usize,
    /// The transcript index of the first message of the turn that was open when `thinks_at` was set. Equal to
    /// `thinks_at` if no turn was open.
    pub(super) open_at: usize,
    /// The indexes of the messages whose reasoning was made after other content than that of this view.
    pub(super) foreign: Indexes,
    /// The indexes of the messages that are sent without reasoning, although earlier ones are sent with it.
    pub(super) silent: Indexes,
    pub(super) sent: Transcript,
}

impl VendorView {
    /// Whether this model has made the summary.
    pub(super) fn is_of(&self, provider: &str, model: &str) -> bool {
        (&*self.summary.provider, &*self.summary.model) == (provider, model)
    }
}

/// The data with which vendors take the reasoning of this message back.
pub(super) fn signed_reasoning(message: &Message) -> impl Iterator<Item = &VendorData> {
    message.blocks().iter().filter_map(|block| match block {
        Block::Reasoning(it) => it.vendor(),
        _ => None,
    })
}

/// The message without the data with which the vendor takes reasoning back.
fn without_signatures(message: &Message) -> Message {
    message.with_blocks(|block| match block {
        Block::Reasoning(it) if it.vendor().is_some() => {
            Some(Block::Reasoning(ReasoningBlock::new(it.text(), None)))
        }
        _ => None,
    })
}

/// The messages in requests to one model, and their relation to the messages of the transcript.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextView<'a> {
    pub(crate) sent: &'a Transcript,
    /// The number of messages at the beginning of `sent` that are sent without reasoning.
    pub(crate) thinking_from: usize,
    /// The index of the first sent message of the turn that was open when `thinking_from` was set.
    pub(super) open_turn: usize,
    /// How many messages of the transcript are summarized.
    pub(super) summed_up: usize,
    /// How many messages are sent in place of the summarized messages.
    pub(super) head: usize,
    /// The transcript index of the message before which the additional text of the vendor's own summary is
    /// sent.
    pub(super) words_at: Option<usize>,
}

impl<'a> ContextView<'a> {
    pub(crate) fn messages(&self) -> &'a Messages {
        self.sent.messages()
    }

    /// The message with the summary, if messages are summarized.
    pub(crate) fn summary(&self) -> Option<&'a Message> {
        (self.summed_up > 0).then(|| self.messages().get(self.head.checked_sub(1)?))?
    }

    /// Converts the index of a message in the transcript into its index among the sent messages. The message
    /// must not be summarized. `at` may also be the end of the transcript.
    pub(crate) fn index_of(&self, at: usize) -> usize {
        let words = usize::from(self.words_at.is_some_and(|words| words <= at));
        self.head.saturating_add(at.saturating_sub(self.summed_up)).saturating_add(words)
    }

    /// Converts the index of a sent message into its index in the transcript. For a message of a summary, this
    /// is the index of the first message after the summary.
    pub(crate) fn place_of(&self, sent: usize) -> usize {
        let at = self.summed_up.saturating_add(sent.saturating_sub(self.head));
        at.saturating_sub(usize::from(self.words_at.is_some_and(|words| words < at)))
    }

    /// The sent message for a message of the transcript. `None` if that message is summarized.
    pub(crate) fn sent_for(&self, at: usize) -> Option<&'a Message> {
        (at >= self.summed_up).then(|| self.messages().get(self.index_of(at)))?
    }

    /// The sent messages before this message of the transcript.
    pub(crate) fn messages_before(&self, at: usize) -> Messages {
        self.messages().range(..self.index_of(at))
    }

    /// Whether the vendor may summarize all sent messages before this message of the transcript. Nothing may
    /// come between the vendor's summary and the next message. So the additional text of an earlier summary has
    /// to be summarized, too. The last summarized message and the next message must have different roles, and a
    /// call stays together with its result.
    ///
    /// Source: <https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks>.
    pub(crate) fn vendor_may_cut(&self, at: usize) -> bool {
        if at <= self.summed_up || self.words_at.is_some_and(|words| words > at) {
            return false;
        }
        let index = self.index_of(at);
        let answers = |message: &Message| message.role() == Role::Assistant;
        let last = index.checked_sub(1).and_then(|last| self.messages().get(last));
        match (last, self.messages().get(index)) {
            (Some(last), Some(next)) => {
                let whole = next.role() != Role::Tool && !last.is_refused() && !next.is_refused();
                whole && answers(last) != answers(next)
            }
            (Some(last), None) => answers(last) && !last.is_refused(),
            (None, _) => false,
        }
    }
}

/// An index from a fact. On a platform with smaller integers, an index that is too large becomes the largest
/// index.
pub(super) fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
