//! Makes events of the Responses stream. What becomes of one item is in `item`.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::{Item, Told, What, call_id, is_call};
use crate::{
    error::{Error, ErrorKind},
    provider::{AnswerLimits, StopReason, Usage, WantedItem},
    wire::{
        decoder::{Decoder, Dialect, Outlet, not_understood},
        fault, reader, scan,
        shape::Places,
        tolerant::{Count, List, Members, Obj, Text, text_of},
        walk::{Once, Walk},
    },
};

/// A decoder for one answer.
pub fn decoder(limits: AnswerLimits) -> Decoder<Answer> {
    Decoder::with(Answer::default(), limits)
}

/// The answer so far.
#[derive(Debug, Default)]
pub struct Answer {
    started: bool,
    items: Vec<Item>,
    /// Where the last item stands that has this place in the output, and the last one with this id.
    places: HashMap<u64, usize>,
    ids: HashMap<String, usize>,
    /// Items that are not done, by what they take; those that are done since are left out when they
    /// come last.
    open: HashMap<&'static str, Vec<usize>>,
}

/// The members of all events.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    output_index: Count,
    #[serde(borrow, default)]
    item_id: Text<'a>,
    #[serde(default)]
    content_index: Count,
    #[serde(default)]
    summary_index: Count,
    #[serde(borrow, default)]
    delta: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Text<'a>,
}

impl Event<'_> {
    fn told(&self) -> Told<'_> {
        Told {
            delta: &self.delta,
            text: &self.text,
            refusal: &self.refusal,
            arguments: self.arguments.map(RawValue::get),
            content_index: self.content_index.0.unwrap_or(0),
            summary_index: self.summary_index.0.unwrap_or(0),
        }
    }
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    output: List<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Obj<Details<'a>>,
    #[serde(default)]
    usage: Obj<WireUsage>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    reason: Text<'a>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    input_tokens_details: Obj<InputDetails>,
    #[serde(default)]
    output_tokens_details: Obj<OutputDetails>,
}

#[derive(Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

/// An event that adds to an item, or says nothing that is of use.
#[derive(Default)]
struct Common<'a> {
    kind: &'a str,
    output: Option<u64>,
    told: Told<'a>,
    text: Option<Cow<'a, str>>,
}

