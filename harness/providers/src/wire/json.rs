//! Writes the JSON of a request directly into its body, without intermediate copies.

use std::borrow::Cow;

use harness_schema::{EncodedSchema, ToolSchema};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    optional::{OptionalMember, RefusedMembers},
    tolerant::ObjectMembers,
};
use harness_core::{
    error::{Error, ErrorKind},
    message::{VendorData, is_strict, without_lone_surrogates},
    provider::{BodyDraft, EncodedPart, merge},
};

/// The body of a request, written member by member. Members of the program's `extra` replace the request's own members.
/// If both values are objects, they are merged at the end.
pub(super) struct JsonBody<'a> {
    out: BodyDraft,
    extra: &'a Map<String, Value>,
    /// The request's own objects to which `extra` adds members.
    merged: Map<String, Value>,
    /// The optional members that the server refuses.
    refused: RefusedMembers,
    /// The optional members that were written.
    sent: RefusedMembers,
}

impl<'a> JsonBody<'a> {
    /// Starts a body that will contain the program's `extra` members.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `extra` contains a reserved name.
    pub(super) fn new(
        extra: &'a Map<String, Value>,
        reserved: &[&str],
        refused: RefusedMembers,
    ) -> Result<Self, Error> {
        if let Some(name) = reserved.iter().find(|name| extra.contains_key(**name)) {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("`extra` cannot replace `{name}`: it is made from the conversation"),
            ));
        }
        let (merged, sent) = Default::default();
        Ok(Self { out: BodyDraft::of(EncodedPart::of(vec![b'{'])), extra, merged, refused, sent })
    }

    /// Whether to write an optional member. If the server has not refused the member, returns `true` and records the
    /// member as sent.
    pub(super) fn may_send(&mut self, member: OptionalMember) -> bool {
        let may = !self.refused.has(member);
        if may {
            self.sent = self.sent.with(member);
        }
        may
    }

    /// Writes an optional member, unless the server has refused it. If `extra` contains the member, the value of
    /// `extra` is sent.
    pub(super) fn optional(&mut self, member: OptionalMember, write: &dyn Fn(&mut BodyDraft)) {
        if self.extra.contains_key(member.name()) || self.may_send(member) {
            self.member(member.name(), write);
        }
    }

    /// The optional members that were written.
    pub(super) fn sent(&self) -> RefusedMembers {
        self.sent
    }

    /// Writes a member, unless `extra` replaces it. If both values are objects, they are merged at the end.
    pub(super) fn member(&mut self, name: &str, write: &dyn Fn(&mut BodyDraft)) {
        match self.extra.get(name) {
            None => {
                key(&mut self.out, name);
                write(&mut self.out);
            }
            Some(more) if more.is_object() => {
                let mut own = BodyDraft::default();
                write(&mut own);
                let own = std::str::from_utf8(own.ready()).map(str::parse::<Value>);
                if let Ok(Ok(mut own)) = own {
                    merge(&mut own, more);
                    self.merged.insert(name.to_owned(), own);
                }
            }
            Some(_) => {}
        }
    }

    /// Writes a member with this value.
    pub(super) fn value(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.member(name, &|out| put(out, value));
    }

    /// Writes a member if there is a value.
    pub(super) fn maybe(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    /// Writes the list of tools: first `own`, then the tools in `extra`, such as tools that the vendor executes.
    pub(super) fn tools(&mut self, own: impl FnOnce(&mut BodyDraft)) {
        let more = self.extra.get("tools").and_then(Value::as_array);
        let before = self.out.len();
        key(&mut self.out, "tools");
        self.out.push(b'[');
        let start = self.out.len();
        own(&mut self.out);
        for tool in more.into_iter().flatten() {
            comma(&mut self.out);
            put(&mut self.out, tool);
        }
        if self.out.len() == start {
            // Servers refuse an empty list.
            self.out.ready().truncate(before);
        } else {
            self.out.push(b']');
        }
    }

    /// Writes the remaining members, and begins the list `last`, which is the last member of the body.
    pub(super) fn finish(mut self, last: &str) -> BodyDraft {
        for (name, value) in self.extra {
            // A program removes a default member by setting it to `null` in `extra`.
            if !value.is_null() && name != "tools" {
                key(&mut self.out, name);
                match self.merged.get(name).unwrap_or(value) {
                    Value::Object(members) => {
                        self.out.push(b'{');
                        for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
                            key(&mut self.out, name);
                            put(&mut self.out, value);
                        }
                        self.out.push(b'}');
                    }
                    value => put(&mut self.out, value),
                }
            }
        }
        key(&mut self.out, last);
        self.out.push(b'[');
        self.out
    }
}

