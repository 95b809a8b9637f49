//! Reads the saved form of a block: an object with the member `type`. This library writes `type` first, so the other
//! members are read as they come. If `type` is not the first member, the members are collected and written again with
//! `type` before the others.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use super::{Block, Media, ReasoningBlock, TextBlock, ToolCall, ToolResult, VendorData};

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
            let (mut members, mut name) = (Map::new(), first.map(Cow::into_owned));
            while let Some(of) = name {
                members.insert(of, map.next_value()?);
                name = map.next_key()?;
            }
            return read_in_any_order(members).map_err(A::Error::custom);
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

fn read_in_any_order(mut members: Map<String, Value>) -> serde_json::Result<Block> {
    let Some(block_type) = members.remove("type") else {
        return Err(serde_json::Error::missing_field("type"));
    };
    let mut sorted = Map::from_iter([("type".to_owned(), block_type)]);
    sorted.extend(members);
    serde_json::from_str(&Value::Object(sorted).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::{Block, read_in_any_order};

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
            let members = serde_json::from_str::<Map<String, Value>>(json);
            let expected = members.and_then(read_in_any_order).ok();
            let block = serde_json::from_str::<Block>(json).ok();
            assert_eq!(block, expected, "{json}");
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::from_value::<Block>(value).ok(), expected, "{json}");
            read += usize::from(block.is_some());
        }
        assert_eq!(read, 8);
    }
}
