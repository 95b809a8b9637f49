//! Converts the Messages stream into events. The module `block` collects the data of each block.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde::{Deserialize, Deserializer};

use super::{
    block::{DeltaTarget, OpenBlock},
    common_event::{AnthropicCommonEvent, DeltaContent},
};
use crate::wire::{
    decoder::{Decoder, Dialect, EventSink, not_understood},
    delta_fast_path::VaryingPlaces,
    fault,
    json_walk::JsonWalk,
    reader,
    tolerant::{
        ObjectMembers, RawJson, TolerantCount, TolerantList, TolerantObject, TolerantText, text_of,
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    provider::{ResponseSizeLimits, StopReason, Usage, WantedItem, update_count},
};

/// A decoder for one answer.
pub fn decoder(limits: ResponseSizeLimits) -> Decoder<AnthropicAnswer> {
    Decoder::with(AnthropicAnswer::default(), limits)
}

/// A decoder for the answer to a request for the vendor's own summary.
pub fn summary_decoder(limits: ResponseSizeLimits) -> Decoder<AnthropicAnswer> {
    Decoder::with(AnthropicAnswer { is_summary: true, ..AnthropicAnswer::default() }, limits)
}

/// The state of an arriving answer.
#[derive(Debug, Default)]
pub struct AnthropicAnswer {
    /// Whether the answer must be a summary by the vendor.
    is_summary: bool,
    id: Option<String>,
    started: bool,
    blocks: Vec<OpenBlock>,
    /// For each index in the stream: the position in `blocks` of the last block (`places`) and of the last call
    /// (`call_places`).
    places: HashMap<u64, usize>,
    call_places: HashMap<u64, usize>,
    /// The numbers of all blocks, and the largest number plus one (`next`).
    numbers: HashSet<u64>,
    next: u32,
    usage: AnthropicWireUsage,
    stop: Option<String>,
    /// Whether the stop reason arrived, other than in the start of the answer.
    stopped: bool,
    calls: bool,
}

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: TolerantText<'a>,
    #[serde(default)]
    index: TolerantCount,
    #[serde(borrow, default)]
    delta: TolerantObject<AnthropicDelta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    message: Option<RawJson<'a>>,
    #[serde(default)]
    usage: TolerantObject<AnthropicWireUsage>,
    #[serde(borrow, default)]
    error: Option<RawJson<'a>>,
}

/// The members of deltas of all kinds.
#[derive(Deserialize)]
pub(super) struct AnthropicDelta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) text: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) signature: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) citation: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    stop_reason: TolerantText<'a>,
}

#[derive(Default, Deserialize)]
pub(super) struct AnthropicMessage<'a> {
    #[serde(borrow, default)]
    pub(super) id: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) model: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) content: TolerantList<RawJson<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: TolerantText<'a>,
    #[serde(default)]
    pub(super) usage: TolerantObject<AnthropicWireUsage>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct AnthropicWireUsage {
    #[serde(default)]
    pub(super) input_tokens: TolerantCount,
    #[serde(default)]
    pub(super) cache_creation_input_tokens: TolerantCount,
    #[serde(default)]
    pub(super) cache_read_input_tokens: TolerantCount,
    #[serde(default)]
    pub(super) output_tokens: TolerantCount,
    #[serde(default)]
    pub(super) output_tokens_details: TolerantObject<AnthropicOutputDetails>,
    #[serde(default)]
    pub(super) iterations: CompactionUsage,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct AnthropicOutputDetails {
    #[serde(default)]
    pub(super) thinking_tokens: TolerantCount,
    #[serde(default)]
    pub(super) reasoning_tokens: TolerantCount,
}

impl Copy for TolerantObject<AnthropicOutputDetails> {}

/// The tokens of the steps in which the vendor summarized the conversation. The answer lists its steps in `iterations`.
/// The answer's own counts do not include these tokens. An advisor's tokens are in neither count, because an advisor
/// has another price.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CompactionUsage(Option<Usage>);

#[derive(Deserialize)]
struct UsageIteration<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: TolerantText<'a>,
    #[serde(default)]
    input_tokens: TolerantCount,
    #[serde(default)]
    cache_creation_input_tokens: TolerantCount,
    #[serde(default)]
    cache_read_input_tokens: TolerantCount,
    #[serde(default)]
    output_tokens: TolerantCount,
}

