//! Builds a whole answer from its events. One accumulator serves all wires.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
};

use futures_core::Stream;
use futures_util::StreamExt as _;
use serde_json::value::RawValue;

use super::{
    JsonProgress, ProviderResponse, StopReason, StreamEvent, Usage, VendorPart, cut_off,
    repeats::{ArgumentsPrint, RepeatCandidate, repeated},
};
use crate::{
    error::{Error, ErrorKind},
    message::{
        Block, Citation, Media, Message, ReasoningBlock, TextBlock, ToolCall, VendorData, are_none,
        is_empty_object,
    },
};

/// Reads a stream to its end and builds the whole answer.
///
/// # Errors
/// - The stream's own error.
/// - [`ErrorKind::Protocol`] if an event cannot follow the earlier events: see [`Accumulator::push`].
/// - [`ErrorKind::CutOff`] if the stream ends before the answer is complete.
pub async fn accumulate(
    stream: impl Stream<Item = Result<StreamEvent, Error>>,
) -> Result<ProviderResponse, Error> {
    let mut stream = pin!(stream);
    let mut answer = Accumulator::default();
    while let Some(event) = stream.next().await {
        answer.push(&event?)?;
    }
    answer.finish()
}

/// An answer that is still arriving.
///
/// A call that the server sends twice counts once. Two calls are the same if they have the same id and equal decoded
/// arguments. Two calls without ids are the same if they are at the same block and have equal decoded arguments. A call
/// with the same id and other arguments is another call, and gets a new id. Equal calls with different ids differ.
///
/// An empty object of arguments is ignored if the call has other arguments: some servers begin or end a call with `{}`.
///
/// ```
/// use harness::provider::{Accumulator, StopReason, StreamEvent, Usage};
///
/// let mut answer = Accumulator::default();
/// answer.push(&StreamEvent::TextDelta { block: 0, text: "Hel".into() })?;
/// answer.push(&StreamEvent::TextDelta { block: 0, text: "lo".into() })?;
/// answer.push(&StreamEvent::Completed { stop: StopReason::Complete, usage: Box::default() })?;
/// assert_eq!(answer.finish()?.message.unwrap().text(), "Hello");
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Accumulator {
    parts: Vec<AnswerPart>,
    /// The index of the last part of each kind in each block.
    places: HashMap<(u32, PartKind), usize>,
    /// The indexes of the parts that are calls, grouped by how the server identifies them.
    alike: HashMap<CallKey, Vec<usize>>,
    cleared: CheckedCalls,
    /// What the last event added to a call; `None` if it added nothing.
    added: Option<ArgumentsChange>,
    id: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    /// The model that was requested, if several were possible.
    asked: Option<String>,
    usage: Usage,
    /// The tokens of discarded answers.
    discarded: Usage,
    stop: Option<StopReason>,
    /// The ids of this answer's calls.
    ids: HashSet<String>,
    /// The ids of earlier calls of the conversation.
    taken: Arc<HashSet<String>>,
}

/// How the server identifies a call: by an id, or by the block if the call has no id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CallKey {
    Id(String),
    Block(u32),
}

impl CallKey {
    fn of(block: u32, given: &str) -> Self {
        match given {
            "" => Self::Block(block),
            given => Self::Id(given.to_owned()),
        }
    }
}

/// [`Accumulator::count_up_to`] has already checked these calls: complete calls at the beginning of the answer.
#[derive(Clone, Copy, Debug, Default)]
struct CheckedCalls {
    /// The checked calls are all calls among the first `parts` parts.
    parts: usize,
    calls: usize,
    /// Whether the call after the checked calls is complete and has failed the check.
    ends: bool,
}

/// A change of a call whose arguments are still arriving.
#[derive(Clone, Copy, Debug)]
struct ArgumentsChange {
    /// Whether the call, or its arguments, start again from the beginning.
    begins: bool,
    /// The index of the first new byte in the arguments.
    from: usize,
}

/// A piece of a call whose arguments are still arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPiece<'a> {
    /// The id that results refer to.
    pub call: &'a str,
    /// The name of the tool.
    pub tool: &'a str,
    /// Whether the call starts with this piece. Earlier pieces of the call are then void.
    pub begins: bool,
    /// The next piece of the arguments' JSON text; may be empty.
    pub json: &'a str,
}