impl<'a> Common<'a> {
    fn of(data: &'a [u8]) -> Option<Self> {
        let mut common = Self::default();
        let mut seen = Once::default();
        let mut walk = Walk::new(data);
        walk.object(|walk, name| {
            let member = match name {
                b"type" => {
                    common.kind = std::str::from_utf8(walk.plain()?).ok()?;
                    // Those that say most are left at once.
                    let is_long = matches!(
                        common.kind,
                        "response.output_item.added"
                            | "response.output_item.done"
                            | "response.completed"
                    );
                    return seen.see(0).filter(|()| !is_long);
                }
                b"output_index" => {
                    common.output = Some(walk.number()?);
                    1
                }
                b"content_index" => {
                    common.told.content_index = walk.number()?;
                    2
                }
                b"summary_index" => {
                    common.told.summary_index = walk.number()?;
                    3
                }
                b"delta" => {
                    common.text = Some(walk.text()?);
                    4
                }
                b"item_id" => {
                    walk.skip_text()?;
                    5
                }
                b"text" => {
                    walk.skip_text()?;
                    6
                }
                b"response" => {
                    walk.skip()?;
                    7
                }
                b"refusal" | b"arguments" | b"annotation" | b"item" | b"error" | b"object" => {
                    return None;
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        walk.end()?;
        Some(common)
    }
}

/// A delta of an item that is known by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct More {
    what: What,
    output: u64,
    content: u64,
    summary: u64,
}

impl Dialect for Answer {
    type Delta = More;

    fn read(&mut self, event: &str, data: &str, out: &mut Outlet) -> Result<bool, Error> {
        let parsed = match reader::from_str::<Event<'_>>(data) {
            Ok(parsed) => parsed,
            // What ends an answer is said by an event; this may follow it, or an error.
            Err(_) if data.trim() == "[DONE]" => return Ok(false),
            Err(err) if event == "error" => return Err(fault::in_event(data).because(err)),
            Err(err) => return Err(not_understood(data, err)),
        };
        let kind = parsed.kind.some().unwrap_or(event);
        match kind {
            "keepalive" | "ping" => return Ok(false),
            "response.created" | "response.in_progress" | "response.queued" => {
                // The second one says what the first one said, and it is long.
                let response = parsed.response.filter(|_| !self.started);
                if let Some(response) = response.and_then(read_response) {
                    self.start(&response, out);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = parsed.item {
                    self.add(parsed.output_index, &Members::of(item.get()), out)?;
                }
            }
            "response.output_text.annotation.added" => {
                if let Some(annotation) = parsed.annotation {
                    let item = self.find(parsed.output_index, &parsed.item_id, What::Text, out)?;
                    item.cited(annotation.get(), out)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = parsed.item {
                    self.done(parsed.output_index, item.get(), out)?;
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
            // An answer in one piece.
            "" if &*parsed.object == "response" => {
                let response: Option<&RawValue> = serde_json::from_str(data).ok();
                self.end_of("response.done", response, data, out)?;
            }
            _ => {
                if let Some(what) = What::of(kind) {
                    let item = self.find(parsed.output_index, &parsed.item_id, what, out)?;
                    item.told(what, parsed.told(), out)?;
                }
            }
        }
        Ok(true)
    }

    fn read_common(&mut self, data: &[u8], out: &mut Outlet) -> Option<Result<bool, Error>> {
        let Common { kind, output, told, text } = Common::of(data)?;
        let Some(what) = What::of(kind) else {
            let says_nothing = match kind {
                "response.created" | "response.in_progress" | "response.queued" => self.started,
                "response.output_item.added"
                | "response.output_item.done"
                | "response.output_text.annotation.added"
                | "response.completed"
                | "response.incomplete"
                | "response.failed"
                | "response.done"
                | "response.cancelled" => false,
                _ => kind.starts_with("response."),
            };
            return says_nothing.then_some(Ok(true));
        };
        let is_delta =
            matches!(what, What::Text | What::Summary | What::Thinking | What::Arguments);
        let output = output.filter(|_| is_delta)?;
        let at = self.position(Count(Some(output)), "")?;
        let item = self.items.get_mut(at)?;
        if !item.takes(what) {
            return None;
        }
        Some(item.told(what, Told { delta: &text?, ..told }, out).map(|()| true))
    }

    fn delta(&self, data: &str, places: &mut Places) -> Option<More> {
        let (mut kind, mut output, mut content, mut summary) = ("", "", "0", "0");
        scan::object(data, |name, rest| match name {
            // The other events are none, and some are long.
            "type" => scan::value(rest, &mut kind).filter(|_| kind.ends_with(".delta\"")),
            "output_index" => scan::value(rest, &mut output),
            "content_index" => scan::value(rest, &mut content),
            "summary_index" => scan::value(rest, &mut summary),
            "delta" => places.text(rest),
            _ => places.any(rest),
        })?;
        let what = What::of(kind.strip_prefix('"')?.strip_suffix('"')?)?;
        let is_delta =
            matches!(what, What::Text | What::Summary | What::Thinking | What::Arguments);
        let number = |json: &str| json.parse::<u64>().ok();
        let (content, summary) = (number(content)?, number(summary)?);
        is_delta.then_some(More { what, output: number(output)?, content, summary })
    }

    fn again(
        &mut self,
        More { what, output, content, summary }: More,
        text: Cow<'_, str>,
        out: &mut Outlet,
    ) -> Option<Result<(), Error>> {
        let at = self.position(Count(Some(output)), "")?;
        let item = self.items.get_mut(at)?;
        if !item.takes(what) {
            return None;
        }
        let told = Told {
            delta: &text,
            content_index: content,
            summary_index: summary,
            ..Told::default()
        };
        Some(item.told(what, told, out))
    }

    fn end(&mut self, _: &mut Outlet) -> Result<(), Error> {
        Ok(())
    }
}

impl Answer {
    fn start(&mut self, response: &Response<'_>, out: &mut Outlet) {
        if !std::mem::replace(&mut self.started, true) {
            out.started(response.id.owned(), response.model.owned());
        }
    }

    /// The item that these are the members of, which may begin with them.
    fn add(
        &mut self,
        index: Count,
        members: &Members<'_>,
        out: &mut Outlet,
    ) -> Result<Option<&mut Item>, Error> {
        let id = text_of(members.get("id"));
        let kind = text_of(members.get("type"));
        let known = self.position(index, &id);
        // A call where another one has ended: whether it is that one, whoever collects the answer says.
        // Without ids they need one number for it.
        let is_again = |item: &Item| item.is_done_call() && is_call(&kind);
        let number = match known.and_then(|at| self.items.get(at)) {
            Some(item) if !is_again(item) => return Ok(known.and_then(|at| self.items.get_mut(at))),
            Some(item) if call_id(members).is_empty() => Some(item.number),
            Some(_) | None => None,
        };
        out.part()?;
        let item = self.push(index, &id, &kind);
        item.number = number.unwrap_or(item.number);
        item.added(members, out)?;
        // Without a place and an id it is not found again.
        let is_known = index.0.is_some() || !id.is_empty();
        Ok(is_known.then_some(item))
    }

    fn done(&mut self, index: Count, json: &str, out: &mut Outlet) -> Result<(), Error> {
        let members = Members::of(json);
        match self.add(index, &members, out)? {
            Some(item) => item.done(&members, json, out),
            None => Ok(()),
        }
    }

    /// The place in the output says which item is meant: some gateways give an item another id
    /// in each event. Servers that leave the place out are held to the id.
    fn position(&self, index: Count, id: &str) -> Option<usize> {
        match index.0 {
            // It is nearly always the last one.
            Some(_) if self.items.last().is_some_and(|last| last.index == index.0) => {
                self.items.len().checked_sub(1)
            }
            Some(index) => self.places.get(&index).copied(),
            None => self.ids.get(id).copied(),
        }
    }

    fn find(
        &mut self,
        index: Count,
        id: &str,
        what: What,
        out: &mut Outlet,
    ) -> Result<&mut Item, Error> {
        let at = match self.position(index, id) {
            None if index.0.is_none() => self.last_open(what),
            known => known,
        };
        let at = match at {
            Some(at) => at,
            None => {
                // It began without a word.
                out.part()?;
                self.push(index, id, what.kind());
                self.items.len().saturating_sub(1)
            }
        };
        #[expect(clippy::indexing_slicing, reason = "`at` was found or made on the lines above")]
        Ok(&mut self.items[at])
    }

    /// The last item that is not done and takes what is told.
    fn last_open(&mut self, what: What) -> Option<usize> {
        let open = self.open.get_mut(what.kind())?;
        while let Some(at) = open.last().copied() {
            if self.items.get(at).is_some_and(Item::is_open) {
                return Some(at);
            }
            open.pop();
        }
        None
    }

    fn push(&mut self, index: Count, id: &str, kind: &str) -> &mut Item {
        let last = self.items.len();
        let number = u32::try_from(last).unwrap_or(u32::MAX);
        let item = Item::new(index.0, number, kind);
        if let Some(index) = index.0 {
            self.places.insert(index, last);
        }
        if !id.is_empty() {
            self.ids.insert(id.to_owned(), last);
        }
        if let Some(taken) = item.taken() {
            self.open.entry(taken).or_default().push(last);
        }
        self.items.push(item);
        #[expect(clippy::indexing_slicing, reason = "it was pushed on the line above")]
        &mut self.items[last]
    }

    fn end_of(
        &mut self,
        kind: &str,
        response: Option<&RawValue>,
        data: &str,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        let json = response.map_or(data, RawValue::get);
        let Some(response) = response.and_then(read_response) else {
            return Err(fault::in_json(data).unwrap_or_else(|| {
                Error::new(ErrorKind::Protocol, "the last event of the answer holds no answer")
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
        let usage = response.usage.0.as_ref().map(WireUsage::known).unwrap_or_default();
        let reason = response.incomplete_details.0.as_ref().map(|details| &*details.reason);
        if status == "incomplete" || kind == "response.incomplete" {
            let stop = match reason {
                Some("content_filter") => StopReason::Refused,
                _ => StopReason::Truncated,
            };
            out.completed(stop, usage);
            return Ok(());
        }
        self.catch_up(&response.output.0, out)?;
        for item in &mut self.items {
            item.close(out)?;
        }
        out.completed(self.stop_reason(), usage);
        Ok(())
    }

    /// Takes from the end of the answer what was never said on the way. The whole output stands
    /// there only with some vendors, so it is never what the answer is built of.
    fn catch_up(&mut self, output: &[&RawValue], out: &mut Outlet) -> Result<(), Error> {
        let silent = self.items.is_empty();
        if !silent && !self.items.iter().any(Item::is_open) {
            return Ok(());
        }
        for json in output {
            let id = text_of(Members::of(json.get()).get("id"));
            let known = self.position(Count(None), &id);
            match known.and_then(|at| self.items.get(at)) {
                Some(item) if !item.is_open() => {}
                None if !silent => {}
                Some(_) | None => self.done(Count(None), json.get(), out)?,
            }
        }
        Ok(())
    }

    /// What the program is asked to execute, if the vendor has not executed it.
    fn wanted(&self) -> Option<WantedItem> {
        let answered: HashSet<&str> = self.items.iter().filter_map(Item::answers).collect();
        let mut wanted = self.items.iter().filter_map(Item::wants);
        let (kind, _) = wanted.find(|(_, id)| id.is_empty() || !answered.contains(id.as_str()))?;
        Some(WantedItem::new(kind))
    }

    fn stop_reason(&self) -> StopReason {
        match () {
            () if self.items.iter().any(Item::is_cut) => StopReason::Truncated,
            () if self.items.iter().any(Item::is_refusal) => StopReason::Refused,
            () => match self.wanted() {
                Some(item) => StopReason::Unsupported(item),
                None if self.items.iter().any(Item::is_call) => StopReason::ToolCalls,
                None => StopReason::Complete,
            },
        }
    }
}

fn read_response(json: &RawValue) -> Option<Response<'_>> {
    reader::from_str::<Obj<Response<'_>>>(json.get()).ok()?.0
}

impl WireUsage {
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
