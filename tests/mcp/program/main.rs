//! A program that serves its tools over its standard input and output. What it does is a line in the file that its
//! argument names.

use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    path::PathBuf,
    process::{Command, ExitCode},
};

use harness::{State, ToolLimits, mcp::McpService, tool, tools};

struct Log(PathBuf);

impl Log {
    fn note(&self, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(&self.0);
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }
}

/// Notes that what holds it was dropped.
struct OnDrop<'l>(&'l Log);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.note("ended");
    }
}

/// Prints by itself, and by a program that it starts.
#[tool(side_effects = "write")]
fn print() -> Result<&'static str, String> {
    println!("printed by the tool");
    let ended = Command::new("/bin/sh").args(["-c", "echo printed by a child"]).status();
    ended.map(|_| "printed").map_err(|err| err.to_string())
}

/// Hands over much.
#[tool(side_effects = "none")]
fn much(
    /// How many bytes
    #[param(range(0..=8_000_000))]
    bytes: usize,
) -> String {
    "x".repeat(bytes)
}

/// Never ends by itself.
#[tool(side_effects = "write")]
async fn hang(log: State<Log>) -> String {
    let _end = OnDrop(&log);
    log.note("begun");
    std::future::pending().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(path) = env::args().nth(1).map(PathBuf::from) else { return ExitCode::from(2) };
    let log = Log(path);
    log.note(&format!("pid {}", std::process::id()));
    println!("printed before");
    let limits = ToolLimits::default().tries(1).output(8_000_000);
    let service = McpService::new(tools![print, much, hang]).limits(limits);
    let served = service.state(Log(log.0.clone())).serve_stdio().await;
    println!("printed after");
    log.note(if served.is_ok() { "served" } else { "failed" });
    ExitCode::SUCCESS
}
