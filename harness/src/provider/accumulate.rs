//! Makes a whole answer of events. There is one accumulator for all wires; it knows none.

use std::{collections::HashSet, pin::pin, sync::Arc};

use futures_core::Stream;
use futures_util::StreamExt as _;
use serde_json::value::RawValue;

use super::{
    ProviderResponse, StopReason, StreamEvent, Usage, VendorPart,
    repeats::{Print, is_part},
};
use crate::{
    error::{Error, ErrorKind},
    message::{Block, Message, ReasoningBlock, TextBlock, ToolCall, VendorData},
};

/// Reads a stream to its end and makes a whole answer of it.
///
/// # Errors
/// Fails with the stream's own error, or as interrupted if the stream ends before it is complete.
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
/// A call that the server repeats is one call: the same id with equal decoded arguments, at any block,
/// or without ids at the same block. The same id with other arguments is another call, which gets an
/// id of its own; so are equal calls with different ids.
///
/// ```
/// use harness::provider::{Accumulator, StopReason, StreamEvent, Usage};
///
/// let mut answer = Accumulator::default();
/// answer.push(&StreamEvent::TextDelta { block: 0, text: "Hel".into() })?;
/// answer.push(&StreamEvent::TextDelta { block: 0, text: "lo".into() })?;
/// answer.push(&StreamEvent::Completed { stop: StopReason::Complete, usage: Usage::default() })?;
/// assert_eq!(answer.finish()?.message.unwrap().text(), "Hello");
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Accumulator {
    parts: Vec<Part>,
    id: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    usage: Usage,
    /// Tokens of what was taken back.
    discarded: Usage,
    stop: Option<StopReason>,
    /// Ids that the calls of this answer have.
    ids: HashSet<String>,
    /// Ids that earlier calls of the conversation have.
    taken: Arc<HashSet<String>>,
}

#[derive(Clone, Debug)]
struct Part {
    block: u32,
    said: Said,
    vendor: Option<VendorData>,
}

#[derive(Clone, Debug)]
enum Said {
    Text(String),
    Reasoning(String),
    Call(Call),
    Opaque,
}

#[derive(Clone, Debug)]
struct Call {
    /// The id that results refer to.
    id: String,
    /// The id as the server gave it.
    given: String,
    name: String,
    arguments: String,
    ended: bool,
    /// Whether an earlier call has the same id, so that this one may be that one.
    is_again: bool,
    /// Whether it is.
    repeats: bool,
    /// What tells the arguments from others, once that was asked.
    print: Option<Option<Print>>,
}

/// A call that broke off is compared with so many calls of its id, at most.
const COMPARED: usize = 16;