#[derive(Clone, Debug)]
struct AnswerPart {
    block: u32,
    said: PartData,
    /// The sources cited for the part's text.
    citations: Vec<Citation>,
    vendor: Option<VendorData>,
}

#[derive(Clone, Debug)]
enum PartData {
    Text(String),
    Reasoning(String),
    Call(PartCall),
    Image(Media),
    Audio(Media),
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PartKind {
    Text,
    Reasoning,
    Call,
    Image,
    Audio,
    Opaque,
}

#[derive(Clone, Debug)]
struct PartCall {
    /// The id that results refer to.
    id: String,
    /// The id from the server; empty if the server sent no id.
    given: String,
    name: String,
    arguments: String,
    progress: JsonProgress,
    ended: bool,
    /// Whether an earlier call has the same id, so that this call may be a repeat.
    is_again: bool,
    /// Whether this call is a repeat of an earlier call.
    repeats: bool,
    /// The fingerprint of the arguments; `None` until it is computed.
    print: Option<Option<ArgumentsPrint>>,
}

/// While an answer arrives, a call is compared with at most this many earlier calls of the same id. When the answer
/// is complete, a call is compared with all earlier calls of the same id.
const COMPARED: usize = 16;

impl Accumulator {
    /// Creates an accumulator that does not use the ids in `taken` for its calls. Servers number the calls of each
    /// answer from the start, but vendors require ids that are unique in a conversation.
    pub fn avoiding(taken: Arc<HashSet<String>>) -> Self {
        Self { taken, ..Self::default() }
    }

    /// Adds the next event.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if the event cannot follow the earlier events: arguments, an end or vendor data for a
    /// call that never started, or any event after the end.
    pub fn push(&mut self, event: &StreamEvent) -> Result<(), Error> {
        if self.stop.is_some() {
            return Err(protocol(format!("an event came after the end: {event:?}")));
        }
        self.added = None;
        match event {
            StreamEvent::Started { id, model } => {
                self.id.clone_from(id);
                if model.is_some() {
                    self.model.clone_from(model);
                }
            }
            StreamEvent::AnsweredBy { provider, model } => {
                self.provider = Some(provider.clone());
                self.model = Some(model.clone());
                self.asked = Some(model.clone());
            }
            // The failed attempt emitted nothing, so the accumulator keeps its state.
            StreamEvent::ParameterDropped { .. } | StreamEvent::ReasoningRefused { .. } => {}
            StreamEvent::Retrying { .. } | StreamEvent::FallingBack { .. } => {
                self.usage = Usage::default();
            }
            StreamEvent::Discarded { .. } => {
                let mut discarded = self.discarded;
                discarded.add(&self.usage);
                let taken = Arc::clone(&self.taken);
                *self = Self { discarded, taken, ..Self::default() };
            }
            StreamEvent::TextDelta { block, text } => {
                let part = self.part(*block, PartKind::Text);
                if let PartData::Text(all) = &mut part.said {
                    all.push_str(text);
                }
            }
            StreamEvent::ReasoningDelta { block, text } => {
                let part = self.part(*block, PartKind::Reasoning);
                if let PartData::Reasoning(all) = &mut part.said {
                    all.push_str(text);
                }
            }
            StreamEvent::Citation { block, citation } => {
                self.part(*block, PartKind::Text).citations.push(Citation::clone(citation));
            }
            StreamEvent::Image { block, image } => {
                self.push_part(*block, PartKind::Image, PartData::Image(image.clone()));
            }
            StreamEvent::Audio { block, audio } => {
                self.push_part(*block, PartKind::Audio, PartData::Audio(audio.clone()));
            }
            StreamEvent::ToolCallStart { block, id, name } => self.begin(*block, id, name),
            StreamEvent::ToolCallDelta { block, json } => {
                let call = self.changing(*block)?;
                // Arguments are one JSON object. If a server sends an empty object before or after the object with the
                // arguments, the empty object is ignored.
                let begins = json.trim_start().starts_with('{');
                let replaces = begins && call.progress.is_empty_object();
                if replaces {
                    call.arguments.clear();
                    call.progress = JsonProgress::default();
                }
                let is_whole = call.progress.is_whole(&call.arguments);
                let says_nothing = begins && is_whole && is_empty_object(json);
                if !says_nothing {
                    let from = call.arguments.len();
                    call.arguments.push_str(json);
                    call.progress.read(&call.arguments);
                    self.added = Some(ArgumentsChange { begins: replaces, from });
                }
            }
            StreamEvent::ToolCallArguments { block, json } => {
                let call = self.changing(*block)?;
                let before = call.arguments.len();
                let added = match json.starts_with(&call.arguments) {
                    true => (json.len() > before)
                        .then_some(ArgumentsChange { begins: false, from: before }),
                    false => Some(ArgumentsChange { begins: true, from: 0 }),
                };
                call.arguments.clone_from(json);
                call.progress = JsonProgress::default();
                call.progress.read(&call.arguments);
                self.added = added;
            }
            StreamEvent::ToolCallEnd { block } => {
                let (at, call) = self.call(*block)?;
                call.ended = true;
                if call.is_again {
                    self.compare(at);
                }
            }
            StreamEvent::Vendor { block, part, data } => self.vendor(*block, *part, data)?,
            StreamEvent::UsageSoFar(usage) => self.usage.update(usage),
            StreamEvent::Completed { stop, usage } => {
                self.stop = Some(*stop);
                self.usage.update(usage);
            }
        }
        Ok(())
    }

