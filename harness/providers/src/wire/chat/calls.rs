//! Assigns fragments to calls. Some servers number calls wrongly, repeat ids and names, change ids within a call, or
//! omit ids. The rules in this module work for all these servers. The accumulator decides whether a call repeats
//! another call.

use std::collections::HashMap;

use serde::de::IgnoredAny;

use super::{
    Origin, WIRE,
    chunk::{CallDelta, FunctionDelta},
    extra,
};
use crate::wire::{decoder::EventSink, reader, tolerant::RawJson};
use harness_core::{
    error::Error,
    provider::{JsonProgress, VendorPart},
};

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct AnswerCalls {
    calls: Vec<StreamedCall>,
    /// The server and model of the answer.
    origin: Origin,
    /// For each id: the position of the last call with this id, overall and per index in the stream.
    ids: HashMap<String, CallPlaces>,
    /// For each index in the stream: the position of the last call with this index.
    indices: HashMap<u64, usize>,
    /// The positions of calls with incomplete arguments, in ascending order.
    open: Vec<usize>,
}

#[derive(Debug, Default)]
struct CallPlaces {
    last: usize,
    by_index: HashMap<u64, usize>,
    without_index: Option<usize>,
}

#[derive(Debug)]
struct StreamedCall {
    index: Option<u64>,
    /// The id from the server; empty without such an id.
    wire_id: String,
    name: String,
    arguments: String,
    progress: JsonProgress,
    /// The number of the call's block in the library's events.
    number: u32,
    /// Whether the start of the call was emitted.
    begun: bool,
    /// The number of emitted bytes of the arguments.
    sent: usize,
    /// Whether the end of the call was emitted.
    ended: bool,
    /// The server's data for requests with this call. `None` before the data arrives, and after the data is emitted.
    extra: Option<String>,
}

/// The call to which a fragment belongs.
#[derive(Debug, PartialEq)]
enum FragmentPlace {
    New,
    At(usize),
    /// The fragment begins a new value. The call at this position has the same index or id, and complete arguments.
    Again(usize),
    Nowhere,
}

