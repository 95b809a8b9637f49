//! Converts the Responses stream into events. `item` handles single items.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde::Deserialize;

use super::{
    SUMMARY, WIRE,
    common_event::ResponsesCommonEvent,
    item::{ItemEvent, ItemEventKind, OpenItem, call_id, is_call},
    summary,
};
use crate::wire::{
    decoder::{Decoder, Dialect, EventSink, not_understood},
    delta_fast_path::VaryingPlaces,
    fault,
    json_walk::JsonWalk,
    reader,
    token_details::{InputTokenDetails, OutputTokenDetails},
    tolerant::{
        ObjectMembers, RawJson, TolerantCount, TolerantList, TolerantObject, TolerantText, text_of,
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    provider::{ResponseSizeLimits, StopReason, Usage, VendorPart, WantedItem},
};

/// A decoder for one answer.
pub fn decoder(limits: ResponseSizeLimits) -> Decoder<ResponsesAnswer> {
    Decoder::with(ResponsesAnswer::default(), limits)
}

/// A decoder for the answer to a request for the vendor's own summary.
pub fn summary_decoder(limits: ResponseSizeLimits) -> Decoder<ResponsesAnswer> {
    Decoder::with(ResponsesAnswer { is_summary: true, ..ResponsesAnswer::default() }, limits)
}

/// The state of an arriving answer.
#[derive(Debug, Default)]
pub struct ResponsesAnswer {
    /// Whether the answer must be a summary by the vendor.
    is_summary: bool,
    started: bool,
    items: Vec<OpenItem>,
    /// The position in `items` of the last item with each output index (`places`) and with each item id (`ids`).
    places: HashMap<u64, usize>,
    ids: HashMap<String, usize>,
    /// The positions of incomplete items, by the kind of events that the items accept. A complete item is removed only
    /// from the end of its list.
    open: HashMap<&'static str, Vec<usize>>,
}

/// The members of events of all kinds.
#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: TolerantText<'a>,
    #[serde(default)]
    output_index: TolerantCount,
    #[serde(borrow, default)]
    item_id: TolerantText<'a>,
    #[serde(default)]
    content_index: TolerantCount,
    #[serde(default)]
    summary_index: TolerantCount,
    #[serde(borrow, default)]
    delta: TolerantText<'a>,
    #[serde(borrow, default)]
    text: TolerantText<'a>,
    #[serde(borrow, default)]
    refusal: TolerantText<'a>,
    /// The name of the tool, in the event at the end of a call's arguments.
    #[serde(borrow, default)]
    name: TolerantText<'a>,
    #[serde(borrow, default)]
    arguments: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    annotation: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    item: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    response: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    error: Option<RawJson<'a>>,
    #[serde(borrow, default)]
    object: TolerantText<'a>,
}

impl ResponsesEvent<'_> {
    fn item_event(&self) -> ItemEvent<'_> {
        ItemEvent {
            delta: &self.delta,
            text: &self.text,
            refusal: &self.refusal,
            name: &self.name,
            arguments: self.arguments.map(RawJson::get),
            content_index: self.content_index.0.unwrap_or(0),
            summary_index: self.summary_index.0.unwrap_or(0),
        }
    }
}

#[derive(Default, Deserialize)]
pub(super) struct ResponseObject<'a> {
    #[serde(borrow, default)]
    pub(super) id: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) model: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) status: TolerantText<'a>,
    #[serde(borrow, default)]
    pub(super) output: TolerantList<RawJson<'a>>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: TolerantObject<IncompleteDetails<'a>>,
    #[serde(default)]
    pub(super) usage: TolerantObject<ResponsesWireUsage>,
}

#[derive(Default, Deserialize)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    pub(super) reason: TolerantText<'a>,
}