    /// Whether the answer is complete.
    pub fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether the last event changed a call. If not, the caller need not ask [`written_call`](Self::written_call)
    /// again.
    pub fn has_changed_a_call(&self) -> bool {
        self.added.is_some()
    }

    /// What the last event added to the call of this block. The event must belong to this block. `None` if the
    /// event added nothing, or if the call may be a repeat: see [`written_call`](Self::written_call).
    pub fn call_piece(&self, block: u32) -> Option<CallPiece<'_>> {
        let ArgumentsChange { begins, from } = self.added?;
        let part = self.parts.get(self.place(block, PartKind::Call)?)?;
        let PartCall { id, name, arguments, is_again, .. } = part.as_call()?;
        let json = arguments.get(from..)?;
        (!is_again).then_some(CallPiece { call: id, tool: name, begins, json })
    }

    /// Whether no part of the answer has arrived and no tokens have been counted.
    pub fn is_untouched(&self) -> bool {
        self.parts.is_empty() && self.usage() == Usage::default()
    }

    /// Whether the answer contains data of vendor tools, or cites sources.
    pub fn has_sources(&self) -> bool {
        let has =
            |part: &AnswerPart| matches!(part.said, PartData::Opaque) || !part.citations.is_empty();
        self.parts.iter().any(has)
    }

