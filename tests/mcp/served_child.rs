//! A program that serves its tools over its standard input and output, as a process of its own.

use std::process::Stdio;

use harness::mcp::McpServer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{Scripted, call_with, text};

const PROGRAM: &str = env!("CARGO_BIN_EXE_served-mcp-program");

/// The program, and a client that reads and writes lines.
struct Program {
    child: Child,
    to: Option<ChildStdin>,
    from: Lines<BufReader<ChildStdout>>,
}

impl Program {
    async fn start(noted: &Scripted) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg(noted.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("a program");
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut program = Self { child, to, from };
        // What it prints before it serves is its own.
        assert_eq!(program.line().await.as_deref(), Some("printed before"));
        let info = json!({"name": "test", "version": "1"});
        let begin =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        program.send(json!({"id": 1, "method": "initialize", "params": begin})).await;
        assert_eq!(program.message().await["id"], 1);
        program.send(json!({"method": "notifications/initialized"})).await;
        program
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        let to = self.to.as_mut().expect("an open pipe");
        to.write_all(format!("{message}\n").as_bytes()).await.expect("a program that reads");
    }

    async fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(json!({"id": id, "method": "tools/call", "params": params})).await;
    }

    async fn line(&mut self) -> Option<String> {
        self.from.next_line().await.expect("a pipe")
    }

    /// The next line, which is a message.
    async fn message(&mut self) -> Value {
        let line = self.line().await.expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"))
    }

    async fn errors(mut self) -> String {
        let mut errors = String::new();
        let mut pipe = self.child.stderr.take().expect("a pipe");
        pipe.read_to_string(&mut errors).await.expect("a text");
        errors
    }
}

#[tokio::test]
async fn what_tools_print_does_not_break_the_protocol() {
    let noted = Scripted::new();
    let mut program = Program::start(&noted).await;
    program.call(2, "print", json!({})).await;
    let answer = program.message().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(2), &json!("printed"))
    );
    drop(program.to.take());
    // What it prints afterwards goes where it went before.
    assert_eq!(program.line().await.as_deref(), Some("printed after"));
    assert_eq!(program.line().await, None);
    assert!(program.child.wait().await.expect("an end").success());
    assert_eq!(noted.count("served"), 1);
    let errors = program.errors().await;
    for line in ["printed by the tool", "printed by a child"] {
        assert!(errors.contains(line), "{line} in {errors}");
    }
}

#[tokio::test]
async fn a_call_ends_when_the_input_ends() {
    let noted = Scripted::new();
    let mut program = Program::start(&noted).await;
    program.call(2, "hang", json!({})).await;
    noted.until("a call", |noted| noted.count("begun") == 1).await;
    drop(program.to.take());
    assert!(program.child.wait().await.expect("an end").success());
    assert_eq!((noted.count("ended"), noted.count("served")), (1, 1), "{}", noted.log());
    assert_eq!(program.line().await.as_deref(), Some("printed after"));
}

#[tokio::test]
async fn much_arrives_whole_while_other_calls_run() {
    let noted = Scripted::new();
    let mut program = Program::start(&noted).await;
    const BYTES: usize = 8_000_000;
    program.call(2, "much", json!({"bytes": BYTES})).await;
    program.call(3, "much", json!({"bytes": 3})).await;
    let mut lengths = std::collections::BTreeMap::new();
    for _ in 0..2 {
        let answer = program.message().await;
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text").len();
        lengths.insert(answer["id"].as_u64(), text);
    }
    assert_eq!(lengths.into_values().collect::<Vec<_>>(), [BYTES, 3]);
}

#[tokio::test]
async fn a_program_that_is_killed_is_told_of_and_started_again() {
    let noted = Scripted::new();
    let program = McpServer::command(PROGRAM, [noted.path().display().to_string()]);
    // A line that it prints before it serves is none of the protocol: the client passes over it.
    let server = program.name("it").connect().await.expect("a program");
    let tool = |name: &str| server.only([name]).expect("the tool").remove(0);
    let hang = tool("hang");
    let running = tokio::spawn(async move { call_with(&hang, json!({})).await });
    noted.until("a call", |noted| noted.count("begun") == 1).await;
    let pid = noted.pids()[0].to_string();
    let killed = Command::new("/bin/kill").args(["-9", &pid]).status().await;
    assert!(killed.expect("kill").success());
    let lost = running.await.expect("no panic").expect_err("it was killed");
    assert!(lost.is_in_doubt(), "{lost}");
    assert_eq!(text(call_with(&tool("much"), json!({"bytes": 3})).await), "xxx");
    assert_eq!((noted.count("begun"), noted.pids().len()), (1, 2), "{}", noted.log());
    server.close().await;
}
