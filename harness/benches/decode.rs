//! Measures the time to decode an answer, in nanoseconds per event, for generated streams of many shapes and for
//! recorded streams.
//!
//!     cargo bench -p harness --bench decode
//!
//! Three readers read the same bytes, in the same pieces:
//!
//! - `harness`: a decoder of the library. It returns each event.
//! - `floor`: the minimum work of reading an answer. It splits the lines and reads the bytes of each event once.
//!   From each event, it takes the kind, the part of the answer and the text, and appends the text to one string.
//!   It checks nothing, stores nothing else and returns no events. See `one_pass/mod.rs`.
//! - `plain`: the work of a program without a decoder. It splits the lines, deserializes each event with
//!   `serde_json` into a struct that borrows from the event, and appends the text to one string. It returns no
//!   events. See `plain/mod.rs`.
//!
//! The readers take turns, and the shortest turn of each reader counts, because other programs can only lengthen a
//! turn. Ratios can be compared between machines. The program fails if one of two limits is exceeded:
//!
//! - No stream costs more than 1.05 times `plain`.
//! - The recorded streams of a wire cost at most 2.0 times `floor`.
//!
//! If a limit is exceeded, the case is measured again, up to three times in total, because a busy machine may slow down
//! some turns. Recorded streams are read from `shared/corpus` beside the project.
//!
//! With `DECODE_ONCE=1`, each stream is read once, which is enough to count instructions:
//!
//!     DECODE_ONCE=1 valgrind --tool=callgrind --toggle-collect='*decode::decode*' PROGRAM --bench CASE

use std::{
    fs,
    hint::black_box,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use harness::wire::WIRES;
use harness::{
    StreamEvent,
    provider::ResponseSizeLimits,
    wire::{self, chat},
};

#[path = "one_pass/mod.rs"]
mod one_pass;
#[path = "plain/mod.rs"]
mod plain;
#[path = "rendered/mod.rs"]
mod rendered;
#[path = "shapes/mod.rs"]
mod shapes;

/// The number of deltas in a long answer.
const DELTAS: usize = 500;

/// The maximum ratio of `harness` to `plain`, for each stream.
const OF_PLAIN: f64 = 1.05;

/// The maximum ratio of `harness` to `floor`, for recorded streams.
const OF_FLOOR: f64 = 2.0;

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    println!(
        "{:<28} {:>7} {:>9} {:>7} {:>7} {:>10} {:>10}",
        "stream", "events", "harness", "floor", "plain", "of floor", "of plain"
    );
    let mut missed = Vec::new();
    for wire in WIRES {
        let name = format!("{wire}/regular");
        if wants(&name) {
            let body = rendered::stream(wire, DELTAS).into_bytes();
            if !show(&name, &[Answer { wire, body, by_line: false }], None) {
                missed.push(name);
            }
        }
    }
    for shape in shapes::all(DELTAS) {
        let name = format!("{}/{}", shape.wire, shape.name);
        if wants(&name) {
            let body = shape.body.into_bytes();
            let answer = Answer { wire: shape.wire, body, by_line: shape.by_line };
            if !show(&name, &[answer], None) {
                missed.push(name);
            }
        }
    }
    for wire in WIRES {
        for (name, by_line) in [("recorded", false), ("recorded-by-line", true)] {
            let name = format!("{wire}/{name}");
            if wants(&name) {
                match recorded(wire, by_line) {
                    answers if answers.is_empty() => {
                        println!("{name:<28} skipped: no recorded streams beside the project");
                    }
                    answers => {
                        if !show(&name, &answers, Some(OF_FLOOR)) {
                            missed.push(name);
                        }
                    }
                }
            }
        }
    }
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("over the limit: {}", missed.join(", "));
    ExitCode::FAILURE
}

struct Answer {
    wire: &'static str,
    body: Vec<u8>,
    by_line: bool,
}

/// The recorded streams that are complete.
fn recorded(wire: &'static str, by_line: bool) -> Vec<Answer> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus").join(wire);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let streams = files.filter(|file| file.path().extension().is_some_and(|ext| ext == "sse"));
    let answers = streams.filter_map(|file| {
        let answer = Answer { wire, body: fs::read(file.path()).ok()?, by_line };
        let pieces = shapes::pieces(&answer.body, by_line);
        decode(wire, &pieces, drop).then_some(answer)
    });
    answers.collect()
}

/// Measures the three readers, prints the result, and returns whether the limits are met.
fn show(name: &str, answers: &[Answer], of_floor: Option<f64>) -> bool {
    let once = std::env::var_os("DECODE_ONCE").is_some();
    (0..3).any(|_| {
        let (events, [harness, floor, plain]) = measure(name, answers, once);
        let (of, of_plain) = (harness / floor, harness / plain);
        println!(
            "{name:<28} {events:>7} {harness:>9.0} {floor:>7.0} {plain:>7.0} {of:>10.2} \
             {of_plain:>10.2}"
        );
        once || (of_plain <= OF_PLAIN && of_floor.is_none_or(|limit| of <= limit))
    })
}

/// Returns the number of events, and the nanoseconds per event of each reader.
fn measure(name: &str, answers: &[Answer], once: bool) -> (usize, [f64; 3]) {
    let mut sums = [Duration::ZERO; 3];
    let mut events = 0;
    for Answer { wire, body, by_line } in answers {
        let pieces = shapes::pieces(body, *by_line);
        let mut least = [Duration::MAX; 3];
        for _ in 0..if once { 1 } else { rounds(body.len()) } {
            let start = Instant::now();
            let whole = decode(wire, &pieces, |event| drop(black_box(event)));
            least[0] = least[0].min(start.elapsed());
            assert!(whole, "`{name}` was not read to its end");
            let start = Instant::now();
            let mut scan = one_pass::Floor::new(wire);
            for piece in &pieces {
                scan.push(piece);
            }
            black_box(&scan.said);
            least[1] = least[1].min(start.elapsed());
            let start = Instant::now();
            let mut parsed = plain::Plain::new(wire);
            for piece in &pieces {
                parsed.push(piece);
            }
            black_box(&parsed.said);
            least[2] = least[2].min(start.elapsed());
            assert!(!parsed.said.is_empty() || scan.said.is_empty(), "`{name}` is not parsed");
        }
        let mut count = one_pass::Floor::new(wire);
        pieces.iter().for_each(|piece| count.push(piece));
        events += count.events;
        for (sum, least) in sums.iter_mut().zip(least) {
            *sum += least;
        }
    }
    (events, sums.map(|sum| sum.as_secs_f64() * 1e9 / events as f64))
}

/// The number of measurements of an answer. Short answers are read more often.
fn rounds(bytes: usize) -> usize {
    (8_000_000 / bytes.max(1)).clamp(40, 400)
}

/// Decodes an answer, and returns whether it is complete.
#[inline(never)]
fn decode(wire: &str, pieces: &[&[u8]], mut each: impl FnMut(StreamEvent)) -> bool {
    macro_rules! read {
        ($decoder:expr) => {{
            let mut decoder = $decoder;
            for piece in pieces {
                if decoder.push(piece).is_err() {
                    return false;
                }
                while let Some(event) = decoder.next_event() {
                    each(event);
                }
            }
            decoder.finish().is_ok()
        }};
    }
    let limits = ResponseSizeLimits::default();
    match wire {
        "anthropic" => read!(wire::anthropic::decoder(limits)),
        "responses" => read!(wire::responses::decoder(limits)),
        "chat" => read!(chat::decoder(limits, chat::DecodeOptions::default())),
        other => panic!("a wire without a bench: {other}"),
    }
}