impl AnswerCalls {
    /// Creates an empty collection for an answer of this server and model.
    pub(super) fn of(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds one fragment. `first` is the block number for the first call.
    pub(super) fn push(
        &mut self,
        delta: &CallDelta<'_>,
        first: u32,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let none = FunctionDelta::default();
        let function = delta.function.0.as_ref().unwrap_or(&none);
        let arguments = function.arguments.as_ref().map_or("", |arguments| &arguments.0);
        let (id, name) = (delta.id.trim(), function.name.trim());
        let extra = delta.extra_content.map(RawJson::get).filter(|extra| *extra != "null");
        let place = self.place(delta.index.0, id, name, arguments);
        // The server's data may arrive in a separate fragment, without the id or name of the call.
        let is_alone = extra.is_some() && id.is_empty() && name.is_empty() && arguments.is_empty();
        let place = match (place, self.calls.len().checked_sub(1)) {
            (FragmentPlace::New | FragmentPlace::Nowhere, Some(last)) if is_alone => {
                FragmentPlace::At(last)
            }
            (FragmentPlace::New, None) if is_alone => FragmentPlace::Nowhere,
            (place, _) => place,
        };
        let at = match place {
            FragmentPlace::At(at) => at,
            FragmentPlace::Nowhere => return Ok(()),
            FragmentPlace::Again(at) if self.is_to_follow(at, id, name, arguments) => {
                return self.start_over(at, arguments, out);
            }
            FragmentPlace::Again(at) => {
                self.end(at, out)?;
                let mut call = self.begin(delta.index.0, first, out)?;
                if let Some(before) = self.calls.get(at) {
                    // A fragment without an id or without a name belongs to the id of the complete call.
                    if id.is_empty() || name.is_empty() {
                        before.wire_id.clone_into(&mut call.wire_id);
                    }
                    // Without ids, all calls with the same index have the same number.
                    if before.wire_id.is_empty() && id.is_empty() && delta.index.0.is_some() {
                        call.number = before.number;
                    }
                }
                self.push_call(call)
            }
            FragmentPlace::New => {
                let call = self.begin(delta.index.0, first, out)?;
                self.push_call(call)
            }
        };
        if let Some(call) = self.calls.get_mut(at) {
            if call.wire_id.is_empty() && !id.is_empty() {
                id.clone_into(&mut call.wire_id);
                self.ids.entry(id.to_owned()).or_default().add(call.index, at);
            }
            // Only the first name counts: some servers repeat the name, and no server splits the name.
            if call.name.is_empty() {
                name.clone_into(&mut call.name);
            }
            call.arguments.push_str(arguments);
            // An empty object after a signature is ignored.
            let is_new = |extra: &&str| call.extra.is_none() || *extra != "{}";
            if let Some(extra) = extra.filter(is_new) {
                out.kept(extra)?;
                call.extra = Some(extra.to_owned());
            }
        }
        self.read(at);
        self.hand_on(at, false, out)?;
        match self.calls.get(at) {
            Some(call) if call.sent < call.arguments.len() => {
                out.keep_arguments(arguments, call.arguments.len())
            }
            _ => Ok(()),
        }
    }

    fn begin(
        &self,
        index: Option<u64>,
        first: u32,
        out: &mut EventSink,
    ) -> Result<StreamedCall, Error> {
        out.part()?;
        let number = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        Ok(StreamedCall {
            index,
            wire_id: String::new(),
            name: String::new(),
            arguments: String::new(),
            progress: JsonProgress::default(),
            number: number.saturating_add(first),
            begun: false,
            sent: 0,
            ended: false,
            extra: None,
        })
    }

    fn push_call(&mut self, call: StreamedCall) -> usize {
        let at = self.calls.len();
        if !call.wire_id.is_empty() {
            self.ids.entry(call.wire_id.clone()).or_default().add(call.index, at);
        }
        if let Some(index) = call.index {
            self.indices.insert(index, at);
        }
        self.open.push(at);
        self.calls.push(call);
        at
    }

    /// Reads the new part of a call's arguments.
    fn read(&mut self, at: usize) {
        let Some(call) = self.calls.get_mut(at) else { return };
        call.progress.read(&call.arguments);
        match (self.open.binary_search(&at), call.is_whole()) {
            (Ok(place), true) => drop(self.open.remove(place)),
            (Err(place), false) => self.open.insert(place, at),
            (Ok(_), false) | (Err(_), true) => {}
        }
    }

    /// Whether this fragment replaces the empty arguments of the call at `at`. Some servers send an empty object before
    /// the actual arguments.
    fn is_to_follow(&self, at: usize, id: &str, name: &str, arguments: &str) -> bool {
        let is_it = |call: &StreamedCall| {
            let same_name = name.is_empty() || name == call.name;
            let same_id = id.is_empty() || id == call.wire_id;
            same_name && same_id && !call.ended && call.progress.is_empty_object()
        };
        arguments.trim_start().starts_with('{') && self.calls.get(at).is_some_and(is_it)
    }

    /// Replaces the arguments of a call, and discards the earlier arguments.
    fn start_over(&mut self, at: usize, arguments: &str, out: &mut EventSink) -> Result<(), Error> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        arguments.clone_into(&mut call.arguments);
        call.progress = JsonProgress::default();
        let (begun, number) = (call.begun, call.number);
        if begun {
            call.sent = arguments.len();
        }
        self.read(at);
        match begun {
            true => out.call_arguments(number, arguments),
            false => out.keep_arguments(arguments, arguments.len()),
        }
    }

    /// Ends the calls of the answer. In a truncated answer, only calls with complete arguments end.
    pub(super) fn finish(&mut self, truncated: bool, out: &mut EventSink) -> Result<(), Error> {
        for at in 0..self.calls.len() {
            let cut = |call: &StreamedCall| truncated && !is_object(&call.arguments);
            if self.calls.get(at).is_some_and(|call| !cut(call)) {
                self.end(at, out)?;
            } else if self.calls.get(at).is_some_and(|call| !call.begun) {
                self.hand_on(at, true, out)?;
            }
            self.hand_on_extra(at, out)?;
        }
        Ok(())
    }

    /// Emits the server's data for requests with a call. The data may arrive after the rest of the call.
    fn hand_on_extra(&mut self, at: usize, out: &mut EventSink) -> Result<(), Error> {
        let Some(call) = self.calls.get_mut(at).filter(|call| call.begun) else { return Ok(()) };
        match call.extra.take() {
            Some(extra) => {
                let kept = extra::kept(&extra, self.origin);
                out.vendor(call.number, VendorPart::ToolCall, WIRE, kept)
            }
            None => Ok(()),
        }
    }

    /// Emits the end of a call, unless it was emitted before.
    fn end(&mut self, at: usize, out: &mut EventSink) -> Result<(), Error> {
        if let Some(call) = self.calls.get_mut(at).filter(|call| !call.ended) {
            if call.sent == 0 {
                call.arguments = unwrapped(&call.arguments);
                call.progress = JsonProgress::default();
                self.read(at);
            }
            self.hand_on(at, true, out)?;
            self.hand_on_extra(at, out)?;
        }
        if let Some(call) = self.calls.get_mut(at).filter(|call| !call.ended) {
            call.ended = true;
            out.call_end(call.number);
        }
        Ok(())
    }

