//! The model's thinking: the fields of an answer, and the data for later requests.

use std::collections::HashMap;

use super::{WIRE, chunk::ChunkDelta};
use crate::wire::{
    decoder::{EventSink, EventText},
    tolerant::{ObjectMembers, elements, join, text_in, text_of},
};
use harness_core::{error::Error, provider::VendorPart};

/// Whether the text of an answer contains thinking between `<think>` and `</think>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThinkTags {
    /// The text contains no thinking, so the whole text stays text.
    #[default]
    Keep,
    /// The text between the tags is thinking.
    Split,
    /// The answer begins inside thinking, because the server's template contains the opening tag.
    SplitOpen,
}

/// The fields in which servers send thinking.
pub(super) const FIELDS: [&str; 4] =
    ["reasoning_content", "reasoning", "reasoning_text", "thinking"];

/// The block number of the thinking.
const BLOCK: u32 = 0;

/// The thinking of one arriving answer.
#[derive(Debug, Default)]
pub(super) struct AnswerThinking {
    field: Option<&'static str>,
    details: Vec<ReasoningDetail>,
}

/// One entry of `reasoning_details`, with its members in order.
#[derive(Debug, Default)]
struct ReasoningDetail {
    members: Vec<(String, DetailValue)>,
    /// The position of each name in `members`, for at least [`MANY`] members.
    places: HashMap<String, usize>,
}

/// From this number of members on, a detail has an index of its members. Servers send fewer than ten members.
const MANY: usize = 32;

/// The value of a member of a detail.
#[derive(Debug, PartialEq)]
enum DetailValue {
    /// The JSON from the server, unchanged.
    Json(String),
    /// Text that later pieces may continue.
    Text(String),
}

