//! What it costs to decode an answer, beside the least that it can cost: nanoseconds an event, for
//! streams in many shapes and for recorded ones.
//!
//!     cargo bench -p harness --bench decode
//!
//! The two take turns, and the shortest turn of each counts: other programs only ever add to it. The
//! ratio is what can be compared from one machine to the next. `one pass` is in `one_pass/mod.rs`.
//! Recorded streams are looked for beside the project, in `shared/corpus`.

use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use harness::{
    StreamEvent,
    provider::AnswerLimits,
    wire::{self, chat},
};

#[path = "one_pass/mod.rs"]
mod one_pass;
#[path = "rendered/mod.rs"]
mod rendered;
#[path = "shapes/mod.rs"]
mod shapes;

const WIRES: [&str; 3] = ["anthropic", "responses", "chat"];

/// How many deltas a long answer has.
const DELTAS: usize = 500;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    println!("{:<28} {:>7} {:>9} {:>9} {:>6}", "stream", "events", "harness", "one pass", "ratio");
    for wire in WIRES {
        let name = format!("{wire}/regular");
        if wants(&name) {
            let body = rendered::stream(wire, DELTAS);
            show(&name, &[Answer { wire, body: body.into_bytes(), by_line: false }]);
        }
    }
    for shape in shapes::all(DELTAS) {
        let name = format!("{}/{}", shape.wire, shape.name);
        if wants(&name) {
            let body = shape.body.into_bytes();
            show(&name, &[Answer { wire: shape.wire, body, by_line: shape.by_line }]);
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
                    answers => show(&name, &answers),
                }
            }
        }
    }
}

struct Answer {
    wire: &'static str,
    body: Vec<u8>,
    by_line: bool,
}

/// The recorded streams that come to their end.
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

/// Reads the answers in turns.
fn show(name: &str, answers: &[Answer]) {
    let (mut harness, mut floor) = (Duration::ZERO, Duration::ZERO);
    let mut events = 0;
    for Answer { wire, body, by_line } in answers {
        let pieces = shapes::pieces(body, *by_line);
        let mut least = [Duration::MAX; 2];
        for _ in 0..rounds(body.len()) {
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
        }
        let mut count = one_pass::Floor::new(wire);
        pieces.iter().for_each(|piece| count.push(piece));
        events += count.events;
        harness += least[0];
        floor += least[1];
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / events as f64;
    println!(
        "{name:<28} {events:>7} {:>9.0} {:>9.0} {:>6.2}",
        each(harness),
        each(floor),
        each(harness) / each(floor)
    );
}

/// Short answers are read more often.
fn rounds(bytes: usize) -> usize {
    (8_000_000 / bytes.max(1)).clamp(40, 400)
}

/// Whether the answer came to its end.
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
    let limits = AnswerLimits::default();
    match wire {
        "anthropic" => read!(wire::anthropic::decoder(limits)),
        "responses" => read!(wire::responses::decoder(limits)),
        _ => read!(chat::decoder(limits, chat::Reading::default())),
    }
}