    /// The tokens so far, including those of discarded answers.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage;
        usage.add(&self.discarded);
        usage
    }

    /// The provider that answers, if several providers were possible.
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// The model that was requested, if several models were possible.
    pub fn requested_model(&self) -> Option<&str> {
        self.asked.as_deref()
    }

    /// The model that answers, as the vendor names it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The call of this block, if its arguments have ended or are a whole JSON value so far. `None` if the call may
    /// be a repeat of an earlier call: only the complete answer shows which calls are repeats. A call with the
    /// arguments `{}` may still get other arguments, because some servers send `{}` first.
    pub fn written_call(&self, block: u32) -> Option<ToolCall> {
        let part = self.parts.get(self.place(block, PartKind::Call)?)?;
        let PartCall { arguments, progress, ended, is_again, .. } = part.as_call()?;
        let is_written = *ended || progress.is_whole(arguments);
        (is_written && !is_again).then(|| part.to_call()).flatten()
    }

    /// Returns the number of the answer's calls up to and including `call` if `are` returns `true` for each of these
    /// calls, and `None` otherwise. `are` gets each earlier call in its current state. The result for a call that has ended
    /// is cached, so every caller must pass the same `are`.
    pub fn count_up_to(
        &mut self,
        call: &ToolCall,
        are: impl Fn(&ToolCall) -> bool,
    ) -> Option<usize> {
        let CheckedCalls { parts, calls, ends } = &mut self.cleared;
        let mut count = *calls;
        for (at, part) in self.parts.iter().enumerate().skip(*parts) {
            let so_far = match part.as_call() {
                Some(_) if *ends => return None,
                Some(so_far) if !so_far.repeats => so_far,
                Some(_) | None => continue,
            };
            let is_it = so_far.id == call.id();
            let does =
                if is_it { are(call) } else { part.to_call().is_some_and(|call| are(&call)) };
            // `*calls == count` means that all earlier calls have ended, too.
            let is_settled = so_far.ended && *calls == count;
            if !does {
                *ends = is_settled;
                return None;
            }
            count = count.saturating_add(1);
            if is_settled {
                (*parts, *calls) = (at.saturating_add(1), count);
            }
            if is_it {
                return Some(count);
            }
        }
        None
    }

    /// Returns the whole answer.
    ///
    /// If the answer is truncated, only its complete calls are kept, and these calls must not run. If the answer is
    /// refused, only its text is kept.
    ///
    /// # Errors
    /// [`ErrorKind::CutOff`] if the answer is not complete.
    pub fn finish(mut self) -> Result<ProviderResponse, Error> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        self.drop_repeats();
        let usage = self.usage();
        let Self { parts, id, model, provider, .. } = self;
        let blocks = parts.into_iter().filter(|part| match (stop, &part.said) {
            (StopReason::Refused, said) => matches!(said, PartData::Text(_)),
            // A call is incomplete if no text of its arguments has arrived.
            (StopReason::Truncated, PartData::Call(PartCall { arguments, ended, .. })) => {
                *ended && !arguments.trim().is_empty() && is_whole(arguments)
            }
            _ => true,
        });
        let message = message_of(blocks.filter_map(AnswerPart::into_block).collect());
        let message = match stop {
            StopReason::Paused => message.as_ref().map(Message::paused),
            _ => message,
        };
        Ok(ProviderResponse { message, stop, usage, id, model, provider })
    }

    /// Returns the usable part of a cut-off answer: text with a mark at the cut; complete calls; and signed thinking,
    /// if other content follows. Results of tools that the vendor itself executed are omitted, since they may be
    /// incomplete. Vendors refuse thinking next to an omitted part. So the thinking directly before an omitted part
    /// and all later thinking are dropped, and later parts are kept without vendor data.
    pub fn into_partial(mut self) -> Option<Message> {
        self.drop_repeats();
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_whole_so_far = true;
        let drop_thinking = |blocks: &mut Vec<Block>| {
            while let Some(Block::Reasoning(_)) = blocks.last() {
                blocks.pop();
            }
        };
        for mut part in self.parts {
            let is_kept = match &part.said {
                PartData::Text(_) | PartData::Image(_) | PartData::Audio(_) => true,
                PartData::Reasoning(_) => part.vendor.is_some() && is_whole_so_far,
                PartData::Call(PartCall { arguments, ended, .. }) => *ended && is_whole(arguments),
                PartData::Opaque => {
                    is_whole_so_far = false;
                    drop_thinking(&mut blocks);
                    false
                }
            };
            if !is_whole_so_far {
                part.vendor = None;
            }
            blocks.extend(Some(part).filter(|_| is_kept).and_then(AnswerPart::into_block));
        }
        drop_thinking(&mut blocks);
        if let Some(Block::Text(last)) = blocks.last_mut() {
            let marked = format!("{}{MARK}", last.text());
            *last = TextBlock::new(marked)
                .with_citations(last.citations().iter().cloned())
                .with_vendor(last.vendor().cloned());
        }
        message_of(blocks)
    }

    /// Begins a call. If the server sends the same beginning twice in a row, only one call begins.
    fn begin(&mut self, block: u32, given: &str, name: &str) {
        let given = given.trim();
        if let Some((_, last)) = self.last_call(block) {
            let is_begun = last.given == given && last.name == name;
            if is_begun && !last.ended && last.arguments.is_empty() {
                return;
            }
            last.ended = true;
        }
        let named = CallKey::of(block, given);
        let same_id = self.alike.get(&named).map_or(0, Vec::len);
        self.alike.entry(named).or_default().push(self.parts.len());
        let call = PartCall {
            id: self.unique_id(block, given, same_id),
            given: given.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            progress: JsonProgress::default(),
            ended: false,
            is_again: same_id > 0,
            repeats: false,
            print: None,
        };
        self.push_part(block, PartKind::Call, PartData::Call(call));
        self.added = Some(ArgumentsChange { begins: true, from: 0 });
    }

    /// Finds out whether a call that has just ended is a repeat of an earlier call with the same id.
    fn compare(&mut self, at: usize) {
        let Some(AnswerPart { block, said: PartData::Call(call), .. }) = self.parts.get(at) else {
            return;
        };
        let alike =
            self.alike.get(&CallKey::of(*block, &call.given)).map_or(&[][..], Vec::as_slice);
        // Only calls up to this call are compared: later calls with the same id have usually not ended yet.
        let up_to = alike.partition_point(|place| *place <= at);
        let first = up_to.saturating_sub(COMPARED);
        let alike = alike.get(first..up_to).unwrap_or_default().to_vec();
        self.find_repeats(&alike, &|place| place == at);
    }

    /// Finds the repeats among these calls, which must all have the same id and be in order. Returns the repeats for
    /// which `asked` returns `true`, each with the call that it repeats.
    fn find_repeats(
        &mut self,
        alike: &[usize],
        asked: &dyn Fn(usize) -> bool,
    ) -> Vec<(usize, usize)> {
        for at in alike {
            if let Some(AnswerPart { said: PartData::Call(call), .. }) = self.parts.get_mut(*at) {
                call.print.get_or_insert_with(|| ArgumentsPrint::of(&call.arguments));
            }
        }
        let calls = alike.iter().filter_map(|at| {
            let call = self.parts.get(*at)?.as_call()?;
            let print = call.print.unwrap_or_default();
            let (name, arguments) = (call.name.as_str(), call.arguments.as_str());
            let stands = call.is_placeholder();
            Some(RepeatCandidate {
                at: *at,
                name,
                arguments,
                print,
                stands,
                fills: call.can_fill(),
            })
        });
        let found: Vec<(usize, Option<usize>)> =
            repeated(calls).into_iter().filter(|(at, _)| asked(*at)).collect();
        for (at, earlier) in &found {
            if let Some(AnswerPart { said: PartData::Call(call), .. }) = self.parts.get_mut(*at) {
                call.repeats = earlier.is_some();
            }
            if let Some(earlier) = earlier {
                self.fill(*earlier, *at);
            }
        }
        found.into_iter().filter_map(|(at, earlier)| Some((at, earlier?))).collect()
    }

    /// If the earlier call is a placeholder, copies the arguments of its repeat to the placeholder.
    fn fill(&mut self, earlier: usize, at: usize) {
        let call = |at| self.parts.get(at).and_then(AnswerPart::as_call);
        if !call(earlier).is_some_and(PartCall::is_placeholder) {
            return;
        }
        let by = call(at).filter(|by| by.can_fill());
        let by = by.map(|by| (by.arguments.clone(), by.progress, by.print));
        if let (Some(by), Some(AnswerPart { said: PartData::Call(call), .. })) =
            (by, self.parts.get_mut(earlier))
        {
            (call.arguments, call.progress, call.print) = by;
            self.cleared = CheckedCalls::default();
        }
    }

    /// Removes the repeats. A repeated call without vendor data gets the vendor data of its repeat.
    fn drop_repeats(&mut self) {
        let alike = std::mem::take(&mut self.alike);
        for alike in alike.values().filter(|alike| alike.len() > 1) {
            for (at, earlier) in self.find_repeats(alike, &|_| true) {
                let vendor = self.parts.get(at).and_then(|part| part.vendor.clone());
                if let Some(repeated) = self.parts.get_mut(earlier) {
                    repeated.vendor = repeated.vendor.take().or(vendor);
                }
            }
        }
        self.parts.retain(|part| !part.is_repeat());
    }

    /// The index of the last part of this kind in a block.
    fn place(&self, block: u32, kind: PartKind) -> Option<usize> {
        let last = self.parts.last().filter(|last| last.block == block && last.kind() == kind);
        match last {
            Some(_) => self.parts.len().checked_sub(1),
            None => self.places.get(&(block, kind)).copied(),
        }
    }

    fn push_part(&mut self, block: u32, kind: PartKind, said: PartData) -> usize {
        let at = self.parts.len();
        self.places.insert((block, kind), at);
        if self.parts.is_empty() {
            // Most answers have one part.
            self.parts.reserve_exact(1);
        }
        self.parts.push(AnswerPart { block, said, citations: Vec::new(), vendor: None });
        at
    }

    /// The last part of this kind in a block. Creates a missing part.
    #[inline]
    fn part(&mut self, block: u32, kind: PartKind) -> &mut AnswerPart {
        let mut at = self.parts.len().saturating_sub(1);
        // Fast path: the part is nearly always the last one.
        if !self.parts.get(at).is_some_and(|part| part.block == block && part.kind() == kind) {
            at = self.other_part(block, kind);
        }
        #[expect(clippy::indexing_slicing, reason = "`at` was found or made on the lines above")]
        &mut self.parts[at]
    }

    #[cold]
    fn other_part(&mut self, block: u32, kind: PartKind) -> usize {
        self.place(block, kind).unwrap_or_else(|| {
            let said = match kind {
                PartKind::Text => PartData::Text(String::new()),
                PartKind::Reasoning => PartData::Reasoning(String::new()),
                PartKind::Call | PartKind::Image | PartKind::Audio | PartKind::Opaque => {
                    PartData::Opaque
                }
            };
            self.push_part(block, kind, said)
        })
    }

    /// The last call of a block, with its index.
    fn last_call(&mut self, block: u32) -> Option<(usize, &mut PartCall)> {
        let at = self.place(block, PartKind::Call)?;
        match &mut self.parts.get_mut(at)?.said {
            PartData::Call(call) => Some((at, call)),
            PartData::Text(_)
            | PartData::Reasoning(_)
            | PartData::Image(_)
            | PartData::Audio(_)
            | PartData::Opaque => None,
        }
    }

    fn call(&mut self, block: u32) -> Result<(usize, &mut PartCall), Error> {
        self.last_call(block)
            .ok_or_else(|| protocol(format!("arguments came for block {block}, which is no call")))
    }

    /// Returns the call of a block, for a change of its arguments. Resets all values that depend on the old
    /// arguments.
    fn changing(&mut self, block: u32) -> Result<&mut PartCall, Error> {
        if self.last_call(block).is_some_and(|(_, call)| call.ended) {
            self.cleared = CheckedCalls::default();
        }
        let (_, call) = self.call(block)?;
        call.print = None;
        Ok(call)
    }

    fn vendor(&mut self, block: u32, part: VendorPart, data: &VendorData) -> Result<(), Error> {
        let part = match part {
            VendorPart::Text => self.part(block, PartKind::Text),
            VendorPart::Reasoning => self.part(block, PartKind::Reasoning),
            VendorPart::Opaque => self.part(block, PartKind::Opaque),
            VendorPart::ToolCall => {
                let call = self.place(block, PartKind::Call).and_then(|at| self.parts.get_mut(at));
                call.ok_or_else(|| {
                    protocol(format!("vendor data came for block {block}, which is no call"))
                })?
            }
        };
        part.vendor = Some(data.clone());
        Ok(())
    }

    /// Returns an unused id for a call. Results refer to calls by id, so ids must be unique and not empty. `same_id` is
    /// the number of earlier calls of this answer with the given id.
    fn unique_id(&mut self, block: u32, given: &str, same_id: usize) -> String {
        let base = match (given, &self.id) {
            ("", Some(answer)) => format!("{answer}_{block}"),
            ("", None) => format!("call_{:016x}", fastrand::u64(..)),
            (given, _) => given.to_owned(),
        };
        let is_free = |id: &str| !self.ids.contains(id) && !self.taken.contains(id);
        let id = if is_free(&base) { base } else { numbered(&base, same_id.max(1), is_free) };
        self.ids.insert(id.clone());
        id
    }
}

