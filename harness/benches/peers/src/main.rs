//! Measures the whole way of an answer: `chat.send` beside the floor and beside every peer, in one
//! interleaved run against one server on this machine. See README.md.
//!
//! Each subject is a process of its own, so that its processor time and its allocations are its
//! own too; the server is another one. They take turns: a noisy moment hits all of them.

mod floor;
mod ours;
mod peer;
#[path = "../../rendered/mod.rs"]
mod rendered;
mod report;
mod server;

use std::{
    alloc::System,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How many text deltas an answer has.
pub const DELTAS: usize = 2_000;
pub const WIRES: [&str; 3] = ["anthropic", "responses", "chat"];
/// Every subject reads so many answers in a turn of its own, and has so many turns.
const ANSWERS: u32 = 10;
const TURNS: usize = 11;

pub type Failure = Box<dyn std::error::Error>;

/// What is measured, and on which wires it can be.
pub const SUBJECTS: &[(&str, &[&str])] = &[
    ("tcp read", &WIRES),
    ("http read", &WIRES),
    ("floor", &WIRES),
    ("flat struct", &WIRES),
    ("harness", &WIRES),
    ("genai 0.7", &WIRES),
    ("llm 1.3", &["chat"]),
    ("async-openai 0.43", &["responses", "chat"]),
    ("rig 0.46", &WIRES),
];

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => server::serve(),
        ["idle", address] => idle(address),
        ["work", "send", messages, kind, address] => {
            work(|runtime| ours::sender(runtime, kind, messages.parse()?, address))
        }
        ["work", subject, wire, address] => work(|runtime| reader(runtime, subject, wire, address)),
        _ => run(),
    }
}

/// Prints what a chat holds that waits for its next message.
fn idle(address: &str) -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let region = Region::new(ALLOCATOR);
    let (bytes, chats) = ours::idle(address, || {
        let change = region.change();
        change.bytes_allocated.saturating_sub(change.bytes_deallocated)
    })?;
    println!("\nAn idle chat holds {bytes} bytes beside its text (mean of {chats})");
    Ok(())
}

/// Something that is done again and again; it says how many bytes of text it has read.
pub type Task = Box<dyn FnMut(&tokio::runtime::Runtime) -> Result<usize, Failure>>;

fn reader(
    _: &tokio::runtime::Runtime,
    subject: &str,
    wire: &str,
    address: &str,
) -> Result<Task, Failure> {
    match subject {
        "harness" => ours::reader(wire, address),
        "tcp read" | "http read" | "floor" | "flat struct" => floor::reader(subject, wire, address),
        _ => peer::reader(subject, wire, address),
    }
}

/// Measures on request: for each line on standard input, one line with the processor time in
/// nanoseconds and the allocations of one answer, and the bytes of its text.
fn work(
    make: impl FnOnce(&tokio::runtime::Runtime) -> Result<Task, Failure>,
) -> Result<(), Failure> {
    // Some of the peers' clients need to be told which TLS there is, although none is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut task = make(&runtime)?;
    for _ in 0..3 {
        task(&runtime)?;
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let region = Region::new(ALLOCATOR);
        let begun = cpu();
        let mut bytes = 0;
        for _ in 0..ANSWERS {
            bytes = task(&runtime)?;
        }
        let spent = cpu().saturating_sub(begun).as_nanos() / u128::from(ANSWERS);
        let change = region.change();
        let allocations = (change.allocations + change.reallocations) / ANSWERS as usize;
        println!("{spent} {allocations} {bytes}");
    }
    Ok(())
}

/// The processor time of this process.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A process of this program that measures one subject.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    turns: Vec<report::Turn>,
}

impl Worker {
    fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("{arguments:?} did not start").into());
        }
        Ok(Self { child, input, output, turns: Vec::new() })
    }

    fn turn(&mut self) -> Result<(), Failure> {
        self.input.write_all(b"\n")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        self.turns.push(report::Turn::read(&line).ok_or("a subject failed in the middle")?);
        Ok(())
    }

    fn end(mut self) -> report::Turn {
        drop(self.input);
        let _ = self.child.wait();
        report::median(&self.turns)
    }
}

fn run() -> Result<(), Failure> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut address = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut address)?;
    let address = address.trim();

    let mut tables = Vec::new();
    for wire in WIRES {
        let mut workers = Vec::new();
        for (subject, _) in SUBJECTS.iter().filter(|(_, wires)| wires.contains(&wire)) {
            match Worker::start(&["work", subject, wire, address]) {
                Ok(worker) => workers.push((*subject, worker)),
                Err(err) => println!("{subject} on {wire} is left out: {err}"),
            }
        }
        tables.push((wire, take_turns(workers)?));
    }
    report::streams(&tables)?;

    let mut tables = Vec::new();
    for messages in ["100", "1000", "10000"] {
        let mut workers = Vec::new();
        for kind in ["memcpy", "ready bytes", "harness"] {
            workers.push((kind, Worker::start(&["work", "send", messages, kind, address])?));
        }
        tables.push((messages, take_turns(workers)?));
    }
    report::requests(&tables);
    Command::new(std::env::current_exe()?).args(["idle", address]).status()?;
    drop(server.stdin.take());
    server.wait()?;
    Ok(())
}

fn take_turns(
    mut workers: Vec<(&'static str, Worker)>,
) -> Result<Vec<(&'static str, report::Turn)>, Failure> {
    for _ in 0..TURNS {
        for (_, worker) in &mut workers {
            worker.turn()?;
        }
    }
    Ok(workers.into_iter().map(|(name, worker)| (name, worker.end())).collect())
}
