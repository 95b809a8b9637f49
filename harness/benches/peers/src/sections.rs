//! The measurements, section by section.

use std::{process::Command, str::FromStr};

use crate::{
    building,
    figures::{Figure, Figures},
    macros,
    process::{Programs, Server, Worker, itself, script, take_turns},
    subject::{Failure, WIRES, speaks},
    tables,
};

/// The number of answers that a subject reads in one turn (`ANSWERS`), and the number of turns of
/// each subject (`TURNS`).
const ANSWERS: u32 = 10;
const TURNS: usize = 11;
/// The number of herds for each subject.
const HERDS: usize = 7;

const STREAMS: &[&str] = &[
    "tcp read",
    "http read",
    "split",
    "shortcut",
    "floor",
    "flat struct",
    "harness",
    "genai 0.7",
    "llm 1.3",
    "async-openai 0.43",
    "rig 0.46",
];

const PEERS: &[&str] = &["genai 0.7", "llm 1.3", "async-openai 0.43", "rig 0.46"];

/// Subjects in other languages, which are measured if they are installed: the name, the
/// interpreter, the script, and the wires.
const SCRIPTS: &[(&str, &str, &str, &[&str])] = &[
    ("openai (Python)", "python3", "vendors.py", &["responses", "chat"]),
    ("anthropic (Python)", "python3", "vendors.py", &["anthropic"]),
    ("pydantic-ai (Python)", "python3", "pydantic_ai_stream.py", &WIRES),
    ("openai (JavaScript)", "node", "vendors.mjs", &["responses", "chat"]),
    ("anthropic (JavaScript)", "node", "vendors.mjs", &["anthropic"]),
    ("ai (JavaScript)", "node", "vercel.mjs", &WIRES),
];

/// Stores the figures of a section, prints its tables, and writes all tables and pictures.
pub fn keep(section: &str, figures: Vec<Figure>) -> Result<(), Failure> {
    let mut all = Figures::read()?;
    all.replace(section, figures)?;
    all.write()?;
    tables::print(&all, section);
    tables::draw(&all)
}

/// Measures a stream of text deltas, which each subject reads to its end.
pub fn streams() -> Result<(), Failure> {
    let programs = Programs::build()?;
    let server = Server::start()?;
    let base = server.address.as_str();
    let mut figures = Vec::new();
    for wire in WIRES {
        let mut workers = Vec::new();
        for subject in STREAMS.iter().filter(|subject| speaks(subject, wire)) {
            match Worker::start(programs.of(subject), &["work", subject, wire, "0", base], ANSWERS)
            {
                Ok(worker) => workers.push((*subject, worker)),
                Err(err) => println!("{subject} on {wire} is left out: {err}"),
            }
        }
        for (subject, program, name, wires) in SCRIPTS {
            if wires.contains(&wire) {
                // Scripts take about a thousand times as long, so one turn is one answer.
                match Worker::start(script(program, name), &[wire, base], 1) {
                    Ok(worker) => workers.push((*subject, worker)),
                    Err(err) => println!("{subject} on {wire} is left out: {err}"),
                }
            }
        }
        for (subject, turn) in take_turns(workers, TURNS)? {
            let values = [
                ("CPU ms", turn.nanoseconds / 1e6),
                ("allocations", turn.allocations),
                ("text", turn.bytes),
            ];
            figures.push(Figure::new("streams", wire, subject, &values));
        }
    }
    keep("streams", figures)
}

/// Measures a turn with two requests, and a call of a tool between them.
pub fn turns() -> Result<(), Failure> {
    const SUBJECTS: &[&str] = &[
        "http read",
        "floor",
        "async-openai 0.43, by hand",
        "harness",
        "harness, a synchronous tool",
        "genai 0.7, by hand",
        "llm 1.3, by hand",
        "rig 0.46",
    ];
    let programs = Programs::build()?;
    let server = Server::start()?;
    let base = format!("{}/turn", server.address);
    let mut figures = Vec::new();
    for wire in WIRES {
        let mut workers = Vec::new();
        for subject in SUBJECTS.iter().filter(|subject| speaks(subject, wire)) {
            let words = ["work", subject, wire, "0", &base];
            match Worker::start(programs.of(subject), &words, ANSWERS * 4) {
                Ok(worker) => workers.push((*subject, worker)),
                Err(err) => println!("{subject} on {wire} is left out: {err}"),
            }
        }
        for (subject, turn) in take_turns(workers, TURNS * 3)? {
            let values = [("CPU ms", turn.nanoseconds / 1e6), ("allocations", turn.allocations)];
            figures.push(Figure::new("turns", wire, subject, &values));
        }
    }
    keep("turns", figures)
}

