//! Counts the work of the library exactly: the instructions and allocations of each part, as counted by `valgrind
//! --tool=callgrind`. Unlike times, these counts do not depend on the load of the machine, so they can be compared
//! between commits.
//!
//!     cargo bench --profile counted -p harness-instructions
//!
//! This command compares the counts with the counts in `instructions.tsv`, which are valid for one toolchain and one
//! profile. It fails if a count has grown by more than 5 %. `-- --write` replaces the file. After `--`, a part of a
//! name selects the cases whose names contain it. Without valgrind, or with another toolchain, the command compares
//! nothing and prints a note.
//!
//! The cases in `rest` are not instructions, but the bytes that a conversation holds, and the bytes of machine code.
//!
//! The command then checks the cases in `growth`, with any toolchain: the cost at twice the size must be at most a bit
//! more than twice the cost.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    hint::black_box,
    path::Path,
    pin::Pin,
    process::{Command, ExitCode},
    task::{Context, Poll, Waker},
    thread,
};

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, Message, Provider, Reply, SideEffect, SideEffects, Stopped, StreamEvent, Tool,
    ToolContent, Transcript,
    agent::Event,
    message::{Block, ToolCall},
    policy::{RetryPolicy, RetryProvider},
    provider::{Accumulator, EventStream, Request, ResponseSizeLimits, Settings, StopReason},
    testing::{ScriptedProvider, reply},
    tool::ToolRegistry,
    wire::{self, SseParser},
};
use serde_json::json;

#[path = "../agents/mod.rs"]
mod agents;
#[path = "../answers/mod.rs"]
mod answers;
#[path = "../growth/mod.rs"]
mod growth;
#[path = "../one_pass/mod.rs"]
mod one_pass;
#[path = "../rendered/mod.rs"]
mod rendered;
mod rest;
#[path = "../shapes/mod.rs"]
mod shapes;

/// The number of text deltas in a stream.
const DELTAS: usize = 2_000;

/// The number of bytes that a socket returns at once.
const CHUNK: usize = 16 * 1024;

/// The maximum ratio of a count to the stored count.
const GROWTH: f64 = 1.05;

/// How far a case may stand above its best figure ever, however often its figure was written anew.
const ABOVE_BEST: f64 = 1.10;

