//! Parses requests and writes the heads of answers, without a socket. A parser returns `None` if it
//! needs more bytes.

use super::{
    answer::{Answer, BodyFraming},
    received::ReceivedRequest,
};

/// The limits for the head and the body of a request, in bytes. No request of the library is that large; vendors refuse
/// requests of 32 MB.
const LARGEST_HEAD: usize = 64 * 1024;
const LARGEST_BODY: usize = 64 * 1024 * 1024;

/// A request, the number of its encoded bytes, and whether the client wants to keep the connection.
pub(super) struct ParsedRequest {
    pub(super) request: ReceivedRequest,
    pub(super) used: usize,
    pub(super) keep: bool,
}

/// Parses the request at the beginning of `bytes`. `None` means that more bytes are needed.
///
/// # Errors
/// Returns the fault if the bytes are no request, or if the request is too large.
pub(super) fn parse(bytes: &[u8], connection: usize) -> Result<Option<ParsedRequest>, String> {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut head = httparse::Request::new(&mut headers);
    let start = match head.parse(bytes).map_err(|err| format!("this is no request: {err}"))? {
        httparse::Status::Complete(start) => start,
        httparse::Status::Partial if bytes.len() > LARGEST_HEAD => {
            return Err(format!("the head of the request is larger than {LARGEST_HEAD} bytes"));
        }
        httparse::Status::Partial => return Ok(None),
    };
    let rest = bytes.get(start..).unwrap_or_default();
    let mut request = ReceivedRequest {
        connection,
        method: head.method.unwrap_or_default().to_owned(),
        path: head.path.unwrap_or_default().to_owned(),
        headers: head
            .headers
            .iter()
            .map(|header| {
                (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned())
            })
            .collect(),
        body: Vec::new(),
    };
    let says = |name: &str, word: &str| {
        request.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    let keep = head.version == Some(1) && !says("connection", "close");
    let body = if says("transfer-encoding", "chunked") {
        chunked(rest)?
    } else {
        let length = request.header("content-length").unwrap_or("0").trim();
        let length: usize =
            length.parse().map_err(|_| format!("`{length}` is no content-length"))?;
        if length > LARGEST_BODY {
            return Err(format!("the body of the request is larger than {LARGEST_BODY} bytes"));
        }
        rest.get(..length).map(|body| (body.to_vec(), length))
    };
    let Some((body, used)) = body else { return Ok(None) };
    request.body = body;
    Ok(Some(ParsedRequest { request, used: start + used, keep }))
}

/// A decoded chunked body, and the number of its encoded bytes.
fn chunked(mut rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let whole = rest.len();
    let mut body = Vec::new();
    loop {
        let size = httparse::parse_chunk_size(rest)
            .map_err(|_| "the size of a chunk cannot be read".to_owned())?;
        let httparse::Status::Complete((line, size)) = size else { return Ok(None) };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > LARGEST_BODY || body.len() + size > LARGEST_BODY {
            return Err(format!("the body of the request is larger than {LARGEST_BODY} bytes"));
        }
        let Some(after) = rest.get(line..) else { return Ok(None) };
        // Trailers are not supported: an empty line must follow the last chunk.
        let (Some(chunk), Some(next)) = (after.get(..size), after.get(size + 2..)) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        rest = next;
        if size == 0 {
            return Ok(Some((body, whole - rest.len())));
        }
    }
}

/// The status line and the headers of an answer.
pub(super) fn write(answer: &Answer, keep: bool) -> Vec<u8> {
    // RFC 9112 requires the space before the reason phrase. The phrase itself is optional, and no
    // client reads it.
    let mut head = format!("HTTP/1.1 {} \r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match answer.framing {
        // These statuses have no body, so the head must not announce one.
        BodyFraming::Length if matches!(answer.status, 204 | 304) => {}
        BodyFraming::Length => head.push_str(&format!("content-length: {}\r\n", answer.body.len())),
        BodyFraming::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        BodyFraming::UntilClosed => {}
    }
    if !keep {
        head.push_str("connection: close\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::parse;

    const PLAIN: &[u8] =
        b"POST /v1/messages HTTP/1.1\r\nX-Key: a\r\nContent-Length: 4\r\n\r\n{\"a}";
    const CHUNKED: &[u8] =
        b"POST /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n";

    #[test]
    fn a_request_is_read_only_when_it_is_all_there() {
        for (bytes, body) in [(PLAIN, "{\"a}"), (CHUNKED, "abcd")] {
            for at in 0..bytes.len() {
                assert!(parse(&bytes[..at], 0).unwrap().is_none(), "cut at {at}");
            }
            let mut followed = bytes.to_vec();
            followed.extend_from_slice(b"GET");
            let parsed = parse(&followed, 3).unwrap().unwrap();
            assert_eq!((parsed.used, parsed.keep), (bytes.len(), true));
            assert_eq!((parsed.request.text().as_str(), parsed.request.connection()), (body, 3));
        }
    }

    #[test]
    fn the_client_says_whether_the_connection_is_kept() {
        for (bytes, keep) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], true),
            (b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", false),
            (b"GET / HTTP/1.0\r\n\r\n", false),
        ] {
            assert_eq!(parse(bytes, 0).unwrap().unwrap().keep, keep);
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            assert!(parse(bytes, 0).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