/// Measures a turn of a long conversation.
pub fn requests() -> Result<(), Failure> {
    const SUBJECTS: &[(&str, &str)] = &[
        ("memcpy", "anthropic"),
        ("ready bytes", "anthropic"),
        ("harness", "anthropic"),
        ("harness", "responses"),
        ("harness", "chat"),
        ("harness, first request", "anthropic"),
        ("harness, first request", "responses"),
        ("harness, first request", "chat"),
        ("llm 1.3", "chat"),
        ("async-openai 0.43", "chat"),
        ("async-openai 0.43", "responses"),
        ("rig 0.46", "chat"),
        ("genai 0.7", "chat"),
    ];
    let programs = Programs::build()?;
    let server = Server::start()?;
    let base = format!("{}/short", server.address);
    let mut figures = Vec::new();
    for messages in ["100", "1000", "10000"] {
        let mut workers = Vec::new();
        for (subject, wire) in SUBJECTS {
            let words = ["work", subject, wire, messages, &base];
            match Worker::start(programs.of(subject), &words, ANSWERS / 2) {
                Ok(worker) => workers.push(((*subject, *wire), worker)),
                Err(err) => println!("{subject} on {wire} is left out: {err}"),
            }
        }
        for ((subject, wire), turn) in take_turns(workers, TURNS)? {
            let subject = match subject.split_once(", ") {
                _ if matches!(subject, "memcpy" | "ready bytes") => subject.to_owned(),
                Some((name, which)) => format!("{name}, {wire}, {which}"),
                None => format!("{subject}, {wire}"),
            };
            let values = [
                ("CPU ms", turn.nanoseconds / 1e6),
                ("allocations", turn.allocations),
                ("peak RSS MiB", turn.most / 1024.0),
            ];
            figures.push(Figure::new("requests", messages, &subject, &values));
        }
    }
    keep("requests", figures)
}

/// The cost of a herd: see [`crate::herd::run`].
struct Herd {
    cpu: f64,
    most: f64,
    before: f64,
    time: f64,
}

fn herd(
    programs: &Programs,
    subject: &str,
    wire: &str,
    streams: usize,
    base: &str,
) -> Result<Herd, Failure> {
    let words = ["herd", subject, wire, &streams.to_string(), base];
    let mut command = programs.herd_of(subject);
    let output = command.args(words).stderr(std::process::Stdio::inherit()).output()?;
    let output = String::from_utf8(output.stdout)?;
    let mut numbers = output.split_whitespace().map(f64::from_str);
    let mut next = || numbers.next().and_then(Result::ok).ok_or("a herd failed");
    let found = Herd { cpu: next()?, most: next()?, before: next()?, time: next()? };
    let whole = next()?;
    if whole != streams as f64 {
        return Err(format!("{whole} of {streams} answers were whole").into());
    }
    Ok(found)
}

