//! Reads common events of the Messages stream without a JSON parser. For an unusual event, `of` returns `None`, and the
//! JSON parser reads the event: see `wire/json_walk.rs`.

use std::borrow::Cow;

use super::{
    block::DeltaTarget,
    decode::{AnthropicMessage, AnthropicOutputDetails, AnthropicWireUsage, CompactionUsage},
};
use crate::wire::{
    json_walk::{JsonWalk, SeenMembers},
    reader,
    tolerant::{ObjectMembers, RawJson, TolerantCount, TolerantList, TolerantObject, TolerantText},
};

/// An event of a common kind. Missing members are empty.
#[derive(Default)]
pub(super) struct AnthropicCommonEvent<'a> {
    pub(super) kind: &'a [u8],
    pub(super) index: Option<u64>,
    /// The type of the delta, such as `text_delta`.
    pub(super) delta: &'a [u8],
    pub(super) more: Option<DeltaContent<'a>>,
    /// The stop reason; empty in an event without a stop reason.
    pub(super) stop: Cow<'a, str>,
    /// The JSON and the members of a new block.
    pub(super) block: Option<(&'a str, ObjectMembers<'a>)>,
    pub(super) message: Option<AnthropicMessage<'a>>,
    pub(super) usage: Option<AnthropicWireUsage>,
}

/// The content of a delta.
pub(super) enum DeltaContent<'a> {
    Of(DeltaTarget, Cow<'a, str>),
    Signature(Cow<'a, str>),
    Citation(RawJson<'a>),
}

impl<'a> AnthropicCommonEvent<'a> {
    pub(super) fn of(data: &'a [u8]) -> Option<Self> {
        Self::usual_delta(data).or_else(|| Self::any(data))
    }

    /// Reads a delta with exactly the usual members, in the vendor's usual order.
    fn usual_delta(data: &'a [u8]) -> Option<Self> {
        let mut walk = JsonWalk::new(data);
        walk.same(br#"{"type":"content_block_delta","index":"#)?;
        let index = Some(walk.number()?);
        walk.same(br#","delta":{"type":""#)?;
        let (delta, what) = if walk.same(br#"text_delta","text":"#).is_some() {
            (&b"text_delta"[..], DeltaTarget::Text)
        } else if walk.same(br#"input_json_delta","partial_json":"#).is_some() {
            (&b"input_json_delta"[..], DeltaTarget::Input)
        } else {
            walk.same(br#"thinking_delta","thinking":"#)?;
            (&b"thinking_delta"[..], DeltaTarget::Thinking)
        };
        let more = Some(DeltaContent::Of(what, walk.text()?));
        walk.expect(b'}')?;
        walk.expect(b'}')?;
        walk.end()?;
        Some(Self { kind: b"content_block_delta", index, delta, more, ..Self::default() })
    }

    fn any(data: &'a [u8]) -> Option<Self> {
        let mut common = Self::default();
        let mut seen = SeenMembers::default();
        let mut walk = JsonWalk::new(data);
        walk.object(|walk, name| match name {
            b"type" => {
                common.kind = walk.plain()?;
                seen.see(0)
            }
            b"index" => {
                common.index = Some(walk.number()?);
                seen.see(1)
            }
            b"delta" => {
                seen.see(2)?;
                walk.object(|walk, name| common.delta(walk, name, &mut seen))
            }
            b"content_block" => {
                let (json, members) = ObjectMembers::walk(walk)?;
                common.block = Some((std::str::from_utf8(json).ok()?, members));
                seen.see(3)
            }
            b"message" => {
                common.message = Some(AnthropicMessage::walk(walk)?);
                seen.see(4)
            }
            b"usage" => {
                common.usage = AnthropicWireUsage::walk(walk)?.0;
                seen.see(5)
            }
            b"error" => None,
            _ => walk.skip(),
        })?;
        walk.end()?;
        Some(common)
    }

    fn delta(
        &mut self,
        walk: &mut JsonWalk<'a>,
        name: &[u8],
        seen: &mut SeenMembers,
    ) -> Option<()> {
        let more = match name {
            b"type" => {
                self.delta = walk.plain()?;
                return seen.see(6);
            }
            b"text" => DeltaContent::Of(DeltaTarget::Text, walk.text()?),
            b"thinking" => DeltaContent::Of(DeltaTarget::Thinking, walk.text()?),
            b"partial_json" => DeltaContent::Of(DeltaTarget::Input, walk.text()?),
            b"signature" => DeltaContent::Signature(walk.text()?),
            b"citation" if walk.next()? == b'{' => DeltaContent::Citation(RawJson::walk(walk)?),
            b"stop_reason" => {
                self.stop = walk.text_or_null()?;
                return seen.see(7);
            }
            b"citation" | b"content" | b"encrypted_content" => return None,
            _ => return walk.skip(),
        };
        self.more = Some(more);
        seen.see(8)
    }
}

impl<'a> AnthropicMessage<'a> {
    fn walk(walk: &mut JsonWalk<'a>) -> Option<Self> {
        let mut message = Self::default();
        let mut seen = SeenMembers::default();
        walk.object(|walk, name| {
            let member = match name {
                b"id" => {
                    message.id = TolerantText(walk.text_or_null()?);
                    0
                }
                b"model" => {
                    message.model = TolerantText(walk.text_or_null()?);
                    1
                }
                b"stop_reason" => {
                    message.stop_reason = TolerantText(walk.text_or_null()?);
                    2
                }
                b"content" => {
                    message.content = TolerantList(RawJson::walk_list(walk)?);
                    3
                }
                b"usage" => {
                    message.usage = AnthropicWireUsage::walk(walk)?;
                    4
                }
                _ => return walk.skip(),
            };
            seen.see(member)
        })?;
        Some(message)
    }
}

impl AnthropicWireUsage {
    fn walk(walk: &mut JsonWalk<'_>) -> Option<TolerantObject<Self>> {
        let mut usage = Self::default();
        let mut seen = SeenMembers::default();
        let is_one = walk.object_or_null(|walk, name| {
            let (count, member) = match name {
                b"input_tokens" => (&mut usage.input_tokens, 0),
                b"cache_creation_input_tokens" => (&mut usage.cache_creation_input_tokens, 1),
                b"cache_read_input_tokens" => (&mut usage.cache_read_input_tokens, 2),
                b"output_tokens" => (&mut usage.output_tokens, 3),
                b"output_tokens_details" => {
                    let details =
                        TolerantCount::walk_all(walk, ["thinking_tokens", "reasoning_tokens"])?;
                    usage.output_tokens_details =
                        TolerantObject(details.map(|[thinking_tokens, reasoning_tokens]| {
                            AnthropicOutputDetails { thinking_tokens, reasoning_tokens }
                        }));
                    return seen.see(4);
                }
                b"iterations" => {
                    let json = RawJson::walk(walk)?.get();
                    usage.iterations = reader::from_str::<CompactionUsage>(json).ok()?;
                    return seen.see(5);
                }
                _ => return walk.skip(),
            };
            *count = TolerantCount::walk(walk)?;
            seen.see(member)
        })?;
        Some(TolerantObject(is_one.then_some(usage)))
    }
}