    /// Emits the start of the call, after the name is known, and the new arguments. If the arguments do not begin an
    /// object, they wait until the end of the call, because they may be an object inside a string.
    fn hand_on(&mut self, at: usize, over: bool, out: &mut EventSink) -> Result<(), Error> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        let ready =
            !call.name.is_empty() && (!call.wire_id.is_empty() || !call.arguments.is_empty());
        if !call.begun && !ready && !over {
            return Ok(());
        }
        if !std::mem::replace(&mut call.begun, true) {
            out.call_start(call.number, &call.wire_id, &call.name)?;
        }
        if over || call.progress.is_object() {
            out.call_delta(call.number, call.arguments.get(call.sent..).unwrap_or_default())?;
            call.sent = call.arguments.len();
        }
        Ok(())
    }

    fn place(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> FragmentPlace {
        let is_structured = arguments.trim_start().starts_with(['{', '[']);
        let begins = is_structured || arguments.trim_start().starts_with('"');
        // After a complete list, object or string, a fragment that begins a value does not continue the arguments.
        let is_again = |call: &StreamedCall| {
            begins && call.is_whole() && call.arguments.trim_end().ends_with(['}', ']', '"'])
        };
        // A fragment with another name, or with a new value after a complete value, belongs to another call.
        let or_new = |at: usize| match self.calls.get(at) {
            Some(call) if !name.is_empty() && !call.name.is_empty() && name != call.name => {
                FragmentPlace::New
            }
            Some(call) if is_again(call) => FragmentPlace::Again(at),
            Some(_) => FragmentPlace::At(at),
            None => FragmentPlace::New,
        };
        if let Some(same_id) = self.ids.get(id) {
            if index.is_none() {
                return or_new(same_id.last);
            }
            let with_index = index.and_then(|index| same_id.by_index.get(&index).copied());
            return match with_index.max(same_id.without_index) {
                Some(both) => or_new(both),
                None if name.is_empty() => or_new(same_id.last),
                None => FragmentPlace::New,
            };
        }
        let same_index = index.and_then(|index| self.indices.get(&index).copied());
        match (id.is_empty(), same_index) {
            // The fragment has a new id and a known index. Some servers make a new id for each fragment. So the
            // fragment belongs to another call only if it has another name, begins an object or a list, or follows
            // complete arguments.
            (false, Some(at)) => match self.calls.get(at) {
                Some(call) if call.wire_id.is_empty() || name.is_empty() => or_new(at),
                Some(call) => {
                    let other = !call.name.is_empty() && name != call.name;
                    let new = other || is_structured || call.is_whole();
                    if new { FragmentPlace::New } else { FragmentPlace::At(at) }
                }
                None => FragmentPlace::New,
            },
            (false, None) if index.is_none() && name.is_empty() => match self.calls.len() {
                0 => FragmentPlace::New,
                count => FragmentPlace::At(count.saturating_sub(1)),
            },
            (false, None) => FragmentPlace::New,
            (true, Some(at)) => or_new(at),
            (true, None) if index.is_some() || !name.is_empty() => FragmentPlace::New,
            (true, None) => match *self.open {
                [at] => FragmentPlace::At(at),
                _ => self.unnamed_place(arguments),
            },
        }
    }
}

impl AnswerCalls {
    /// The place for arguments of no known call. Such arguments become a call without a name, which the library never
    /// runs. Arguments that repeat another call's arguments are dropped.
    fn unnamed_place(&self, arguments: &str) -> FragmentPlace {
        let is_unnamed = |call: &StreamedCall| {
            call.name.is_empty() && call.wire_id.is_empty() && call.index.is_none()
        };
        let repeats = |call: &StreamedCall| call.arguments.trim() == arguments.trim();
        match self.calls.last() {
            _ if arguments.trim().is_empty() || self.calls.iter().any(repeats) => {
                FragmentPlace::Nowhere
            }
            Some(last) if is_unnamed(last) => FragmentPlace::At(self.calls.len().saturating_sub(1)),
            Some(_) | None => FragmentPlace::New,
        }
    }
}

impl CallPlaces {
    fn add(&mut self, index: Option<u64>, at: usize) {
        self.last = self.last.max(at);
        let place = match index {
            Some(index) => self.by_index.entry(index).or_default(),
            None => self.without_index.get_or_insert_default(),
        };
        *place = at.max(*place);
    }
}

impl StreamedCall {
    /// Whether the arguments so far are one complete JSON value.
    fn is_whole(&self) -> bool {
        self.progress.is_whole(&self.arguments)
    }
}

/// Unpacks arguments that are an object inside a JSON string. `null` becomes empty, and other arguments stay unchanged.
fn unwrapped(arguments: &str) -> String {
    let arguments = arguments.trim();
    match reader::from_str::<Option<String>>(arguments) {
        Ok(None) => String::new(),
        Ok(Some(inner)) if is_object(&inner) => inner,
        _ => arguments.to_owned(),
    }
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && reader::from_str::<IgnoredAny>(json).is_ok()
}