const CASES: &[&str] = &[
    "sse",
    "decode/anthropic",
    "decode/responses",
    "decode/chat",
    "shape/anthropic/thinking",
    "shape/anthropic/arguments",
    "shape/anthropic/blocks-in-turn",
    "shape/anthropic/by-line",
    "shape/anthropic/short",
    "shape/responses/kinds-in-turn",
    "shape/responses/arguments",
    "shape/responses/by-line",
    "shape/responses/short",
    "shape/chat/usage",
    "shape/chat/timings",
    "shape/chat/details",
    "shape/chat/kinds-in-turn",
    "shape/chat/arguments",
    "shape/chat/by-line",
    "shape/chat/short",
    "one-pass/anthropic",
    "one-pass/responses",
    "one-pass/chat",
    "accumulate",
    "turn/anthropic",
    "turn/responses",
    "turn/chat",
    "retried/anthropic",
    "events/anthropic",
    "alone/anthropic",
    "alone/responses",
    "alone/chat",
    "encode/anthropic/1000",
    "encode/responses/1000",
    "encode/chat/1000",
    "first/anthropic",
    "first/responses",
    "first/chat",
    "tools/anthropic",
    "tools/responses",
    "tools/chat",
    "dispatch",
    "redact",
    "schema",
    "agent/as-a-tool",
    "agent/by-hand",
    "run/bare",
    "run/circumstances",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [run, cases @ ..] = arguments.as_slice()
        && run == "--run"
    {
        for case in cases {
            // If a case panics, the last of these lines names the case.
            eprintln!("case {case}");
            run_case(case);
        }
        return ExitCode::SUCCESS;
    }
    let write = arguments.iter().any(|word| word == "--write");
    let wanted = arguments.iter().find(|word| !word.starts_with("--"));
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed, so instructions cannot be counted");
        return ExitCode::SUCCESS;
    }
    let executable = env::current_exe().expect("the path of this program");
    if !executable.iter().any(|folder| folder == "counted") {
        println!("the figures are of another profile: build it with `--profile counted`");
        return ExitCode::FAILURE;
    }
    let toolchain = toolchain();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.tsv");
    let (of, mut known) = read(&path);
    let comparable = of == toolchain;
    if !comparable && !write {
        println!("not compared: the figures are of {of}, this is {toolchain}");
    }
    let cases = CASES
        .iter()
        .chain(rest::CASES)
        .filter(|case| wanted.is_none_or(|wanted| case.contains(wanted)));
    let cases: Vec<String> = cases.map(|case| (*case).to_owned()).collect();
    let resting = cases.iter().filter(|case| rest::CASES.contains(&case.as_str())).count();
    let (counted, resting) = cases.split_at(cases.len() - resting);
    // Each half of the cases runs in a separate process.
    let (one, two) = counted.split_at(counted.len() / 2);
    let mut figures = at_once([one, two], measure).concat();
    // Hash seeds differ between processes, so a small case can cost some percent more in one of them.
    let is_above = |at: usize, now: &Figures| {
        let known = known.get(&cases[at]).filter(|_| comparable && !write);
        known.is_some_and(|(before, best)| {
            now.exceeds(before, GROWTH) || now.exceeds(best, ABOVE_BEST)
        })
    };
    let above = figures.iter().enumerate().filter(|(at, now)| is_above(*at, now));
    let above: Vec<usize> = above.map(|(at, _)| at).collect();
    let again: Vec<String> = above.iter().map(|at| cases[*at].clone()).collect();
    for (at, again) in above.into_iter().zip(measure(&again)) {
        figures[at] = figures[at].min(again);
    }
    figures.extend(resting.iter().map(|case| bytes_of_each(case)));
    println!("{:<24} {:>14} {:>9} {:>12}", "case", "instructions", "growth", "allocations");
    let (mut grown, mut above_best) = (Vec::new(), Vec::new());
    for (case, now) in cases.iter().zip(figures) {
        let before = known.get(case).filter(|_| comparable).copied();
        let best = before.map_or(now, |(_, best)| best.min(now));
        known.insert(case.clone(), (now, best));
        let before = before.map(|(before, _)| before);
        let growth = before.map(|before| share(now.instructions, before.instructions));
        if now.exceeds(&best, ABOVE_BEST) {
            above_best.push(case.as_str());
        }
        let shown =
            growth.map_or("-".to_owned(), |growth| format!("{:+.1} %", growth * 100.0 - 100.0));
        println!("{case:<24} {:>14} {shown:>9} {:>12}", now.instructions, now.allocations);
        if before.is_some_and(|before| now.exceeds(&before, GROWTH)) {
            grown.push(case.as_str());
        }
    }
    if write {
        let lines = known.iter().map(|(case, (now, best))| format!("{case}\t{now}\t{best}\n"));
        let text = format!("{toolchain}\n{}", lines.collect::<String>());
        fs::write(&path, text).expect("the figures can be written");
        return ExitCode::SUCCESS;
    }
    let wanted = wanted.map(String::as_str);
    let faster = [in_line(wanted), in_place(wanted)].concat();
    if !grown.is_empty() {
        println!("grown by more than 5 %: {}", grown.join(", "));
        println!("if that is meant to be, write the figures anew with `-- --write` and say why");
    }
    if !above_best.is_empty() {
        println!("more than 10 % above the best figure ever written: {}", above_best.join(", "));
        println!("find what costs it: `--write` does not raise the best figure");
    }
    if !faster.is_empty() {
        println!("costs or holds more than it may for its size: {}", faster.join(", "));
    }
    if grown.is_empty() && above_best.is_empty() && faster.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Measures the cases in `growth`, and returns the names of those whose cost grows too fast.