fn median(herds: &[Herd], of: impl Fn(&Herd) -> f64) -> f64 {
    let mut values: Vec<f64> = herds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn herd_figure(section: &str, wire: &str, subject: &str, streams: usize, herds: &[Herd]) -> Figure {
    let values = [
        ("CPU ms", median(herds, |herd| herd.cpu)),
        ("peak RSS MiB", median(herds, |herd| herd.most / 1024.0)),
        ("KiB a stream", median(herds, |herd| (herd.most - herd.before) / streams as f64)),
        ("seconds", median(herds, |herd| herd.time / 1e3)),
    ];
    Figure::new(section, wire, subject, &values)
}

/// Measures a thousand concurrent streams with pauses between their events.
pub fn herds() -> Result<(), Failure> {
    const STREAMS: usize = 1_000;
    const SUBJECTS: &[&str] = &[
        "http read",
        "floor",
        "flat struct",
        "harness",
        "genai 0.7",
        "llm 1.3",
        "async-openai 0.43",
        "rig 0.46",
    ];
    let programs = Programs::build()?;
    let server = Server::start()?;
    let base = format!("{}/paced/{STREAMS}", server.address);
    let mut figures = Vec::new();
    for wire in WIRES {
        let mut herds: Vec<(&str, Vec<Herd>)> = SUBJECTS
            .iter()
            .filter(|subject| speaks(subject, wire))
            .map(|subject| (*subject, Vec::new()))
            .collect();
        for _ in 0..HERDS {
            for (subject, herds) in &mut herds {
                match herd(&programs, subject, wire, STREAMS, &base) {
                    Ok(found) => herds.push(found),
                    Err(err) => println!("{subject} on {wire}: {err}"),
                }
            }
        }
        herds.retain(|(_, herds)| !herds.is_empty());
        figures.extend(
            herds.iter().map(|(name, herds)| herd_figure("herds", wire, name, STREAMS, herds)),
        );
    }
    keep("herds", figures)
}

/// Measures ten thousand streams. All of them are open before the first stream continues.
pub fn held() -> Result<(), Failure> {
    const STREAMS: usize = 10_000;
    let programs = Programs::build()?;
    let server = Server::start()?;
    let base = format!("{}/held/{STREAMS}", server.address);
    let mut figures = Vec::new();
    for wire in WIRES {
        for subject in ["floor", "harness"].iter().chain(PEERS) {
            if !speaks(subject, wire) {
                continue;
            }
            match herd(&programs, subject, wire, STREAMS, &base) {
                Ok(found) => {
                    figures.push(herd_figure("held", wire, subject, STREAMS, &[found]));
                }
                Err(err) => println!("{subject} on {wire}: {err}"),
            }
        }
    }
    keep("held", figures)
}

/// Measures the memory of a chat that waits for its next message.
pub fn idle() -> Result<(), Failure> {
    let programs = Programs::build()?;
    let server = Server::start()?;
    let output = itself()?.args(["wait", &server.address]).output()?;
    let output = String::from_utf8(output.stdout)?;
    let mut figures = Vec::new();
    for (wire, bytes) in output.lines().filter_map(|line| line.split_once(' ')) {
        figures.push(Figure::new("idle", wire, "harness", &[("bytes", bytes.parse()?)]));
        for subject in PEERS.iter().filter(|subject| speaks(subject, wire)) {
            let output = programs.of(subject).args(["keep", subject, wire]).output()?;
            let bytes = String::from_utf8(output.stdout)?.trim().parse()?;
            figures.push(Figure::new("idle", wire, subject, &[("bytes", bytes)]));
        }
    }
    keep("idle", figures)
}

/// Measures the builds before the first run.
pub fn build(release: bool) -> Result<(), Failure> {
    building::measure(release, |figures| keep("build", figures))
}

/// Measures the build time of a tool.
pub fn macros() -> Result<(), Failure> {
    keep("macros", macros::measure()?)
}

/// Measures the benefit of early start. Runs the library's own benchmark `early_start` without
/// changes.
pub fn early() -> Result<(), Failure> {
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let words = ["bench", "--bench", "early_start", "--features", "testing", "--manifest-path"];
    let output = Command::new("cargo").args(words).arg(library).output()?;
    let figures = String::from_utf8(output.stdout)?.lines().filter_map(early_figure).collect();
    keep("early", figures)
}

/// Parses a line such as `chat early stream 1003.1 ms last result 913.0 ms ..`.
fn early_figure(line: &str) -> Option<Figure> {
    let (head, rest) = line.split_once(" stream ")?;
    let (stream, rest) = rest.split_once(" ms ")?;
    let (_, result) = rest.split_once(" last result ")?;
    let (group, mode) = head.trim().rsplit_once(' ')?;
    let stream: f64 = stream.trim().parse().ok()?;
    let result: f64 = result.split_once(" ms ")?.0.trim().parse().ok()?;
    let subject = match mode {
        "sequential" => "one after the other",
        "parallel" => "together, after the stream",
        _ => "harness: as soon as each is complete",
    };
    // If the last result exists before the end of the stream, the wait is zero.
    let waits = (result - stream).max(0.0);
    let values = [("stream ms", stream), ("last result ms", result), ("ms to wait", waits)];
    Some(Figure::new("early", group.trim(), subject, &values))
}
