//! Reads common events of the Responses stream without a JSON parser. For an unusual event, `read` returns `None`, and
//! the JSON parser reads the event: see `wire/json_walk.rs`.

use std::borrow::Cow;

use super::{
    decode::{IncompleteDetails, ResponseObject, ResponsesWireUsage},
    item::ItemEvent,
};
use crate::wire::{
    json_walk::{JsonWalk, SeenMembers},
    token_details::{InputTokenDetails, OutputTokenDetails},
    tolerant::{ObjectMembers, RawJson, TolerantCount, TolerantList, TolerantObject, TolerantText},
};

/// An event of a common kind. Missing members are empty.
#[derive(Default)]
pub(super) struct ResponsesCommonEvent<'a> {
    pub(super) kind: &'a [u8],
    pub(super) output: Option<u64>,
    content: u64,
    summary: u64,
    delta: Cow<'a, str>,
    text: Cow<'a, str>,
    refusal: Cow<'a, str>,
    arguments: Option<RawJson<'a>>,
    pub(super) annotation: Option<RawJson<'a>>,
    /// The JSON and the members of an item.
    pub(super) item: Option<(&'a str, ObjectMembers<'a>)>,
    /// The response object. `None` in events that only report progress.
    pub(super) response: Option<ResponseObject<'a>>,
}

impl<'a> ResponsesCommonEvent<'a> {
    /// Reads the event. `started`: the answer has started.
    pub(super) fn read(&mut self, data: &'a [u8], started: bool) -> Option<()> {
        let common = self;
        let mut seen = SeenMembers::default();
        let mut walk = JsonWalk::new(data);
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
                // The output index identifies the item, so the id is not needed.
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
                    common.arguments =
                        Some(RawJson::walk(walk)?).filter(|json| json.get() != "null");
                    8
                }
                b"annotation" => {
                    common.annotation =
                        Some(RawJson::walk(walk)?).filter(|json| json.get() != "null");
                    9
                }
                b"item" => {
                    let (json, members) = ObjectMembers::walk(walk)?;
                    common.item = Some((std::str::from_utf8(json).ok()?, members));
                    10
                }
                b"response" => {
                    match common.kind {
                        // These events repeat the same long response object, so only the first object is read.
                        b"response.created" | b"response.in_progress" | b"response.queued"
                            if started =>
                        {
                            walk.skip()?;
                        }
                        _ => common.response = Some(ResponseObject::walk(walk)?),
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

    pub(super) fn item_event(&self) -> ItemEvent<'_> {
        ItemEvent {
            delta: &self.delta,
            text: &self.text,
            refusal: &self.refusal,
            name: "",
            arguments: self.arguments.map(RawJson::get),
            content_index: self.content,
            summary_index: self.summary,
        }
    }
}

impl<'a> ResponseObject<'a> {
    fn walk(walk: &mut JsonWalk<'a>) -> Option<Self> {
        let mut response = Self::default();
        let mut seen = SeenMembers::default();
        walk.object(|walk, name| {
            let member = match name {
                b"id" => {
                    response.id = TolerantText(walk.text_or_null()?);
                    0
                }
                b"model" => {
                    response.model = TolerantText(walk.text_or_null()?);
                    1
                }
                b"status" => {
                    response.status = TolerantText(walk.text_or_null()?);
                    2
                }
                b"output" => {
                    response.output = TolerantList(RawJson::walk_list(walk)?);
                    3
                }
                b"incomplete_details" => {
                    let mut details = IncompleteDetails::default();
                    let is_one = walk.object_or_null(|walk, name| match name {
                        b"reason" => {
                            details.reason = TolerantText(walk.text_or_null()?);
                            seen.see(4)
                        }
                        _ => walk.skip(),
                    })?;
                    response.incomplete_details = TolerantObject(is_one.then_some(details));
                    5
                }
                b"usage" => {
                    response.usage = ResponsesWireUsage::walk(walk)?;
                    6
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(response)
    }
}

impl ResponsesWireUsage {
    fn walk(walk: &mut JsonWalk<'_>) -> Option<TolerantObject<Self>> {
        let mut usage = Self::default();
        let mut seen = SeenMembers::default();
        let is_one = walk.object_or_null(|walk, name| {
            let member = match name {
                b"input_tokens" => {
                    usage.input_tokens = TolerantCount::walk(walk)?;
                    0
                }
                b"output_tokens" => {
                    usage.output_tokens = TolerantCount::walk(walk)?;
                    1
                }
                b"input_tokens_details" => {
                    usage.input_tokens_details = InputTokenDetails::walk(walk)?;
                    2
                }
                b"output_tokens_details" => {
                    usage.output_tokens_details = OutputTokenDetails::walk(walk)?;
                    3
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(TolerantObject(is_one.then_some(usage)))
    }
}
