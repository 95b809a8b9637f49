//! Walks over an event of the Responses stream, and reads the data that answers consist of. At
//! anything unusual it gives up, and the event is parsed: see `wire/walk.rs`.

use std::borrow::Cow;

use super::{
    decode::{Details, InputDetails, OutputDetails, Response, WireUsage},
    item::Told,
};
use crate::wire::{
    tolerant::{Count, List, Members, Obj, Raw, Text},
    walk::{Once, Walk},
};

/// An event of one of the common kinds.
#[derive(Default)]
pub(super) struct Common<'a> {
    pub(super) kind: &'a [u8],
    pub(super) output: Option<u64>,
    content: u64,
    summary: u64,
    delta: Cow<'a, str>,
    text: Cow<'a, str>,
    refusal: Cow<'a, str>,
    arguments: Option<Raw<'a>>,
    pub(super) annotation: Option<Raw<'a>>,
    /// An item as it was written, and its members.
    pub(super) item: Option<(&'a str, Members<'a>)>,
    /// The answer, unless the event only reports progress.
    pub(super) response: Option<Response<'a>>,
}

impl<'a> Common<'a> {
    /// Reads the event. `started` is whether the answer has started.
    pub(super) fn read(&mut self, data: &'a [u8], started: bool) -> Option<()> {
        let common = self;
        let mut seen = Once::default();
        let mut walk = Walk::new(data);
        walk.object(|walk, name| {
            let member = match name {
                b"type" => {
                    common.kind = walk.plain()?;
                    let is_read = matches!(
                        common.kind,
                        b"response.incomplete"
                            | b"response.failed"
                            | b"response.done"
                            | b"response.cancelled"
                    );
                    return seen.see(0).filter(|()| !is_read);
                }
                b"output_index" => {
                    common.output = Some(walk.number()?);
                    1
                }
                b"content_index" => {
                    common.content = walk.number()?;
                    2
                }
                b"summary_index" => {
                    common.summary = walk.number()?;
                    3
                }
                b"delta" => {
                    common.delta = walk.text()?;
                    4
                }
                // The output index identifies the item better.
                b"item_id" => {
                    walk.skip_text()?;
                    5
                }
                b"text" => {
                    common.text = walk.text_or_null()?;
                    6
                }
                b"refusal" => {
                    common.refusal = walk.text_or_null()?;
                    7
                }
                b"arguments" => {
                    common.arguments = Some(Raw::walk(walk)?).filter(|json| json.get() != "null");
                    8
                }
                b"annotation" => {
                    common.annotation = Some(Raw::walk(walk)?).filter(|json| json.get() != "null");
                    9
                }
                b"item" => {
                    let (json, members) = Members::walk(walk)?;
                    common.item = Some((std::str::from_utf8(json).ok()?, members));
                    10
                }
                b"response" => {
                    match common.kind {
                        // The later events repeat the first one, and are long.
                        b"response.created" | b"response.in_progress" | b"response.queued"
                            if started =>
                        {
                            walk.skip()?;
                        }
                        _ => common.response = Some(Response::walk(walk)?),
                    }
                    11
                }
                b"error" | b"object" => return None,
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        walk.end()
    }

    pub(super) fn told(&self) -> Told<'_> {
        Told {
            delta: &self.delta,
            text: &self.text,
            refusal: &self.refusal,
            name: "",
            arguments: self.arguments.map(Raw::get),
            content_index: self.content,
            summary_index: self.summary,
        }
    }
}

impl<'a> Response<'a> {
    fn walk(walk: &mut Walk<'a>) -> Option<Self> {
        let mut response = Self::default();
        let mut seen = Once::default();
        walk.object(|walk, name| {
            let member = match name {
                b"id" => {
                    response.id = Text(walk.text_or_null()?);
                    0
                }
                b"model" => {
                    response.model = Text(walk.text_or_null()?);
                    1
                }
                b"status" => {
                    response.status = Text(walk.text_or_null()?);
                    2
                }
                b"output" => {
                    response.output = List(Raw::walk_list(walk)?);
                    3
                }
                b"incomplete_details" => {
                    let mut details = Details::default();
                    let is_one = walk.object_or_null(|walk, name| match name {
                        b"reason" => {
                            details.reason = Text(walk.text_or_null()?);
                            seen.see(4)
                        }
                        _ => walk.skip(),
                    })?;
                    response.incomplete_details = Obj(is_one.then_some(details));
                    5
                }
                b"usage" => {
                    response.usage = WireUsage::walk(walk)?;
                    6
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(response)
    }
}

impl WireUsage {
    fn walk(walk: &mut Walk<'_>) -> Option<Obj<Self>> {
        let mut usage = Self::default();
        let mut seen = Once::default();
        let is_one = walk.object_or_null(|walk, name| {
            let member = match name {
                b"input_tokens" => {
                    usage.input_tokens = Count::walk(walk)?;
                    0
                }
                b"output_tokens" => {
                    usage.output_tokens = Count::walk(walk)?;
                    1
                }
                b"input_tokens_details" => {
                    let counts = Count::walk_all(walk, ["cached_tokens", "cache_write_tokens"])?;
                    let details = |[cached_tokens, cache_write_tokens]: [_; 2]| InputDetails {
                        cached_tokens,
                        cache_write_tokens,
                    };
                    usage.input_tokens_details = Obj(counts.map(details));
                    2
                }
                b"output_tokens_details" => {
                    let counts = Count::walk_all(walk, ["reasoning_tokens"])?;
                    let details = |[reasoning_tokens]: [_; 1]| OutputDetails { reasoning_tokens };
                    usage.output_tokens_details = Obj(counts.map(details));
                    3
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(Obj(is_one.then_some(usage)))
    }
}
