//! Decodes bytes into events, and limits the sizes of events and answers. All wires share this code, and each wire adds
//! only its dialect.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    fmt::Debug,
};

use super::{
    citations,
    delta_fast_path::{EventShape, VaryingPlaces},
    surrogates::{self, SurrogateHalves, TextOwner},
};
use harness_core::{
    error::{Error, ErrorKind},
    message::{Citation, Media, VendorData},
    provider::{ResponseSizeLimits, StopReason, StreamEvent, Usage, VendorPart, cut_off},
    secret::beginning,
    sse::{Record, SseParser},
};

/// The maximum number of parts (blocks, items, calls) of one answer. Models send some dozens.
const PARTS: usize = 4096;

/// Converts the records of one wire's stream into events.
pub(crate) trait Dialect: Unpin {
    /// The data that identifies the block of a delta. The decoder stores the data with the shape of a record, for later
    /// records with the same shape.
    type Delta: Copy + Debug + Send + Unpin;

    /// Reads one record. Returns whether the record was an event. Keep-alives are no events.
    fn read(&mut self, event: &str, data: &str, out: &mut EventSink) -> Result<bool, Error>;

    /// Reads a record of a common kind in one pass over its bytes, with the same effect as [`read`](Self::read).
    /// Returns `None`, and changes nothing, for any other record.
    fn read_common(&mut self, data: &[u8], out: &mut EventSink) -> Option<Result<bool, Error>>;

    /// Returns the data that identifies the block of the delta in this record. Call this method directly after
    /// [`read`](Self::read). Adds to `places` the places in which similar records may differ. Returns `None` if similar
    /// records may also differ elsewhere.
    fn delta(&self, data: &str, places: &mut VaryingPlaces) -> Option<Self::Delta>;

    /// Reads a record that equals an earlier delta except for its text, with the same effect as [`read`](Self::read).
    /// Returns `None`, and changes nothing, if the record needs a full parse.
    fn again(
        &mut self,
        delta: Self::Delta,
        text: Cow<'_, str>,
        out: &mut EventSink,
    ) -> Option<Result<(), Error>>;

    /// Whether the answer has its stop reason, so that only token counts and the end mark may follow. By default
    /// `false`, for a wire whose last event contains the stop reason.
    fn has_stopped(&self) -> bool {
        false
    }

    /// Ends an answer that [has stopped](Self::has_stopped) but got no end mark.
    fn end_without_mark(&mut self, out: &mut EventSink) -> Result<(), Error> {
        self.end(out)
    }

    /// Called after the last byte. A wire without a required end mark ends the answer here. By default, does nothing.
    fn end(&mut self, _: &mut EventSink) -> Result<(), Error> {
        Ok(())
    }
}

/// Decodes the bytes of one answer. The module of each wire describes the accepted bytes.
///
/// The events do not depend on how the bytes are split into chunks. A failure does not discard the events before the
/// failure.
#[derive(Debug)]
#[expect(private_bounds, reason = "the wires are known: nobody outside brings another one")]
pub struct Decoder<D: Dialect> {
    sse: SseParser,
    dialect: D,
    out: EventSink,
    known: KnownDelta<D::Delta>,
    pace: FastPathGate,
    heard: u64,
    failed: bool,
}

/// The shape of the last learned delta. Records with this shape are read without parsing.
#[derive(Debug)]
struct KnownDelta<D> {
    shape: Option<(EventShape, D)>,
    /// `served` is the number of deltas with this shape since the shape was learned. `missed` is the number of deltas
    /// with another shape.
    served: u32,
    missed: u32,
    /// `useless` counts the shapes in a row that did not pay off. `pause` is the number of records before the next
    /// shape is learned, because some servers never send two similar records.
    useless: u32,
    pause: u32,
}

/// Learning a shape pays off if at least this number of deltas match for each delta that does not match.
const WORTH: u32 = 4;

/// Decides whether the fast path is tried for a record. Each failure in a row makes more records skip the fast path,
/// because a failed try costs time.
#[derive(Debug, Default)]
struct FastPathGate {
    failures: u32,
    pause: u32,
}

