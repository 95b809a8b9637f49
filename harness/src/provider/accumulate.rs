//! Makes a whole answer of events. There is one accumulator for all wires; it knows none.

use std::{collections::HashSet, pin::pin, sync::Arc};

use futures_core::Stream;
use futures_util::StreamExt as _;
use serde_json::value::RawValue;

use super::{ProviderResponse, StopReason, StreamEvent, Usage, VendorPart};
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
    Call { id: String, name: String, arguments: String, ended: bool },
    Opaque,
}

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
            StreamEvent::Retrying { .. } | StreamEvent::FallingBack { .. } => {}
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
            StreamEvent::ToolCallStart { block, id, name } if self.has_begun(*block, id, name) => {}
            StreamEvent::ToolCallStart { block, id, name } => {
                let id = self.unique_id(*block, id);
                let said =
                    Said::Call { id, name: name.clone(), arguments: String::new(), ended: false };
                self.parts.push(Part { block: *block, said, vendor: None });
            }
            StreamEvent::ToolCallDelta { block, json } => match self.call(*block)? {
                Said::Call { arguments, .. } => arguments.push_str(json),
                Said::Text(_) | Said::Reasoning(_) | Said::Opaque => {}
            },
            StreamEvent::ToolCallArguments { block, json } => match self.call(*block)? {
                Said::Call { arguments, .. } => arguments.clone_from(json),
                Said::Text(_) | Said::Reasoning(_) | Said::Opaque => {}
            },
            StreamEvent::ToolCallEnd { block } => match self.call(*block)? {
                Said::Call { ended, .. } => *ended = true,
                Said::Text(_) | Said::Reasoning(_) | Said::Opaque => {}
            },
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

    /// The call of this block, if its arguments are all there or are a whole JSON value already.
    pub fn written_call(&self, block: u32) -> Option<ToolCall> {
        let call = self.parts.iter().rev().find(|part| part.block == block && part.is_call())?;
        match &call.said {
            Said::Call { arguments, ended, .. }
                if *ended || (!arguments.is_empty() && is_whole(arguments)) =>
            {
                call.to_call()
            }
            Said::Call { .. } | Said::Text(_) | Said::Reasoning(_) | Said::Opaque => None,
        }
    }

    /// The calls up to and with this one, in order, as they are so far.
    pub fn calls_up_to(&self, call: &ToolCall) -> Vec<ToolCall> {
        let mut calls = Vec::new();
        for so_far in self.parts.iter().filter_map(Part::to_call) {
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
    pub fn finish(self) -> Result<ProviderResponse, Error> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        let usage = self.usage();
        let Self { parts, id, model, provider, .. } = self;
        let blocks = parts.into_iter().filter(|part| match (stop, &part.said) {
            (StopReason::Refused, said) => matches!(said, Said::Text(_)),
            // Arguments that had not begun are not arguments that are empty.
            (StopReason::Truncated, Said::Call { arguments, ended, .. }) => {
                *ended && !arguments.trim().is_empty() && is_whole(arguments)
            }
            _ => true,
        });
        let message = message_of(blocks.filter_map(Part::into_block).collect());
        Ok(ProviderResponse { message, stop, usage, id, model, provider })
    }

    /// What can be kept of an answer that was cut off: words, with a mark that they were cut;
    /// thinking whose proof is there and that something follows; complete calls.
    pub fn into_partial(self) -> Option<Message> {
        let mut blocks: Vec<Block> = self
            .parts
            .into_iter()
            .filter(|part| match &part.said {
                Said::Text(_) => true,
                Said::Reasoning(_) => part.vendor.is_some(),
                Said::Call { arguments, ended, .. } => *ended && is_whole(arguments),
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

    /// Whether a call has begun already: a beginning that comes twice is not a second call.
    fn has_begun(&self, block: u32, given: &str, given_name: &str) -> bool {
        self.parts.iter().filter(|part| part.block == block).any(|part| match &part.said {
            Said::Call { id, name, .. } => id == given && name == given_name,
            Said::Text(_) | Said::Reasoning(_) | Said::Opaque => false,
        })
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

    fn call(&mut self, block: u32) -> Result<&mut Said, Error> {
        self.parts
            .iter_mut()
            .rev()
            .find(|part| part.block == block && part.is_call())
            .map(|part| &mut part.said)
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
                .find(|part| part.block == block && part.is_call())
                .ok_or_else(|| {
                    protocol(format!("vendor data came for block {block}, which is no call"))
                })?,
        };
        part.vendor = Some(data.clone());
        Ok(())
    }

    /// Results refer to calls by id, so two calls never share one and none is empty.
    fn unique_id(&self, block: u32, given: &str) -> String {
        let taken: HashSet<&str> = self
            .parts
            .iter()
            .filter_map(|part| match &part.said {
                Said::Call { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        let base = match (given.trim(), &self.id) {
            ("", Some(answer)) => format!("{answer}_{block}"),
            ("", None) => format!("call_{:016x}", fastrand::u64(..)),
            (given, _) => given.to_owned(),
        };
        let is_free = |id: &str| !taken.contains(id) && !self.taken.contains(id);
        if is_free(&base) {
            return base;
        }
        (2_u32..).map(|n| format!("{base}_{n}")).find(|id| is_free(id)).unwrap_or(base)
    }
}

impl Part {
    fn is_call(&self) -> bool {
        matches!(self.said, Said::Call { .. })
    }

    fn to_call(&self) -> Option<ToolCall> {
        let Said::Call { id, name, arguments, ended: _ } = &self.said else { return None };
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
            Said::Call { id, name, arguments, ended: _ } => {
                Some(Block::ToolCall(ToolCall::new(id, name, arguments).with_vendor(vendor)))
            }
            Said::Opaque => vendor.map(Block::Vendor),
        }
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
