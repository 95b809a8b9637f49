//! What decoding is on every wire: bytes in, events out, the limits on both. Each wire brings
//! only its dialect.

use std::{borrow::Cow, collections::VecDeque};

use super::sse::{Record, SseParser};
use crate::{
    error::{Error, ErrorKind},
    message::VendorData,
    provider::{Limits, StopReason, StreamEvent, Usage, VendorPart},
};

/// What one wire makes of the records of an answer.
pub(crate) trait Dialect {
    /// Reads one record. Says whether it was an event: a keep-alive is none.
    fn read(&mut self, event: &str, data: &str, out: &mut Outlet) -> Result<bool, Error>;

    /// The bytes are over. A wire whose end may go unsaid ends here; others do nothing.
    fn end(&mut self, out: &mut Outlet) -> Result<(), Error>;
}

/// Reads the bytes of an answer. See the wires for what each makes of them.
///
/// Any cut of the bytes gives the same events. What was read before a failure is handed out
/// before it.
#[derive(Debug)]
pub struct Decoder<D> {
    sse: SseParser,
    dialect: D,
    out: Outlet,
    heard: u64,
    failed: bool,
}

#[expect(private_bounds, reason = "the wires are known: nobody outside brings another one")]
impl<D: Dialect> Decoder<D> {
    pub(super) fn with(dialect: D, limits: Limits) -> Self {
        Self {
            sse: SseParser::new(limits.event),
            dialect,
            out: Outlet::new(limits),
            heard: 0,
            failed: false,
        }
    }

    /// Takes the next bytes. After the end of the answer, whatever comes is left alone.
    ///
    /// # Errors
    /// Fails with the error that the vendor reports inside the stream, if the answer cannot be
    /// understood, and if it is larger than the limits.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.failed || self.out.done {
            return Ok(());
        }
        let Self { sse, dialect, out, heard, .. } = self;
        let result = sse.push(bytes, |record| read(record, dialect, out, heard));
        self.failed = result.is_err();
        result
    }

    /// The bytes are over.
    ///
    /// # Errors
    /// Fails as interrupted if the answer is not complete.
    pub fn finish(&mut self) -> Result<(), Error> {
        if self.failed || self.out.done {
            return Ok(());
        }
        let Self { sse, dialect, out, heard, .. } = self;
        let result = sse.finish(|record| read(record, dialect, out, heard));
        let result = match result {
            // The last event was cut in the middle.
            Err(err) if err.kind() == ErrorKind::Protocol => Err(interrupted().because(err)),
            Err(err) => Err(err),
            Ok(()) if self.out.done => Ok(()),
            Ok(()) => self.dialect.end(&mut self.out).and_then(|()| match self.out.done {
                true => Ok(()),
                false => Err(interrupted()),
            }),
        };
        self.failed = result.is_err();
        result
    }

    /// Takes an answer that came in one piece although a stream was asked for.
    ///
    /// # Errors
    /// As [`push`](Self::push) and [`finish`](Self::finish).
    pub fn push_whole(&mut self, body: &[u8]) -> Result<(), Error> {
        let record = Record { event: b"", data: body };
        let result = read(record, &mut self.dialect, &mut self.out, &mut self.heard);
        self.failed = result.is_err();
        result?;
        self.finish()
    }

    /// The next event that has been read.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        self.out.events.pop_front()
    }

    /// All events that have been read and not taken yet.
    pub(crate) fn take_events(&mut self) -> VecDeque<StreamEvent> {
        std::mem::take(&mut self.out.events)
    }

    /// Whether the answer has come to its end.
    pub fn is_complete(&self) -> bool {
        self.out.done
    }

    /// How many records have been read that say something: comments and pings do not.
    pub fn heard(&self) -> u64 {
        self.heard
    }
}

fn read(
    record: Record<'_>,
    dialect: &mut impl Dialect,
    out: &mut Outlet,
    heard: &mut u64,
) -> Result<(), Error> {
    if out.done {
        return Ok(());
    }
    if dialect.read(&text(record.event), &text(record.data), out)? {
        *heard += 1;
    }
    Ok(())
}

