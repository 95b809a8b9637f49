//! A process for each subject, and what it costs itself.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use stats_alloc::Region;

use crate::{
    ALLOCATOR, server,
    subject::{self, Failure, History},
};

/// What one answer has cost.
#[derive(Clone, Copy)]
pub struct Turn {
    pub nanoseconds: f64,
    pub allocations: f64,
    pub bytes: f64,
}

/// Measures on request: for each line on standard input, which says how many answers, one line
/// with the processor time in nanoseconds, the allocations of one answer, reallocations among
/// them, and the bytes of its text. Scripts of other languages speak the same way.
pub fn work(subject: &str, wire: &str, history: History, base: &str) -> Result<(), Failure> {
    install_tls();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let task = subject::task(subject, wire, history, base)?;
    let expected =
        if subject::reads(subject) { server::expected(wire, base)? } else { String::new() };
    for _ in 0..3 {
        let text = runtime.block_on(task())?;
        if text != expected {
            return Err(format!("the answer was not read as it is: {text:?}").into());
        }
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let answers: u32 = line?.trim().parse()?;
        let region = Region::new(ALLOCATOR);
        let begun = cpu();
        let mut bytes = 0;
        for _ in 0..answers {
            bytes = runtime.block_on(task())?.len();
        }
        let spent = cpu().saturating_sub(begun).as_nanos() / u128::from(answers);
        let change = region.change();
        let allocations = (change.allocations + change.reallocations) / answers as usize;
        println!("{spent} {allocations} {bytes}");
    }
    Ok(())
}

/// Some of the peers' clients need to be told which TLS there is, although none is used.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The processor time of this process.
pub fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A line of `/proc/self/status` that is in KiB: `VmHWM`, the most memory there was at once, or
/// `VmRSS`, what there is now.
pub fn memory(line: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(':'));
    let number = found.and_then(|value| value.split_whitespace().next());
    Ok(number.ok_or("this is measured on Linux alone")?.parse()?)
}

/// The process that answers.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub fn start() -> Result<Self, Failure> {
        let mut child =
            itself()?.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut address)?;
        Ok(Self { child, address: format!("http://{}", address.trim()) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Another process of this program.
pub fn itself() -> Result<Command, Failure> {
    Ok(Command::new(std::env::current_exe()?))
}

/// The program that counts no allocations: it stands beside this one, once cargo has built it.
pub fn herder() -> Result<PathBuf, Failure> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let words = ["build", "--release", "--ignore-rust-version", "--bin", "herd", "--manifest-path"];
    let built = Command::new("cargo").args(words).arg(manifest).status()?.success();
    let program = std::env::current_exe()?.with_file_name("herd");
    match built && program.exists() {
        true => Ok(program),
        false => Err(format!("cargo has not built {}", program.display()).into()),
    }
}

/// A script that measures one subject as [`work`] does.
pub fn script(program: &str, name: &str) -> Command {
    let mut command = Command::new(program);
    // Why it cannot be imported is of no interest to who has not installed it.
    command.stderr(Stdio::null());
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name));
    command
}

/// A process that measures one subject.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    answers: u32,
    turns: Vec<Turn>,
}

impl Worker {
    /// It is told so much, and reads so many answers in a turn of its own.
    pub fn start(mut command: Command, words: &[&str], answers: u32) -> Result<Self, Failure> {
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        match line.trim() {
            "ready" => Ok(Self { child, input, output, answers, turns: Vec::new() }),
            "" => Err("it did not start".into()),
            other => Err(other.into()),
        }
    }

    fn turn(&mut self) -> Result<(), Failure> {
        writeln!(self.input, "{}", self.answers)?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::parse);
        let mut next = || words.next().and_then(Result::ok).ok_or("a subject failed in the middle");
        self.turns.push(Turn { nanoseconds: next()?, allocations: next()?, bytes: next()? });
        Ok(())
    }

    /// The turn whose time is the median; what is counted is the same each time.
    fn end(mut self) -> Result<Turn, Failure> {
        drop(self.input);
        self.child.wait()?;
        self.turns.sort_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds));
        Ok(*self.turns.get(self.turns.len() / 2).ok_or("no turn")?)
    }
}

/// So many turns for each, one after the other.
pub fn take_turns<Name>(
    mut workers: Vec<(Name, Worker)>,
    turns: usize,
) -> Result<Vec<(Name, Turn)>, Failure> {
    for _ in 0..turns {
        for (_, worker) in &mut workers {
            worker.turn()?;
        }
    }
    workers.into_iter().map(|(name, worker)| Ok((name, worker.end()?))).collect()
}