impl<'de> Deserialize<'de> for CompactionUsage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let steps = TolerantList::<TolerantObject<UsageIteration<'de>>>::deserialize(from)?.0;
        let mut all = None;
        for step in steps.into_iter().filter_map(|step| step.0) {
            if &*step.kind == "compaction" {
                let (read, written) =
                    (step.cache_read_input_tokens, step.cache_creation_input_tokens);
                let input = whole_input(step.input_tokens, read, written);
                all.get_or_insert_with(Usage::default).add(&Usage {
                    input,
                    cache_read: read.0,
                    cache_write: written.0,
                    output: step.output_tokens.0,
                    reasoning: None,
                    compaction: input,
                });
            }
        }
        Ok(Self(all))
    }
}

/// All input tokens, including cached tokens. The vendor's own count does not include cached tokens.
fn whole_input(fresh: TolerantCount, read: TolerantCount, written: TolerantCount) -> Option<u64> {
    let cached = read.0.unwrap_or(0).saturating_add(written.0.unwrap_or(0));
    fresh.0.map(|fresh| fresh.saturating_add(cached))
}

/// The substitute for a missing start of a call.
const UNNAMED: &str = r#"{"type":"tool_use"}"#;

/// The type of an event with a delta.
const DELTA: &[u8] = b"content_block_delta";

/// The block index and the block part of a delta.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockDelta {
    index: TolerantCount,
    what: DeltaTarget,
}

impl Dialect for AnthropicAnswer {
    type Delta = BlockDelta;

