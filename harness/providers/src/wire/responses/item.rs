//! One item of an arriving answer, with the data that later requests must contain.

use super::WIRE;
use crate::wire::{
    citations as sources,
    decoder::EventSink,
    surrogates,
    tolerant::{ObjectMembers, elements, join, text_of},
};
use harness_core::{
    error::Error,
    message::{Media, are_none},
    provider::VendorPart,
};

/// The kinds of events about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemEventKind {
    Text,
    TextDone,
    Refusal,
    RefusalDone,
    Summary,
    Thinking,
    Arguments,
    ArgumentsDone,
}

impl ItemEventKind {
    pub(super) fn of(kind: &[u8]) -> Option<Self> {
        Some(match kind {
            b"response.output_text.delta" => Self::Text,
            b"response.output_text.done" => Self::TextDone,
            b"response.refusal.delta" => Self::Refusal,
            b"response.refusal.done" => Self::RefusalDone,
            b"response.reasoning_summary_text.delta" => Self::Summary,
            b"response.reasoning_text.delta" => Self::Thinking,
            b"response.function_call_arguments.delta" => Self::Arguments,
            b"response.function_call_arguments.done" => Self::ArgumentsDone,
            _ => return None,
        })
    }

    /// The type of the items that get this kind of event.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Text | Self::TextDone | Self::Refusal | Self::RefusalDone => "message",
            Self::Summary | Self::Thinking => "reasoning",
            Self::Arguments | Self::ArgumentsDone => "function_call",
        }
    }
}

/// The data of an event about an item. Missing fields are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ItemEvent<'a> {
    /// The new part of the text.
    pub(super) delta: &'a str,
    pub(super) text: &'a str,
    pub(super) refusal: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a str>,
    /// The index of the event's content part (`content_index`), and of the event's part of the summary
    /// (`summary_index`).
    pub(super) content_index: u64,
    pub(super) summary_index: u64,
}

/// One item of an arriving answer.
#[derive(Debug)]
pub(super) struct OpenItem {
    pub(super) index: Option<u64>,
    /// The item's number in the library's events.
    pub(super) number: u32,
    kind: OpenItemKind,
    done: bool,
}

#[derive(Debug)]
enum OpenItemKind {
    Message {
        /// The index and the emitted text of each part.
        parts: Vec<(u64, String)>,
        refused: bool,
        /// The number of citations emitted.
        cited: usize,
    },
    Reasoning {
        /// The kind of the emitted thinking (full or summary), and the index of the current part.
        part: Option<(ItemEventKind, u64)>,
    },
    Call {
        started: bool,
        /// The id and the name, if the start of the item is missing.
        id: String,
        name: String,
        /// The emitted or collected arguments.
        sent: String,
        ended: bool,
        cut: bool,
    },
    /// A call whose input is free text.
    Custom { started: bool },
    /// A tool search that the program runs.
    Search { started: bool, cut: bool },
    /// An item that only the vendor understands. `wants` is the type and id of a call that the program has to answer.
    /// `answers` is the `call_id` of any other item, such as a result.
    Opaque { wants: Option<(String, String)>, answers: String },
}

impl OpenItem {
    /// Creates an item of this type from the members of the first event.
    pub(super) fn new(
        index: Option<u64>,
        number: u32,
        kind: &str,
        members: &ObjectMembers<'_>,
    ) -> Self {
        let kind = match kind {
            "message" => OpenItemKind::Message { parts: Vec::new(), refused: false, cited: 0 },
            "reasoning" => OpenItemKind::Reasoning { part: None },
            "function_call" => {
                let [id, name, sent] = [const { String::new() }; 3];
                OpenItemKind::Call { started: false, id, name, sent, ended: false, cut: false }
            }
            "custom_tool_call" => OpenItemKind::Custom { started: false },
            "tool_search_call" if is_ours(members) => {
                OpenItemKind::Search { started: false, cut: false }
            }
            _ => OpenItemKind::Opaque { wants: None, answers: String::new() },
        };
        Self { index, number, kind, done: false }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.done
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(
            self.kind,
            OpenItemKind::Call { .. } | OpenItemKind::Custom { .. } | OpenItemKind::Search { .. }
        )
    }