#[derive(Default, Deserialize)]
pub(super) struct ResponsesWireUsage {
    #[serde(default)]
    pub(super) input_tokens: TolerantCount,
    #[serde(default)]
    pub(super) output_tokens: TolerantCount,
    #[serde(default)]
    pub(super) input_tokens_details: TolerantObject<InputTokenDetails>,
    #[serde(default)]
    pub(super) output_tokens_details: TolerantObject<OutputTokenDetails>,
}

/// A delta of an item. `output` is the output index of the item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemDelta {
    what: ItemEventKind,
    output: u64,
    content: u64,
    summary: u64,
}

impl Dialect for ResponsesAnswer {
    type Delta = ItemDelta;

    fn read(&mut self, event: &str, data: &str, out: &mut EventSink) -> Result<bool, Error> {
        let parsed = match reader::from_str::<ResponsesEvent<'_>>(data) {
            Ok(parsed) => parsed,
            // `[DONE]` after the last event or after an error is ignored, because the last event ends the answer.
            Err(_) if data.trim() == "[DONE]" => return Ok(false),
            Err(err) if event == "error" => return Err(fault::in_event(data).with_source(err)),
            Err(err) => return Err(not_understood(data, err)),
        };
        let kind = parsed.kind.some().unwrap_or(event);
        match kind {
            "keepalive" | "ping" => return Ok(false),
            "response.created" | "response.in_progress" | "response.queued" => {
                // These events repeat the same long response object, so only the first object is read.
                let response = parsed.response.filter(|_| !self.started);
                if let Some(response) = response.and_then(read_response) {
                    self.start(&response, out);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = parsed.item {
                    self.add(parsed.output_index, &ObjectMembers::of(item.get()), out)?;
                }
            }
            "response.output_text.annotation.added" => {
                if let Some(annotation) = parsed.annotation {
                    let item =
                        self.find(parsed.output_index, &parsed.item_id, ItemEventKind::Text, out)?;
                    item.cited(annotation.get(), out)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = parsed.item {
                    let json = item.get();
                    self.done(parsed.output_index, json, &ObjectMembers::of(json), out)?;
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.done"
            | "response.cancelled" => self.end_of(kind, parsed.response, data, out)?,
            _ if kind == "error"
                || (parsed.response.is_none()
                    && parsed.error.is_some_and(|it| fault::is_told(it.get()))) =>
            {
                return Err(fault::in_event(data));
            }
            // The server sent the answer as one object rather than as a stream.
            "" if &*parsed.object == "response" => {
                let response: Option<RawJson<'_>> = reader::from_str(data).ok();
                self.end_of("response.done", response, data, out)?;
            }
            "" if self.is_summary && &*parsed.object == SUMMARY => {
                let response: Option<RawJson<'_>> = reader::from_str(data).ok();
                let response = response.and_then(read_response).unwrap_or_default();
                self.start(&response, out);
                out.part()?;
                let stop = match summary::of_output(&response.output.0) {
                    Ok(json) => {
                        out.vendor(0, VendorPart::Opaque, WIRE, json)?;
                        StopReason::Paused
                    }
                    Err(what) => {
                        out.text(0, what)?;
                        StopReason::Refused
                    }
                };
                out.completed(stop, response.used());
            }
            _ => {
                if let Some(what) = ItemEventKind::of(kind.as_bytes()) {
                    let item = self.find(parsed.output_index, &parsed.item_id, what, out)?;
                    item.read_event(what, parsed.item_event(), out)?;
                }
            }
        }
        Ok(true)
    }

    fn read_common(&mut self, data: &[u8], out: &mut EventSink) -> Option<Result<bool, Error>> {
        let mut common = ResponsesCommonEvent::default();
        common.read(data, self.started)?;
        let index = TolerantCount(common.output);
        let result = match common.kind {
            b"response.output_item.added" => {
                let (_, members) = common.item?;
                self.add(index, &members, out).map(drop)
            }
            b"response.output_item.done" => {
                let (json, members) = common.item?;
                self.done(index, json, &members, out)
            }
            b"response.output_text.annotation.added" => {
                let at = index.0.and_then(|_| self.position(index, ""))?;
                self.items.get_mut(at)?.cited(common.annotation?.get(), out)
            }
            b"response.created" | b"response.in_progress" | b"response.queued" => {
                if !self.started {
                    self.start(&common.response?, out);
                }
                Ok(())
            }
            b"response.completed" => {
                let response = common.response.filter(|it| &*it.status == "completed")?;
                self.start(&response, out);
                self.complete(&response, out)
            }
            kind => match ItemEventKind::of(kind) {
                Some(what) => {
                    let at = index.0.and_then(|_| self.position(index, ""))?;
                    let item = self.items.get_mut(at).filter(|item| item.can_take(what))?;
                    let names = what == ItemEventKind::ArgumentsDone && item.is_unnamed();
                    item.read_event(what, (!names).then(|| common.item_event())?, out)
                }
                // Other events of the protocol have no relevant data. An event with another prefix may be an error, so
                // the parser reads the event.
                None => return kind.starts_with(b"response.").then_some(Ok(true)),
            },
        };
        Some(result.map(|()| true))
    }

    fn delta(&self, data: &str, places: &mut VaryingPlaces) -> Option<ItemDelta> {
        let (mut what, mut output, mut content, mut summary) = (None, None, 0, 0);
        JsonWalk::new(data.as_bytes()).object(|walk, name| {
            match name {
                b"type" => {
                    let is_delta = |what: &ItemEventKind| {
                        matches!(
                            what,
                            ItemEventKind::Text
                                | ItemEventKind::Summary
                                | ItemEventKind::Thinking
                                | ItemEventKind::Arguments
                        )
                    };
                    // The walk stops if the event is not a delta, because other events may be long.
                    what = Some(ItemEventKind::of(walk.plain()?).filter(is_delta)?);
                }
                b"output_index" => output = Some(walk.number()?),
                b"content_index" => content = walk.number()?,
                b"summary_index" => summary = walk.number()?,
                b"delta" => places.text(walk)?,
                _ => places.any(walk)?,
            }
            Some(())
        })?;
        Some(ItemDelta { what: what?, output: output?, content, summary })
    }

    fn again(
        &mut self,
        ItemDelta { what, output, content, summary }: ItemDelta,
        text: Cow<'_, str>,
        out: &mut EventSink,
    ) -> Option<Result<(), Error>> {
        let at = self.position(TolerantCount(Some(output)), "")?;
        let item = self.items.get_mut(at)?;
        if !item.can_take(what) {
            return None;
        }
        let told = ItemEvent {
            delta: &text,
            content_index: content,
            summary_index: summary,
            ..ItemEvent::default()
        };
        Some(item.read_event(what, told, out))
    }
}

impl ResponsesAnswer {
    fn start(&mut self, response: &ResponseObject<'_>, out: &mut EventSink) {
        if !std::mem::replace(&mut self.started, true) {
            out.started(response.id.owned(), response.model.owned());
        }
    }

    /// Returns the item with these members, or creates this item. `None` for an item without an index and without an
    /// id, because later events cannot refer to this item.
    fn add(
        &mut self,
        index: TolerantCount,
        members: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<Option<&mut OpenItem>, Error> {
        let id = text_of(members.get("id"));
        let kind = text_of(members.get("type"));
        let known = self.position(index, &id);
        // A call may begin at the position of an ended call. The accumulator decides whether the new call repeats the
        // ended call. For this decision, both calls need the same number if they have no ids.
        let is_again = |item: &OpenItem| item.is_done_call() && is_call(&kind);
        let number = match known.and_then(|at| self.items.get(at)) {
            Some(item) if !is_again(item) => return Ok(known.and_then(|at| self.items.get_mut(at))),
            Some(item) if call_id(members).is_empty() => Some(item.number),
            Some(_) | None => None,
        };
        out.part()?;
        let item = self.push(index, &id, &kind, members);
        item.number = number.unwrap_or(item.number);
        item.added(members, out)?;
        // Later events cannot refer to an item without an output index and without an id.
        let is_known = index.0.is_some() || !id.is_empty();
        Ok(is_known.then_some(item))
    }

    /// Handles the event of a complete item.
    fn done(
        &mut self,
        index: TolerantCount,
        json: &str,
        members: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        match self.add(index, members, out)? {
            Some(item) => item.done(members, json, out),
            None => Ok(()),
        }
    }

    /// The position of the item with this output index or, without an index, with this id. The index comes first,
    /// because some gateways change an item's id in each event.
    fn position(&self, index: TolerantCount, id: &str) -> Option<usize> {
        match index.0 {
            // The last item is the most frequent case.
            Some(_) if self.items.last().is_some_and(|last| last.index == index.0) => {
                self.items.len().checked_sub(1)
            }
            Some(index) => self.places.get(&index).copied(),
            None => self.ids.get(id).copied(),
        }
    }

    fn find(
        &mut self,
        index: TolerantCount,
        id: &str,
        what: ItemEventKind,
        out: &mut EventSink,
    ) -> Result<&mut OpenItem, Error> {
        let is_call = |at: &usize| self.items.get(*at).is_some_and(OpenItem::is_call);
        let (known, mut index) = (self.position(index, id), index);
        let at = match known {
            None if index.0.is_none() => self.last_open(what),
            // Some servers send arguments with the output index of an item that is not a call.
            Some(at) if what.kind() == "function_call" && !is_call(&at) => {
                index = TolerantCount(None);
                self.ids.get(id).copied().filter(is_call).or_else(|| self.last_open(what))
            }
            known => known,
        };
        let at = match at {
            Some(at) => at,
            None => {
                // The event for the start of the item is missing.
                out.part()?;
                self.push(index, id, what.kind(), &ObjectMembers::of("{}"));
                self.items.len().saturating_sub(1)
            }
        };
        #[expect(clippy::indexing_slicing, reason = "`at` was found or made on the lines above")]
        Ok(&mut self.items[at])
    }

    /// The position of the last incomplete item that accepts this kind of event.
    fn last_open(&mut self, what: ItemEventKind) -> Option<usize> {
        let open = self.open.get_mut(what.kind())?;
        while let Some(at) = open.last().copied() {
            if self.items.get(at).is_some_and(OpenItem::is_open) {
                return Some(at);
            }
            open.pop();
        }
        None
    }

    fn push(
        &mut self,
        index: TolerantCount,
        id: &str,
        kind: &str,
        members: &ObjectMembers<'_>,
    ) -> &mut OpenItem {
        let last = self.items.len();
        let number = u32::try_from(last).unwrap_or(u32::MAX);
        let item = OpenItem::new(index.0, number, kind, members);
        if let Some(index) = index.0 {
            self.places.insert(index, last);
        }
        if !id.is_empty() {
            self.ids.insert(id.to_owned(), last);
        }
        if let Some(taken) = item.event_kind() {
            self.open.entry(taken).or_default().push(last);
        }
        self.items.push(item);
        #[expect(clippy::indexing_slicing, reason = "it was pushed on the line above")]
        &mut self.items[last]
    }

    fn end_of(
        &mut self,
        kind: &str,
        response: Option<RawJson<'_>>,
        data: &str,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let json = response.map_or(data, RawJson::get);
        let Some(response) = response.and_then(read_response) else {
            return Err(fault::in_json(data).unwrap_or_else(|| {
                Error::new(ErrorKind::Protocol, "the last event of the answer contains no answer")
            }));
        };
        self.start(&response, out);
        let status = match response.status.some() {
            Some(status) => status,
            None => kind.strip_prefix("response.").unwrap_or(kind),
        };
        if status == "failed" || kind == "response.failed" {
            return Err(fault::in_json(json).unwrap_or_else(|| {
                Error::new(ErrorKind::Api, "the answer failed without a reason")
            }));
        }
        if status == "cancelled" {
            return Err(Error::new(ErrorKind::CutOff, "the answer was cancelled at the vendor"));
        }
        let reason = response.incomplete_details.0.as_ref().map(|details| &*details.reason);
        if status == "incomplete" || kind == "response.incomplete" {
            let stop = match reason {
                Some("content_filter") => StopReason::Refused,
                _ => StopReason::Truncated,
            };
            for item in &mut self.items {
                item.begin_unnamed(out)?;
            }
            out.completed(stop, response.used());
            return Ok(());
        }
        self.complete(&response, out)
    }

    /// Ends a complete answer.
    fn complete(
        &mut self,
        response: &ResponseObject<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        self.catch_up(&response.output.0, out)?;
        for item in &mut self.items {
            item.close(out)?;
        }
        out.completed(self.stop_reason(), response.used());
        Ok(())
    }

    /// Adds missing items from the output in the last event. Only some vendors send the complete output in the last
    /// event, so an answer is normally built from the earlier events.
    fn catch_up(&mut self, output: &[RawJson<'_>], out: &mut EventSink) -> Result<(), Error> {
        let silent = self.items.is_empty();
        if !silent && !self.items.iter().any(OpenItem::is_open) {
            return Ok(());
        }
        for json in output {
            let members = ObjectMembers::of(json.get());
            let id = text_of(members.get("id"));
            let known = self.position(TolerantCount(None), &id);
            match known.and_then(|at| self.items.get(at)) {
                Some(item) if !item.is_open() => {}
                None if !silent => {
                    // The arguments of this call arrived without an index or id, so a call without a name contains
                    // them.
                    let mut unnamed = self.items.iter_mut().filter(|item| item.is_unnamed());
                    let kind = text_of(members.get("type"));
                    if let Some(item) = unnamed.next().filter(|_| kind == "function_call") {
                        item.done(&members, json.get(), out)?;
                    }
                }
                Some(_) | None => self.done(TolerantCount(None), json.get(), &members, out)?,
            }
        }
        Ok(())
    }

    /// An item that the program has to execute, and that the vendor has not executed.
    fn wanted(&self) -> Option<WantedItem> {
        let answered: HashSet<&str> =
            self.items.iter().filter_map(OpenItem::answered_call).collect();
        let mut wanted = self.items.iter().filter_map(OpenItem::awaited_result);
        let (kind, _) = wanted.find(|(_, id)| id.is_empty() || !answered.contains(id.as_str()))?;
        Some(WantedItem::new(kind))
    }

    fn stop_reason(&self) -> StopReason {
        match () {
            () if self.items.iter().any(OpenItem::is_cut) => StopReason::Truncated,
            () if self.items.iter().any(OpenItem::is_refusal) => StopReason::Refused,
            () => match self.wanted() {
                Some(item) => StopReason::Unsupported(item),
                None if self.items.iter().any(OpenItem::is_call) => StopReason::ToolCalls,
                None => StopReason::Complete,
            },
        }
    }
}

fn read_response(json: RawJson<'_>) -> Option<ResponseObject<'_>> {
    reader::from_str::<TolerantObject<ResponseObject<'_>>>(json.get()).ok()?.0
}

impl ResponseObject<'_> {
    fn used(&self) -> Usage {
        self.usage.0.as_ref().map(ResponsesWireUsage::known).unwrap_or_default()
    }
}

impl ResponsesWireUsage {
    fn known(&self) -> Usage {
        let cache = self.input_tokens_details.0.as_ref();
        let output = self.output_tokens_details.0.as_ref();
        Usage {
            input: self.input_tokens.0,
            cache_read: cache.and_then(|cache| cache.cached_tokens.0),
            cache_write: cache.and_then(|cache| cache.cache_write_tokens.0),
            output: self.output_tokens.0,
            reasoning: output.and_then(|output| output.reasoning_tokens.0),
            compaction: None,
        }
    }
}
