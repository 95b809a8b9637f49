//! Writes the JSON of a request straight into its bytes, so that nothing is copied on the way.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{halves, tolerant::Members};
use crate::{
    error::{Error, ErrorKind},
    message::is_strict,
    provider::{Draft, Part, merge},
    schema::{Parameters, ToolSchema},
};

/// The body of a request: members that are written one by one. A member that the user's own
/// words replace is not written; an object is merged with theirs at the end.
pub(super) struct Body<'a> {
    out: Draft,
    extra: &'a Map<String, Value>,
    /// Objects of the request itself that the user's own words say more of.
    merged: Map<String, Value>,
}

impl<'a> Body<'a> {
    /// A body with the user's own members.
    ///
    /// # Errors
    /// Fails if one of them is of what a provider must say itself.
    pub(super) fn new(extra: &'a Map<String, Value>, reserved: &[&str]) -> Result<Self, Error> {
        if let Some(name) = reserved.iter().find(|name| extra.contains_key(**name)) {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("`extra` cannot replace `{name}`: it is made of the conversation"),
            ));
        }
        Ok(Self { out: Draft::of(Part::of(vec![b'{'])), extra, merged: Map::new() })
    }

    /// Writes a member, unless the user's own words replace it or are merged with it.
    pub(super) fn member(&mut self, name: &str, write: impl FnOnce(&mut Draft)) {
        match self.extra.get(name) {
            None => {
                key(&mut self.out, name);
                write(&mut self.out);
            }
            Some(more) if more.is_object() => {
                let mut own = Draft::default();
                write(&mut own);
                if let Ok(mut own) = serde_json::from_slice::<Value>(own.ready()) {
                    merge(&mut own, more);
                    self.merged.insert(name.to_owned(), own);
                }
            }
            Some(_) => {}
        }
    }

    /// Writes a member of which the value is at hand.
    pub(super) fn value(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.member(name, |out| put(out, value));
    }

    /// Writes a member, if there is a value.
    pub(super) fn maybe(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    /// Writes the tools: `own` first, then those among the user's own members, such as tools that
    /// the vendor runs itself.
    pub(super) fn tools(&mut self, own: impl FnOnce(&mut Draft)) {
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
            // An empty list is refused.
            self.out.ready().truncate(before);
        } else {
            self.out.push(b']');
        }
    }

    /// The whole body up to the first element of the list `last`, which is its last member.
    pub(super) fn finish(mut self, last: &str) -> Draft {
        for (name, value) in self.extra {
            // With `null` a member that is written by default is left out.
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

/// Makes room for these tools at once: a list that grows is copied, or not, as the allocator happens to have
/// room behind it.
pub(super) fn room_for(out: &mut Draft, tools: &[ToolSchema], parameters: &[Parameters]) {
    /// What is written of each tool beside its own words.
    const AROUND: usize = 128;
    let sizes = tools.iter().zip(parameters).map(|(tool, parameters)| {
        tool.name.len() + tool.description.len() + parameters.json.len() + AROUND
    });
    out.ready().reserve(sizes.sum());
}

/// Writes the name of the next member of the object that is being written.
pub(super) fn key(out: &mut Draft, name: &str) {
    comma(out);
    put(out, name);
    out.push(b':');
}

/// Separates from what was written before, if anything was.
pub(super) fn comma(out: &mut Draft) {
    if !matches!(out.last(), None | Some(b'{' | b'[' | b':' | b',')) {
        out.push(b',');
    }
}

/// Writes a value. Texts are written by [`text`].
pub(super) fn put(out: &mut Draft, value: &(impl Serialize + ?Sized)) {
    let out = out.ready();
    let at = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Only a map whose keys are no text cannot be written, and there is none.
        out.truncate(at);
        out.extend_from_slice(b"null");
    }
}

/// Writes a text.
pub(super) fn text(out: &mut Draft, text: &str) {
    out.put_text(text);
}

/// Writes several texts as one.
pub(super) fn texts<'a>(out: &mut Draft, texts: impl IntoIterator<Item = &'a str>, between: &str) {
    out.push(b'"');
    for (at, text) in texts.into_iter().enumerate() {
        if at > 0 {
            out.put_letters(between);
        }
        out.put_letters(text);
    }
    out.push(b'"');
}

/// Writes what is JSON already.
pub(super) fn raw(out: &mut Draft, json: &str) {
    out.put_json(json);
}

/// Writes a member that is text into the object that is being written.
pub(super) fn member(out: &mut Draft, name: &str, text: &str) {
    key(out, name);
    out.put_text(text);
}

/// Writes a file as an address that holds it.
pub(super) fn data_url(out: &mut Draft, mime: &str, data: &str) {
    texts(out, ["data:", mime, ";base64,", data], "");
}

/// Vendor data as it can be sent: what one reader would refuse, or take for something else than
/// another, makes the whole body unreadable and is left out. Half a character is sent as U+FFFD.
pub(super) fn sendable(json: &str) -> Option<Cow<'_, str>> {
    let json = halves::readable(json);
    is_strict(&json).then_some(json)
}

/// Writes the members of an object, but for those of these names, into the object that is being
/// written.
pub(super) fn members(out: &mut Draft, json: &str, without: &[&str]) {
    for (name, value) in &Members::of(json).0 {
        if !without.contains(&&**name) {
            key(out, name);
            raw(out, value.get());
        }
    }
}

/// Arguments as an object that every reader takes. What is refused as a call is sent as an empty one,
/// for the model is told what was wrong by the result. Half a character is sent as U+FFFD.
pub(super) fn object(arguments: &str) -> Cow<'_, str> {
    let arguments = halves::readable(arguments.trim());
    match arguments.starts_with('{') && is_strict(&arguments) {
        true => arguments,
        false => Cow::Borrowed("{}"),
    }
}