/// One broken character costs that character, not the answer.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn interrupted() -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "the answer ended before it was complete: the connection was closed in the middle",
    )
}

/// An event that is no JSON, with its beginning quoted.
pub(super) fn not_understood(data: &str, err: serde_json::Error) -> Error {
    let quoted: String = data.chars().take(120).collect();
    Error::new(ErrorKind::Protocol, format!("an event of the answer is not JSON: {quoted:?}"))
        .because(err)
}

/// Where a dialect puts the events; it counts what they hold.
#[derive(Debug)]
pub(crate) struct Outlet {
    events: VecDeque<StreamEvent>,
    limits: Limits,
    size: usize,
    /// Bytes of arguments so far, by block.
    calls: Vec<(u32, usize)>,
    done: bool,
}

impl Outlet {
    fn new(limits: Limits) -> Self {
        Self { events: VecDeque::new(), limits, size: 0, calls: Vec::new(), done: false }
    }

    pub(super) fn started(&mut self, id: Option<String>, model: Option<String>) {
        self.events.push_back(StreamEvent::Started { id, model });
    }

    pub(super) fn text(&mut self, block: u32, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        self.events.push_back(StreamEvent::TextDelta { block, text: text.to_owned() });
        Ok(())
    }

    pub(super) fn reasoning(&mut self, block: u32, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        self.events.push_back(StreamEvent::ReasoningDelta { block, text: text.to_owned() });
        Ok(())
    }

    pub(super) fn call_start(&mut self, block: u32, id: &str, name: &str) -> Result<(), Error> {
        self.grow(id.len().saturating_add(name.len()))?;
        self.calls.push((block, 0));
        let (id, name) = (id.to_owned(), name.to_owned());
        self.events.push_back(StreamEvent::ToolCallStart { block, id, name });
        Ok(())
    }

    pub(super) fn call_delta(&mut self, block: u32, json: &str) -> Result<(), Error> {
        if json.is_empty() {
            return Ok(());
        }
        self.count_arguments(block, json)?;
        self.events.push_back(StreamEvent::ToolCallDelta { block, json: json.to_owned() });
        Ok(())
    }

    /// The vendor says at the end what the arguments are, and it is not what it said before.
    pub(super) fn call_arguments(&mut self, block: u32, json: &str) -> Result<(), Error> {
        self.count_arguments(block, json)?;
        self.events.push_back(StreamEvent::ToolCallArguments { block, json: json.to_owned() });
        Ok(())
    }

    fn count_arguments(&mut self, block: u32, json: &str) -> Result<(), Error> {
        self.grow(json.len())?;
        if let Some((_, size)) = self.calls.iter_mut().rev().find(|(of, _)| *of == block) {
            *size = size.saturating_add(json.len());
            if *size > self.limits.arguments {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!(
                        "the arguments of one call are larger than {} bytes; raise \
                         `Limits::arguments` if that is meant to be",
                        self.limits.arguments
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn call_end(&mut self, block: u32) {
        self.events.push_back(StreamEvent::ToolCallEnd { block });
    }

    /// Keeps JSON for the vendor. `json` is one value.
    pub(super) fn vendor(
        &mut self,
        block: u32,
        part: VendorPart,
        wire: &str,
        json: String,
    ) -> Result<(), Error> {
        self.grow(json.len())?;
        let data = VendorData::new(wire, json)?;
        self.events.push_back(StreamEvent::Vendor { block, part, data });
        Ok(())
    }

    pub(super) fn usage(&mut self, usage: Usage) {
        if usage != Usage::default() {
            self.events.push_back(StreamEvent::UsageSoFar(usage));
        }
    }

    pub(super) fn completed(&mut self, stop: StopReason, usage: Usage) {
        self.done = true;
        self.events.push_back(StreamEvent::Completed { stop, usage });
    }

    fn grow(&mut self, by: usize) -> Result<(), Error> {
        self.size = self.size.saturating_add(by);
        if self.size <= self.limits.response {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the answer is larger than {} bytes; raise `Limits::response` if that is meant \
                 to be",
                self.limits.response
            ),
        ))
    }
}