    fn read(&mut self, event: &str, data: &str, out: &mut EventSink) -> Result<bool, Error> {
        let parsed = match reader::from_str::<AnthropicEvent<'_>>(data) {
            Ok(parsed) => parsed,
            Err(_) if data.trim() == "[DONE]" => return Ok(false),
            Err(err) if event == "error" => return Err(fault::in_event(data).with_source(err)),
            Err(err) => return Err(not_understood(data, err)),
        };
        let kind = parsed.kind.some().unwrap_or(event);
        match kind {
            "ping" => return Ok(false),
            "message_start" => {
                let json = parsed.message.map(RawJson::get);
                if let Some(message) = json.and_then(|json| reader::from_str(json).ok()) {
                    self.start(message, out)?;
                }
            }
            "content_block_start" => {
                if let Some(json) = parsed.content_block.map(RawJson::get) {
                    self.open(parsed.index, json, &ObjectMembers::of(json), out)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = parsed.delta.0 {
                    self.delta(parsed.index, &delta, out)?;
                }
            }
            "content_block_stop" => self.close(parsed.index, out)?,
            "message_delta" => {
                let stop = parsed.delta.0.map(|delta| delta.stop_reason.0);
                self.over(parsed.usage.0.as_ref(), stop);
            }
            "message_stop" => self.complete(out)?,
            // The server sent the answer as one object rather than as a stream.
            "message" => {
                if let Ok(message) = reader::from_str::<AnthropicMessage<'_>>(data) {
                    self.stop = message.stop_reason.owned();
                    self.start(message, out)?;
                }
                self.complete(out)?;
            }
            _ if kind == "error" || parsed.error.is_some_and(|it| fault::is_told(it.get())) => {
                return Err(fault::in_event(data));
            }
            // Unknown events are ignored.
            _ => {}
        }
        Ok(true)
    }

    fn read_common(&mut self, data: &[u8], out: &mut EventSink) -> Option<Result<bool, Error>> {
        let common = AnthropicCommonEvent::of(data)?;
        let index = TolerantCount(common.index);
        let result = match common.kind {
            b"content_block_delta" if index.0.is_some() => {
                let block = self.block(index)?;
                match (common.delta, common.more?) {
                    (b"text_delta", DeltaContent::Of(DeltaTarget::Text, text)) => {
                        block.more(DeltaTarget::Text, text, out)?
                    }
                    (b"thinking_delta", DeltaContent::Of(DeltaTarget::Thinking, text)) => {
                        block.more(DeltaTarget::Thinking, text, out)?
                    }
                    (b"input_json_delta", DeltaContent::Of(DeltaTarget::Input, text)) => {
                        block.more(DeltaTarget::Input, text, out)?
                    }
                    (b"signature_delta", DeltaContent::Signature(signature)) => {
                        block.sign(signature);
                        Ok(())
                    }
                    (b"citations_delta", DeltaContent::Citation(json)) => {
                        block.cite(json.get(), out)
                    }
                    _ => return None,
                }
            }
            b"content_block_start" => {
                let (json, members) = common.block?;
                self.open(index, json, &members, out)
            }
            b"content_block_stop" if index.0.is_some() => self.close(index, out),
            b"message_start" => self.start(common.message?, out),
            b"message_delta" => {
                self.over(common.usage.as_ref(), Some(common.stop));
                Ok(())
            }
            b"message_stop" => self.complete(out),
            b"ping" => return Some(Ok(false)),
            _ => return None,
        };
        Some(result.map(|()| true))
    }

    fn delta(&self, data: &str, places: &mut VaryingPlaces) -> Option<BlockDelta> {
        let (mut is_delta, mut index, mut kind, mut field) = (false, None, None, None);
        JsonWalk::new(data.as_bytes()).object(|walk, name| {
            match name {
                b"type" => {
                    is_delta = walk.plain()? == DELTA;
                    is_delta.then_some(())?;
                }
                b"index" => index = Some(walk.number()?),
                b"delta" => walk.object(|walk, name| {
                    match name {
                        b"type" => kind = Some(walk.plain()?),
                        b"text" | b"partial_json" | b"thinking" => {
                            field = Some(name);
                            places.text(walk)?;
                        }
                        _ => places.any(walk)?,
                    }
                    Some(())
                })?,
                _ => places.any(walk)?,
            }
            Some(())
        })?;
        let what = match (kind?, field?) {
            (b"text_delta", b"text") => DeltaTarget::Text,
            (b"thinking_delta", b"thinking") => DeltaTarget::Thinking,
            (b"input_json_delta", b"partial_json") => DeltaTarget::Input,
            _ => return None,
        };
        is_delta.then_some(BlockDelta { index: TolerantCount(Some(index?)), what })
    }

    fn again(
        &mut self,
        BlockDelta { index, what }: BlockDelta,
        text: Cow<'_, str>,
        out: &mut EventSink,
    ) -> Option<Result<(), Error>> {
        self.block(index)?.more(what, text, out)
    }

    fn has_stopped(&self) -> bool {
        self.stopped
    }

    fn end_without_mark(&mut self, out: &mut EventSink) -> Result<(), Error> {
        self.complete(out)
    }

    fn end(&mut self, out: &mut EventSink) -> Result<(), Error> {
        // Some servers send no `message_stop`. A stop reason after the last block also ends the answer.
        let is_whole = self.stopped && self.blocks.iter().all(OpenBlock::is_closed);
        if is_whole { self.complete(out) } else { Ok(()) }
    }
}