impl FastPathGate {
    fn tries(&mut self) -> bool {
        let tries = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        tries
    }

    fn tried(&mut self, is_read: bool) {
        self.failures = if is_read { 0 } else { self.failures.saturating_add(1).min(9) };
        self.pause = (1 << self.failures) / 8;
    }
}

#[expect(private_bounds, reason = "the wires are known: nobody outside brings another one")]
impl<D: Dialect> Decoder<D> {
    pub(super) fn with(dialect: D, limits: ResponseSizeLimits) -> Self {
        Self {
            sse: SseParser::new(limits.event),
            dialect,
            out: EventSink::new(limits),
            known: KnownDelta { shape: None, served: 0, missed: 0, useless: 0, pause: 0 },
            pace: FastPathGate::default(),
            heard: 0,
            failed: false,
        }
    }

    /// Decodes the next bytes. Bytes after the end of the answer are ignored.
    ///
    /// # Errors
    /// - The error that the vendor reports inside the stream.
    /// - [`ErrorKind::Protocol`] if the answer does not follow the protocol.
    /// - [`ErrorKind::TooLarge`] if the answer exceeds one of the limits.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.failed || self.out.done {
            return Ok(());
        }
        let mut bytes = bytes;
        while !bytes.is_empty() && !self.out.done {
            self.read(&mut bytes)?;
        }
        Ok(())
    }

    /// Reads at most one record.
    fn read(&mut self, bytes: &mut &[u8]) -> Result<(), Error> {
        let result = self.read_alike(bytes).unwrap_or_else(|| self.read_lines(bytes));
        self.failed = result.is_err();
        result
    }

    /// Reads the record at the beginning of `bytes` if it has the learned shape.
    fn read_alike(&mut self, bytes: &mut &[u8]) -> Option<Result<(), Error>> {
        let Self { sse, dialect, out, known, heard, .. } = self;
        let (shape, delta) = known.shape.as_ref().filter(|_| sse.is_between())?;
        let alike = shape.read(bytes).filter(|alike| alike.length <= out.limits.event)?;
        let stopped = out.stopped(dialect);
        let result = dialect.again(*delta, alike.text, out)?;
        *heard += u64::from(out.is_event(stopped));
        known.served = known.served.saturating_add(1);
        *bytes = bytes.get(alike.length..).unwrap_or_default();
        Some(result)
    }

    /// Reads those lines of one record that have arrived.
    fn read_lines(&mut self, bytes: &mut &[u8]) -> Result<(), Error> {
        let Self { sse, dialect, out, known, pace, heard, .. } = self;
        // The bytes of the record, if the record begins in this chunk.
        let record = sse.is_between().then_some(*bytes);
        loop {
            let mut delta = None;
            *bytes = sse.take_first(bytes, &mut |data| {
                let is_common = read(data, dialect, out, pace, heard)?;
                // A shape is learned only from a record that lies completely in one chunk.
                let is_wanted = is_common && record.is_some() && known.needs_shape();
                if is_wanted {
                    delta = places(data, dialect);
                    if delta.is_none() {
                        known.in_vain();
                    }
                }
                Ok(())
            })?;
            if let (Some((delta, places)), Some(record)) = (delta, record) {
                let size = record.len().saturating_sub(bytes.len());
                known.learn(record.get(..size).unwrap_or_default(), &places, delta);
            }
            if bytes.is_empty() || sse.is_between() {
                return Ok(());
            }
        }
    }

    /// Ends the answer at the end of its bytes.
    ///
    /// # Errors
    /// - [`ErrorKind::CutOff`] if the answer is not complete.
    /// - The errors of [`push`](Self::push), for an event at the end of the bytes.
    pub fn finish(&mut self) -> Result<(), Error> {
        if self.failed || self.out.done {
            return Ok(());
        }
        let Self { sse, dialect, out, pace, heard, .. } = self;
        let result = sse.finish(|record| read(record, dialect, out, pace, heard).map(drop));
        let result = match result {
            // The last event was cut off, so it is not valid JSON.
            Err(err) if err.kind() == ErrorKind::Protocol => Err(cut_off().with_source(err)),
            Err(err) => Err(err),
            Ok(()) if self.out.done => Ok(()),
            Ok(()) => self.dialect.end(&mut self.out).and_then(|()| match self.out.done {
                true => Ok(()),
                false => Err(cut_off()),
            }),
        };
        self.failed = result.is_err();
        result
    }

    /// Decodes an answer that arrived as one JSON object although a stream was requested.
    ///
    /// # Errors
    /// The same as [`push`](Self::push) and [`finish`](Self::finish).
    pub fn push_whole(&mut self, body: &[u8]) -> Result<(), Error> {
        let record = Record { event: b"", data: body, id: None };
        let Self { dialect, out, pace, heard, .. } = self;
        let result = read(record, dialect, out, pace, heard);
        self.failed = result.is_err();
        result?;
        self.finish()
    }

    /// Removes and returns the next decoded event.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        self.out.events.pop_front()
    }

    /// Whether the answer is complete.
    pub fn is_complete(&self) -> bool {
        self.out.done
    }

    /// The number of events read. Comments and pings do not count.
    pub fn heard(&self) -> u64 {
        self.heard
    }
}