impl Accumulator {
    /// An answer none of whose calls gets one of these ids: servers count their calls anew in each
    /// answer, and vendors want ids that are unique in a conversation.
    pub(crate) fn avoiding(taken: Arc<HashSet<String>>) -> Self {
        Self { taken, ..Self::default() }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// Fails if the event cannot follow: arguments of a call that never started, or anything
    /// after the end.
    pub fn push(&mut self, event: &StreamEvent) -> Result<(), Error> {
        if self.stop.is_some() {
            return Err(protocol(format!("an event came after the end: {event:?}")));
        }
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
            }
            // Of the try that failed nothing had been said.
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
                let part = self.part(
                    *block,
                    |said| matches!(said, Said::Text(_)),
                    || Said::Text(String::new()),
                );
                if let Said::Text(all) = &mut part.said {
                    all.push_str(text);
                }
            }
            StreamEvent::ReasoningDelta { block, text } => {
                let part = self.part(
                    *block,
                    |said| matches!(said, Said::Reasoning(_)),
                    || Said::Reasoning(String::new()),
                );
                if let Said::Reasoning(all) = &mut part.said {
                    all.push_str(text);
                }
            }
            StreamEvent::ToolCallStart { block, id, name } => self.begin(*block, id, name),
            StreamEvent::ToolCallDelta { block, json } => {
                let (_, call) = self.call(*block)?;
                call.arguments.push_str(json);
                call.print = None;
            }
            StreamEvent::ToolCallArguments { block, json } => {
                let (_, call) = self.call(*block)?;
                call.arguments.clone_from(json);
                call.print = None;
            }
            StreamEvent::ToolCallEnd { block } => {
                let (at, call) = self.call(*block)?;
                call.ended = true;
                if call.is_again {
                    self.compare(at);
                }
            }
            StreamEvent::Vendor { block, part, data } => self.vendor(*block, *part, data)?,
            StreamEvent::UsageSoFar(usage) => self.usage = *usage,
            StreamEvent::Completed { stop, usage } => {
                self.stop = Some(*stop);
                self.usage = *usage;
            }
        }
        Ok(())
    }

    /// Whether the answer has come to its end.
    pub fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    /// Tokens counted so far, those of discarded beginnings among them.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage;
        usage.add(&self.discarded);
        usage
    }

    /// Who answers, where several could.
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// The model that answers, as the vendor names it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The call of this block, if its arguments are all there or are a whole JSON value already. A
    /// call that may repeat an earlier one is none: which it is, the whole answer says.
    pub fn written_call(&self, block: u32) -> Option<ToolCall> {
        let mut calls = self.parts.iter().rev().filter(|part| part.block == block);
        let (part, call) = calls.find_map(|part| Some((part, part.as_call()?)))?;
        let Call { arguments, ended, is_again, .. } = call;
        let is_written = *ended || (!arguments.is_empty() && is_whole(arguments));
        (is_written && !is_again).then(|| part.to_call()).flatten()
    }

    /// The calls up to and with this one, in order, as they are so far.
    pub fn calls_up_to(&self, call: &ToolCall) -> Vec<ToolCall> {
        let mut calls = Vec::new();
        for so_far in self.parts.iter().filter(|part| !part.repeats()).filter_map(Part::to_call) {
            let last = so_far.id() == call.id();
            calls.push(so_far);
            if last {
                break;
            }
        }
        calls
    }

    /// The whole answer.
    ///
    /// Of a truncated answer only the calls are kept that are complete, and none of them may
    /// run; of a refused one only the words.
    ///
    /// # Errors
    /// Fails as interrupted if the answer did not come to its end.
    pub fn finish(mut self) -> Result<ProviderResponse, Error> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        self.drop_repeats();
        let usage = self.usage();
        let Self { parts, id, model, provider, .. } = self;
        let blocks = parts.into_iter().filter(|part| match (stop, &part.said) {
            (StopReason::Refused, said) => matches!(said, Said::Text(_)),
            // Arguments that had not begun are not arguments that are empty.
            (StopReason::Truncated, Said::Call(Call { arguments, ended, .. })) => {
                *ended && !arguments.trim().is_empty() && is_whole(arguments)
            }
            _ => true,
        });
        let message = message_of(blocks.filter_map(Part::into_block).collect());
        Ok(ProviderResponse { message, stop, usage, id, model, provider })
    }

    /// What can be kept of an answer that was cut off: words, with a mark that they were cut;
    /// thinking whose proof is there and that something follows; complete calls.
    pub fn into_partial(mut self) -> Option<Message> {
        self.drop_repeats();
        let mut blocks: Vec<Block> = self
            .parts
            .into_iter()
            .filter(|part| match &part.said {
                Said::Text(_) => true,
                Said::Reasoning(_) => part.vendor.is_some(),
                Said::Call(Call { arguments, ended, .. }) => *ended && is_whole(arguments),
                Said::Opaque => false,
            })
            .filter_map(Part::into_block)
            .collect();
        while let Some(Block::Reasoning(_)) = blocks.last() {
            blocks.pop();
        }
        if let Some(Block::Text(last)) = blocks.last_mut() {
            let marked = format!("{}{MARK}", last.text());
            *last = TextBlock::new(marked).with_vendor(last.vendor().cloned());
        }
        message_of(blocks)
    }

    /// A call begins. A beginning that comes twice in a row is not a second call.
    fn begin(&mut self, block: u32, given: &str, name: &str) {
        let given = given.trim();
        if let Some((_, last)) = self.last_call(block) {
            let is_begun = last.given == given && last.name == name;
            if is_begun && !last.ended && last.arguments.is_empty() {
                return;
            }
            last.ended = true;
        }
        let same_id = self.parts.iter().filter(|part| part.is_called(block, given)).count();
        let call = Call {
            id: self.unique_id(block, given, same_id),
            given: given.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            ended: false,
            is_again: same_id > 0,
            repeats: false,
            print: None,
        };
        self.parts.push(Part { block, said: Said::Call(call), vendor: None });
    }

    /// Finds out whether a call is a repeat of an earlier one with its id, and gives that one.
    fn compare(&mut self, at: usize) -> Option<&mut Part> {
        let (before, rest) = self.parts.split_at_mut(at);
        let Some(Part { block, said: Said::Call(call), .. }) = rest.first_mut() else {
            return None;
        };
        let print = call.print();
        // No arguments at all, in a call that began once more, are a part of any others.
        let is_blank = call.arguments.trim().is_empty();
        let same_id = before.iter_mut().rev().filter(|part| part.is_called(*block, &call.given));
        let mut left = COMPARED;
        let mut repeated = None;
        for part in same_id {
            let Said::Call(other) = &mut part.said else { continue };
            if !call.name.is_empty() && call.name != other.name {
                continue;
            }
            let is_same = match print {
                _ if is_blank => true,
                Some(print) => other.print().is_some_and(|other| print.repeats(other)),
                None if left == 0 => false,
                None => {
                    left = left.saturating_sub(1);
                    is_part(&call.arguments, &other.arguments)
                }
            };
            if is_same {
                repeated = Some(part);
                break;
            }
        }
        call.repeats = repeated.is_some();
        repeated
    }

    /// Leaves out the calls that repeat others. What only the repeat holds for the vendor is kept.
    fn drop_repeats(&mut self) {
        for at in 0..self.parts.len() {
            let Some(part) = self.parts.get_mut(at) else { continue };
            if part.as_call().is_some_and(|call| call.is_again) {
                let vendor = part.vendor.clone();
                if let Some(repeated) = self.compare(at) {
                    repeated.vendor = repeated.vendor.take().or(vendor);
                }
            }
        }
        self.parts.retain(|part| !part.repeats());
    }

    fn part(&mut self, block: u32, is: fn(&Said) -> bool, new: fn() -> Said) -> &mut Part {
        let at = self.parts.iter().rposition(|part| part.block == block && is(&part.said));
        let at = at.unwrap_or(self.parts.len());
        if at == self.parts.len() {
            self.parts.push(Part { block, said: new(), vendor: None });
        }
        #[expect(clippy::indexing_slicing, reason = "`at` was found or made on the lines above")]
        &mut self.parts[at]
    }

    /// The last call of a block, and its place.
    fn last_call(&mut self, block: u32) -> Option<(usize, &mut Call)> {
        let parts = self.parts.iter_mut().enumerate().rev();
        parts.filter(|(_, part)| part.block == block).find_map(|(at, part)| match &mut part.said {
            Said::Call(call) => Some((at, call)),
            Said::Text(_) | Said::Reasoning(_) | Said::Opaque => None,
        })
    }

    fn call(&mut self, block: u32) -> Result<(usize, &mut Call), Error> {
        self.last_call(block)
            .ok_or_else(|| protocol(format!("arguments came for block {block}, which is no call")))
    }

    fn vendor(&mut self, block: u32, part: VendorPart, data: &VendorData) -> Result<(), Error> {
        let part = match part {
            VendorPart::Text => {
                self.part(block, |said| matches!(said, Said::Text(_)), || Said::Text(String::new()))
            }
            VendorPart::Reasoning => self.part(
                block,
                |said| matches!(said, Said::Reasoning(_)),
                || Said::Reasoning(String::new()),
            ),
            VendorPart::Opaque => {
                self.part(block, |said| matches!(said, Said::Opaque), || Said::Opaque)
            }
            VendorPart::ToolCall => self
                .parts
                .iter_mut()
                .rev()
                .find(|part| part.block == block && part.as_call().is_some())
                .ok_or_else(|| {
                    protocol(format!("vendor data came for block {block}, which is no call"))
                })?,
        };
        part.vendor = Some(data.clone());
        Ok(())
    }

    /// Results refer to calls by id, so two calls never share one and none is empty. `same_id` earlier
    /// calls of this answer were given this id.
    fn unique_id(&mut self, block: u32, given: &str, same_id: usize) -> String {
        let base = match (given, &self.id) {
            ("", Some(answer)) => format!("{answer}_{block}"),
            ("", None) => format!("call_{:016x}", fastrand::u64(..)),
            (given, _) => given.to_owned(),
        };
        let is_free = |id: &String| !self.ids.contains(id) && !self.taken.contains(id);
        let numbered = (same_id.max(1)..).map(|n| format!("{base}_{}", n.saturating_add(1)));
        let id = std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or(base);
        self.ids.insert(id.clone());
        id
    }
}

