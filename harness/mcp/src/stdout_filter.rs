//! Filters the output lines of a process before the protocol's code reads them. An unreadable answer is replaced by an
//! error with the same id, so that the request ends at once.

use std::{
    borrow::Cow,
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Sleep, sleep},
};

use super::{
    pending_requests::{GuessedRequest, PendingRequests},
    scan::{MessageId, MessageScan},
    tool_list,
};
use harness_core::{
    message::{count_values, without_lone_surrogates},
    secret::CUT,
};

/// The code of the error that replaces an unreadable answer. No server uses this code.
pub(super) const UNREAD: ErrorCode = ErrorCode(i32::MIN);

/// The code of the error for a lost answer that the server does not send again. No server uses this code.
pub(super) const LOST: ErrorCode = ErrorCode(i32::MIN + 1);

/// The method of the request that replaces an unreadable request. No server uses this method.
pub(super) const UNREADABLE: &str = "harness/unreadable";

/// The maximum length of a line, in bytes.
const MOST: usize = 16 << 20;

/// The nesting depth at which `serde_json` fails.
const TOO_DEEP: usize = 128;

/// The maximum number of values in a message. Each value needs several hundred bytes of memory while it is parsed, but
/// only two bytes of text.
pub(super) const VALUES: usize = 250_000;

/// How long the filter holds back an answer that may not belong to its request, such as a late reply to another
/// message. Meanwhile, the filter waits for another answer.
const MOMENT: Duration = Duration::from_secs(1);

/// The number of bytes that are stored of a line that is no message.
const KEPT: usize = 200;

/// The output of a process, with unreadable answers replaced and stray lines removed.
pub(super) struct StdoutFilter<R> {
    from: R,
    line: Vec<u8>,
    /// Whether the line is longer than [`MOST`]. A longer line is scanned but not stored.
    is_long: bool,
    scan: MessageScan,
    /// The complete lines for the protocol's code. `given` is the number of bytes that the protocol's code has read.
    ready: Vec<u8>,
    given: usize,
    strange: StrayLines,
    open: PendingRequests,
    /// Answers that may not belong to their request, at most one for each request.
    doubtful: Vec<DoubtfulAnswer>,
}

/// An answer that may not belong to the request `id`. The filter holds the answer back until another answer comes or
/// the wait has expired.
struct DoubtfulAnswer {
    id: RequestId,
    /// The error that replaces the answer.
    error: String,
    wait: Pin<Box<Sleep>>,
}

/// The number of lines that are no messages, and the first of these lines.
#[derive(Clone, Default)]
pub(super) struct StrayLines(Arc<Mutex<(usize, String)>>);

impl StrayLines {
    fn note(&self, line: &[u8]) {
        let (line, cut) = match line.get(..KEPT) {
            Some(line) => (line, CUT),
            None => (line, ""),
        };
        let line = format!("{}{cut}", String::from_utf8_lossy(line).trim());
        if line.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 = known.0.saturating_add(1);
        if known.0 == 1 {
            known.1 = line;
        }
    }

    /// The number of lines that are no messages, and the first of these lines; `None` if there are no such lines.
    pub(super) fn known(&self) -> Option<(usize, String)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (known.0 > 0).then(|| known.clone())
    }
}

impl<R> StdoutFilter<R> {
    /// Filters the lines of `from`. `open` tracks the unanswered requests.
    pub(super) fn new(from: R, open: PendingRequests) -> Self {
        Self {
            from,
            line: Vec::new(),
            is_long: false,
            scan: MessageScan::default(),
            ready: Vec::new(),
            given: 0,
            strange: StrayLines::default(),
            open,
            doubtful: Vec::new(),
        }
    }

    pub(super) fn strange(&self) -> StrayLines {
        self.strange.clone()
    }

    /// Adds a part of one line.
    fn take(&mut self, part: &[u8]) {
        self.scan.read(part);
        if self.line.len().saturating_add(part.len()) > MOST {
            self.is_long = true;
            self.line = Vec::new();
        }
        if !self.is_long {
            self.line.extend_from_slice(part);
        }
        if part.ends_with(b"\n") {
            self.end_line();
        }
    }