/// The decoder of any wire, for the client, which is compiled once for all wires.
pub(crate) trait AnswerDecoder: Send {
    /// Reads up to the next event, and moves the beginning of `bytes` behind this event. Returns `None` at the end of
    /// the bytes or of the answer.
    ///
    /// # Errors
    /// The same as [`Decoder::push`].
    fn pull(&mut self, bytes: &mut &[u8]) -> Result<Option<StreamEvent>, Error>;

    /// Whether the answer has its stop reason and only its end is missing. A stop reason before further content does
    /// not count, because some servers send a stop reason with each chunk.
    fn has_stopped(&self) -> bool;

    /// Ends an answer that [has stopped](Self::has_stopped), because the server sends nothing more.
    ///
    /// # Errors
    /// The errors of [`Decoder::push`], for a last event without a final line break.
    fn finish_stopped(&mut self) -> Result<(), Error>;

    /// The number of comments read.
    fn comments(&self) -> u64;

    /// See [`Decoder::push_whole`].
    fn push_whole(&mut self, body: &[u8]) -> Result<(), Error>;

    /// See [`Decoder::finish`].
    fn finish(&mut self) -> Result<(), Error>;

    /// See [`Decoder::is_complete`].
    fn is_complete(&self) -> bool;

    /// See [`Decoder::heard`].
    fn heard(&self) -> u64;
}

impl<D: Dialect + Send> AnswerDecoder for Decoder<D> {
    fn pull(&mut self, bytes: &mut &[u8]) -> Result<Option<StreamEvent>, Error> {
        loop {
            if let Some(event) = self.out.events.pop_front() {
                return Ok(Some(event));
            }
            if bytes.is_empty() || self.failed || self.out.done {
                return Ok(None);
            }
            self.read(bytes)?;
        }
    }

    fn has_stopped(&self) -> bool {
        !self.failed && !self.out.done && self.out.stopped(&self.dialect).is_some()
    }

    fn finish_stopped(&mut self) -> Result<(), Error> {
        let Self { sse, dialect, out, pace, heard, .. } = self;
        let result = sse.finish(|record| read(record, dialect, out, pace, heard).map(drop));
        let result = match result {
            Err(err) if err.kind() != ErrorKind::Protocol => Err(err),
            // An incomplete last event is ignored.
            _ if self.out.done => Ok(()),
            _ => self.dialect.end_without_mark(&mut self.out),
        };
        self.failed = result.is_err();
        result
    }

    fn comments(&self) -> u64 {
        self.sse.comments()
    }

    fn push_whole(&mut self, body: &[u8]) -> Result<(), Error> {
        self.push_whole(body)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.finish()
    }

    fn is_complete(&self) -> bool {
        self.is_complete()
    }