fn in_line(wanted: Option<&str>) -> Vec<String> {
    let all = growth::cases().into_iter();
    let all: Vec<_> =
        all.filter(|case| wanted.is_none_or(|wanted| case.name.contains(wanted))).collect();
    let sized = |times| all.iter().map(move |case| format!("{}/{}", case.name, times * case.size));
    // One process measures all cases at their size, and another process measures all cases at twice that size.
    let [once, twice]: [Vec<String>; 2] = [sized(1).collect(), sized(2).collect()];
    let [once, twice] = at_once([&once, &twice], |cases| measure(cases));
    println!("{:<24} {:>14} {:>14} {:>9}", "grows", "instructions", "of twice", "ratio");
    let mut faster = Vec::new();
    for (case, (one, two)) in all.into_iter().zip(once.iter().zip(twice)) {
        let growth::Growing { name, most, .. } = case;
        let (one, two) = (one.instructions, two.instructions);
        let ratio = share(two, one);
        println!("{name:<24} {one:>14} {two:>14} {ratio:>9.2}");
        if ratio > most {
            faster.push(name);
        }
    }
    faster
}

/// Calls `measure` for both values at the same time, because each call starts a process and waits for it.
fn at_once<A: Send, T: Send>(of: [A; 2], measure: fn(A) -> T) -> [T; 2] {
    thread::scope(|scope| {
        let both = of.map(|one| scope.spawn(move || measure(one)));
        both.map(|measured| measured.join().expect("a measurement"))
    })
}

/// Measures the memory that is in use after a turn, and returns the names of the cases that use too much.
fn in_place(wanted: Option<&str>) -> Vec<String> {
    println!("{:<24} {:>14} {:>14} {:>9}", "bytes for one of text", "", "at the peak", "held");
    let mut more = Vec::new();
    for holding in growth::holdings() {
        let growth::Holding { name, size, held, peak } = holding;
        if wanted.is_some_and(|wanted| !name.contains(wanted)) {
            continue;
        }
        let sized = [size, 2 * size].map(|size| format!("{name}/{size}"));
        let [one, two] = at_once([&sized[0], &sized[1]], |case| memory(case));
        let of = |one: u64, two: u64| share(two.saturating_sub(one), size as u64);
        let (now_peak, now) = (of(one.0, two.0), of(one.1, two.1));
        println!("{name:<24} {:>14} {now_peak:>14.2} {now:>9.2}", "");
        if now > held || now_peak > peak {
            more.push(name);
        }
    }
    more
}

/// The bytes that each conversation of a case holds, or those of the code, in the place of instructions.
fn bytes_of_each(case: &str) -> Figures {
    if case == rest::CODE {
        return Figures { instructions: rest::code_bytes(), allocations: 0 };
    }
    let sized = [1, 2].map(|times| format!("{case}/{}", times * rest::CONVERSATIONS));
    let [(_, one), (_, two)] = at_once([&sized[0], &sized[1]], |case| memory(case));
    Figures { instructions: two.saturating_sub(one) / rest::CONVERSATIONS, allocations: 0 }
}

/// The number of bytes that a case uses at its peak, and at its end.
fn memory(case: &str) -> (u64, u64) {
    let run = Command::new("valgrind")
        .args(["--tool=dhat", "--dhat-out-file=/dev/null"])
        .arg(env::current_exe().expect("the path of this program"))
        .args(["--run", case])
        .output()
        .expect("valgrind runs");
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "`{case}` failed under valgrind: {told}");
    let bytes = |at: &str| {
        let line = told.lines().find_map(|line| line.split_once(at)).expect("a figure").1;
        let digits = line.trim().split(' ').next().unwrap_or_default().replace(',', "");
        digits.parse().expect("a number")
    };
    (bytes("At t-gmax:"), bytes("At t-end:"))
}

/// The cost of one case.
#[derive(Clone, Copy)]
struct Figures {
    instructions: u64,
    allocations: u64,
}

