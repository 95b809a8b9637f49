//! Which call a fragment belongs to. Servers number calls wrongly, repeat ids and names, change
//! ids on the way or leave them out; what is told here is told by what they still have in common.

use serde::de::IgnoredAny;

use super::chunk::{CallDelta, Function};
use crate::{
    error::Error,
    wire::{decoder::Outlet, tolerant::text_of},
};

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// The id as the server gave it; empty if it gave none.
    wire_id: String,
    name: String,
    arguments: String,
    /// The number by which the events name it, once it was announced.
    number: Option<u32>,
    /// Bytes of the arguments that were handed on.
    sent: usize,
}

/// Where a fragment belongs.
#[derive(Debug, PartialEq)]
enum Place {
    New,
    At(usize),
    Nowhere,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes one fragment. `first` is the number of the first call's block.
    pub(super) fn push(
        &mut self,
        delta: &CallDelta<'_>,
        first: u32,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        let none = Function::default();
        let function = delta.function.0.as_ref().unwrap_or(&none);
        let arguments = fragment(function);
        let (id, name) = (delta.id.trim(), function.name.trim());
        let at = match self.place(delta.index.0, id, name, &arguments) {
            Place::At(at) => at,
            Place::Nowhere => return Ok(()),
            Place::New => {
                out.part()?;
                self.calls.push(Call {
                    index: delta.index.0,
                    wire_id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    number: None,
                    sent: 0,
                });
                self.calls.len().saturating_sub(1)
            }
        };
        if let Some(call) = self.calls.get_mut(at) {
            if call.wire_id.is_empty() {
                id.clone_into(&mut call.wire_id);
            }
            // It is set once: some servers repeat it, and it never comes in pieces.
            if call.name.is_empty() {
                name.clone_into(&mut call.name);
            }
            call.arguments.push_str(&arguments);
        }
        self.hand_on(at, first, false, out)?;
        match self.calls.get(at) {
            Some(call) if call.sent < call.arguments.len() => out.kept(&arguments),
            _ => Ok(()),
        }
    }

    /// The answer is over. Of one that was cut off, only what is whole has an end.
    pub(super) fn finish(
        &mut self,
        first: u32,
        truncated: bool,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        for at in 0..self.calls.len() {
            let Some(call) = self.calls.get_mut(at) else { continue };
            if truncated && !is_object(&call.arguments) {
                continue;
            }
            if call.sent == 0 {
                call.arguments = unwrapped(&call.arguments);
            }
            self.hand_on(at, first, true, out)?;
            if let Some(number) = self.calls.get(at).and_then(|call| call.number) {
                out.call_end(number);
            }
        }
        Ok(())
    }

    /// Announces the call once its name is known, and hands on what is known of its arguments.
    /// Arguments that do not begin as an object are kept until the end, for they may be an
    /// object in a string.
    fn hand_on(
        &mut self,
        at: usize,
        first: u32,
        over: bool,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        let Some(call) = self.calls.get(at) else { return Ok(()) };
        let ready =
            !call.name.is_empty() && (!call.wire_id.is_empty() || !call.arguments.is_empty());
        if call.number.is_none() && !ready && !over {
            return Ok(());
        }
        let number = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(first);
        if call.number.is_none() {
            let id = self.unique_id(at);
            out.call_start(number, &id, &call.name)?;
        }
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        call.number = Some(number);
        if over || call.arguments.trim_start().starts_with('{') {
            out.call_delta(number, call.arguments.get(call.sent..).unwrap_or_default())?;
            call.sent = call.arguments.len();
        }
        Ok(())
    }

    /// Results refer to calls by id, so no two calls share one. Where there is none, whoever
    /// collects the answer makes one.
    fn unique_id(&self, at: usize) -> String {
        let id = self.calls.get(at).map(|call| call.wire_id.as_str()).unwrap_or_default();
        let same = self.calls.iter().take(at).filter(|call| call.wire_id == id).count();
        match id {
            "" => String::new(),
            id if same == 0 => id.to_owned(),
            id => format!("{id}_{}", same.saturating_add(1)),
        }
    }

    fn place(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Place {
        let last = |is: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(is);
        let begins = arguments.trim_start().starts_with(['{', '[']);
        // Another name, or a fresh value after a whole one, is another call.
        let is_another = |at: usize| {
            self.calls.get(at).is_some_and(|call| {
                let other = !name.is_empty() && !call.name.is_empty() && name != call.name;
                other || (begins && is_whole(&call.arguments))
            })
        };
        let or_new = |at: usize| if is_another(at) { Place::New } else { Place::At(at) };
        if !id.is_empty()
            && let Some(same_id) = last(&|call| call.wire_id == id)
        {
            let Some(index) = index else { return or_new(same_id) };
            let both =
                last(&|call| call.wire_id == id && call.index.is_none_or(|known| known == index));
            return match both {
                Some(both) => or_new(both),
                None if name.is_empty() => Place::At(same_id),
                None => Place::New,
            };
        }
        let same_index = index.and_then(|index| last(&|call| call.index == Some(index)));
        match (id.is_empty(), same_index) {
            // An id that is new at a known place: a call of its own if it looks like one, and
            // otherwise a server that makes a new id for each fragment.
            (false, Some(at)) => match self.calls.get(at) {
                Some(call) if call.wire_id.is_empty() => or_new(at),
                Some(call) => {
                    let other = !call.name.is_empty() && name != call.name;
                    let new = !name.is_empty() && (other || begins || is_whole(&call.arguments));
                    if new { Place::New } else { Place::At(at) }
                }
                None => Place::New,
            },
            (false, None) if index.is_none() && name.is_empty() => match self.calls.len() {
                0 => Place::New,
                count => Place::At(count.saturating_sub(1)),
            },
            (false, None) => Place::New,
            (true, Some(at)) => or_new(at),
            (true, None) if index.is_some() || !name.is_empty() => Place::New,
            (true, None) => {
                let mut open = self
                    .calls
                    .iter()
                    .enumerate()
                    .filter(|(_, call)| !is_whole(&call.arguments))
                    .map(|(at, _)| at);
                match (open.next(), open.next()) {
                    (Some(at), None) => Place::At(at),
                    _ => Place::Nowhere,
                }
            }
        }
    }
}

/// The text of a fragment: a string's, or the JSON itself where a server sends that.
fn fragment(function: &Function<'_>) -> String {
    match function.arguments.map(|json| json.get()) {
        Some(json) if json.starts_with(['{', '[']) => json.to_owned(),
        json => text_of(json),
    }
}

/// The object in a string that holds one; nothing for `null`.
fn unwrapped(arguments: &str) -> String {
    let arguments = arguments.trim();
    match serde_json::from_str::<Option<String>>(arguments) {
        Ok(None) => String::new(),
        Ok(Some(inner)) if is_object(&inner) => inner,
        _ => arguments.to_owned(),
    }
}

fn is_whole(json: &str) -> bool {
    !json.is_empty() && serde_json::from_str::<IgnoredAny>(json).is_ok()
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && is_whole(json)
}