    /// Ends each request that has only a doubtful answer when the wait has expired.
    fn poll_doubtful(&mut self, cx: &mut Context<'_>) {
        let Self { doubtful, open, ready, .. } = self;
        doubtful.retain_mut(|it| {
            let is_open = open.has(&it.id);
            if is_open && it.wait.as_mut().poll(cx).is_ready() {
                open.answered(&it.id);
                ready.extend_from_slice(it.error.as_bytes());
                return false;
            }
            is_open
        });
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let scan = std::mem::take(&mut self.scan);
        let is_long = std::mem::take(&mut self.is_long);
        if scan.is_object() {
            return self.end_message(&scan, line, is_long);
        }
        // Answers may come as a list, which an older version of the protocol allows.
        match batch(&line, &self.open) {
            Some(messages) => messages.into_iter().for_each(|message| {
                let message = format!("{message}\n").into_bytes();
                self.end_message(&MessageScan::of(&message), message, false);
            }),
            None => self.strange.note(&line),
        }
    }

    fn end_message(&mut self, scan: &MessageScan, mut line: Vec<u8>, is_long: bool) {
        match examine(scan, &mut line, is_long, &self.open) {
            LineKind::Message => self.ready.extend_from_slice(&line),
            LineKind::Unread(instead) => self.ready.extend_from_slice(instead.as_bytes()),
            LineKind::Doubtful(id, error) => {
                self.strange.note(&line);
                if self.doubtful.iter().all(|it| it.id != id) {
                    let wait = Box::pin(sleep(MOMENT));
                    self.doubtful.push(DoubtfulAnswer { id, error, wait });
                }
            }
            // The line is dropped, because the protocol's code would respond to it. The response would block a server
            // that does not read while it writes.
            LineKind::Strange => self.strange.note(&line),
        }
    }
}

/// The error for an answer whose stream broke off, and that the server does not send again.
pub(super) fn lost(id: &RequestId, why: &str) -> String {
    let why =
        format!("the stream of the answer has ended, and the server refuses to continue it: {why}");
    of(id, &json!({"code": LOST.0, "message": why}))
}

/// The error that replaces an event that is too large.
pub(super) fn too_large(id: &RequestId) -> String {
    unread(id, &format!("it has more than {} MiB", MOST >> 20))
}

/// The kind of a line that the process has written.
pub(super) enum LineKind {
    /// A message that the protocol's code can read.
    Message,
    /// An unreadable answer or request. The value is the line that replaces the message.
    Unread(String),
    /// An answer without an id, which may be a late reply to a one-way message, or a line of a log that happens to have
    /// the id of a request. The values are the id of the assumed request, and the error that replaces the answer if no
    /// other answer comes.
    Doubtful(RequestId, String),
    /// No message.
    Strange,
}