    /// The type and id of an item that the program has to execute; otherwise `None`.
    pub(super) fn awaited_result(&self) -> Option<&(String, String)> {
        match &self.kind {
            OpenItemKind::Opaque { wants, .. } => wants.as_ref(),
            _ => None,
        }
    }

    /// The call id of an item with the result of a vendor's call; otherwise `None`.
    pub(super) fn answered_call(&self) -> Option<&str> {
        match &self.kind {
            OpenItemKind::Opaque { answers, .. } => Some(answers),
            _ => None,
        }
    }

    /// Whether the item is a call whose start has not arrived.
    pub(super) fn is_unnamed(&self) -> bool {
        matches!(self.kind, OpenItemKind::Call { started: false, .. })
    }

    /// Emits a call whose start is missing. If the call has no name, the model gets the error for an unknown tool.
    pub(super) fn begin_unnamed(&mut self, out: &mut EventSink) -> Result<(), Error> {
        let OpenItemKind::Call { started, id, name, sent, .. } = &mut self.kind else {
            return Ok(());
        };
        if *started || (sent.is_empty() && name.is_empty()) {
            return Ok(());
        }
        *started = true;
        out.call_start(self.number, id, name)?;
        out.call_delta(self.number, &*sent)
    }

    pub(super) fn is_done_call(&self) -> bool {
        self.done && self.is_call()
    }