impl Part {
    fn as_call(&self) -> Option<&Call> {
        match &self.said {
            Said::Call(call) => Some(call),
            Said::Text(_) | Said::Reasoning(_) | Said::Opaque => None,
        }
    }

    /// Whether it is a call that the server names like this: by an id, or without one by its block.
    fn is_called(&self, block: u32, given: &str) -> bool {
        self.as_call()
            .is_some_and(|call| call.given == given && (!given.is_empty() || self.block == block))
    }

    fn repeats(&self) -> bool {
        self.as_call().is_some_and(|call| call.repeats)
    }

    fn to_call(&self) -> Option<ToolCall> {
        let Call { id, name, arguments, .. } = self.as_call()?;
        Some(ToolCall::new(id, name, arguments).with_vendor(self.vendor.clone()))
    }

    /// The block that is kept, if there is anything to keep: words that are only white space are
    /// refused by vendors, and thinking without words and proof says nothing.
    fn into_block(self) -> Option<Block> {
        let Self { block: _, said, vendor } = self;
        match said {
            Said::Text(text) if text.trim().is_empty() && vendor.is_none() => None,
            Said::Text(mut text) => {
                // It is kept for as long as the conversation; the room to grow into is not needed.
                text.shrink_to_fit();
                Some(Block::Text(TextBlock::new(text).with_vendor(vendor)))
            }
            Said::Reasoning(text) if text.is_empty() && vendor.is_none() => None,
            Said::Reasoning(text) => Some(Block::Reasoning(ReasoningBlock::new(text, vendor))),
            Said::Call(Call { id, name, arguments, .. }) => {
                Some(Block::ToolCall(ToolCall::new(id, name, arguments).with_vendor(vendor)))
            }
            Said::Opaque => vendor.map(Block::Vendor),
        }
    }
}

impl Call {
    fn print(&mut self) -> Option<Print> {
        *self.print.get_or_insert_with(|| Print::of(&self.arguments))
    }
}

/// Follows words that were cut off.
const MARK: &str = "\n\n[interrupted]";

/// Whether a message ends with words that were cut off.
pub(crate) fn breaks_off(message: &Message) -> bool {
    matches!(message.blocks().last(), Some(Block::Text(text)) if text.text().ends_with(MARK))
}

fn message_of(blocks: Vec<Block>) -> Option<Message> {
    (!blocks.is_empty()).then(|| Message::assistant(blocks))
}

fn is_whole(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<&RawValue>(arguments).is_ok()
}

/// The stream ended, but the answer had not.
pub(crate) fn cut_off() -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "the answer ended before it was complete: the connection was closed in the middle",
    )
}

fn protocol(message: String) -> Error {
    Error::new(ErrorKind::Protocol, message)
}
