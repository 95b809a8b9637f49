//! The model's thinking: in which of many fields it comes, and how it goes back.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{WIRE, chunk::Delta};
use crate::{
    error::Error,
    provider::VendorPart,
    wire::{
        decoder::{Outlet, Words},
        tolerant::{Members, elements, text_of},
    },
};

/// Whether thinking stands among the words, between `<think>` and `</think>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThinkTags {
    /// The words are words.
    #[default]
    Keep,
    /// What stands between the tags is thinking.
    Split,
    /// The answer begins inside of it: the opening tag is part of the server's template.
    SplitOpen,
}

/// The fields in which servers send thinking.
pub(super) const FIELDS: [&str; 4] =
    ["reasoning_content", "reasoning", "reasoning_text", "thinking"];

/// The number of the block that thinking is.
const BLOCK: u32 = 0;

/// The thinking of one answer.
#[derive(Debug, Default)]
pub(super) struct Thought {
    field: Option<&'static str>,
    details: Vec<Map<String, Value>>,
}

impl Thought {
    /// Takes the thinking of one delta: the same words may stand in several fields.
    pub(super) fn push(&mut self, delta: &Delta<'_>, out: &mut Outlet) -> Result<(), Error> {
        let texts =
            [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text, &delta.thinking];
        let found = FIELDS.into_iter().zip(texts).find(|(_, text)| !text.is_empty());
        if let Some((name, text)) = found {
            self.push_field(name, &**text, out)?;
        }
        for json in &delta.reasoning_details.0 {
            let Ok(detail) = Map::deserialize(*json) else { continue };
            out.kept(json.get())?;
            if found.is_none() {
                let text = ["text", "summary"].iter().find_map(|name| detail.get(*name)?.as_str());
                out.reasoning(BLOCK, text.unwrap_or_default())?;
            }
            self.keep(detail);
        }
        Ok(())
    }

    /// Takes the thinking in the field of this name.
    pub(super) fn push_field(
        &mut self,
        name: &'static str,
        text: impl Words,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        if text.as_ref().is_empty() {
            return Ok(());
        }
        self.field.get_or_insert(name);
        out.reasoning(BLOCK, text)
    }

    /// Takes a part of the content that is thinking, as Mistral sends it. Says whether it is one.
    pub(super) fn push_part(
        &mut self,
        part: &Members<'_>,
        out: &mut Outlet,
    ) -> Result<bool, Error> {
        let Some(thinking) = part.get("thinking") else { return Ok(false) };
        self.field.get_or_insert("thinking");
        out.reasoning(BLOCK, text_of(Some(thinking)))?;
        for part in elements(thinking) {
            out.reasoning(BLOCK, text_of(Members::of(part).get("text")))?;
        }
        Ok(true)
    }

    /// Takes thinking that stood among the words.
    pub(super) fn push_text(&mut self, text: &str, out: &mut Outlet) -> Result<(), Error> {
        out.reasoning(BLOCK, text)
    }

    /// What the vendor wants back, if it wants thinking back at all.
    pub(super) fn finish(&mut self, out: &mut Outlet) -> Result<(), Error> {
        let mut kept = Map::new();
        if let Some(field) = self.field {
            kept.insert("field".to_owned(), field.into());
        }
        if !self.details.is_empty() {
            let details = std::mem::take(&mut self.details).into_iter().map(Value::Object);
            kept.insert("reasoning_details".to_owned(), details.collect());
        }
        if kept.is_empty() {
            return Ok(());
        }
        out.vendor(BLOCK, VendorPart::Reasoning, WIRE, Value::Object(kept).to_string())
    }

    /// Pieces of one detail come one by one, and go back as one.
    fn keep(&mut self, detail: Map<String, Value>) {
        let same = |a: &Map<String, Value>, name: &str| a.get(name) == detail.get(name);
        let last = self.details.last_mut().filter(|last| {
            let pieces = matches!(
                detail.get("type").and_then(Value::as_str),
                Some("reasoning.text" | "reasoning.summary")
            );
            pieces && same(last, "type") && same(last, "index")
        });
        let Some(last) = last else {
            self.details.push(detail);
            return;
        };
        for (name, value) in detail {
            match (name.as_str(), last.get_mut(&name), value) {
                ("text" | "summary", Some(Value::String(all)), Value::String(more)) => {
                    all.push_str(&more);
                }
                (_, _, Value::Null) => {}
                (_, Some(known), value) => *known = value,
                (_, None, value) => {
                    last.insert(name, value);
                }
            }
        }
    }
}

/// Tells thinking from words where both come as words. A tag may come in pieces.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    inside: bool,
    /// The beginning of what may be a tag.
    held: String,
}

impl Splitter {
    pub(super) fn new(tags: ThinkTags) -> Option<Self> {
        match tags {
            ThinkTags::Keep => None,
            ThinkTags::Split => Some(Self::default()),
            ThinkTags::SplitOpen => Some(Self { inside: true, held: String::new() }),
        }
    }

    /// Hands on each piece, with whether it is thinking.
    pub(super) fn push(
        &mut self,
        text: &str,
        mut each: impl FnMut(bool, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let text = std::mem::take(&mut self.held) + text;
        let mut rest = text.as_str();
        loop {
            let tag = self.tag();
            if let Some((before, after)) = rest.split_once(tag) {
                each(self.inside, before)?;
                self.inside = !self.inside;
                rest = after;
                continue;
            }
            // What may be the beginning of the tag waits for the rest.
            let keep = (1..tag.len())
                .rev()
                .find(|length| tag.get(..*length).is_some_and(|part| rest.ends_with(part)));
            let cut = rest.len().saturating_sub(keep.unwrap_or(0));
            let (before, held) = rest.split_at_checked(cut).unwrap_or((rest, ""));
            each(self.inside, before)?;
            held.clone_into(&mut self.held);
            return Ok(());
        }
    }

    /// Hands on what was held back.
    pub(super) fn finish(
        &mut self,
        mut each: impl FnMut(bool, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        each(self.inside, &std::mem::take(&mut self.held))
    }

    fn tag(&self) -> &'static str {
        if self.inside { "</think>" } else { "<think>" }
    }
}