    pub(super) fn is_cut(&self) -> bool {
        matches!(
            self.kind,
            OpenItemKind::Call { cut: true, .. } | OpenItemKind::Search { cut: true, .. }
        )
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.kind, OpenItemKind::Message { refused: true, .. })
    }

    pub(super) fn can_take(&self, what: ItemEventKind) -> bool {
        self.event_kind() == Some(what.kind())
    }

    /// The [kind](ItemEventKind::kind) of events that this item accepts.
    pub(super) fn event_kind(&self) -> Option<&'static str> {
        match self.kind {
            OpenItemKind::Message { .. } => Some("message"),
            OpenItemKind::Reasoning { .. } => Some("reasoning"),
            OpenItemKind::Call { .. } => Some("function_call"),
            OpenItemKind::Custom { .. }
            | OpenItemKind::Search { .. }
            | OpenItemKind::Opaque { .. } => None,
        }
    }

    /// Handles the event that starts the item.
    pub(super) fn added(
        &mut self,
        members: &ObjectMembers<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let name = text_of(members.get("name"));
        match &mut self.kind {
            OpenItemKind::Call { started, .. } | OpenItemKind::Custom { started }
                if !name.is_empty() =>
            {
                *started = true;
                out.call_start(self.number, &call_id(members), &name)
            }
            OpenItemKind::Call { id, .. } => {
                *id = call_id(members);
                Ok(())
            }
            OpenItemKind::Search { started, .. } => {
                *started = true;
                out.call_start(self.number, &call_id(members), SEARCH)
            }
            _ => Ok(()),
        }
    }

    /// Handles an event that continues the item.
    pub(super) fn read_event(
        &mut self,
        what: ItemEventKind,
        event: ItemEvent<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let number = self.number;
        match &mut self.kind {
            OpenItemKind::Message { parts, refused, .. } => {
                *refused |= matches!(what, ItemEventKind::Refusal | ItemEventKind::RefusalDone);
                let part = event.content_index;
                let at = parts.iter().rposition(|(of, _)| *of == part).unwrap_or(parts.len());
                if at == parts.len() {
                    out.part()?;
                    parts.push((part, String::new()));
                }
                let Some((_, sent)) = parts.get_mut(at) else { return Ok(()) };
                let text: &str = match what {
                    ItemEventKind::Text | ItemEventKind::Refusal => event.delta,
                    // The rest of the text, which is missing in the deltas.
                    ItemEventKind::TextDone => behind(event.text, sent).unwrap_or_default(),
                    _ => behind(event.refusal, sent).unwrap_or_default(),
                };
                sent.push_str(text);
                out.text(number, text)
            }
            OpenItemKind::Reasoning { part } => {
                let at = match what {
                    ItemEventKind::Summary => event.summary_index,
                    _ => event.content_index,
                };
                match part {
                    // The summary repeats the thinking, so only the first kind is emitted.
                    Some((known, _)) if *known != what => return Ok(()),
                    Some((_, last)) if *last != at => out.reasoning(number, "\n\n")?,
                    _ => {}
                }
                *part = Some((what, at));
                out.reasoning(number, event.delta)
            }
            OpenItemKind::Call { started, name, sent, .. } => match what {
                // The complete item has already arrived, so this event is a repeat.
                _ if self.done => Ok(()),
                ItemEventKind::Arguments => {
                    sent.push_str(event.delta);
                    match *started {
                        true => out.call_delta(number, event.delta),
                        false => out.keep_arguments(event.delta, sent.len()),
                    }
                }
                ItemEventKind::ArgumentsDone if *started => {
                    let all = arguments(event.arguments);
                    rest_of(number, &all, sent, out)
                }
                ItemEventKind::ArgumentsDone => {
                    event.name.clone_into(name);
                    let all = arguments(event.arguments);
                    if !are_none(&all) || sent.is_empty() {
                        out.keep_arguments(&all, all.len())?;
                        *sent = all;
                    }
                    Ok(())
                }
                _ => Ok(()),
            },
            OpenItemKind::Custom { .. }
            | OpenItemKind::Search { .. }
            | OpenItemKind::Opaque { .. } => Ok(()),
        }
    }

    /// Handles a citation of the item's text.
    pub(super) fn cited(&mut self, json: &str, out: &mut EventSink) -> Result<(), Error> {
        if let OpenItemKind::Message { cited, .. } = &mut self.kind {
            *cited = cited.saturating_add(1);
            out.citation(self.number, json)?;
        }
        Ok(())
    }

    /// Handles the complete item: emits the missing parts, and the data for later requests.
    pub(super) fn done(
        &mut self,
        members: &ObjectMembers<'_>,
        json: &str,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        // Only the complete item shows whether the program or the vendor runs a tool search.
        if matches!(self.kind, OpenItemKind::Opaque { .. })
            && text_of(members.get("type")) == "tool_search_call"
            && is_ours(members)
        {
            self.kind = OpenItemKind::Search { started: false, cut: false };
        }
        let number = self.number;
        match &mut self.kind {
            OpenItemKind::Message { parts, refused, cited } => {
                let mut texts = 0_usize;
                let mut annotations = Vec::new();
                for part in elements(members.get("content").unwrap_or_default()) {
                    let part = ObjectMembers::of(part);
                    *refused |= text_of(part.get("type")) == "refusal";
                    if parts.is_empty() {
                        out.text(number, text_of(part.get("text")))?;
                        out.text(number, text_of(part.get("refusal")))?;
                    }
                    texts = texts.saturating_add(usize::from(part.get("text").is_some()));
                    annotations.extend(elements(part.get("annotations").unwrap_or_default()));
                }
                for annotation in annotations.iter().skip(*cited) {
                    out.citation(number, annotation)?;
                }
                annotations.retain(|annotation| sources::is_returnable(annotation));
                // Annotations have offsets into one part, but later requests contain all parts as one text. So the
                // annotations are kept only for an item with a single part.
                let annotations = format!("[{}]", annotations.join(","));
                let annotations = Some(("annotations", annotations.as_str()))
                    .filter(|(_, list)| texts == 1 && *list != "[]");
                let kept = members.0.iter().map(|(name, value)| (&**name, value.get()));
                let kept = kept.filter(|(name, _)| matches!(*name, "id" | "phase"));
                match join(kept.chain(refused.then_some(("refusal", "true"))).chain(annotations)) {
                    Some(kept) => out.vendor(number, VendorPart::Text, WIRE, kept),
                    None => Ok(()),
                }
            }
            OpenItemKind::Reasoning { part } => {
                if part.is_none() {
                    let list = ["summary", "content"].map(|name| members.get(name));
                    let list =
                        list.into_iter().flatten().map(elements).find(|list| !list.is_empty());
                    for (at, part) in list.unwrap_or_default().into_iter().enumerate() {
                        if at > 0 {
                            out.reasoning(number, "\n\n")?;
                        }
                        out.reasoning(number, text_of(ObjectMembers::of(part).get("text")))?;
                    }
                }
                match keep(members, |name| name != "status") {
                    Some(kept) => out.vendor(number, VendorPart::Reasoning, WIRE, kept),
                    None => Ok(()),
                }
            }
            OpenItemKind::Call { started, id: _, name: _, sent, ended, cut } => {
                if !std::mem::replace(started, true) {
                    let name = text_of(members.get("name"));
                    out.call_start(number, &call_id(members), &name)?;
                    out.call_delta(number, &*sent)?;
                }
                rest_of(number, &arguments(members.get("arguments")), sent, out)?;
                let known = |name: &str| {
                    !matches!(name, "type" | "call_id" | "name" | "arguments" | "status")
                };
                if let Some(kept) = keep(members, known) {
                    out.vendor(number, VendorPart::ToolCall, WIRE, kept)?;
                }
                *cut = text_of(members.get("status")) == "incomplete";
                if !*cut {
                    *ended = true;
                    out.call_end(number);
                }
                Ok(())
            }
            OpenItemKind::Custom { started } => {
                if !std::mem::replace(started, true) {
                    out.call_start(number, &call_id(members), &text_of(members.get("name")))?;
                }
                // Arguments are JSON on every wire, so free text becomes a JSON string.
                let input = serde_json::json!(text_of(members.get("input"))).to_string();
                out.call_delta(number, &input)?;
                let known = |name: &str| matches!(name, "type" | "id" | "namespace" | "caller");
                if let Some(kept) = keep(members, known) {
                    out.vendor(number, VendorPart::ToolCall, WIRE, kept)?;
                }
                out.call_end(number);
                Ok(())
            }
            OpenItemKind::Search { started, cut } => {
                if !std::mem::replace(started, true) {
                    out.call_start(number, &call_id(members), SEARCH)?;
                }
                out.call_delta(number, arguments(members.get("arguments")))?;
                if let Some(kept) = keep(members, |name| matches!(name, "type" | "id")) {
                    out.vendor(number, VendorPart::ToolCall, WIRE, kept)?;
                }
                *cut = text_of(members.get("status")) == "incomplete";
                if !*cut {
                    out.call_end(number);
                }
                Ok(())
            }
            OpenItemKind::Opaque { wants, answers } => {
                *wants = wanted(members);
                if wants.is_none() {
                    *answers = text_of(members.get("call_id"));
                }
                if let Some((image, item)) = picture(members) {
                    out.image(number, image)?;
                    return out.vendor(number, VendorPart::Opaque, WIRE, item);
                }
                out.vendor(number, VendorPart::Opaque, WIRE, json.trim().to_owned())
            }
        }
    }

    /// Ends a call without an end event. The decoder calls this method when the answer is complete.
    pub(super) fn close(&mut self, out: &mut EventSink) -> Result<(), Error> {
        self.begin_unnamed(out)?;
        if let OpenItemKind::Call { started: true, ended, cut: false, .. } = &mut self.kind
            && !std::mem::replace(ended, true)
        {
            out.call_end(self.number);
        }
        Ok(())
    }
}