impl Figures {
    fn min(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.min(other.instructions),
            allocations: self.allocations.min(other.allocations),
        }
    }

    /// Whether one of the counts is more than `most` times as high. A few additional allocations do not count,
    /// because they depend on the hash seed.
    fn exceeds(self, before: &Self, most: f64) -> bool {
        share(self.instructions, before.instructions) > most
            || self.allocations > before.allocations + 8
                && share(self.allocations, before.allocations) > most
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.instructions, self.allocations)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is rounded anyway")]
fn share(now: u64, before: u64) -> f64 {
    now as f64 / before.max(1) as f64
}

fn toolchain() -> String {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().map(|out| out.stdout);
    let version = String::from_utf8(version.unwrap_or_default()).unwrap_or_default();
    format!("{} {}", version.trim(), env::consts::ARCH)
}

/// The committed counts of each case, its best counts ever, and the toolchain for which they are valid.
fn read(path: &Path) -> (String, BTreeMap<String, (Figures, Figures)>) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines();
    let of = lines.next().unwrap_or("no toolchain yet").to_owned();
    let figures = lines.filter_map(|line| {
        let mut words = line.split('\t');
        let case = words.next()?.to_owned();
        let mut figures = || {
            let instructions = words.next()?.parse().ok()?;
            Some(Figures { instructions, allocations: words.next()?.parse().ok()? })
        };
        Some((case, (figures()?, figures()?)))
    });
    (of, figures.collect())
}

/// Runs these cases in one separate process, and counts the work of [`measured`] in each case. All cases share one
/// process, because starting a process and translating its code for valgrind costs more than most cases.
fn measure(cases: &[String]) -> Vec<Figures> {
    if cases.is_empty() {
        return Vec::new();
    }
    let folder = env::temp_dir().join(format!(
        "instructions-{}-{}",
        std::process::id(),
        cases[0].replace('/', "-")
    ));
    fs::create_dir_all(&folder).expect("a folder");
    let out = folder.join("profile");
    let run = Command::new("valgrind")
        // Without this setting, the allocator sometimes cleans up memory of an earlier case during a small case.
        .env("GLIBC_TUNABLES", "glibc.malloc.mxfast=0")
        .args([
            "--tool=callgrind",
            "--zero-before=instructions::measured",
            "--dump-before=instructions::counted",
        ])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(env::current_exe().expect("the path of this program"))
        .arg("--run")
        .args(cases)
        .output()
        .expect("valgrind runs");
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "a case failed under valgrind: {told}");
    let figures = (1..=cases.len()).map(|at| {
        let profile = fs::read_to_string(out.with_extension(at.to_string())).expect("a profile");
        figures(&profile)
    });
    let figures = figures.collect();
    match env::var_os("KEEP_PROFILE") {
        Some(_) => println!("for callgrind_annotate: {}", folder.display()),
        None => drop(fs::remove_dir_all(&folder)),
    }
    figures
}

/// The counts in a profile.
fn figures(profile: &str) -> Figures {
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    let instructions = totals.and_then(|words| words.trim().parse().ok()).expect("a total");
    let mut allocations = 0;
    let mut callee = "";
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("cfn=") {
            callee = name;
        } else if let Some(calls) = line.strip_prefix("calls=")
            && matches!(callee, "malloc" | "calloc" | "realloc")
        {
            allocations += calls.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Figures { instructions, allocations }
}

/// Counts exactly the work of `run`, without the code before and after it.
fn count(run: &mut dyn FnMut()) {
    measured(run);
    counted();
}

#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
}

/// valgrind writes the profile when this function is called.
#[inline(never)]
fn counted() {
    black_box(());
}

/// Runs a case twice, and counts only the second run, because the first run does all one-time work.
fn twice(mut run: impl FnMut()) {
    run();
    count(&mut run);
}