impl AnswerThinking {
    /// The name and the text of the field with the thinking of a delta. If several fields contain text, the first field
    /// counts.
    pub(super) fn found<'a>(delta: &'a ChunkDelta<'_>) -> Option<(&'static str, &'a str)> {
        let texts =
            [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text, &delta.thinking];
        let mut fields = FIELDS.into_iter().zip(texts.map(|text| &**text));
        fields.find(|(_, text)| !text.is_empty())
    }

    /// Adds the thinking of one delta. `details` has the entries of `reasoning_details`, each with its size in bytes.
    pub(super) fn push<'a>(
        &mut self,
        found: Option<(&'static str, impl EventText)>,
        details: impl IntoIterator<Item = (usize, ObjectMembers<'a>)>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let is_found = found.is_some();
        if let Some((name, text)) = found {
            self.push_field(name, text, out)?;
        }
        for (size, detail) in details {
            out.grow(size)?;
            if !is_found {
                let mut texts = ["text", "summary"].iter().filter_map(|name| detail.get(name));
                let text = texts.find(|json| json.starts_with('"'));
                out.reasoning(BLOCK, text.map(text_in).unwrap_or_default())?;
            }
            self.keep(&detail);
        }
        Ok(())
    }

    /// Adds the thinking in the field with this name.
    pub(super) fn push_field(
        &mut self,
        name: &'static str,
        text: impl EventText,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        if text.as_ref().is_empty() {
            return Ok(());
        }
        self.field.get_or_insert(name);
        out.reasoning(BLOCK, text)
    }

    /// Adds a part of the content if the part is thinking (Mistral sends such parts). Returns whether the part was
    /// thinking.
    pub(super) fn push_part(
        &mut self,
        part: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<bool, Error> {
        let Some(thinking) = part.get("thinking") else { return Ok(false) };
        self.field.get_or_insert("thinking");
        out.reasoning(BLOCK, text_of(Some(thinking)))?;
        for part in elements(thinking) {
            out.reasoning(BLOCK, text_of(ObjectMembers::of(part).get("text")))?;
        }
        Ok(true)
    }

    /// Adds thinking that the server sent inside the text.
    pub(super) fn push_text(&mut self, text: &str, out: &mut EventSink) -> Result<(), Error> {
        out.reasoning(BLOCK, text)
    }

    /// Emits the data about the thinking for later requests, if there is any.
    pub(super) fn finish(&mut self, out: &mut EventSink) -> Result<(), Error> {
        let mut kept = Vec::new();
        if let Some(field) = self.field {
            kept.push(("field", serde_json::json!(field).to_string()));
        }
        if !self.details.is_empty() {
            let details: Vec<String> = self.details.drain(..).map(ReasoningDetail::json).collect();
            kept.push(("reasoning_details", format!("[{}]", details.join(","))));
        }
        match join(kept.iter().map(|(name, json)| (*name, json.as_str()))) {
            Some(json) => out.vendor(BLOCK, VendorPart::Reasoning, WIRE, json),
            None => Ok(()),
        }
    }

    /// Adds one entry of `reasoning_details`. Merges the pieces of an entry, because requests contain the entry as a
    /// whole.
    fn keep(&mut self, detail: &ObjectMembers<'_>) {
        let is_piece =
            matches!(detail.get("type"), Some(r#""reasoning.text""# | r#""reasoning.summary""#));
        let mut same = |last: &mut ReasoningDetail| {
            ["type", "index"].iter().all(|name| last.has(name, detail.get(name)))
        };
        let goes_on = is_piece && self.details.last_mut().is_some_and(&mut same);
        match self.details.last_mut().filter(|_| goes_on) {
            Some(last) => {
                let members = detail.0.iter().enumerate();
                members.for_each(|(at, (name, json))| last.add(at, name, json.get()));
            }
            None => {
                let mut new = ReasoningDetail::default();
                detail.0.iter().for_each(|(name, json)| new.set(name, json.get()));
                self.details.push(new);
            }
        }
    }
}

impl ReasoningDetail {
    fn place(&mut self, name: &str) -> Option<usize> {
        if self.members.len() < MANY {
            return self.members.iter().position(|(member, _)| member == name);
        }
        if self.places.is_empty() {
            let names = self.members.iter().map(|(name, _)| name.clone());
            self.places = names.zip(0..).collect();
        }
        self.places.get(name).copied()
    }

    fn get(&mut self, name: &str) -> Option<&mut DetailValue> {
        let at = self.place(name)?;
        self.members.get_mut(at).map(|(_, value)| value)
    }

    /// Whether the member has this JSON value. A missing member has the value `None`.
    fn has(&mut self, name: &str, json: Option<&str>) -> bool {
        match (self.get(name), json) {
            (Some(DetailValue::Json(known)), Some(json)) => known == json,
            (known, json) => known.is_none() && json.is_none(),
        }
    }

    fn set(&mut self, name: &str, json: &str) {
        let value = match name {
            "text" | "summary" if json.starts_with('"') => DetailValue::Text(text_of(Some(json))),
            _ => DetailValue::Json(json.to_owned()),
        };
        match self.get(name) {
            Some(known) => *known = value,
            None => {
                if !self.places.is_empty() {
                    self.places.insert(name.to_owned(), self.members.len());
                }
                self.members.push((name.to_owned(), value));
            }
        }
    }

    /// Adds a member of the next piece. `at` is the member's position in the piece, and usually the same position in
    /// this detail.
    fn add(&mut self, at: usize, name: &str, json: &str) {
        let known = match self.members.get(at).is_some_and(|(member, _)| member == name) {
            true => self.members.get_mut(at).map(|(_, value)| value),
            false => self.get(name),
        };
        match known {
            Some(DetailValue::Text(all)) if json.starts_with('"') => all.push_str(&text_in(json)),
            Some(DetailValue::Json(known)) if known == json => {}
            _ if json == "null" => {}
            _ => self.set(name, json),
        }
    }

    fn json(self) -> String {
        let written = self.members.into_iter().map(|(name, value)| match value {
            DetailValue::Json(json) => (name, json),
            DetailValue::Text(text) => (name, serde_json::json!(text).to_string()),
        });
        let members: Vec<_> = written.collect();
        let members = members.iter().map(|(name, json)| (name.as_str(), json.as_str()));
        join(members).unwrap_or_else(|| "{}".to_owned())
    }
}

/// Separates thinking from text in an answer with `<think>` tags. A tag may be split between chunks.
#[derive(Debug, Default)]
pub(super) struct ThinkTagSplitter {
    inside: bool,
    /// The end of the text so far, if it may be the beginning of a tag.
    held: String,
}

impl ThinkTagSplitter {
    pub(super) fn new(tags: ThinkTags) -> Option<Self> {
        match tags {
            ThinkTags::Keep => None,
            ThinkTags::Split => Some(Self::default()),
            ThinkTags::SplitOpen => Some(Self { inside: true, held: String::new() }),
        }
    }

    /// Calls `each` with each piece of text, and with `true` if the piece is thinking.
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
            // Text at the end that may begin the tag waits for more text.
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

    /// Emits the waiting text at the end of the answer.
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