/// The part of `whole` after `sent`; `None` if `whole` does not begin with `sent`. Each event may contain a short
/// `whole`, so the function first compares the lengths, and does not read a long `sent` for each event.
fn behind<'a>(whole: &'a str, sent: &str) -> Option<&'a str> {
    // `sent` may contain marked surrogates, which are four times as long as the same character in `whole`.
    if whole.len() < sent.len() / 4 {
        return None;
    }
    whole.strip_prefix(&*surrogates::joined(sent))
}

/// Emits the new part of the complete arguments `all`. If `all` does not begin with the emitted arguments `sent`, `all`
/// replaces the emitted arguments.
fn rest_of(number: u32, all: &str, sent: &mut String, out: &mut EventSink) -> Result<(), Error> {
    match behind(all, sent) {
        Some(rest) => {
            out.call_delta(number, rest)?;
            sent.push_str(rest);
            Ok(())
        }
        // An end event without arguments confirms the emitted arguments.
        None if are_none(all) => Ok(()),
        None => {
            all.clone_into(sent);
            out.call_arguments(number, all)
        }
    }
}

/// The type and id of an item that the program has to answer, according to the vendor's reference: an approval request,
/// a call with a `call_id` (`shell_call`, `apply_patch_call`, `computer_call` and newer types), or a call with the
/// `execution` `client`. `None` for calls that the vendor executes.
pub(super) fn wanted(members: &ObjectMembers<'_>) -> Option<(String, String)> {
    let kind = text_of(members.get("type"));
    if kind == "mcp_approval_request" {
        return Some((kind, text_of(members.get("id"))));
    }
    let id = text_of(members.get("call_id"));
    let executed_by = text_of(members.get("execution"));
    let has_sign = !id.is_empty() || executed_by == "client";
    let wants = kind == "local_shell_call" || (kind.ends_with("_call") && has_sign);
    (wants && executed_by != "server").then_some((kind, id))
}