impl AnthropicAnswer {
    fn start(&mut self, message: AnthropicMessage<'_>, out: &mut EventSink) -> Result<(), Error> {
        let id = message.id.owned();
        if self.started {
            // Gateways repeat the start. A start with another id is an error.
            return match id == self.id {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::Protocol,
                    format!(
                        "a second answer (`{}`) began inside the answer `{}`: a gateway on the \
                         way has mixed two streams",
                        id.as_deref().unwrap_or("without id"),
                        self.id.as_deref().unwrap_or("without id"),
                    ),
                )),
            };
        }
        self.started = true;
        self.id.clone_from(&id);
        out.started(id, message.model.owned());
        if let Some(usage) = message.usage.0 {
            self.usage.replace(&usage);
            out.usage(self.usage.known());
        }
        // Blocks in the start event are complete: no events follow for them.
        for (index, block) in (0_u64..).zip(message.content.0) {
            let json = block.get();
            self.open(TolerantCount(Some(index)), json, &ObjectMembers::of(json), out)?;
            self.close(TolerantCount(Some(index)), out)?;
        }
        Ok(())
    }

    /// Records the usage and the stop reason, if the event has them.
    fn over(&mut self, usage: Option<&AnthropicWireUsage>, stop: Option<Cow<'_, str>>) {
        if let Some(usage) = usage {
            self.usage.replace(usage);
        }
        if let Some(stop) = stop.filter(|stop| !stop.is_empty()) {
            self.stop = Some(stop.into_owned());
            self.stopped = true;
        }
    }

    /// Begins a block with this JSON and these members.
    fn open(
        &mut self,
        index: TolerantCount,
        json: &str,
        members: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        // Some servers give every block the same index, or no index, but send one block after the other.
        let index = index.0.unwrap_or(u64::from(self.next));
        let mut number = match u32::try_from(index) {
            Ok(number) if !self.numbers.contains(&index) => number,
            _ => self.next,
        };
        // A call may begin at the index of another call. The accumulator decides whether the new call repeats the other
        // call. For this decision, both calls need the same number if they have no ids.
        let call = self.call_places.get(&index).and_then(|at| self.blocks.get_mut(*at));
        if let Some(call) = call {
            if call.is_begun_by(members) {
                return Ok(());
            }
            if call.is_unnamed() && text_of(members.get("type")) == "tool_use" {
                return call.name(members, out);
            }
            if call.is_again(members) {
                call.close(out)?;
                number = call.number;
            }
        }
        out.part()?;
        let block = OpenBlock::open(index, number, json, members, out)?;
        if block.is_call() {
            self.calls = true;
            self.call_places.insert(index, self.blocks.len());
        }
        self.places.insert(index, self.blocks.len());
        self.numbers.insert(number.into());
        self.next = self.next.max(number.saturating_add(1));
        self.blocks.push(block);
        Ok(())
    }

    fn delta(
        &mut self,
        index: TolerantCount,
        delta: &AnthropicDelta<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let takes_input = self.block(index).is_some_and(|block| block.can_take_input());
        if &*delta.kind == "input_json_delta" && !takes_input {
            if delta.partial_json.is_empty() {
                return Ok(());
            }
            // The start of a call is missing. The answer keeps the call, so that the model gets an error about the
            // incomplete call.
            self.open(index, UNNAMED, &ObjectMembers::of(UNNAMED), out)?;
        } else if self.block(index).is_none() {
            // Some servers send no start for text and thinking.
            let json = match &*delta.kind {
                "text_delta" => r#"{"type":"text"}"#,
                "thinking_delta" | "signature_delta" => r#"{"type":"thinking"}"#,
                _ => return Ok(()),
            };
            self.open(index, json, &ObjectMembers::of(json), out)?;
        }
        match self.block(index) {
            Some(block) => block.delta(delta, out),
            None => Ok(()),
        }
    }

    fn close(&mut self, index: TolerantCount, out: &mut EventSink) -> Result<(), Error> {
        match self.block(index) {
            Some(block) => block.close(out),
            None => Ok(()),
        }
    }

    /// The block with this index in the stream; without an index, the last block.
    fn block(&mut self, index: TolerantCount) -> Option<&mut OpenBlock> {
        let last = self.blocks.len().checked_sub(1)?;
        // Blocks arrive one after the other, so most deltas belong to the last block.
        let is_last = self.blocks.get(last).is_some_and(|block| block.is(index));
        let at = match index.0 {
            Some(index) if !is_last => *self.places.get(&index)?,
            Some(_) | None => last,
        };
        self.blocks.get_mut(at)
    }

    fn complete(&mut self, out: &mut EventSink) -> Result<(), Error> {
        let mut stop = self.stop_reason();
        for block in &mut self.blocks {
            // A call of a truncated answer may be incomplete, so the call is not closed.
            if stop == StopReason::Truncated && block.is_call() {
                block.name(&ObjectMembers::of("{}"), out)?;
                continue;
            }
            block.close(out)?;
        }
        if self.is_summary && stop == StopReason::Paused {
            stop = match self.summary() {
                Ok(words) => {
                    out.text(self.next, words)?;
                    stop
                }
                Err(what) => {
                    out.text(self.next, what)?;
                    StopReason::Refused
                }
            };
        }
        out.completed(stop, self.usage.known());
        Ok(())
    }

    /// The text of the vendor's own summary, or the reason why requests cannot contain the summary.
    ///
    /// Source: <https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand>.
    fn summary(&self) -> Result<String, String> {
        let [block] = &*self.blocks else {
            let blocks = self.blocks.len();
            return Err(format!("the vendor gave {blocks} blocks in the place of one summary"));
        };
        let json = block
            .summary()
            .ok_or("the vendor gave a block of another type in the place of a summary")?;
        let members = ObjectMembers::of(json);
        let words = text_of(members.get("content"));
        if words.trim().is_empty() {
            return Err("the vendor's own summary is empty: it could not make one".to_owned());
        }
        if text_of(members.get("signature")).is_empty() {
            return Err("the vendor's own summary is not signed, so it does not go back".to_owned());
        }
        Ok(words)
    }

    /// A block, other than a tool call, that needs a result from the program. If the answer has tool calls, the
    /// vendor's own calls do not count, because the vendor sends their results in a later answer.
    fn wanted(&self) -> Option<WantedItem> {
        let answered: HashSet<String> =
            self.blocks.iter().filter_map(OpenBlock::answered_call).collect();
        let mut wanted = self.blocks.iter().filter_map(OpenBlock::awaited_result);
        let (kind, _) = wanted.find(|(kind, id)| {
            let is_own = matches!(kind.as_str(), "server_tool_use" | "mcp_tool_use");
            let is_later = is_own && self.calls;
            !is_later && !answered.contains(id)
        })?;
        Some(WantedItem::new(&kind))
    }

    fn stop_reason(&self) -> StopReason {
        if self.stop.as_deref() == Some("tool_use")
            && let Some(item) = self.wanted()
        {
            return StopReason::Unsupported(item);
        }
        match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Truncated,
            Some("pause_turn" | "compaction") => StopReason::Paused,
            Some("refusal") => StopReason::Refused,
            // Calls need results, even with another or an unknown stop reason.
            _ if self.calls => StopReason::ToolCalls,
            _ => StopReason::Complete,
        }
    }
}