    fn heard(&self) -> u64 {
        self.heard()
    }
}

impl<D> KnownDelta<D> {
    /// Counts a record without the learned shape. Returns whether to learn the shape of this record.
    fn needs_shape(&mut self) -> bool {
        let wants = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        self.missed = self.missed.saturating_add(1);
        wants
    }

    /// Records that learning a shape did not pay off.
    fn in_vain(&mut self) {
        self.useless = self.useless.saturating_add(1).min(10);
        self.pause = (1_u32 << self.useless) / 4;
    }

    fn learn(&mut self, record: &[u8], places: &VaryingPlaces, delta: D) {
        let before = self.shape.as_ref().map(|(shape, _)| shape);
        let shape = EventShape::of(record, places, before);
        if self.served >= self.missed.saturating_mul(WORTH) {
            (self.useless, self.pause) = (0, 0);
        } else {
            self.in_vain();
        }
        (self.served, self.missed) = (0, 0);
        self.shape = shape.map(|shape| (shape, delta));
    }
}

/// The delta of a record, and the places in which similar records may differ. `None` if the shape of the record cannot
/// be learned.
fn places<D: Dialect>(record: Record<'_>, dialect: &D) -> Option<(D::Delta, VaryingPlaces)> {
    let data = std::str::from_utf8(record.data).ok()?;
    let mut places = VaryingPlaces::of(data);
    let delta = dialect.delta(data, &mut places)?;
    places.end(data);
    Some((delta, places))
}

/// Reads one record. Returns whether `read_common` has read the record.
fn read<D: Dialect>(
    record: Record<'_>,
    dialect: &mut D,
    out: &mut EventSink,
    pace: &mut FastPathGate,
    heard: &mut u64,
) -> Result<bool, Error> {
    if out.done {
        return Ok(false);
    }
    let stopped = out.stopped(dialect);
    // `read_common` does not get the event's name, so an event with the name `error` takes the slow path.
    if record.event != b"error" && pace.tries() {
        let result = dialect.read_common(record.data, out);
        pace.tried(result.is_some());
        if let Some(is_event) = result {
            *heard = heard.saturating_add(u64::from(is_event? && out.is_event(stopped)));
            return Ok(true);
        }
    }
    let mut data = text(record.data);
    if let Some(marked) = surrogates::marked(&data) {
        out.halves.seen = true;
        data = Cow::Owned(marked);
    }
    let is_event = dialect.read(&text(record.event), &data, out)?;
    *heard = heard.saturating_add(u64::from(is_event && out.is_event(stopped)));
    Ok(false)
}

/// Decodes UTF-8. Replaces invalid bytes, so that the answer does not fail.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(surrogates::text_of(bytes)),
    }
}

/// The error of an event that is not JSON. Quotes the beginning of the event.
pub(super) fn not_understood(data: &str, err: serde_json::Error) -> Error {
    // Escapes are decoded before the text is quoted, because secrets are recognized only in decoded form. Control
    // characters are removed to keep the quotation on one line.
    let data = surrogates::joined(data).replace(|c: char| c.is_control(), " ");
    let quoted = beginning(&data, 120);
    Error::new(ErrorKind::Protocol, format!("an event of the answer is not JSON: `{quoted}`"))
        .with_source(err)
}

/// A text for an event. Owned texts are not copied.
pub(crate) trait EventText: AsRef<str> + Into<String> {}

impl<T: AsRef<str> + Into<String>> EventText for T {}

/// Collects the events that a dialect emits, and enforces the limits of their sizes.
#[derive(Debug)]
pub(crate) struct EventSink {
    events: VecDeque<StreamEvent>,
    limits: ResponseSizeLimits,
    size: usize,
    parts: usize,
    /// The number of bytes of arguments so far, by block number.
    calls: HashMap<u32, usize>,
    halves: SurrogateHalves,
    /// Whether content has followed a stop reason, so that the stop reason does not announce the end.
    goes_on: bool,
    done: bool,
}

