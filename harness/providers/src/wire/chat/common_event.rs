//! Reads common chunks without a JSON parser. For an unusual chunk, `read` returns `None`, and the JSON parser reads
//! the chunk: see `wire/json_walk.rs`.

use std::borrow::Cow;

use super::{
    chunk::{CallDelta, ChatWireUsage, FunctionDelta},
    decode::other_than_function,
    media::AnswerMedia,
    thought::FIELDS,
};
use crate::wire::{
    json_walk::{JsonWalk, SeenMembers},
    token_details::{InputTokenDetails, OutputTokenDetails},
    tolerant::{ObjectMembers, RawArguments, RawJson, TolerantCount, TolerantObject, TolerantText},
};

/// The content of a chunk with at most one choice.
#[derive(Default)]
pub(super) struct ChunkContents<'a> {
    /// The id of the answer. `id` and `model` are read only until the answer has started.
    pub(super) id: Cow<'a, str>,
    pub(super) model: Cow<'a, str>,
    pub(super) has_choice: bool,
    pub(super) words: Cow<'a, str>,
    /// The parts of the content, if the content is a list.
    pub(super) parts: Vec<RawJson<'a>>,
    /// The name and the text of the field with the thinking.
    pub(super) thought: Option<(&'static str, Cow<'a, str>)>,
    /// The details of the thinking, each with its size in bytes.
    pub(super) details: Vec<(usize, ObjectMembers<'a>)>,
    pub(super) call: Option<CallDelta<'a>>,
    pub(super) finish: Cow<'a, str>,
    pub(super) usage: Option<ChatWireUsage>,
    pub(super) groq_usage: Option<ChatWireUsage>,
    /// The search results, as JSON and parsed. `None` if the last chunk had the same search results. `urls` contains
    /// the URLs of sources in the same form.
    pub(super) found: Option<(&'a [u8], Vec<RawJson<'a>>)>,
    pub(super) urls: Option<(&'a [u8], Vec<TolerantText<'a>>)>,
    seen: SeenMembers,
}

impl<'a> ChunkContents<'a> {
    /// Reads a chunk. `started`: the answer has started. `media` has the last lists of sources, for comparison.
    pub(super) fn read(
        &mut self,
        data: &'a [u8],
        started: bool,
        media: &AnswerMedia,
    ) -> Option<()> {
        let said = self;
        let mut walk = JsonWalk::new(data);
        walk.object(|walk, name| {
            let member = match name {
                b"choices" => {
                    said.seen.see(0)?;
                    return walk.list(|walk| {
                        if std::mem::replace(&mut said.has_choice, true) {
                            return None;
                        }
                        said.choice(walk)
                    });
                }
                b"id" => {
                    match started {
                        true => walk.skip_text()?,
                        false => said.id = walk.text_or_null()?,
                    }
                    1
                }
                b"model" => {
                    match started {
                        true => walk.skip_text()?,
                        false => said.model = walk.text_or_null()?,
                    }
                    2
                }
                b"object" => {
                    if walk.plain()? != b"chat.completion.chunk" {
                        return None;
                    }
                    3
                }
                b"usage" => {
                    said.usage = ChatWireUsage::walk(walk)?;
                    4
                }
                b"x_groq" => {
                    walk.object_or_null(|walk, name| match name {
                        b"usage" => {
                            said.groq_usage = ChatWireUsage::walk(walk)?;
                            said.seen.see(5)
                        }
                        _ => walk.skip(),
                    })?;
                    6
                }
                b"error" | b"detail" => {
                    walk.literal("null")?;
                    7 + u32::from(name == b"detail")
                }
                b"search_results" => {
                    walk.next();
                    let start = walk.place();
                    if walk.same(&media.last_found).is_none() || walk.place() == start {
                        let found = RawJson::walk_list(walk)?;
                        said.found = Some((walk.since(start)?, found));
                    }
                    9
                }
                b"citations" => {
                    walk.next();
                    let start = walk.place();
                    if walk.same(&media.last_urls).is_none() || walk.place() == start {
                        let mut urls = Vec::new();
                        walk.list_or_null(|walk| {
                            urls.push(TolerantText(walk.text()?));
                            Some(())
                        })?;
                        said.urls = Some((walk.since(start)?, urls));
                    }
                    10
                }
                _ => return walk.skip(),
            };
            said.seen.see(member)
        })?;
        walk.end()
    }

    fn choice(&mut self, walk: &mut JsonWalk<'a>) -> Option<()> {
        let mut has_delta = false;
        walk.object(|walk, name| {
            let member = match name {
                b"index" => {
                    if walk.number()? != 0 {
                        return None;
                    }
                    11
                }
                b"delta" => {
                    has_delta = true;
                    self.delta(walk)?;
                    12
                }
                // The message repeats the content of the deltas.
                b"message" => {
                    repeated(walk)?;
                    13
                }
                b"finish_reason" => {
                    self.finish = walk.text_or_null()?;
                    14
                }
                _ => return walk.skip(),
            };
            self.seen.see(member)
        })?;
        has_delta.then_some(())
    }