impl AnthropicWireUsage {
    /// Replaces the counts that `by` contains, and keeps the other counts. Ignores a zero in place of an earlier count,
    /// because some servers end with zeros.
    fn replace(&mut self, by: &Self) {
        // An answer with a list of steps may end with counts of zero, and these zeros are valid.
        let has_steps = by.iterations.0.is_some();
        let set = |field: &mut TolerantCount, by: TolerantCount| {
            field.0 = if has_steps { by.0.or(field.0) } else { update_count(field.0, by.0) };
        };
        set(&mut self.input_tokens, by.input_tokens);
        set(&mut self.cache_creation_input_tokens, by.cache_creation_input_tokens);
        set(&mut self.cache_read_input_tokens, by.cache_read_input_tokens);
        set(&mut self.output_tokens, by.output_tokens);
        if let Some(by) = by.output_tokens_details.0 {
            let details = self.output_tokens_details.0.get_or_insert_default();
            set(&mut details.thinking_tokens, by.thinking_tokens);
            set(&mut details.reasoning_tokens, by.reasoning_tokens);
        }
        if has_steps {
            self.iterations = by.iterations;
        }
    }

    fn known(&self) -> Usage {
        let (read, written) = (self.cache_read_input_tokens, self.cache_creation_input_tokens);
        let details = self.output_tokens_details.0.unwrap_or_default();
        let mut usage = Usage {
            input: whole_input(self.input_tokens, read, written),
            cache_read: read.0,
            cache_write: written.0,
            output: self.output_tokens.0,
            reasoning: details.thinking_tokens.0.or(details.reasoning_tokens.0),
            compaction: None,
        };
        // The tokens of summaries are added only to known counts, because a sum with a missing part would be wrong.
        if let (Some(_), Some(_), Some(compaction)) =
            (usage.input, usage.output, &self.iterations.0)
        {
            usage.add(compaction);
        }
        usage
    }
}
