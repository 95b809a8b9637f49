//! What is sent of the transcript. Facts can change it; the transcript itself keeps everything.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::Arc,
};

use super::{
    clearing::{LeftOut, has_files},
    given::InitialMessages,
    machine::{Machine, RunPhase, cannot},
    stated::StatedWindow,
};
use crate::model_notices::late_end;
use harness_core::{
    context::has_line,
    error::Error,
    journal::{Fact, VendorSummary},
    message::{Block, Message, Messages, Role, ToolCall, ToolContent, ToolResult, Transcript},
    provider::{FoundTools, ToolSearches, Usage, VendorsView},
};

/// What is sent of a transcript, and what is known of its size.
#[derive(Clone, Debug, Default)]
pub(super) struct ContextState {
    /// What is sent, if it is not the transcript itself.
    pub(super) view: Option<Box<EditedContext>>,
    /// The results that only read and that clearing has not passed yet: the index of the message,
    /// and the number of the result in it.
    pub(super) reads: VecDeque<(usize, usize)>,
    /// The calls that succeeded and have long arguments: the index of the message, and the number
    /// of the call in it.
    pub(super) long: VecDeque<(usize, usize)>,
    /// The last request whose tokens the vendor has counted, or the estimate after the last later
    /// move.
    measured: Option<MeasuredRequest>,
    /// How many tokens the window of a model has, as far as an error of its vendor states it.
    stated_windows: Vec<StatedWindow>,
    /// Whether shorter arguments were ever sent for some call.
    pub(super) has_shortened: bool,
    /// The messages that are sent with files, by their index.
    pub(super) with_files: Vec<usize>,
    /// The results that also tell of an earlier call that has ended late: the index of the message,
    /// and the number of the result in it.
    pub(super) news: Vec<(usize, usize)>,
    /// What the model is told of each call that has ended late, and the names under which its result is kept, by the id
    /// of the call.
    pub(super) ended: HashMap<String, (String, Option<String>)>,
    /// What is known of the messages with which the conversation was begun.
    given: InitialMessages,
    /// The largest request that was answered, by the count of its vendor.
    answered: u64,
    /// Whether a refusal since the last answer named a window that is smaller than a request that had succeeded.
    doubted: bool,
    /// How many requests in a row did not fit.
    overflows: u32,
    /// Whether the context was not edited since then.
    refused: bool,
    /// How many requests for a summary as text have failed in this run since the last summary.
    failures: u32,
    /// How many requests for a summary were refused as too large.
    refusals: u32,
    /// How many tokens of the conversation were in the last request for a summary that was refused as too large since
    /// the last summary.
    too_large: Option<u64>,
    /// Whether a request for the vendor's own summary has failed since then.
    vendor_failed: bool,
    /// Whether the vendor has refused a summary of its own. No other one is requested then.
    vendor_refused: bool,
    /// The texts that the program wants in each summary.
    pins: Arc<Vec<String>>,
    /// The tools that the model has searched for.
    found: Arc<Vec<FoundTools>>,
}

/// A request whose tokens the vendor has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredRequest {
    /// How many messages it had.
    pub(crate) messages: usize,
    /// How many tokens it had.
    pub(crate) tokens: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EditedContext {
    /// How many messages of the transcript are summarized.
    summed_up: usize,
    /// The indexes of those of them that are still sent.
    pub(super) kept: Vec<usize>,
    summary: Option<Message>,
    /// The lines that are sent in place of results, by the index of the message and the id of the
    /// call.
    pub(super) cleared: HashMap<(usize, String), String>,
    /// The files that are left out.
    pub(super) files: LeftOut,
    /// The arguments that are sent in place of those of calls, by the index of the message and the
    /// number of the call in it.
    pub(super) shorter: HashMap<(usize, usize), String>,
    /// What is sent.
    sent: Transcript,
    /// How many of these messages, from the first one on, are sent without reasoning.
    thinking_from: usize,
    /// The index of the first message of the turn that was open when the context was last edited:
    /// the model had called tools and not completed its answer. If no turn was open, it equals `thinking_from`.
    open_turn: usize,
    /// What is sent to the model that has made a summary of its own.
    pub(super) vendor: Option<Box<VendorView>>,
}