    fn delta(&mut self, walk: &mut JsonWalk<'a>) -> Option<()> {
        walk.object(|walk, name| {
            let member = match name {
                b"content" => {
                    match walk.next()? {
                        b'[' => self.parts = RawJson::walk_list(walk)?,
                        _ => self.words = walk.text_or_null()?,
                    }
                    15
                }
                b"reasoning_content" => self.thought(0, walk)?,
                b"reasoning" => self.thought(1, walk)?,
                b"reasoning_text" => self.thought(2, walk)?,
                b"thinking" => self.thought(3, walk)?,
                b"tool_calls" => {
                    walk.list_or_null(|walk| {
                        let call = CallDelta::walk(walk)?;
                        let is_common = other_than_function(&call).is_none();
                        (is_common && self.call.replace(call).is_none()).then_some(())
                    })?;
                    20
                }
                b"reasoning_details" => {
                    walk.list_or_null(|walk| match walk.next()? {
                        b'{' => {
                            let (json, members) = ObjectMembers::walk(walk)?;
                            self.details.push((json.len(), members));
                            Some(())
                        }
                        _ => walk.skip(),
                    })?;
                    21
                }
                b"refusal" => none(walk, 22)?,
                b"function_call" => none(walk, 23)?,
                b"annotations" => none(walk, 24)?,
                b"images" => none(walk, 25)?,
                b"audio" => none(walk, 26)?,
                _ => return walk.skip(),
            };
            self.seen.see(member)
        })
    }

    /// Reads a field with thinking. If several fields contain text, the first field in the list `FIELDS` counts.
    fn thought(&mut self, field: u8, walk: &mut JsonWalk<'a>) -> Option<u32> {
        let text = walk.text_or_null()?;
        let fields = FIELDS.get(..=usize::from(field))?;
        let known = self.thought.as_ref().map(|(known, _)| known);
        let is_first = known.is_none_or(|known| !fields.contains(known));
        if is_first && !text.is_empty() {
            self.thought = Some((fields.last()?, text));
        }
        Some(16 + u32::from(field))
    }
}

/// Skips `null` or an empty list. Returns `None` for any other value.
fn none(walk: &mut JsonWalk<'_>, member: u32) -> Option<u32> {
    matches!(walk.value()?, b"null" | b"[]").then_some(member)
}

/// Skips a message. Returns `None` for a message that the parser may refuse: with a repeated member of a delta, or with
/// a nested member that is not empty.
fn repeated(walk: &mut JsonWalk<'_>) -> Option<()> {
    const NAMES: [&[u8]; 12] = [
        b"content",
        b"refusal",
        b"reasoning_content",
        b"reasoning",
        b"reasoning_text",
        b"thinking",
        b"reasoning_details",
        b"annotations",
        b"images",
        b"tool_calls",
        b"function_call",
        b"audio",
    ];
    let mut seen = SeenMembers::default();
    walk.object_or_null(|walk, name| {
        let Some(member) = NAMES.iter().zip(0..).find(|(known, _)| **known == name) else {
            return walk.skip();
        };
        let value = walk.value()?;
        let is_number = matches!(value, [b'-' | b'0'..=b'9', ..]);
        let is_plain = (member.1 < 9 && !is_number) || matches!(value, b"null" | b"[]" | b"{}");
        seen.see(member.1).filter(|()| is_plain)
    })
    .map(drop)
}

impl<'a> CallDelta<'a> {
    fn walk(walk: &mut JsonWalk<'a>) -> Option<Self> {
        let mut call = Self::default();
        let mut seen = SeenMembers::default();
        walk.object(|walk, name| {
            let member = match name {
                b"index" => {
                    call.index = TolerantCount::walk(walk)?;
                    0
                }
                b"id" => {
                    call.id = TolerantText(walk.text_or_null()?);
                    1
                }
                b"function" => {
                    call.function = FunctionDelta::walk(walk)?;
                    2
                }
                b"type" => {
                    call.kind = TolerantText(walk.text_or_null()?);
                    3
                }
                b"extra_content" => {
                    call.extra_content =
                        Some(RawJson::walk(walk)?).filter(|json| json.get() != "null");
                    4
                }
                b"custom" => {
                    walk.literal("null")?;
                    5
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(call)
    }
}

impl<'a> FunctionDelta<'a> {
    fn walk(walk: &mut JsonWalk<'a>) -> Option<TolerantObject<Self>> {
        let mut function = Self::default();
        let mut seen = SeenMembers::default();
        let is_one = walk.object_or_null(|walk, name| {
            let member = match name {
                b"name" => {
                    function.name = TolerantText(walk.text_or_null()?);
                    0
                }
                b"arguments" => {
                    function.arguments = RawArguments::walk(walk)?;
                    1
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(TolerantObject(is_one.then_some(function)))
    }
}

impl ChatWireUsage {
    /// The token counts; `Some(None)` for `null`.
    fn walk(walk: &mut JsonWalk<'_>) -> Option<Option<Self>> {
        let mut usage = Self::default();
        let mut seen = SeenMembers::default();
        let is_one = walk.object_or_null(|walk, name| {
            let (count, member) = match name {
                b"prompt_tokens" => (&mut usage.prompt_tokens, 0),
                b"completion_tokens" => (&mut usage.completion_tokens, 1),
                b"total_tokens" => (&mut usage.total_tokens, 2),
                b"reasoning_tokens" => (&mut usage.reasoning_tokens, 3),
                b"prompt_cache_hit_tokens" => (&mut usage.prompt_cache_hit_tokens, 4),
                b"prompt_tokens_details" => {
                    usage.prompt_tokens_details = InputTokenDetails::walk(walk)?;
                    return seen.see(5);
                }
                b"completion_tokens_details" => {
                    usage.completion_tokens_details = OutputTokenDetails::walk(walk)?;
                    return seen.see(6);
                }
                _ => return walk.skip(),
            };
            *count = TolerantCount::walk(walk)?;
            seen.see(member)
        })?;
        Some(is_one.then_some(usage))
    }
}