/// Appends a free number greater than `after` to `base`. Usually all numbers up to some number are taken and all
/// greater numbers are free, so the search doubles its step and then bisects.
fn numbered(base: &str, after: usize, is_free: impl Fn(&str) -> bool) -> String {
    let of = |number: usize| format!("{base}_{number}");
    let (mut taken, mut step) = (after, 1_usize);
    let mut free = loop {
        let number = taken.saturating_add(step);
        if is_free(&of(number)) || number == usize::MAX {
            break number;
        }
        (taken, step) = (number, step.saturating_mul(2));
    };
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_free(&of(middle)) {
            free = middle;
        } else {
            taken = middle;
        }
    }
    of(free)
}

impl PartCall {
    /// Whether the call has ended without arguments. The arguments of the next call with the same id and name may
    /// belong to this call.
    fn is_placeholder(&self) -> bool {
        self.ended && !self.given.is_empty() && are_none(&self.arguments)
    }

    /// Whether this call has arguments that may belong to an earlier placeholder with the same id.
    fn can_fill(&self) -> bool {
        let arguments = self.arguments.trim();
        let is_object = self.print.flatten().is_some() && arguments.starts_with('{');
        is_object && !are_none(arguments) && !self.given.is_empty()
    }
}

impl AnswerPart {
    fn as_call(&self) -> Option<&PartCall> {
        match &self.said {
            PartData::Call(call) => Some(call),
            PartData::Text(_)
            | PartData::Reasoning(_)
            | PartData::Image(_)
            | PartData::Audio(_)
            | PartData::Opaque => None,
        }
    }