pub(super) fn examine(
    scan: &MessageScan,
    line: &mut Vec<u8>,
    is_long: bool,
    open: &PendingRequests,
) -> LineKind {
    replace_bytes(line);
    let is_deep = scan.deepest() >= TOO_DEEP;
    let is_many = scan.values() > VALUES;
    let can_be_read = scan.has_version() && !is_long && !is_deep && !is_many;
    let message = if can_be_read { read(line) } else { None };
    let why = |other: &str| match (is_long, is_deep, is_many) {
        (true, ..) => format!("it has more than {} MiB", MOST >> 20),
        (_, true, _) => format!("it is nested deeper than {} levels", TOO_DEEP - 1),
        (.., true) => format!("it has more than {VALUES} values"),
        _ => other.to_owned(),
    };
    match (scan.answered_id(), message) {
        (_, Some(ParsedMessage::Other)) => LineKind::Message,
        // The name of the member `id` may contain an escape, so that the scan did not find it.
        (_, Some(ParsedMessage::Answer(Some(id), _))) => {
            if open.has_list(&id)
                && let Some(plain) = tool_list::plain(line)
            {
                *line = plain;
            }
            open.answered(&id);
            LineKind::Message
        }
        // A line of a log may have the id of a request by chance.
        (Some(MessageId::Is(id)), _) if !scan.has_version() || !scan.has_outcome() => {
            match scan.has_method() || !open.has(id) {
                true => LineKind::Strange,
                false => LineKind::Doubtful(
                    id.clone(),
                    unread(id, &why("it is no message of JSON-RPC 2.0")),
                ),
            }
        }
        (Some(MessageId::Is(id)), _) => {
            open.answered(id);
            LineKind::Unread(unread(id, &why("it is no message of JSON-RPC 2.0")))
        }
        (Some(MessageId::Missing | MessageId::Other), message) => {
            let Some(GuessedRequest { id, begins, is_doubtful }) = open.meant() else {
                return LineKind::Strange;
            };
            let error = match message {
                Some(ParsedMessage::Answer(_, Some(err))) if begins => of(&id, &json!(err)),
                Some(ParsedMessage::Answer(_, Some(ErrorData { code, message, .. }))) => {
                    unread(&id, &format!("an error without an id: {message} (code {})", code.0))
                }
                _ => unread(&id, &why("it does not say which request it answers")),
            };
            if is_doubtful {
                return LineKind::Doubtful(id, error);
            }
            open.answered(&id);
            LineKind::Unread(error)
        }
        // The line may be a request. If so, the server waits for an answer.
        (None, _) => match scan.request().filter(|_| scan.has_version()) {
            Some((id, _)) => LineKind::Unread(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{UNREADABLE}\"}}\n",
                json!(id)
            )),
            None => LineKind::Strange,
        },
    }
}

/// The error that replaces the unreadable answer to this request.
pub(super) fn unread(id: &RequestId, why: &str) -> String {
    let why = format!("the answer came and cannot be read: {why}");
    of(id, &json!({"code": UNREAD.0, "message": why}))
}

fn of(id: &RequestId, error: &Value) -> String {
    let id = json!(id);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n")
}

/// The messages in a list, with answers last, because over HTTP the reader stops after an answer. Answers to open
/// requests come first among the answers, and answers without an id come last.
pub(super) fn batch<'l>(list: &'l [u8], open: &PendingRequests) -> Option<Vec<&'l str>> {
    if !list.trim_ascii_start().starts_with(b"[") || count_values(list) > VALUES {
        return None;
    }
    let items: Vec<&RawValue> = serde_json::from_slice(list).ok()?;
    let objects = items.into_iter().map(RawValue::get).filter(|item| item.starts_with('{'));
    let mut messages: Vec<&str> = objects.collect();
    messages.sort_by_cached_key(|message| {
        match MessageScan::of(message.as_bytes()).answered_id() {
            None => 0,
            Some(MessageId::Is(id)) if open.has(id) => 1,
            Some(MessageId::Is(_)) => 2,
            Some(MessageId::Missing | MessageId::Other) => 3,
        }
    });
    (!messages.is_empty()).then_some(messages)
}

/// Parses a message. Invalid UTF-8 and lone surrogates are replaced, because many unreadable messages have no other
/// fault.
pub(super) fn message(line: &mut Vec<u8>) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    if count_values(line) > VALUES {
        return Err(serde_json::Error::custom(format_args!("it has more than {VALUES} values")));
    }
    replace_bytes(line);
    let read =
        |line: &[u8]| serde_json::from_slice(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line));
    read(line).or_else(|err| {
        let whole = std::str::from_utf8(line).map(without_lone_surrogates);
        let Ok(Cow::Owned(whole)) = whole else { return Err(err) };
        *line = whole.into_bytes();
        read(line)
    })
}

/// An answer whose result is checked but not stored. Parsing with the protocol's own type takes many times as long.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainAnswer<'l> {
    jsonrpc: &'l str,
    id: RequestId,
    #[serde(rename = "result")]
    _result: AnyValue,
}

/// Any value whose texts and numbers can be parsed.
struct AnyValue;

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Self;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// A message that the protocol's code can read.
enum ParsedMessage {
    /// An answer: its id, and the error if the answer is an error.
    Answer(Option<RequestId>, Option<ErrorData>),
    Other,
}

