//! Runs each subject in a separate process, and measures its cost there.

use std::{
    hash::{Hash as _, Hasher as _},
    io::{BufRead, BufReader, Read as _, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use stats_alloc::Region;

use crate::{
    ALLOCATOR, server,
    subject::{self, Failure, History},
};

/// The cost of one answer.
#[derive(Clone, Copy)]
pub struct Turn {
    pub nanoseconds: f64,
    pub allocations: f64,
    pub bytes: f64,
    /// The peak memory of the process until then, in KiB.
    pub most: f64,
    /// The time on the clock, in nanoseconds.
    pub elapsed: f64,
}

/// Measures on request. Each line on standard input contains a number of answers to read. The response is one line with
/// the CPU time of one answer in nanoseconds, its allocations including reallocations, the bytes of its text, and the
/// peak memory so far in KiB. Scripts in other languages use the same protocol, but omit the memory.
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
        let answers = line?.trim().parse()?;
        let (spent, allocations, text) = measure(&runtime, &task, answers)?;
        println!("{spent} {allocations} {} {}", text.len(), memory("VmHWM")?);
    }
    Ok(())
}

/// Like [`work`], for answers that the parent process chooses. Instead of the memory, the line contains the [`mark`] of
/// the text. If an answer cannot be read, the line is `failed` with the reason.
pub fn work_chosen(subject: &str, wire: &str, base: &str) -> Result<(), Failure> {
    install_tls();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let task = subject::task(subject, wire, History(0), base)?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        match measure(&runtime, &task, line?.trim().parse()?) {
            Ok((spent, allocations, text)) => {
                println!("{spent} {allocations} {} {}", text.len(), mark(&text));
            }
            Err(err) => println!("failed {}", err.to_string().replace('\n', " ")),
        }
    }
    Ok(())
}

/// Runs the task `answers` times. Returns the nanoseconds and the allocations of one answer, and the last text.
fn measure(
    runtime: &tokio::runtime::Runtime,
    task: &subject::Task,
    answers: u32,
) -> Result<(u128, usize, String), Failure> {
    let region = Region::new(ALLOCATOR);
    let begun = cpu();
    let mut text = String::new();
    for _ in 0..answers {
        text = runtime.block_on(task())?;
    }
    let spent = cpu().saturating_sub(begun).as_nanos() / u128::from(answers.max(1));
    let change = region.change();
    let allocations = (change.allocations + change.reallocations) / (answers as usize).max(1);
    Ok((spent, allocations, text))
}

/// A hash that distinguishes texts.
pub fn mark(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Selects a TLS implementation. Some clients of peers require one, although these measurements do not use TLS.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The CPU time of this process so far.
pub fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// A value from `/proc/self/status` in KiB: `VmHWM` is the peak memory, and `VmRSS` is the current memory.
pub fn memory(line: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(':'));
    let number = found.and_then(|value| value.split_whitespace().next());
    Ok(number.ok_or("this is measured on Linux alone")?.parse()?)
}

/// The server process.
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

    /// Sets the answer at `/chosen`.
    pub fn choose(&self, body: &str) -> Result<(), Failure> {
        let address = self.address.strip_prefix("http://").ok_or("no address")?;
        let mut socket = TcpStream::connect(address)?;
        let head = "POST /choose HTTP/1.1\r\nhost: here\r\ncontent-length: ";
        socket.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes())?;
        let mut begin = [0; 12];
        socket.read_exact(&mut begin)?;
        if &begin == b"HTTP/1.1 200" { Ok(()) } else { Err("the server chose nothing".into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A command that starts this program again.
pub fn itself() -> Result<Command, Failure> {
    Ok(Command::new(std::env::current_exe()?))
}

/// The other programs of this package. `build` builds them with cargo if necessary.
pub struct Programs(PathBuf);

impl Programs {
    pub fn build() -> Result<Self, Failure> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        // The path is determined before the build, because a program that the build replaces no longer has a path.
        let this = std::env::current_exe()?;
        let apart = ["--features", "genai", "--bin", "genai", "--bin", "genai-herd"];
        for more in [&["--bin", "herd"][..], &apart] {
            let words =
                ["build", "--release", "--ignore-rust-version", "--manifest-path", manifest];
            let mut cargo = Command::new("cargo");
            // `cargo run` sets these variables about this package. They would make cargo build all dependencies again.
            for (name, _) in std::env::vars_os() {
                let about = name.to_str().is_some_and(|name| {
                    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
                });
                if about {
                    cargo.env_remove(name);
                }
            }
            if !cargo.args(words).args(more).status()?.success() {
                return Err(format!("cargo has not built {}", more.join(" ")).into());
            }
        }
        Ok(Self(this))
    }

    /// The program that measures this subject and counts allocations.
    pub fn of(&self, subject: &str) -> Command {
        match is_apart(subject) {
            true => Command::new(self.0.with_file_name("genai")),
            false => Command::new(&self.0),
        }
    }

    /// The program that measures this subject in a herd, without counting allocations.
    pub fn herd_of(&self, subject: &str) -> Command {
        let name = if is_apart(subject) { "genai-herd" } else { "herd" };
        Command::new(self.0.with_file_name(name))
    }
}

/// Whether a separate program measures this subject: see `Cargo.toml`.
fn is_apart(subject: &str) -> bool {
    subject.starts_with("genai")
}

/// A command that runs a script, which measures one subject like [`work`].
pub fn script(program: &str, name: &str) -> Command {
    let mut command = Command::new(program);
    // Error messages of the script are hidden: a user who has not installed the library does not need the failed
    // import.
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
    /// Starts a process with these arguments. In each turn, it reads `answers` answers.
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

    /// Lets the process read this number of answers, and returns its response.
    fn ask(&mut self, answers: u32) -> Result<String, Failure> {
        writeln!(self.input, "{answers}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    fn turn(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        let line = self.ask(self.answers)?;
        let elapsed = begun.elapsed().as_secs_f64() * 1e9 / f64::from(self.answers.max(1));
        let mut words = line.split_whitespace();
        let mut next = || -> Result<f64, Failure> {
            Ok(words.next().ok_or("a subject failed in the middle")?.parse()?)
        };
        let (nanoseconds, allocations, bytes) = (next()?, next()?, next()?);
        let most = next().unwrap_or(f64::NAN);
        self.turns.push(Turn { nanoseconds, allocations, bytes, most, elapsed });
        Ok(())
    }

    /// Reads the chosen answer. Returns the nanoseconds and the allocations of one answer, and the mark of its text.
    /// Returns a text with the reason if the process could not read the answer.
    pub fn chosen(&mut self) -> Result<Result<(f64, f64, u64), String>, Failure> {
        let line = self.ask(self.answers)?;
        if let Some(reason) = line.strip_prefix("failed") {
            return Ok(Err(reason.trim().to_owned()));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [spent, allocations, _, mark] => {
                Ok(Ok((spent.parse()?, allocations.parse()?, mark.parse()?)))
            }
            _ => Ok(Err("the program has ended".to_owned())),
        }
    }

    /// The turn with the median time. The allocations are the same in each turn.
    fn end(mut self) -> Result<Turn, Failure> {
        drop(self.input);
        self.child.wait()?;
        // The peak memory grows from turn to turn, so the value of the last turn is used.
        let most = self.turns.last().ok_or("no turn")?.most;
        self.turns.sort_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds));
        Ok(Turn { most, ..*self.turns.get(self.turns.len() / 2).ok_or("no turn")? })
    }
}

/// Runs this number of rounds. In each round, each worker has one turn.
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