/// What is sent to the model that has made a summary of its own.
#[derive(Clone, Debug)]
pub(super) struct VendorView {
    summary: VendorSummary,
    /// How many messages of the transcript come before the words that are sent with the summary.
    words_at: usize,
    /// The first message of the transcript whose reasoning is sent.
    pub(super) thinks_at: usize,
    /// The message of the transcript with which the turn begins that was open when `thinks_at` was
    /// set, if one was.
    pub(super) open_at: usize,
    sent: Transcript,
}

/// What is sent to one model, and how its messages correspond to those of the transcript.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextView<'a> {
    pub(crate) sent: &'a Transcript,
    /// How many of these messages, from the first one on, are sent without reasoning.
    pub(crate) thinking_from: usize,
    /// The beginning of the turn that was open when `thinking_from` was set, if one was.
    open_turn: usize,
    /// How many messages of the transcript are summarized.
    summed_up: usize,
    /// How many messages are sent in their place.
    head: usize,
    /// The message of the transcript before which one is sent that is not in the transcript.
    words_at: Option<usize>,
}

impl<'a> ContextView<'a> {
    pub(crate) fn messages(&self) -> &'a Messages {
        self.sent.messages()
    }

    /// The message that is sent in place of the summarized messages, if there are some.
    pub(crate) fn summary(&self) -> Option<&'a Message> {
        (self.summed_up > 0).then(|| self.messages().get(self.head.checked_sub(1)?))?
    }

    /// The index in what is sent of a message of the transcript that is not summarized, or of the
    /// end.
    pub(crate) fn index_of(&self, at: usize) -> usize {
        let words = usize::from(self.words_at.is_some_and(|words| words <= at));
        self.head.saturating_add(at.saturating_sub(self.summed_up)).saturating_add(words)
    }

    /// The index in the transcript of the message that is sent at this index, or of the first one
    /// after a summary.
    pub(crate) fn place_of(&self, sent: usize) -> usize {
        let at = self.summed_up.saturating_add(sent.saturating_sub(self.head));
        at.saturating_sub(usize::from(self.words_at.is_some_and(|words| words < at)))
    }

    /// The message that is sent for a message of the transcript, unless that one is summarized.
    pub(crate) fn sent_for(&self, at: usize) -> Option<&'a Message> {
        (at >= self.summed_up).then(|| self.messages().get(self.index_of(at)))?
    }

    /// The messages that are sent before this message of the transcript.
    pub(crate) fn messages_before(&self, at: usize) -> Messages {
        self.messages().range(..self.index_of(at))
    }

    /// Whether the vendor may summarize what is sent before this message of the transcript. Nothing
    /// may come between the vendor's summary and the messages after it. So the words next to an
    /// earlier summary have to be summarized with it, the last summarized message and the next one
    /// must have different roles, and a call stays together with its result.
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

/// An index from a fact.
pub(super) fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The beginning of the open turn, where the model has called tools and not completed its answer.
/// Without one, it is the end.
pub(super) fn open_turn(messages: &Messages) -> usize {
    let is_open = messages.last().is_some_and(|last| last.role() == Role::Tool);
    let said = || messages.iter().rposition(|message| message.role() == Role::User);
    if is_open { said().map_or(0, |at| at.saturating_add(1)) } else { messages.len() }
}

impl EditedContext {
    /// Rebuilds what is sent after the context was edited.
    fn rebuild(&mut self, all: &Messages) {
        let kept = self.kept.iter().filter_map(|at| Some(self.as_sent(*at, all.get(*at)?)));
        let mut sent: Messages = kept.chain(self.summary.clone()).collect();
        for (at, message) in all.iter().enumerate().skip(self.summed_up) {
            sent.push(self.as_sent(at, message));
        }
        self.thinking_from = sent.len();
        self.open_turn = open_turn(&sent);
        self.sent = Transcript::of_sent(sent);
        let Some(mut vendor) = self.vendor.take() else { return };
        let summary = &vendor.summary;
        let mut sent: Messages = [summary.message.clone()].into_iter().collect();
        for (at, message) in all.iter().enumerate().skip(self.summed_up) {
            if at == vendor.words_at {
                summary.words.iter().for_each(|words| sent.push(words.clone()));
            }
            sent.push(self.as_sent(at, message));
        }
        if vendor.words_at >= all.len() {
            summary.words.iter().for_each(|words| sent.push(words.clone()));
        }
        vendor.sent = Transcript::of_sent(sent);
        self.vendor = Some(vendor);
    }