/// Parses a message; `None` if the protocol's code cannot read it.
fn read(line: &mut Vec<u8>) -> Option<ParsedMessage> {
    if let Ok(plain) = serde_json::from_slice::<PlainAnswer<'_>>(line)
        && plain.jsonrpc == "2.0"
    {
        return Some(ParsedMessage::Answer(Some(plain.id), None));
    }
    Some(match message(line).ok()? {
        ServerJsonRpcMessage::Response(it) => ParsedMessage::Answer(Some(it.id), None),
        ServerJsonRpcMessage::Error(it) => ParsedMessage::Answer(it.id, Some(it.error)),
        _ => ParsedMessage::Other,
    })
}

/// Replaces invalid UTF-8 by the replacement character, which shows the reader that something is missing.
fn replace_bytes(line: &mut Vec<u8>) {
    if let Cow::Owned(text) = String::from_utf8_lossy(line) {
        *line = text.into_bytes();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for StdoutFilter<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            this.poll_doubtful(cx);
            let left = this.ready.get(this.given..).unwrap_or_default();
            if !left.is_empty() {
                let taken = left.len().min(to.remaining());
                to.put_slice(left.get(..taken).unwrap_or_default());
                this.given += taken;
                if this.given == this.ready.len() {
                    (this.ready, this.given) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            let mut piece = [0; 8 << 10];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.from).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // A line without its end is incomplete, so it is not passed on.
                return Poll::Ready(Ok(()));
            }
            for part in read.filled().split_inclusive(|byte| *byte == b'\n') {
                this.take(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };

    use super::{super::pending_requests::StdinRecorder, *};

    /// Filters a text that arrives in two chunks.
    async fn read(text: &[u8], at: usize) -> (String, Option<(usize, String)>) {
        let (first, second) = text.split_at(at);
        let mut lines = StdoutFilter::new(first.chain(second), PendingRequests::default());
        let strange = lines.strange();
        let mut all = Vec::new();
        lines.read_to_end(&mut all).await.expect("no pipe fails");
        (String::from_utf8_lossy(&all).into_owned(), strange.known())
    }

    #[tokio::test]
    async fn what_can_be_read_is_passed_on_as_it_is() {
        let text = concat!(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"} \\\" , id: \\\\\"}}\n",
            "\u{feff} {\"jsonrpc\": \"2.0\", \"id\": \"x\", \"error\": {\"code\": 1, \"message\": \"m\"}}\r\n",
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"odd\",\"params\":{}}\n",
        );
        for at in 0..=text.len() {
            let (read, strange) = read(text.as_bytes(), at).await;
            assert_eq!(read, text, "{at}");
            assert_eq!(strange, None, "{at}");
        }
    }

    /// The protocol's own code would answer most of these lines.
    #[tokio::test]
    async fn what_is_no_message_is_noted_and_not_passed_on() {
        let text = concat!(
            "Listening on port 3000\n\n{\"level\":\"info\",\"id\":7}\n",
            "{\"jsonrpc\":\"2.0\",\"level\":\"info\"}\n{\"error\":\"unknown\"}\n",
            "{\"id\":null,\"result\":1}\n[1]\n[]\n[{}]\n{\n{}\n\"x\"\n7\n",
        );
        for at in 0..=text.len() {
            let (read, strange) = read(text.as_bytes(), at).await;
            assert_eq!(read, "", "{at}");
            assert_eq!(strange, Some((12, "Listening on port 3000".to_owned())), "{at}");
        }
    }

    /// The server may wait for an answer.
    #[tokio::test]
    async fn a_request_that_cannot_be_read_is_replaced_by_one_that_is_refused() {
        let request = "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"odd\",\"params\":7}\n";
        let (read, strange) = read(request.as_bytes(), 9).await;
        let expected =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"{UNREADABLE}\"}}\n");
        assert_eq!((read, strange), (expected, None));
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_read_says_so_by_its_id() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (line, id) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{deep}}}"), "7"),
            (format!("{{\"result\":{deep},\"id\":\"a\\\"b\",\"jsonrpc\":\"2.0\"}}"), "\"a\\\"b\""),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{]}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":\"no\"}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{},\"result\":{}}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"id\":7,\"result\":{}}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1e999}}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":null,\"result\":{}}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"result\":{}}".to_owned(), "7"),
            ("\0{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}".to_owned(), "7"),
            ("[{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1,\"result\":{}}]".to_owned(), "7"),
        ] {
            for at in 0..=line.len() {
                let (read, _) = read(format!("{line}\n").as_bytes(), at).await;
                let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":");
                assert!(read.starts_with(&expected), "{line}: {read}");
                assert!(read.ends_with("}}\n") && read.lines().count() == 1, "{read}");
                let message = serde_json::from_str::<ServerJsonRpcMessage>(&read);
                assert!(matches!(message, Ok(ServerJsonRpcMessage::Error(_))), "{read}");
            }
        }
        let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}\n";
        assert!(read(bytes, 3).await.0.contains("\"result\":\"\u{fffd}\""));
    }

    #[tokio::test]
    async fn halves_of_characters_are_replaced_and_the_answer_is_read() {
        let said = |text: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{text}\"}}\n");
        for (text, expected) in [
            (r"a \ud83d", "a \u{fffd}"),
            (r"\uDC00 x\uD83D", "\u{fffd} x\u{fffd}"),
            (r"\ud83d\ud83d\ude00\ude00", "\u{fffd}\\ud83d\\ude00\u{fffd}"),
            (r"\\ud83d \ud83d", "\\\\ud83d \u{fffd}"),
            (r"\ud83d\n\\\ud83d", "\u{fffd}\\n\\\\\u{fffd}"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
        ] {
            let (read, _) = read(said(text).as_bytes(), 36).await;
            assert_eq!(read, said(expected));
            assert!(serde_json::from_str::<ServerJsonRpcMessage>(&read).is_ok(), "{read}");
        }
        // A line that stays unreadable is not changed.
        let (read, _) = read(said(r"\ud83d\x").as_bytes(), 36).await;
        assert!(read.contains("cannot be read"), "{read}");
    }

    #[tokio::test]
    async fn an_answer_without_an_id_is_that_of_the_only_request() {
        let request = |id: u8, method: &str| {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}\n")
        };
        let result = "{\"jsonrpc\":\"2.0\",\"result\":{}}\n";
        let error = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"m\"}}\n";
        let foreign = "{\"jsonrpc\":\"2.0\",\"id\":7.5,\"result\":{}}\n";
        let log = "{\"level\":\"info\",\"error\":\"none\"}\n";
        let (call, other) = (request(7, "tools/call"), request(8, "tools/call"));
        let listen = request(6, "subscriptions/listen");
        for (asked, answer, said) in [
            (format!("{listen}{call}"), result, "does not say which request it answers"),
            (call.clone(), error, "an error without an id: m (code -1)"),
            (request(7, "initialize"), error, "{\"code\":-1,\"message\":\"m\"}"),
            (format!("{call}{other}"), result, ""),
            (call.clone(), foreign, "does not say which request it answers"),
            (call.clone(), log, ""),
            (String::new(), result, ""),
        ] {
            let open = PendingRequests::default();
            let mut input = StdinRecorder::new(Vec::new(), open.clone());
            for part in asked.as_bytes().chunks(11) {
                input.write_all(part).await.expect("no vector fails");
            }
            let mut all = String::new();
            let mut lines = StdoutFilter::new(answer.as_bytes(), open);
            lines.read_to_string(&mut all).await.expect("no pipe fails");
            match said {
                "" => assert_eq!(all, ""),
                said => assert!(all.contains("\"id\":7") && all.contains(said), "{all}"),
            }
        }
    }

    #[tokio::test]
    async fn an_answer_without_an_id_may_be_a_reply_to_what_has_no_answer() {
        let request = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
        let told = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        let pong = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n";
        let none = "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n";
        let odd = "{\"jsonrpc\":\"2.0\",\"id\":undefined,\"result\":{}}\n";
        let answer = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        // Each row: the written messages, the cancelled request, the read lines, and whether the read lines end the
        // request 7.
        for (written, cancelled, lines, ends) in [
            (format!("{told}{}", request(7)), None, none.to_owned(), false),
            (format!("{told}{}", request(7)), None, format!("{none}{none}"), true),
            (format!("{}{pong}", request(7)), None, none.to_owned(), false),
            (format!("{}{pong}{pong}", request(7)), None, format!("{none}{odd}"), false),
            (format!("{}{pong}{pong}", request(7)), None, none.repeat(3), true),
            (
                format!("{}{told}{}", request(6), request(7)),
                None,
                format!("{}{none}", answer(6)),
                false,
            ),
            (format!("{}{}", request(6), request(7)), Some(6), none.to_owned(), false),
            (format!("{}{}", request(6), request(7)), Some(6), none.repeat(2), true),
            (
                format!("{}{}", request(6), request(7)),
                Some(6),
                format!("{}{none}", answer(6)),
                true,
            ),
            (request(7), Some(6), format!("{none}{none}"), true),
        ] {
            let open = PendingRequests::default();
            let mut input = StdinRecorder::new(Vec::new(), open.clone());
            input.write_all(written.as_bytes()).await.expect("no vector fails");
            if let Some(id) = cancelled {
                open.cancelled(&RequestId::Number(id));
            }
            let mut all = String::new();
            let mut read = StdoutFilter::new(lines.as_bytes(), open);
            read.read_to_string(&mut all).await.expect("no pipe fails");
            assert_eq!(all.contains("\"id\":7"), ends, "{written}{lines}{all}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_reply_ends_the_only_request_if_nothing_else_comes_in_time() {
        let request = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
        let told = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        let none = "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n";
        let answer = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        for (lines, ends) in [
            (format!("{}{none}", answer(6)), 1),
            (format!("{}{none}{none}", answer(6)), 1),
            (format!("{}{none}{}", answer(6), answer(7)), 0),
        ] {
            let open = PendingRequests::default();
            let mut input = StdinRecorder::new(Vec::new(), open.clone());
            let written = format!("{told}{}{}", request(6), request(7));
            input.write_all(written.as_bytes()).await.expect("no vector fails");
            let (mut server, client) = tokio::io::duplex(1 << 10);
            server.write_all(lines.as_bytes()).await.expect("a pipe");
            let mut read = StdoutFilter::new(client, open);
            let (mut all, mut piece) = (Vec::new(), [0; 1 << 10]);
            // The pipe stays open.
            while let Ok(Ok(count)) = timeout(2 * MOMENT, read.read(&mut piece)).await {
                all.extend_from_slice(&piece[..count]);
            }
            let all = String::from_utf8_lossy(&all);
            assert_eq!(all.matches("cannot be read").count(), ends, "{all}");
        }
    }

    /// A request may be cancelled before it was written.
    #[tokio::test]
    async fn a_cancelled_request_is_not_among_those_that_may_be_meant() {
        let open = PendingRequests::default();
        open.cancelled(&RequestId::Number(7));
        let mut input = StdinRecorder::new(Vec::new(), open.clone());
        let request = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}\n";
        input.write_all(request).await.expect("no vector fails");
        assert_eq!((open.meant(), open.meant()), (None, None));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_dropped_and_answered_for_by_its_id() {
        let long = "x".repeat(MOST);
        let next = "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n";
        for (line, said) in [
            (
                format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{long}\"}}\n"),
                "more than 16 MiB",
            ),
            (
                format!("{{\"result\":\"{long}\",\"id\":7,\"jsonrpc\":\"2.0\"}}\n"),
                "more than 16 MiB",
            ),
            (format!("{{\"result\":\"{long}\",\"id\":7}}\n"), ""),
            (format!("{{\"method\":\"m\",\"id\":7,\"params\":\"{long}\"}}\n"), ""),
            (
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":7,\"params\":\"{long}\"}}\n"
                ),
                UNREADABLE,
            ),
            (format!("{long}x\n"), ""),
        ] {
            let (read, _) = read(format!("{line}{next}").as_bytes(), 9).await;
            assert!(read.ends_with(next) && read.contains(said), "{}", read.len());
            assert_eq!(read.len() > next.len(), !said.is_empty());
            assert!(read.len() < 300);
        }
    }
}