fn run_case(case: &str) {
    let parts: Vec<&str> = case.split('/').collect();
    match parts.as_slice() {
        ["sse"] => {
            let body = rendered::stream("responses", DELTAS);
            twice(|| {
                let mut parser = SseParser::new(ResponseSizeLimits::default().event);
                let mut bytes = 0;
                for chunk in body.as_bytes().chunks(CHUNK) {
                    let pushed = parser.push(chunk, |record| {
                        bytes += record.data.len();
                        Ok(())
                    });
                    pushed.expect("a stream");
                }
                black_box(bytes);
            });
        }
        ["decode", wire] => {
            let body = rendered::stream(wire, DELTAS);
            twice(|| decode(wire, body.as_bytes(), |event| drop(black_box(event))));
        }
        ["shape", wire, name] => {
            let mut shapes = shapes::all(DELTAS);
            let shape = shapes.find(|shape| (shape.wire, shape.name) == (*wire, *name));
            let shape = shape.expect("a shape of this name");
            let pieces = shapes::pieces(shape.body.as_bytes(), shape.by_line);
            twice(|| decode_pieces(wire, &pieces, |event| drop(black_box(event))));
        }
        // The minimum cost of decoding the same stream.
        ["one-pass", wire] => {
            let body = rendered::stream(wire, DELTAS);
            twice(|| {
                let mut floor = one_pass::Floor::new(wire);
                body.as_bytes().chunks(CHUNK).for_each(|chunk| floor.push(chunk));
                black_box((&floor.said, floor.events));
            });
        }
        ["accumulate"] => {
            let mut events = Vec::new();
            decode("anthropic", rendered::stream("anthropic", DELTAS).as_bytes(), |event| {
                events.push(event);
            });
            twice(|| {
                let mut answer = Accumulator::default();
                for event in &events {
                    answer.push(event).expect("an event that fits");
                }
                black_box(answer.finish().expect("an answer"));
            });
        }
        ["turn", wire] => {
            let agent = Agent::builder(Rendered::new(wire)).build().expect("an agent");
            let runtime = runtime();
            twice(|| turn(&agent, |run| runtime.block_on(run)));
        }
        // All built-in providers retry. In this case, no request fails.
        ["retried", wire] => {
            let provider = RetryProvider::new(Rendered::new(wire), RetryPolicy::default());
            let agent = Agent::builder(provider).build().expect("an agent");
            let runtime = runtime();
            twice(|| turn(&agent, |run| runtime.block_on(run)));
        }
        // The same events as owned values with numbers, from a stream that drives the run.
        ["events", wire] => {
            let agent = Agent::builder(Rendered::new(wire)).build().expect("an agent");
            let runtime = runtime();
            twice(|| {
                let mut events = agent.run("Speak.").events();
                let mut bytes = 0;
                let reply = runtime.block_on(async {
                    while let Some(numbered) = events.next().await {
                        if let Event::Text(text) = numbered.event.as_event() {
                            bytes += text.len();
                        }
                    }
                    events.finish().await.expect("an answer")
                });
                assert_eq!(reply.text().len(), bytes);
            });
        }
        // Each event comes alone, as from a slow model: after each event, the task waits. The work of the runtime
        // during the wait is not counted.
        ["alone", wire] => {
            let provider = Rendered { alone: true, ..Rendered::new(wire) };
            let agent = Agent::builder(provider).build().expect("an agent");
            let runtime = runtime();
            let _entered = runtime.enter();
            twice(|| {
                turn(&agent, |mut run| {
                    let context = &mut Context::from_waker(Waker::noop());
                    loop {
                        if let Poll::Ready(ended) = run.as_mut().poll(context) {
                            break ended;
                        }
                    }
                })
            });
        }
        ["encode", wire, messages] => {
            let transcript = transcript(messages.parse().expect("a number"));
            let request = Request::new(&transcript).expect("a transcript that can be sent");
            twice(|| drop(black_box(encode(wire, &request))));
        }
        // The first turn of a chat that begins with a long conversation.
        ["first", wire] => {
            let agent = Agent::builder(Strict((*wire).to_owned())).build().expect("an agent");
            let runtime = runtime();
            let transcript = transcript(1000);
            twice(|| {
                let mut chat = agent.chat_from(transcript.clone());
                let run = chat.send("Go.").into_future();
                black_box(runtime.block_on(run).expect("an answer"));
            });
        }
        // A turn with fifty strict tools. The strict forms were already made by an earlier turn.
        ["tools", wire] => {
            let agent = Agent::builder(Strict((*wire).to_owned())).tools((0..50).map(many));
            let agent = agent.build().expect("an agent");
            let runtime = runtime();
            twice(|| {
                black_box(runtime.block_on(agent.run("Go.").into_future()).expect("an answer"));
            });
        }
        ["dispatch"] => {
            let tools = ToolRegistry::new([tool()]).expect("tools");
            let context = harness::ToolContext::new("call_1");
            let runtime = runtime();
            let call = ToolCall::new("call_1", "look", r#"{"path":"src/lib.rs","lines":20}"#);
            twice(|| {
                runtime.block_on(async {
                    for _ in 0..100 {
                        black_box(tools.dispatch(&call, &context).await);
                    }
                });
            });
        }
        // The trace of results with many members that look like secrets.
        ["redact"] => {
            let rows: Vec<_> =
                (0..125).map(|row| json!({"key": format!("key-{row}"), "n": row})).collect();
            let table = ToolContent::Json(rows.into());
            let schema = json!({"type": "object"});
            let reads = SideEffects::of(&[SideEffect::Read]);
            let look = Tool::new("look", "Looks.", schema, reads, move |_, _| {
                let table = table.clone();
                Box::pin(async move { Ok(table.into()) })
            });
            let model = ScriptedProvider::answering(|request| match request.messages().len() {
                so_far @ 0..20 => reply().call("look", json!({"page": so_far})),
                _ => reply().text("Done."),
            });
            let agent = Agent::builder(model).tools([look]).build().expect("an agent");
            let runtime = runtime();
            twice(|| {
                black_box(runtime.block_on(agent.run("Go.").into_future()).expect("an answer"));
            });
        }
        ["schema"] => twice(|| drop(black_box(tool()))),
        ["agent", how] => {
            let lead = agents::lead(how);
            let runtime = runtime();
            twice(|| agents::leads(&runtime, &lead));
        }
        ["run", how] => {
            let agent = agents::looks();
            let runtime = runtime();
            twice(|| agents::looks_up(&runtime, &agent, how));
        }
        ["rest", how, size] => rest::run(how, size.parse().expect("a size")),
        ["grow", case @ .., size] => growth::run(case, size.parse().expect("a size")),
        _ => panic!("no case is called `{case}`"),
    }
}

/// A future that drives a run.
type Going<'a> = Pin<Box<dyn Future<Output = Result<Reply, Stopped>> + Send + 'a>>;

/// Runs one turn, and receives each delta of its text.
fn turn(agent: &Agent, drive: impl FnOnce(Going<'_>) -> Result<Reply, Stopped>) {
    let mut bytes = 0;
    let run = agent.run("Speak.").on_event(|event| {
        if let Event::Text(text) = event {
            bytes += text.len();
        }
    });
    let reply = drive(run.into_future()).expect("an answer");
    assert_eq!(reply.text().len(), bytes);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn decode(wire: &str, body: &[u8], each: impl FnMut(StreamEvent)) {
    decode_pieces(wire, &body.chunks(CHUNK).collect::<Vec<_>>(), each);
}

fn decode_pieces(wire: &str, pieces: &[&[u8]], mut each: impl FnMut(StreamEvent)) {
    macro_rules! read {
        ($decoder:expr) => {{
            let mut decoder = $decoder;
            for piece in pieces {
                decoder.push(piece).expect("a stream");
                while let Some(event) = decoder.next_event() {
                    each(event);
                }
            }
            decoder.finish().expect("a whole stream");
        }};
    }
    let limits = ResponseSizeLimits::default();
    match wire {
        "anthropic" => read!(wire::anthropic::decoder(limits)),
        "responses" => read!(wire::responses::decoder(limits)),
        "chat" => read!(wire::chat::decoder(limits, wire::chat::DecodeOptions::default())),
        other => panic!("a wire without a bench: {other}"),
    }
}

fn encode(wire: &str, request: &Request<'_>) -> Vec<u8> {
    encode_pieces(wire, request).into_bytes()
}

fn encode_pieces(wire: &str, request: &Request<'_>) -> wire::Encoded {
    encode_with(wire, request, Settings::default())
}

fn encode_with(wire: &str, request: &Request<'_>, settings: Settings) -> wire::Encoded {
    let model = "model".to_owned();
    let body = match wire {
        "anthropic" => wire::anthropic::encode_pieces(
            request,
            &wire::anthropic::Options { settings, ..wire::anthropic::Options::new(model) },
        ),
        "responses" => wire::responses::encode_pieces(
            request,
            &wire::responses::Options { settings, ..wire::responses::Options::new(model) },
        ),
        "chat" => {
            let mut options = wire::chat::Options::new(model);
            options.settings = settings;
            wire::chat::encode_pieces(request, &options)
        }
        other => panic!("a wire without a bench: {other}"),
    };
    body.expect("a body")
}

/// A conversation with this number of messages, each of about one kilobyte.
fn transcript(messages: usize) -> Transcript {
    let words = "It says \"the quick brown fox\", and jumps.\n".repeat(24);
    let mut transcript = Transcript::default();
    for at in 0..messages {
        let message = match at % 2 {
            0 => Message::user(words.as_str()),
            _ => Message::assistant([Block::text(words.as_str())]),
        };
        transcript.push(message).expect("a message that fits");
    }
    transcript
}

fn tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "lines": {"type": "integer", "minimum": 1}
        },
        "required": ["path"],
        "additionalProperties": false
    });
    Tool::new("look", "Looks into a file.", schema, SideEffects::of(&[SideEffect::Read]), |_, _| {
        Box::pin(async { Ok("seen".into()) })
    })
}