impl EventSink {
    fn new(limits: ResponseSizeLimits) -> Self {
        let events = VecDeque::new();
        let (calls, halves) = (HashMap::new(), SurrogateHalves::default());
        let (goes_on, done) = (false, false);
        Self { events, limits, size: 0, parts: 0, calls, halves, goes_on, done }
    }

    /// The number of events so far, if the answer has stopped and only its end is missing.
    fn stopped(&self, dialect: &impl Dialect) -> Option<usize> {
        (dialect.has_stopped() && !self.goes_on).then_some(self.events.len())
    }

    /// Whether the last record counts as an event. `stopped` is the result of the method `stopped` before this record.
    /// After the stop reason, a record without content does not count, because it only keeps the connection open.
    fn is_event(&mut self, stopped: Option<usize>) -> bool {
        let Some(before) = stopped else { return true };
        self.goes_on = self.events.iter().skip(before).any(|event| {
            matches!(
                event,
                StreamEvent::TextDelta { .. }
                    | StreamEvent::ReasoningDelta { .. }
                    | StreamEvent::ToolCallStart { .. }
                    | StreamEvent::ToolCallDelta { .. }
            )
        });
        self.events.len() > before
    }

    pub(super) fn started(&mut self, id: Option<String>, model: Option<String>) {
        let whole = |text: String| match surrogates::joined(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(joined) => joined,
        };
        let (id, model) = (id.map(whole), model.map(whole));
        self.events.push_back(StreamEvent::Started { id, model });
    }

    pub(super) fn text(&mut self, block: u32, text: impl EventText) -> Result<(), Error> {
        self.piece(block, TextOwner::Text, text)
    }

    pub(super) fn reasoning(&mut self, block: u32, text: impl EventText) -> Result<(), Error> {
        self.piece(block, TextOwner::Reasoning, text)
    }

    pub(super) fn call_delta(&mut self, block: u32, json: impl EventText) -> Result<(), Error> {
        self.piece(block, TextOwner::Arguments, json)
    }

    /// Emits the next piece of a text.
    #[inline]
    fn piece(&mut self, block: u32, of: TextOwner, text: impl EventText) -> Result<(), Error> {
        if self.halves.seen {
            let text = self.halves.join(block, of, text.as_ref());
            return self.joined_piece(block, of, text);
        }
        self.joined_piece(block, of, text)
    }

    #[inline]
    fn joined_piece(
        &mut self,
        block: u32,
        of: TextOwner,
        text: impl EventText,
    ) -> Result<(), Error> {
        match of {
            _ if text.as_ref().is_empty() => return Ok(()),
            TextOwner::Text | TextOwner::Reasoning => self.grow(text.as_ref().len())?,
            TextOwner::Arguments => self.count_arguments(block, text.as_ref())?,
        }
        self.events.push_back(of.delta(block, text.into()));
        Ok(())
    }

    pub(super) fn citation(&mut self, block: u32, json: &str) -> Result<(), Error> {
        let Some(citation) = citations::citation(json) else { return Ok(()) };
        self.cited(block, citation)
    }

    pub(super) fn cited(&mut self, block: u32, citation: Citation) -> Result<(), Error> {
        self.grow(citation.size())?;
        let citation = Box::new(citation);
        self.events.push_back(StreamEvent::Citation { block, citation });
        Ok(())
    }

    pub(super) fn image(&mut self, block: u32, image: Media) -> Result<(), Error> {
        self.grow(image.room())?;
        self.events.push_back(StreamEvent::Image { block, image });
        Ok(())
    }

    pub(super) fn audio(&mut self, block: u32, audio: Media) -> Result<(), Error> {
        self.grow(audio.room())?;
        self.events.push_back(StreamEvent::Audio { block, audio });
        Ok(())
    }

    pub(super) fn call_start(&mut self, block: u32, id: &str, name: &str) -> Result<(), Error> {
        self.grow(id.len().saturating_add(name.len()))?;
        self.calls.insert(block, 0);
        let [id, name] = [id, name].map(|text| surrogates::joined(text).into_owned());
        self.events.push_back(StreamEvent::ToolCallStart { block, id, name });
        Ok(())
    }