    /// What is sent to every model that has not made the summary.
    fn sent_view(&self) -> ContextView<'_> {
        ContextView {
            sent: &self.sent,
            thinking_from: self.thinking_from,
            open_turn: self.open_turn,
            summed_up: self.summed_up,
            head: self.kept.len().saturating_add(usize::from(self.summary.is_some())),
            words_at: None,
        }
    }

    /// What is sent to the model that has made the summary.
    fn vendor_sent_view(&self) -> Option<ContextView<'_>> {
        let VendorView { summary, words_at, thinks_at, open_at, sent } = self.vendor.as_deref()?;
        let words_at = summary.words.as_ref().map(|_| *words_at);
        let summed_up = self.summed_up;
        let mut seen =
            ContextView { sent, thinking_from: 0, open_turn: 0, summed_up, head: 1, words_at };
        seen.thinking_from = seen.index_of((*thinks_at).max(summed_up));
        seen.open_turn = seen.index_of((*open_at).max(summed_up));
        Some(seen)
    }

    /// A message as it is sent.
    fn as_sent(&self, at: usize, message: &Message) -> Message {
        if message.role() == Role::Assistant {
            return self.with_shorter_calls(at, message);
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

/// How many refused requests for a summary are no failure: each has half of the one before it.
const REFUSALS: u32 = 4;

impl ContextState {
    /// Resets the counts of failures, because a summary was made or a run has begun.
    pub(super) fn reset_failures(&mut self) {
        (self.failures, self.refusals, self.vendor_failed) = (0, 0, false);
    }

    /// A run has begun: a request that is refused as too large may be repeated once, and a summary is asked for anew.
    pub(super) fn begin_run(&mut self) {
        self.reset_failures();
        (self.overflows, self.too_large) = (0, None);
        // A refusal may have been a mistake, or about one run alone. Where the window is too small, its size tells that.
        self.refused = false;
    }

    /// Looks at the messages with which the conversation begins.
    pub(super) fn set_initial_messages(&mut self, messages: &Messages) {
        self.has_shortened |= has_line(messages);
        let files = messages.iter().enumerate().filter(|(_, message)| has_files(message));
        self.with_files = files.map(|(at, _)| at).collect();
        self.given = InitialMessages::of(messages);
    }

    /// Whether this call is a search that has found tools.
    pub(super) fn is_search(&self, call: &str) -> bool {
        self.found.iter().any(|found| found.call == call)
    }

    /// Records the size of a request with this number of messages, because the model has answered
    /// it. A model that has answered a larger request than one that was refused has a larger window than that.
    pub(super) fn record_sent(
        &mut self,
        messages: usize,
        usage: &Usage,
        (provider, model): (&str, &str),
        is_same: bool,
    ) {
        (self.overflows, self.refused, self.too_large, self.doubted) = (0, false, None, false);
        let answered = usage.input.unwrap_or(0);
        self.answered = if is_same { self.answered.max(answered) } else { answered };
        self.stated_windows
            .retain(|it| it.fallback || !it.is_of(provider, model) || it.tokens > answered);
        // Some servers count nothing and report zero tokens.
        if let Some(input) = usage.input.filter(|input| *input > 0) {
            let tokens = input.saturating_sub(usage.compaction.unwrap_or(0));
            self.measured = Some(MeasuredRequest { messages, tokens });
        }
    }
}

impl Machine {
    /// What is sent: the transcript, or its parts with what facts have put in their place. Between
    /// runs it is valid to send. A model that has made a [summary of its own](VendorSummary) gets
    /// that one in place of the summary as text.
    pub fn sent(&self) -> &Transcript {
        self.window.view.as_ref().map_or(&self.transcript, |view| &view.sent)
    }

    /// How many of the messages that are sent, from the first one on, are sent without reasoning.
    pub fn thinking_from(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.thinking_from)
    }

    /// What is sent to this model of this provider.
    pub(crate) fn sent_view_for(&self, provider: &str, model: &str) -> ContextView<'_> {
        let vendor = self.window.view.as_deref().and_then(|view| view.vendor.as_deref());
        let made_it = |vendor: &VendorView| {
            (&*vendor.summary.provider, &*vendor.summary.model) == (provider, model)
        };
        let own = vendor.is_some_and(made_it).then(|| self.vendor_sent_view());
        own.flatten().unwrap_or_else(|| self.readable())
    }

    /// What is sent to every model that has not made the summary.
    pub(crate) fn readable(&self) -> ContextView<'_> {
        let sent = &self.transcript;
        let all = ContextView {
            sent,
            thinking_from: 0,
            open_turn: 0,
            summed_up: 0,
            head: 0,
            words_at: None,
        };
        self.window.view.as_deref().map_or(all, EditedContext::sent_view)
    }

    /// What is sent to the model that has made a summary of its own.
    pub(crate) fn vendor_sent_view(&self) -> Option<ContextView<'_>> {
        self.window.view.as_deref()?.vendor_sent_view()
    }

    /// The parts that are sent only to the model that has made a summary of its own.
    pub(crate) fn vendors_view(&self) -> Option<VendorsView<'_>> {
        let view = self.window.view.as_deref()?;
        let (seen, vendor) = (view.vendor_sent_view()?, view.vendor.as_deref()?);
        let (provider, model) = (&*vendor.summary.provider, &*vendor.summary.model);
        let (messages, words) = (seen.messages(), vendor.summary.words.as_ref());
        let (thinking_from, open_turn) = (seen.thinking_from, seen.open_turn);
        Some(VendorsView { provider, model, messages, words, thinking_from, open_turn })
    }

    /// Whether the vendor may be asked for a summary of its own.
    pub(crate) fn may_ask_vendor(&self) -> bool {
        !self.window.vendor_failed && !self.window.vendor_refused
    }

    /// The beginning of the turn that was open when reasoning was left out, if one was.
    pub(crate) fn open_turn(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.open_turn)
    }

    /// How many messages of the transcript are replaced by a summary.
    pub fn summed_up(&self) -> usize {
        self.window.view.as_ref().map_or(0, |view| view.summed_up)
    }

    /// The texts that the program wants in each summary.
    pub fn pins(&self) -> &[String] {
        &self.window.pins
    }

    /// The tools that the model has searched for.
    pub(crate) fn found(&self) -> &[FoundTools] {
        &self.window.found
    }

    /// The found tools, with the number of summarized messages: only those whose results are still
    /// sent count.
    pub(crate) fn found_now(&self) -> ToolSearches<'_> {
        ToolSearches::new(&self.window.found, self.summed_up())
    }

    pub(super) fn add_found_tools(&mut self, call: &str, tools: &[String]) -> Result<(), Error> {
        let known = |tool: &String| self.window.found.iter().any(|it| it.tools.contains(tool));
        if tools.is_empty() || tools.iter().any(known) {
            return Err(cannot(
                "a search must find at least one tool, and only tools that were not found before",
            ));
        }
        let (call, tools, place) =
            (call.to_owned(), tools.to_vec(), self.transcript.messages().len());
        Arc::make_mut(&mut self.window.found).push(FoundTools { call, tools, place });
        // The beginning of requests has changed.
        self.window.measured = None;
        Ok(())
    }

    /// The beginning of what is sent whose tokens the vendor has counted.
    pub(crate) fn measured(&self) -> Option<MeasuredRequest> {
        self.window.measured
    }

    /// How many tokens the window of this model has, as far as an error of its vendor states it.
    pub(crate) fn stated_window(&self, provider: &str, model: &str) -> Option<u64> {
        let all = self.window.stated_windows.iter().enumerate();
        let of_model = all.filter(|(_, it)| it.is_of(provider, model));
        // What was refused elsewhere has to fit there now. Later, the window is the model's own again.
        let last = self.window.stated_windows.len().checked_sub(1);
        let last = last.filter(|_| self.window.refused || self.window.overflows > 0);
        let counts = of_model.filter(|(at, it)| !it.fallback || Some(*at) == last);
        counts.map(|(_, it)| it.tokens).min()
    }

    /// Whether the window of this model is only known by a request that was refused without a size.
    pub(crate) fn is_guessed(&self, provider: &str, model: &str) -> bool {
        let told = self.stated_window(provider, model);
        let of_model = self.window.stated_windows.iter().filter(|it| it.is_of(provider, model));
        of_model.filter(|it| Some(it.tokens) == told).all(|it| !it.is_named)
    }

    /// How large the last request was that did not fit into the window of this model, if none was answered since.
    pub(crate) fn last_refused(&self, provider: &str, model: &str) -> Option<u64> {
        let last = self.window.stated_windows.last().filter(|it| it.is_of(provider, model))?;
        (self.window.overflows > 0).then_some(last.tokens)
    }

    /// Whether the last request did not fit and the context was not edited since then.
    pub(crate) fn is_refused(&self, provider: &str, model: &str) -> bool {
        self.window.refused
            && self.window.stated_windows.last().is_some_and(|it| it.is_of(provider, model))
    }

    /// How many requests for a summary as text have failed in this run since the last summary.
    pub(crate) fn failed_compactions(&self) -> u32 {
        // A smaller one may fit.
        self.window.failures.saturating_add(self.window.refusals.saturating_sub(REFUSALS))
    }

    /// How many tokens of the conversation were in the last request for a summary that was refused as
    /// too large, if there was no summary since.
    pub(crate) fn too_large(&self) -> Option<u64> {
        self.window.too_large
    }

    /// Whether what is sent can be changed now: no call is open, and the vendor does not continue
    /// an answer.
    pub(crate) fn can_edit_context(&self) -> bool {
        let last = self.transcript.messages().last();
        matches!(self.phase, RunPhase::Asking | RunPhase::Ended(_))
            && last.is_some_and(|last| !last.is_paused())
    }

    /// The results before this message of the transcript that only read, are sent unchanged and tell
    /// of no other call, each with the index of its message.
    pub(crate) fn clearable(&self, before: usize) -> impl Iterator<Item = (usize, &ToolResult)> {
        let from = self.summed_up();
        let reads = self.window.reads.iter().take_while(move |(at, _)| *at < before);
        let kept = reads.filter(move |place| !self.has_news(**place));
        kept.filter(move |(at, _)| *at >= from).filter_map(|(at, number)| {
            let message = self.transcript.messages().get(*at)?;
            Some((*at, message.results().nth(*number)?))
        })
    }

    /// The calls that succeeded, have long arguments, are sent unchanged and have their results
    /// before this message of the transcript, each with its place: the index of the message, and
    /// the number of the call in it.
    pub(crate) fn long_calls(
        &self,
        before: usize,
    ) -> impl Iterator<Item = ((usize, usize), &ToolCall)> {
        let from = self.summed_up();
        let long = self.window.long.iter().take_while(move |(at, _)| at.saturating_add(1) < before);
        long.filter(move |(at, _)| *at >= from).filter_map(|(at, number)| {
            let message = self.transcript.messages().get(*at)?;
            Some(((*at, *number), message.calls().nth(*number)?))
        })
    }

    /// Whether this message of the role user is the library's own.
    pub(crate) fn is_own_message(&self, at: usize) -> bool {
        let message = self.transcript.messages().get(at);
        message.is_some_and(Message::is_by_program)
    }

    /// Adds a message of the role user that the library has written and not the user.
    pub(super) fn add_notice(&mut self, message: &Message) -> Result<(), Error> {
        self.tell(&message.by_program())
    }

    /// What the model is told of a call that has ended late.
    pub(crate) fn late_end_of(&self, call: &str) -> Option<(&str, Option<&str>)> {
        let ContextState { ended, given, .. } = &self.window;
        let ended = ended.get(call).map(|(text, names)| (text.as_str(), names.as_deref()));
        ended.or_else(|| given.end_of(call))
    }

    /// Whether the last refusal has named a window that is smaller than what the model had answered.
    pub(crate) fn is_window_doubtful(&self) -> bool {
        self.window.doubted
    }

    /// How many messages the conversation began with.
    pub(crate) fn began_with(&self) -> usize {
        self.window.given.messages()
    }

    /// Whether the given messages tell this end of a call already, word by word.
    pub(crate) fn has_given_end(&self, tool: &str, result: &ToolResult) -> bool {
        self.window.given.has_end(result.call_id(), &late_end(tool, result))
    }

    /// Whether this result also tells of an earlier call that has ended late.
    fn has_news(&self, place: (usize, usize)) -> bool {
        self.window.news.contains(&place)
    }

    /// Whether shorter arguments were ever sent for some call. A summary may repeat what stood there.
    pub(crate) fn has_shortened(&self) -> bool {
        self.window.has_shortened
    }

    pub(super) fn push(&mut self, message: Message) -> Result<(), Error> {
        if has_files(&message) {
            self.window.with_files.push(self.transcript.messages().len());
        }
        self.transcript.push(message.clone())?;
        let Some(view) = &mut self.window.view else { return Ok(()) };
        if let Some(vendor) = &mut view.vendor {
            vendor.sent.push(message.clone())?;
        }
        view.sent.push(message)
    }

    /// Applies a fact that changes what is sent or states its size.
    pub(super) fn apply_context_fact(&mut self, fact: &Fact) -> Result<(), Error> {
        match fact {
            Fact::ContextCleared { results, arguments, after, .. } => {
                self.clear(results, arguments, *after)
            }
            Fact::ContextCompacted { messages, kept, summary, vendor, request, after, .. } => {
                self.compact(*messages, kept, summary, vendor.as_deref(), *after)?;
                self.usage.add(&request.usage);
                Ok(())
            }
            Fact::CompactionFailed { request, stopped, vendor, too_large, cause: _ } => {
                let failures = u32::from(!stopped && !vendor && too_large.is_none());
                let refusals = u32::from(too_large.is_some());
                self.window.refusals = self.window.refusals.saturating_add(refusals);
                self.window.too_large = too_large.or(self.window.too_large);
                self.window.failures = self.window.failures.saturating_add(failures);
                self.window.vendor_failed |= *vendor && !stopped;
                self.usage.add(&request.usage);
                Ok(())
            }
            Fact::VendorSummaryRefused { cause: _ } => self.refuse(),
            Fact::ContextOverflowed { provider, model, fallback, window, tokens, estimated } => {
                self.asking("a request cannot be refused")?;
                let is_same =
                    self.window.stated_windows.last().is_none_or(|it| it.is_of(provider, model));
                let before = if is_same { self.window.overflows } else { 0 };
                let (provider, model, fallback) = (provider.clone(), model.clone(), *fallback);
                let is_named = window.is_some();
                let tokens_of = window.or(*tokens).unwrap_or(*estimated);
                let stated =
                    StatedWindow { provider, model, fallback, tokens: tokens_of, is_named };
                // A window that is not larger than what the model answered before is a mistake the first time, and nothing
                // follows from it. If it is refused again before an answer has come, the window is smaller now.
                let by = self.answered_by.as_ref();
                let is_same = by.is_some_and(|(provider, model)| stated.is_of(provider, model));
                let is_odd = is_same && tokens_of <= self.window.answered;
                if !fallback && is_odd && !mem::replace(&mut self.window.doubted, true) {
                    return Ok(());
                }
                self.window.overflows = before.saturating_add(1);
                self.window.refused = true;
                self.window.stated_windows.push(stated);
                if let Some(tokens) = tokens.filter(|_| !fallback) {
                    let messages = self.widest().messages().len();
                    self.window.measured = Some(MeasuredRequest { messages, tokens });
                }
                Ok(())
            }
            Fact::ContextPinned { text } => {
                if !self.window.pins.contains(text) {
                    Arc::make_mut(&mut self.window.pins).push(text.clone());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_can_edit(&self) -> Result<(), Error> {
        match self.can_edit_context() {
            true => Ok(()),
            false => Err(cannot(
                "what is sent cannot change while calls wait for results or an answer is paused",
            )),
        }
    }

    fn compact(
        &mut self,
        messages: u64,
        kept: &[u64],
        summary: &Message,
        vendor: Option<&VendorSummary>,
        after: u64,
    ) -> Result<(), Error> {
        self.check_can_edit()?;
        let all = self.transcript.messages();
        let summed_up = place(messages);
        let is_cut = summed_up > self.summed_up()
            && summed_up <= all.len()
            && all.get(summed_up).is_none_or(|next| next.role() != Role::Tool);
        if !is_cut || summary.role() != Role::User {
            return Err(cannot(
                "a summary must be a message of the user that replaces more messages than before, up to the \
                 end of a turn",
            ));
        }
        let speaks =
            |message: &Message, role| message.role() == role && !message.blocks().is_empty();
        let is_vendors = |vendor: &VendorSummary| {
            speaks(&vendor.message, Role::Assistant)
                && vendor.message.calls().next().is_none()
                && vendor.words.as_ref().is_none_or(|words| speaks(words, Role::User))
        };
        if !vendor.is_none_or(is_vendors) {
            return Err(cannot(
                "a vendor's own summary must be a message of the model, and the words beside it one of the user",
            ));
        }
        let kept: Vec<usize> = kept.iter().map(|at| place(*at)).collect();
        let is_said = |at: &usize| {
            *at < summed_up && all.get(*at).is_some_and(|said| said.role() == Role::User)
        };
        if !kept.is_sorted_by(|one, next| one < next) || !kept.iter().all(is_said) {
            return Err(cannot(
                "of the summarized messages, only those of the user can be kept, in their order",
            ));
        }
        let (window, words_at) = (&mut self.window, all.len());
        let view = window.view.get_or_insert_default();
        // Reasoning that was left out before stays left out. The vendor's own summary does not
        // leave out any other.
        let (thinks_at, open_at) = match view.vendor.take() {
            Some(vendor) => (vendor.thinks_at, vendor.open_at),
            None => {
                let seen = view.sent_view();
                (seen.place_of(seen.thinking_from), seen.place_of(seen.open_turn))
            }
        };
        view.vendor = vendor.map(|summary| {
            let (summary, sent) = (summary.clone(), Transcript::default());
            Box::new(VendorView { summary, words_at, thinks_at, open_at, sent })
        });
        (view.summed_up, view.kept) = (summed_up, kept);
        view.summary = Some(summary.clone());
        view.cleared.retain(|(at, _), _| *at >= summed_up);
        view.files.retain(|at| at >= summed_up || view.kept.contains(&at));
        view.shorter.retain(|(at, _), _| *at >= summed_up);
        window.reads.retain(|(at, _)| *at >= summed_up);
        window.long.retain(|(at, _)| *at >= summed_up);
        window.reset_failures();
        window.too_large = None;
        self.record_edit(after);
        Ok(())
    }

    /// Applies that the vendor has refused its own summary.
    fn refuse(&mut self) -> Result<(), Error> {
        self.asking("a summary cannot be refused")?;
        let view = self.window.view.as_mut().filter(|view| view.vendor.is_some());
        let Some(view) = view else {
            return Err(cannot("no vendor's own summary is sent, so none can be refused"));
        };
        view.vendor = None;
        view.rebuild(self.transcript.messages());
        (self.window.vendor_refused, self.window.measured) = (true, None);
        Ok(())
    }

    /// What is sent to the model that has made a summary of its own, or else to every model.
    fn widest(&self) -> &Transcript {
        let vendor = self.window.view.as_deref().and_then(|view| view.vendor.as_deref());
        vendor.map_or(self.sent(), |vendor| &vendor.sent)
    }

    pub(super) fn record_edit(&mut self, after: u64) {
        if let Some(view) = &mut self.window.view {
            view.rebuild(self.transcript.messages());
        }
        let messages = self.widest().messages().len();
        // Without a count of the vendor there is nothing by which later estimates could be corrected.
        let measured = self.window.measured.map(|_| MeasuredRequest { messages, tokens: after });
        self.window.measured = measured;
        self.window.refused = false;
    }
}
