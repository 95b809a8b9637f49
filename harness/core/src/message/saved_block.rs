//! Reads the saved form of a block: an object with the member `type`. This library writes `type` first, so the other
//! members are read as they come. If `type` is not the first member, serde keeps the members until it has found it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, IntoDeserializer as _, MapAccess, Visitor, value::MapAccessDeserializer,
    },
};

use super::{Block, Media, ReasoningBlock, TextBlock, ToolCall, ToolResult, VendorData};

/// The same blocks, with `type` at any place.
#[derive(Deserialize)]
#[serde(remote = "Block", tag = "type", rename_all = "snake_case")]
enum AnyOrder {
    Text(TextBlock),
    Image(Media),
    Audio(Media),
    Document(Media),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Reasoning(ReasoningBlock),
    Vendor(VendorData),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum BlockType {
    Text,
    Image,
    Audio,
    Document,
    ToolCall,
    ToolResult,
    Reasoning,
    Vendor,
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(BlockVisitor)
    }
}

struct BlockVisitor;

impl<'de> Visitor<'de> for BlockVisitor {
    type Value = Block;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a block of a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Block, A::Error> {
        let first = map.next_key()?.map(|Name(first)| first);
        if first.as_deref() != Some("type") {
            return AnyOrder::deserialize(MapAccessDeserializer::new(WithFirst { first, map }));
        }
        let block_type = map.next_value()?;
        let rest = MapAccessDeserializer::new(map);
        Ok(match block_type {
            BlockType::Text => Block::Text(TextBlock::deserialize(rest)?),
            BlockType::Image => Block::Image(Media::deserialize(rest)?),
            BlockType::Audio => Block::Audio(Media::deserialize(rest)?),
            BlockType::Document => Block::Document(Media::deserialize(rest)?),
            BlockType::ToolCall => Block::ToolCall(ToolCall::deserialize(rest)?),
            BlockType::ToolResult => Block::ToolResult(ToolResult::deserialize(rest)?),
            BlockType::Reasoning => Block::Reasoning(ReasoningBlock::deserialize(rest)?),
            BlockType::Vendor => Block::Vendor(VendorData::deserialize(rest)?),
        })
    }
}

/// A map whose first name was read before.
struct WithFirst<'de, A> {
    first: Option<Cow<'de, str>>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithFirst<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::{AnyOrder, Block};

    #[test]
    fn a_block_is_read_with_its_type_at_any_place() {
        let blocks = [
            r#"{"type":"text","text":"a\"b","citations":[{"url":"u"}]}"#,
            r#"{"text":"a","type":"text"}"#,
            r#"{"t\u0079pe":"text","text":"a"}"#,
            r#"{"later":[{}],"type":"tool_call","id":"c","name":"n","arguments":"{}"}"#,
            r#"{"type":"tool_call","id":"c","name":"n","arguments":"{}","later":1}"#,
            r#"{"type":"tool_result","call_id":"c","outcome":"succeeded","content":[{"json":1.5}]}"#,
            r#"{"type":"reasoning","text":"","vendor":{"wire":"chat","json":"[1]"}}"#,
            r#"{"type":"vendor","wire":"chat","json":"1 2"}"#,
            r#"{"type":"vendor","wire":"chat","json":"{}"}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"word","text":"a"}"#,
            r#"{"type":1,"text":"a"}"#,
            r#"{"text":"a"}"#,
            "{}",
            "[]",
        ];
        let mut read = 0;
        for json in blocks {
            let expected = AnyOrder::deserialize(&mut serde_json::Deserializer::from_str(json));
            let (expected, block) = (expected.ok(), serde_json::from_str::<Block>(json).ok());
            assert_eq!(block, expected, "{json}");
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::from_value::<Block>(value).ok(), expected, "{json}");
            read += usize::from(block.is_some());
        }
        assert_eq!(read, 8);
    }
}