    /// Replaces the arguments of a call if the complete arguments at the end differ from the deltas.
    pub(super) fn call_arguments(&mut self, block: u32, json: &str) -> Result<(), Error> {
        let json = match self.halves.seen {
            true => {
                self.halves.take(block, TextOwner::Arguments);
                self.halves.join(block, TextOwner::Arguments, json)
            }
            false => json.to_owned(),
        };
        self.count_arguments(block, &json)?;
        self.events.push_back(StreamEvent::ToolCallArguments { block, json });
        Ok(())
    }

    fn count_arguments(&mut self, block: u32, json: &str) -> Result<(), Error> {
        self.grow(json.len())?;
        let Some(size) = self.calls.get_mut(&block) else { return Ok(()) };
        *size = size.saturating_add(json.len());
        let size = *size;
        self.check_arguments(size)
    }

    fn check_arguments(&self, size: usize) -> Result<(), Error> {
        if size <= self.limits.arguments {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the arguments of one call are larger than {} bytes; raise \
                 `ResponseSizeLimits::arguments` if that is intended",
                self.limits.arguments
            ),
        ))
    }

    pub(super) fn call_end(&mut self, block: u32) {
        if self.halves.take(block, TextOwner::Arguments).is_some() {
            self.alone(block, TextOwner::Arguments);
        }
        self.events.push_back(StreamEvent::ToolCallEnd { block });
    }

    /// Emits U+FFFD in place of a first surrogate without a second surrogate.
    fn alone(&mut self, block: u32, of: TextOwner) {
        let text = char::REPLACEMENT_CHARACTER.to_string();
        self.events.push_back(of.delta(block, text));
    }

    /// Emits vendor data for later requests. `json` must be one valid JSON value.
    pub(super) fn vendor(
        &mut self,
        block: u32,
        part: VendorPart,
        wire: &'static str,
        json: String,
    ) -> Result<(), Error> {
        self.grow(json.len())?;
        let json = match surrogates::escaped(&json) {
            Cow::Borrowed(_) => json,
            Cow::Owned(escaped) => escaped,
        };
        let data = VendorData::of_value(wire, json);
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
        while let Some((block, of)) = self.halves.next() {
            self.alone(block, of);
        }
        self.events.push_back(StreamEvent::Completed { stop, usage: Box::new(usage) });
    }

    /// Counts a new part of the answer. Fails above the limit.
    pub(super) fn part(&mut self) -> Result<(), Error> {
        self.parts = self.parts.saturating_add(1);
        match self.parts <= PARTS {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the answer has more than {PARTS} parts, which is not plausible for a model"
                ),
            )),
        }
    }

    /// Counts text that a dialect stores for later. The text counts again when it is emitted.
    pub(super) fn kept(&mut self, text: &str) -> Result<(), Error> {
        self.grow(text.len())
    }

    /// Counts arguments of a call that a dialect stores for later. `stored` is the number of stored bytes of this call,
    /// including `new`.
    pub(super) fn keep_arguments(&mut self, new: &str, stored: usize) -> Result<(), Error> {
        self.kept(new)?;
        self.check_arguments(stored)
    }

    /// Counts a citation that a dialect stores for later, including its overhead in memory.
    pub(super) fn source(&mut self, json: &str) -> Result<(), Error> {
        self.grow(json.len().saturating_add(64))
    }

    /// The number of further bytes that the size limit of the answer allows.
    pub(super) fn room(&self) -> usize {
        self.limits.response.saturating_sub(self.size)
    }

    /// Counts `by` bytes that a dialect emits or stores for later. Fails above the limit.
    pub(super) fn grow(&mut self, by: usize) -> Result<(), Error> {
        self.size = self.size.saturating_add(by);
        if self.size <= self.limits.response {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the answer is larger than {} bytes; raise `ResponseSizeLimits::response` if that is \
                 intended",
                self.limits.response
            ),
        ))
    }
}