/// The name of the search tool. The protocol has only a type for this tool, and no name.
const SEARCH: &str = "tool_search";

/// Whether the program, rather than the vendor, runs this tool search.
fn is_ours(members: &ObjectMembers<'_>) -> bool {
    text_of(members.get("execution")) == "client" && !text_of(members.get("call_id")).is_empty()
}

/// The generated picture in an item, and the JSON of the item without the picture.
fn picture(members: &ObjectMembers<'_>) -> Option<(Media, String)> {
    if text_of(members.get("type")) != PICTURE {
        return None;
    }
    let data = text_of(members.get("result"));
    let format = text_of(members.get("output_format"));
    let format = if format.is_empty() { "png" } else { &format };
    let rest = keep(members, |name| name != "result").filter(|_| !data.is_empty())?;
    let image = Media::from_base64(format!("image/{format}"), data).ok()?;
    Some((image, rest))
}

/// The type of an item that contains a generated picture.
pub(super) const PICTURE: &str = "image_generation_call";

/// Whether an item of this type is a call.
pub(super) fn is_call(kind: &str) -> bool {
    matches!(kind, "function_call" | "custom_tool_call" | "tool_search_call")
}

/// The id of the call in results, which may differ from the id of the item.
pub(super) fn call_id(members: &ObjectMembers<'_>) -> String {
    let id = text_of(members.get("call_id"));
    if id.is_empty() { text_of(members.get("id")) } else { id }
}

/// The arguments as text. In the protocol, the arguments are a string with JSON, but some servers send the JSON without
/// a string.
fn arguments(json: Option<&str>) -> String {
    match json {
        Some(json) if json.starts_with('{') => surrogates::escaped(json).into_owned(),
        json => text_of(json),
    }
}

fn keep(members: &ObjectMembers<'_>, is: impl Fn(&str) -> bool) -> Option<String> {
    join(members.0.iter().filter(|(name, _)| is(name)).map(|(name, value)| (&**name, value.get())))
}
