//! Server-sent events in any form and any split.

use harness::{ErrorKind, wire::SseParser};

fn records(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut parser = SseParser::new(1 << 20);
    let mut seen = Vec::new();
    let mut keep = |record: harness::wire::Record<'_>| {
        seen.push(shown(record));
        Ok(())
    };
    for piece in pieces {
        parser.push(piece, &mut keep).unwrap();
    }
    parser.finish(&mut keep).unwrap();
    seen
}

fn shown(record: harness::wire::Record<'_>) -> (String, String) {
    let text = |bytes| String::from_utf8(Vec::from(bytes)).unwrap();
    (text(record.event), text(record.data))
}

/// The body, what it holds.
const BODIES: &[(&str, &[(&str, &str)])] = &[
    ("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]),
    ("data:a\r\n\r\ndata:  b\r\n\r\n", &[("", "a"), ("", " b")]),
    ("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]),
    ("\u{feff}data: a\n\n", &[("", "a")]),
    (": comment\n\nevent: ping\n\ndata: a\n\n", &[("", "a")]),
    ("event: x\ndata: a\ndata: b\nid: 1\nretry: 5\n\ndata: c\n\n", &[("x", "a\nb"), ("", "c")]),
    ("data: a\nevent: late\n\n", &[("late", "a")]),
    ("data\n\ndata:\n\n", &[("", ""), ("", "")]),
    ("data: no blank line", &[("", "no blank line")]),
    ("data: no blank line\n", &[("", "no blank line")]),
    ("data: \u{1F980}\u{e9}\n\n", &[("", "\u{1F980}\u{e9}")]),
    ("error: {}\ndata: a\n\n", &[("error", "{}"), ("", "a")]),
    ("\n\n\n", &[]),
    ("", &[]),
];

#[test]
fn any_cut_in_three_gives_the_same_records() {
    for (body, expected) in BODIES {
        let expected: Vec<_> =
            expected.iter().map(|(event, data)| (event.to_string(), data.to_string())).collect();
        let body = body.as_bytes();
        for first in 0..=body.len() {
            for second in first..=body.len() {
                let pieces = [&body[..first], &body[first..second], &body[second..]];
                assert_eq!(records(&pieces), expected, "{body:?} cut at {first} and {second}");
            }
        }
    }
}

#[test]
fn an_event_over_the_limit_is_refused_however_it_comes() {
    let line = format!("data: {}\n\n", "x".repeat(100));
    let lines = "data: 123456789\n".repeat(10) + "\n";
    for body in [line.as_bytes(), lines.as_bytes(), &line.as_bytes()[..80]] {
        for size in [1, 7, 1000] {
            let mut parser = SseParser::new(64);
            let failed = body.chunks(size).find_map(|piece| parser.push(piece, |_| Ok(())).err());
            assert_eq!(failed.unwrap().kind(), ErrorKind::TooLarge);
        }
        let mut parser = SseParser::new(200);
        parser.push(body, |_| Ok(())).unwrap();
    }
}

#[test]
fn comments_have_no_limit() {
    let comment = "x".repeat(100);
    let whole = format!("\u{feff}: {comment}\n\n: x\revent: e\n: {comment}\ndata: a\n\n");
    let whole = whole.as_bytes();
    for at in 0..whole.len() {
        let (first, second) = whole.split_at(at);
        let mut parser = SseParser::new(64);
        let mut count = 0;
        for piece in [first, second] {
            let each = |record: harness::wire::Record<'_>| {
                count += record.data.len();
                Ok(())
            };
            parser.push(piece, each).unwrap();
        }
        assert_eq!(count, 1);
    }
}

/// A stream that breaks off goes on after the last complete event.
#[test]
fn an_id_counts_when_its_event_is_complete() {
    for (body, expected) in [
        ("id: 1\ndata: a\n\ndata: b\n\n", Some("1")),
        ("id: 1\ndata: a\n\nid: 2\ndata: b\n", Some("1")),
        ("id: 1\n\n", Some("1")),
        ("id: 1\n", None),
        ("id: 1\n\nid: 2\u{0}\n\n", Some("1")),
        ("id: 1\n\nid\n\n", Some("")),
        ("data: a\rid:  é\r\r", Some(" é")),
        ("data: a\n\n", None),
    ] {
        for at in 0..=body.len() {
            let mut parser = SseParser::new(64);
            let mut of_records = None;
            let (first, second) = body.as_bytes().split_at(at);
            for piece in [first, second] {
                let each = |record: harness::wire::Record<'_>| {
                    of_records = record.id.map(Vec::from);
                    Ok(())
                };
                parser.push(piece, each).unwrap();
            }
            assert_eq!(parser.last_id(), expected.map(str::as_bytes), "{body:?} {at}");
            assert!(of_records.is_none() || of_records.as_deref() == parser.last_id(), "{body:?}");
            assert_eq!(parser.retry(), None);
        }
    }
    let mut parser = SseParser::new(64);
    parser.push(b"retry: 20\nretry: 1x\nretry: \n", |_| Ok(())).unwrap();
    assert_eq!(parser.retry(), Some(20));
}

/// Searching what was searched before would take minutes here.
#[test]
fn a_large_event_in_small_pieces_is_read_once() {
    let body = format!("data: {}\n\n", "x".repeat(8 << 20));
    let mut parser = SseParser::new(16 << 20);
    let mut size = 0;
    for piece in body.as_bytes().chunks(64) {
        let each = |record: harness::wire::Record<'_>| {
            size = record.data.len();
            Ok(())
        };
        parser.push(piece, each).unwrap();
    }
    assert_eq!(size, 8 << 20);
}
