//! A process for each subject, and what it costs itself.

use std::{
    hash::{Hash as _, Hasher as _},
    io::{BufRead, BufReader, Read as _, Write},
    net::TcpStream,
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
    /// The most memory that the process had until then, in KiB.
    pub most: f64,
}

/// Measures on request: for each line on standard input, which says how many answers, one line
/// with the processor time in nanoseconds, the allocations of one answer, reallocations among
/// them, the bytes of its text, and the most memory that there was so far, in KiB. Scripts of other
/// languages speak the same way and leave the memory out.
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

/// The same with answers that somebody else chooses: instead of the memory, a line says which text was
/// read ([`mark`]). An answer that could not be read is told as `failed` with the reason.
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

/// Asks so often; the nanoseconds and allocations of one answer, and the last text.
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

/// A number by which one text is told from another.
pub fn mark(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
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

    /// From now on this is the answer behind `/chosen`.
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

/// Another process of this program.
pub fn itself() -> Result<Command, Failure> {
    Ok(Command::new(std::env::current_exe()?))
}

/// The programs that cargo builds beside this one, if they are not there already.
pub struct Programs(PathBuf);

impl Programs {
    pub fn build() -> Result<Self, Failure> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        // Before the build: a program that is replaced has no path of its own any more.
        let this = std::env::current_exe()?;
        let apart = ["--features", "genai", "--bin", "genai", "--bin", "genai-herd"];
        for more in [&["--bin", "herd"][..], &apart] {
            let words =
                ["build", "--release", "--ignore-rust-version", "--manifest-path", manifest];
            let mut cargo = Command::new("cargo");
            // What `cargo run` says of this package would make each of its dependencies be built anew.
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

    /// What measures this subject, and counts allocations.
    pub fn of(&self, subject: &str) -> Command {
        match is_apart(subject) {
            true => Command::new(self.0.with_file_name("genai")),
            false => Command::new(&self.0),
        }
    }

    /// What measures this subject in a herd, and counts nothing.
    pub fn herd_of(&self, subject: &str) -> Command {
        let name = if is_apart(subject) { "genai-herd" } else { "herd" };
        Command::new(self.0.with_file_name(name))
    }
}

/// Whether the subject is in a program of its own: see `Cargo.toml`.
fn is_apart(subject: &str) -> bool {
    subject.starts_with("genai")
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

    /// What it says after so many answers.
    fn ask(&mut self, answers: u32) -> Result<String, Failure> {
        writeln!(self.input, "{answers}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    fn turn(&mut self) -> Result<(), Failure> {
        let line = self.ask(self.answers)?;
        let mut words = line.split_whitespace();
        let mut next = || -> Result<f64, Failure> {
            Ok(words.next().ok_or("a subject failed in the middle")?.parse()?)
        };
        let (nanoseconds, allocations, bytes) = (next()?, next()?, next()?);
        let most = next().unwrap_or(f64::NAN);
        self.turns.push(Turn { nanoseconds, allocations, bytes, most });
        Ok(())
    }

    /// What one answer has cost that was chosen, and the mark of its text; or why it was not read.
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

    /// The turn whose time is the median; what is counted is the same each time.
    fn end(mut self) -> Result<Turn, Failure> {
        drop(self.input);
        self.child.wait()?;
        // The memory grows from one turn to the next, and the last one says how far.
        let most = self.turns.last().ok_or("no turn")?.most;
        self.turns.sort_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds));
        Ok(Turn { most, ..*self.turns.get(self.turns.len() / 2).ok_or("no turn")? })
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
