//! One block of an arriving answer, with the data that later requests must contain.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::{SUMMARY, WIRE, decode::AnthropicDelta};
use crate::wire::{
    citations,
    decoder::EventSink,
    reader, surrogates,
    tolerant::{ObjectMembers, elements, join, quote, text_of},
};
use harness_core::{error::Error, provider::VendorPart};

/// One block of an arriving answer.
#[derive(Debug)]
pub(super) struct OpenBlock {
    /// The block's index in the stream.
    index: u64,
    /// The block's number in the library's events.
    pub(super) number: u32,
    closed: bool,
    kind: OpenBlockKind,
}

/// The part of a block that a delta extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeltaTarget {
    Text,
    Thinking,
    /// The arguments of a call.
    Input,
}

#[derive(Debug)]
enum OpenBlockKind {
    Text {
        citations: Vec<String>,
    },
    Thinking {
        signature: String,
    },
    /// A call that the program runs.
    Call {
        id: String,
        input: String,
        /// Whether the deltas contained arguments other than an empty object.
        deltas: bool,
        extra: Option<String>,
        /// The arguments so far, while the start of the call is missing; `None` after the start.
        unnamed: Option<String>,
    },
    /// A block that is stored unchanged, because only the vendor understands the block: the vendor's own call or
    /// result, hidden thinking, or an unknown kind.
    Opaque {
        kind: String,
        id: String,
        /// The id of the call, if the block is a result; otherwise empty.
        answers: String,
        json: String,
        input: String,
        changed: Vec<(&'static str, String)>,
        part: VendorPart,
    },
}

impl OpenBlock {
    pub(super) fn open(
        index: u64,
        number: u32,
        json: &str,
        members: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<Self, Error> {
        let text = |name: &str| text_of(members.get(name));
        let kind = match text("type").as_str() {
            "text" => {
                out.text(number, text("text"))?;
                let citations = elements(members.get("citations").unwrap_or_default());
                for citation in &citations {
                    out.citation(number, citation)?;
                }
                let citations = citations.into_iter().filter(|json| citations::is_returnable(json));
                let citations = citations.map(str::to_owned).collect();
                OpenBlockKind::Text { citations }
            }
            "thinking" => {
                out.reasoning(number, text("thinking"))?;
                OpenBlockKind::Thinking { signature: text("signature") }
            }
            "tool_use" => {
                let (id, name) = (text("id"), text("name"));
                let unnamed = (id.is_empty() && name.is_empty()).then(String::new);
                if unnamed.is_none() {
                    out.call_start(number, &id, &name)?;
                }
                let input = members.get("input").unwrap_or_default();
                let empty = matches!(input, "" | "null") || ObjectMembers::of(input).0.is_empty();
                let input =
                    if empty && !is_scalar(input) { "".into() } else { surrogates::escaped(input) };
                let extra = join(members.0.iter().filter_map(|(name, value)| {
                    let known = matches!(&**name, "type" | "id" | "name" | "input");
                    (!known).then(|| (&**name, value.get()))
                }));
                let input = input.into_owned();
                OpenBlockKind::Call { id, input, deltas: false, extra, unnamed }
            }
            kind => {
                let part = match kind {
                    "redacted_thinking" => VendorPart::Reasoning,
                    _ => VendorPart::Opaque,
                };
                out.kept(json)?;
                let json = json.trim().to_owned();
                let (kind, id, answers) = (kind.to_owned(), text("id"), text("tool_use_id"));
                let (input, changed) = (String::new(), Vec::new());
                OpenBlockKind::Opaque { kind, id, answers, json, input, changed, part }
            }
        };
        Ok(Self { index, number, closed: false, kind })
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, OpenBlockKind::Call { .. })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether deltas with arguments belong to this block.
    pub(super) fn can_take_input(&self) -> bool {
        matches!(self.kind, OpenBlockKind::Call { .. } | OpenBlockKind::Opaque { .. })
    }

    /// Whether this block is a call whose start has not arrived.
    pub(super) fn is_unnamed(&self) -> bool {
        matches!(self.kind, OpenBlockKind::Call { unnamed: Some(_), .. }) && !self.closed
    }

    /// Adds the missing start to a call. `members` are the members of the start.
    pub(super) fn name(
        &mut self,
        members: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let OpenBlockKind::Call { id, unnamed, .. } = &mut self.kind else { return Ok(()) };
        let Some(arguments) = unnamed.take() else { return Ok(()) };
        *id = text_of(members.get("id"));
        out.call_start(self.number, id, &text_of(members.get("name")))?;
        out.call_delta(self.number, arguments)
    }

    /// The JSON of the block, if the block is a complete summary by the vendor.
    pub(super) fn summary(&self) -> Option<&str> {
        match &self.kind {
            OpenBlockKind::Opaque { kind, json, .. } if kind == SUMMARY && self.closed => {
                Some(json)
            }
            _ => None,
        }
    }

    /// The type and id of a vendor block that needs a result; otherwise `None`.
    pub(super) fn awaited_result(&self) -> Option<(String, String)> {
        let OpenBlockKind::Opaque { kind, id, .. } = &self.kind else { return None };
        kind.ends_with("_use").then(|| (kind.clone(), id.clone()))
    }

    /// The id of the call, if this block is the result of a call.
    pub(super) fn answered_call(&self) -> Option<String> {
        match &self.kind {
            OpenBlockKind::Opaque { answers, .. } if !answers.is_empty() => Some(answers.clone()),
            _ => None,
        }
    }

    /// Whether these members repeat the start of this call, which has no arguments yet. A repeated start is not a
    /// second call.
    pub(super) fn is_begun_by(&self, members: &ObjectMembers<'_>) -> bool {
        let OpenBlockKind::Call { id, input, deltas, .. } = &self.kind else { return false };
        let has_only_begun = !self.closed && !*deltas && input.is_empty();
        has_only_begun && !id.is_empty() && text_of(members.get("id")) == *id
    }

    /// Whether both this block and these members are calls without an id.
    pub(super) fn is_again(&self, members: &ObjectMembers<'_>) -> bool {
        let OpenBlockKind::Call { id, .. } = &self.kind else { return false };
        let text = |name| text_of(members.get(name));
        id.is_empty() && text("type") == "tool_use" && text("id").is_empty()
    }

    /// Whether a delta with this index belongs to the block. A delta without an index belongs to any block.
    pub(super) fn is(&self, index: crate::wire::tolerant::TolerantCount) -> bool {
        index.0.is_none_or(|index| index == self.index)
    }

    /// Adds `text` to the part `what` of the block; `None` if the block has no such part.
    pub(super) fn more(
        &mut self,
        what: DeltaTarget,
        text: Cow<'_, str>,
        out: &mut EventSink,
    ) -> Option<Result<(), Error>> {
        match (&mut self.kind, what) {
            (OpenBlockKind::Text { .. }, DeltaTarget::Text) => Some(out.text(self.number, text)),
            (OpenBlockKind::Thinking { .. }, DeltaTarget::Thinking) => {
                Some(out.reasoning(self.number, text))
            }
            (OpenBlockKind::Call { deltas, unnamed, .. }, DeltaTarget::Input) => {
                *deltas |= has_member(&text);
                Some(match unnamed {
                    // The chunk is emitted after the start of the call.
                    Some(arguments) => {
                        arguments.push_str(&text);
                        out.keep_arguments(&text, arguments.len())
                    }
                    None => out.call_delta(self.number, text),
                })
            }
            (OpenBlockKind::Opaque { input, .. }, DeltaTarget::Input) => {
                input.push_str(&text);
                Some(out.kept(&text))
            }
            _ => None,
        }
    }

    /// Sets the signature of a thinking block, in place of an earlier signature.
    pub(super) fn sign(&mut self, proof: Cow<'_, str>) {
        if let OpenBlockKind::Thinking { signature } = &mut self.kind {
            *signature = proof.into_owned();
        }
    }

    /// Adds a citation to a text block.
    pub(super) fn cite(&mut self, json: &str, out: &mut EventSink) -> Result<(), Error> {
        if let OpenBlockKind::Text { citations } = &mut self.kind {
            out.source(json)?;
            out.citation(self.number, json)?;
            if citations::is_returnable(json) {
                citations.push(json.to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn delta(
        &mut self,
        delta: &AnthropicDelta<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let (what, text) = match (&*delta.kind, &mut self.kind) {
            ("text_delta", _) => (DeltaTarget::Text, &*delta.text),
            ("thinking_delta", _) => (DeltaTarget::Thinking, &*delta.thinking),
            ("input_json_delta", _) => (DeltaTarget::Input, &*delta.partial_json),
            ("citations_delta", _) => {
                return delta.citation.map_or(Ok(()), |citation| self.cite(citation.get(), out));
            }
            ("signature_delta", _) => {
                self.sign(Cow::Borrowed(&delta.signature));
                return Ok(());
            }
            ("compaction_delta", OpenBlockKind::Opaque { changed, .. }) => {
                for (name, value) in
                    [("content", delta.content), ("encrypted_content", delta.encrypted_content)]
                {
                    if let Some(value) = value {
                        out.kept(value.get())?;
                        // A later value of a member replaces the earlier value.
                        changed.retain(|(of, _)| *of != name);
                        changed.push((name, value.get().to_owned()));
                    }
                }
                return Ok(());
            }
            // Deltas of an unknown kind, or of a kind that does not fit the block, are ignored.
            _ => return Ok(()),
        };
        self.more(what, Cow::Borrowed(text), out).unwrap_or(Ok(()))
    }

    /// Ends the block, and emits its last events.
    pub(super) fn close(&mut self, out: &mut EventSink) -> Result<(), Error> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let number = self.number;
        self.name(&ObjectMembers::of("{}"), out)?;
        match &mut self.kind {
            OpenBlockKind::Text { citations } if citations.is_empty() => {}
            OpenBlockKind::Text { citations } => {
                let json = format!(r#"{{"citations":[{}]}}"#, citations.join(","));
                out.vendor(number, VendorPart::Text, WIRE, json)?;
            }
            // Requests must not contain thinking without a signature, so the block gets no vendor data.
            OpenBlockKind::Thinking { signature } if signature.is_empty() => {}
            OpenBlockKind::Thinking { signature } => {
                let mut json = r#"{"signature":"#.to_owned();
                quote(&mut json, signature);
                json.push('}');
                out.vendor(number, VendorPart::Reasoning, WIRE, json)?;
            }
            OpenBlockKind::Call { id: _, input, deltas, extra, unnamed: _ } => {
                if !*deltas {
                    out.call_delta(number, &*input)?;
                }
                if let Some(extra) = extra.take() {
                    out.vendor(number, VendorPart::ToolCall, WIRE, extra)?;
                }
                out.call_end(number);
            }
            OpenBlockKind::Opaque { kind, json, input, changed, part, .. } => {
                let all = whole(std::mem::take(json), input, changed);
                if kind == SUMMARY {
                    json.clone_from(&all);
                }
                out.vendor(number, *part, WIRE, all)?;
            }
        }
        Ok(())
    }
}

/// The complete JSON of the block: the start of the block, with its input and its changed members.
fn whole(json: String, input: &str, changed: &[(&'static str, String)]) -> String {
    let input = Some(input)
        .filter(|input| !input.is_empty() && reader::from_str::<IgnoredAny>(input).is_ok());
    if input.is_none() && changed.is_empty() {
        return json;
    }
    let changed = |name: &str| match (name, input) {
        ("input", Some(input)) => Some(input),
        _ => changed.iter().find(|(of, _)| *of == name).map(|(_, value)| value.as_str()),
    };
    let members = ObjectMembers::of(&json);
    let kept = members.0.iter().map(|(name, value)| {
        let value = changed(name).unwrap_or(value.get());
        (&**name, value)
    });
    let added = ["input", "content", "encrypted_content"]
        .into_iter()
        .filter(|name| members.get(name).is_none())
        .filter_map(|name| changed(name).map(|value| (name, value)));
    join(kept.chain(added)).unwrap_or(json)
}

/// Whether a chunk of arguments contains more than the braces of an empty object.
fn has_member(piece: &str) -> bool {
    piece.chars().any(|char| !char.is_whitespace() && !matches!(char, '{' | '}'))
}

/// Whether the arguments are a value other than an object. Such arguments stay unchanged, so that the model gets an
/// error about these arguments.
fn is_scalar(json: &str) -> bool {
    !matches!(json, "" | "null") && !json.starts_with('{')
}