/// A tool with ten parameters. Its name contains `at`.
fn many(at: usize) -> Tool {
    let member = |at| {
        (
            format!("member_{at}"),
            json!({"type": "integer", "minimum": 1, "maximum": 99, "description": "What it says, in words that a model reads."}),
        )
    };
    let properties: serde_json::Map<_, _> = (0..10).map(member).collect();
    let required: Vec<_> = properties.keys().take(9).cloned().collect();
    let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let reads = SideEffects::of(&[SideEffect::Read]);
    Tool::new(format!("look_{at}"), "Looks into a file.", schema, reads, |_, _| {
        Box::pin(async { Ok("seen".into()) })
    })
}

/// A provider that encodes requests with strict tools, and answers at once.
struct Strict(String);

impl Provider for Strict {
    fn name(&self) -> &str {
        &self.0
    }

    fn model(&self) -> &str {
        "strict"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let settings = Settings { strict_tools: Some(true), ..Settings::default() };
        black_box(encode_with(&self.0, &request, settings).into_bytes());
        let text = StreamEvent::TextDelta { block: 0, text: "Done.".into() };
        let end = StreamEvent::Completed { stop: StopReason::Complete, usage: Box::default() };
        stream::iter([Ok(text), Ok(end)]).boxed()
    }
}

/// A provider whose answer comes from a decoder, without a socket.
struct Rendered {
    wire: String,
    body: String,
    alone: bool,
}

impl Rendered {
    fn new(wire: &str) -> Self {
        Self { wire: wire.to_owned(), body: rendered::stream(wire, DELTAS), alone: false }
    }
}

impl Provider for Rendered {
    fn name(&self) -> &str {
        &self.wire
    }

    fn model(&self) -> &str {
        "rendered"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        black_box(encode(&self.wire, &request));
        let mut events = Vec::new();
        decode(&self.wire, self.body.as_bytes(), |event| events.push(Ok(event)));
        if !self.alone {
            return stream::iter(events).boxed();
        }
        let (mut events, mut waits) = (events.into_iter(), false);
        stream::poll_fn(move |_| {
            waits = !waits;
            if waits { Poll::Pending } else { Poll::Ready(events.next()) }
        })
        .boxed()
    }
}
