//! Decodes the answers in `tests/corpus`, which were written by hand, and compares each with the expectation beside it. They
//! are part of the repository; the recorded answers that `corpus.rs` reads are not.

use std::{fmt::Write as _, fs, path::Path};

use harness::wire::chat;

use crate::decoded::{self, Decoded};

/// What is read, in the words of the files.
fn told(read: &Decoded) -> String {
    let mut told = String::new();
    let mut line = |label: &str, text: &str| {
        if !text.is_empty() {
            let _ = writeln!(told, "{label}: {text}");
        }
    };
    line("text", &read.text());
    line("reasoning", &read.reasoning());
    for call in read.calls() {
        let ended = if call.ended { "" } else { " (not ended)" };
        // No piece of arguments at all is an object without members.
        let arguments = match call.arguments.as_str() {
            "" if call.ended => "{}",
            arguments => arguments,
        };
        line("call", &format!("{} {} {arguments}{ended}", call.id, call.name));
    }
    match &read.end {
        Err(err) => line("error", &format!("{:?}", err.kind())),
        Ok(()) => {
            let (stop, usage) = (read.stop(), read.usage());
            line("stop", &format!("{stop:?}"));
            let count = |count: Option<u64>| count.unwrap_or_default();
            let mut tokens = format!("{} in", count(usage.input));
            match count(usage.cache_read) {
                0 => {}
                cached => {
                    let _ = write!(tokens, ", {cached} of them read from a cache");
                }
            }
            let _ = write!(tokens, ", {} out", count(usage.output));
            match count(usage.reasoning) {
                0 => {}
                reasoning => {
                    let _ = write!(tokens, ", {reasoning} of them to reason");
                }
            }
            line("tokens", &tokens);
        }
    }
    told
}

#[test]
fn each_answer_by_hand_is_read_as_it_is_written_down() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let (mut files, mut other) = (0, Vec::new());
    for wire in ["anthropic", "chat", "responses"] {
        for file in fs::read_dir(corpus.join(wire)).expect("a folder") {
            let path = file.expect("a file").path();
            if path.extension().is_none_or(|kind| kind != "sse") {
                continue;
            }
            let name = path.display();
            let body = fs::read_to_string(&path).expect("a body");
            let expected = fs::read_to_string(path.with_extension("txt")).expect("what is read");
            let read = decoded::both_ways(wire, &body, chat::DecodeOptions::default());
            let told = told(&read);
            if told != expected {
                other.push(format!("{name} is read as\n{told}and not as\n{expected}"));
            }
            // Half of it is no answer, wherever the middle is.
            let (half, _) = body.as_bytes().split_at(body.len() / 2);
            let half = decoded::read(wire, &[half], chat::DecodeOptions::default());
            assert!(half.end.is_err() && half.completed().is_none(), "{name}: half of it");
            files += 1;
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert_eq!(files, 25);
}