    #[inline]
    fn kind(&self) -> PartKind {
        match self.said {
            PartData::Text(_) => PartKind::Text,
            PartData::Reasoning(_) => PartKind::Reasoning,
            PartData::Call(_) => PartKind::Call,
            PartData::Image(_) => PartKind::Image,
            PartData::Audio(_) => PartKind::Audio,
            PartData::Opaque => PartKind::Opaque,
        }
    }

    fn is_repeat(&self) -> bool {
        self.as_call().is_some_and(|call| call.repeats)
    }

    fn to_call(&self) -> Option<ToolCall> {
        let PartCall { id, name, arguments, .. } = self.as_call()?;
        Some(ToolCall::new(id, name, arguments).with_vendor(self.vendor.clone()))
    }

    /// The block to keep, if any. Text that is only white space is dropped, because vendors refuse such text.
    /// Thinking without text and signature is dropped, because such thinking is useless.
    fn into_block(self) -> Option<Block> {
        let Self { block: _, said, citations, vendor } = self;
        match said {
            PartData::Text(text)
                if text.trim().is_empty() && vendor.is_none() && citations.is_empty() =>
            {
                None
            }
            PartData::Text(mut text) => {
                // The text is kept as long as the conversation, so unused capacity is freed.
                text.shrink_to_fit();
                let text = TextBlock::new(text).with_citations(citations).with_vendor(vendor);
                Some(Block::Text(text))
            }
            PartData::Reasoning(text) if text.is_empty() && vendor.is_none() => None,
            PartData::Reasoning(text) => Some(Block::Reasoning(ReasoningBlock::new(text, vendor))),
            PartData::Call(PartCall { id, name, arguments, .. }) => {
                Some(Block::ToolCall(ToolCall::new(id, name, arguments).with_vendor(vendor)))
            }
            PartData::Image(image) => Some(Block::Image(image)),
            PartData::Audio(audio) => Some(Block::Audio(audio)),
            PartData::Opaque => vendor.map(Block::Vendor),
        }
    }
}

/// Marks text that was cut off.
const MARK: &str = "\n\n[interrupted]";

/// Whether a message ends with text that was cut off.
pub fn breaks_off(message: &Message) -> bool {
    matches!(message.blocks().last(), Some(Block::Text(text)) if text.text().ends_with(MARK))
}

fn message_of(blocks: Vec<Block>) -> Option<Message> {
    (!blocks.is_empty()).then(|| Message::assistant(blocks))
}

fn is_whole(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<&RawValue>(arguments).is_ok()
}

fn protocol(message: String) -> Error {
    Error::new(ErrorKind::Protocol, message)
}