/// Reserves memory for all tools at once, because a growing buffer may be copied.
pub(super) fn room_for(out: &mut BodyDraft, tools: &[ToolSchema], parameters: &[EncodedSchema]) {
    /// The size of a tool's JSON without the tool's texts, in bytes.
    const AROUND: usize = 128;
    let sizes = tools.iter().zip(parameters).map(|(tool, parameters)| {
        tool.name.len() + tool.description.len() + parameters.json.len() + AROUND
    });
    out.ready().reserve(sizes.sum());
}

/// Writes the name of the next member of the current object.
pub(super) fn key(out: &mut BodyDraft, name: &str) {
    comma(out);
    put(out, name);
    out.push(b':');
}

/// Writes a comma if the current object or list already has a member or an element.
pub(super) fn comma(out: &mut BodyDraft) {
    if !matches!(out.last(), None | Some(b'{' | b'[' | b':' | b',')) {
        out.push(b',');
    }
}

/// Writes a value as JSON. For texts, use [`text`].
pub(super) fn put(out: &mut BodyDraft, value: &(impl Serialize + ?Sized)) {
    let out = out.ready();
    let at = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Writing fails only for a map whose keys are not text. The library has no such map.
        out.truncate(at);
        out.extend_from_slice(b"null");
    }
}

/// Writes a text as a JSON string.
pub(super) fn text(out: &mut BodyDraft, text: &str) {
    out.put_text(text);
}

/// Writes several texts as one JSON string, with `between` as the separator.
pub(super) fn texts<'a>(
    out: &mut BodyDraft,
    texts: impl IntoIterator<Item = &'a str>,
    between: &str,
) {
    out.push(b'"');
    for (at, text) in texts.into_iter().enumerate() {
        if at > 0 {
            out.put_letters(between);
        }
        out.put_letters(text);
    }
    out.push(b'"');
}

/// Writes JSON unchanged.
pub(super) fn raw(out: &mut BodyDraft, json: &str) {
    out.put_json(json);
}

/// Writes a member with a text.
pub(super) fn member(out: &mut BodyDraft, name: &str, text: &str) {
    key(out, name);
    out.put_text(text);
}

/// Writes a file as a data URL.
pub(super) fn data_url(out: &mut BodyDraft, mime: &str, data: &str) {
    texts(out, ["data:", mime, ";base64,", data], "");
}

/// Vendor data for a request, with U+FFFD in place of each lone surrogate. `None` for JSON that some parsers refuse or
/// read differently, because a server may then refuse the request.
pub(super) fn sendable(json: &str) -> Option<Cow<'_, str>> {
    let json = without_lone_surrogates(json);
    is_strict(&json).then_some(json)
}

/// The vendor data as JSON, if requests of this wire can contain the data.
pub(super) fn ours<'d>(wire: &str, data: Option<&'d VendorData>) -> Option<Cow<'d, str>> {
    data.filter(|data| data.wire() == wire).and_then(|data| sendable(data.json()))
}

/// Writes a part of a message with this text. Writes nothing if the text is blank.
pub(super) fn text_part(out: &mut BodyDraft, kind: &str, text: &str) {
    if !text.trim().is_empty() {
        comma(out);
        out.push(b'{');
        member(out, "type", kind);
        member(out, "text", text);
        out.push(b'}');
    }
}

/// Copies the members of the object `json` into the current object, except the names in `without`.
pub(super) fn members(out: &mut BodyDraft, json: &str, without: &[&str]) {
    for (name, value) in &ObjectMembers::of(json).0 {
        if !without.contains(&&**name) {
            key(out, name);
            raw(out, value.get());
        }
    }
}

/// Arguments as an object that every parser accepts, with U+FFFD in place of each lone surrogate. Invalid arguments
/// become an empty object; the call's result describes the fault.
pub(super) fn object(arguments: &str) -> Cow<'_, str> {
    let arguments = without_lone_surrogates(arguments.trim());
    match arguments.starts_with('{') && is_strict(&arguments) {
        true => arguments,
        false => Cow::Borrowed("{}"),
    }
}
