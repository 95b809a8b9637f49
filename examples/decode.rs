//! Reads recorded answers and says what they hold, one JSON object a line:
//!
//! ```sh
//! cargo run --release --example decode -- --wire anthropic|responses|chat [--events] FILE..
//! ```
//!
//! A file is the body of an answer as a server sent it: server-sent events. With `-` the body is
//! read from standard input. Each line has
//!
//! - `file`: the name as it was given,
//! - `text`, `reasoning_text`: all words, all thinking that is shown,
//! - `tool_calls`: of each call `id`, `name`, `args` (the arguments as JSON, or `null`) and
//!   `args_valid` (whether they are whole and JSON),
//! - `input_tokens`, `output_tokens`, `reasoning_tokens`: `null` where the answer does not say;
//!   input includes what was cached, output includes thinking,
//! - `stop`: `complete`, `tool_calls`, `truncated`, `paused`, `refused`, `unsupported` (the model waits
//!   for what the library cannot do), `other`, `failed` (the server reported an error) or
//!   `interrupted` (the answer ended too early); calls may run after the first two alone,
//! - `error`: `null`, or `status`, `code` and `message`.
//!
//! With `--events` each event of the answer is printed before it. The exit status is 1 if a file
//! could not be read, 2 if the arguments are wrong, and 0 otherwise: an answer that failed is an
//! answer.

mod program;

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use harness::{
    Error, ErrorKind, StopReason, StreamEvent, Usage,
    policy::visible,
    provider::AnswerLimits,
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

fn main() -> ExitCode {
    program::ended(run())
}

fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let Arguments { wire, events, files } = arguments(program::arguments()?)?;
    let mut out = io::stdout().lock();
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let body = match read(&file) {
            Ok(body) => body,
            Err(err) => {
                let _ = writeln!(io::stderr(), "{}", visible(&format!("{file}: {err}")));
                code = ExitCode::FAILURE;
                continue;
            }
        };
        let (all, end) = wire.decode(&body);
        if events {
            for event in &all {
                writeln!(out, "{event:?}")?;
            }
        }
        writeln!(out, "{}", legible(&summary(&file, &all, end)))?;
    }
    Ok(code)
}

struct Arguments {
    wire: Wire,
    events: bool,
    files: Vec<String>,
}

const USAGE: &str = "usage: decode --wire anthropic|responses|chat [--events] FILE..";

fn arguments(given: Vec<String>) -> anyhow::Result<Arguments> {
    let mut given = given.into_iter();
    let (mut wire, mut events, mut files) = (None, false, Vec::new());
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--wire" => {
                let name = given.next().ok_or_else(|| program::wrong(USAGE))?;
                wire = Some(Wire::named(&name)?);
            }
            "--events" => events = true,
            _ => files.push(argument),
        }
    }
    match wire {
        Some(wire) if !files.is_empty() => Ok(Arguments { wire, events, files }),
        _ => Err(program::wrong(USAGE)),
    }
}

fn read(file: &str) -> io::Result<Vec<u8>> {
    if file != "-" {
        return std::fs::read(file);
    }
    let mut body = Vec::new();
    io::stdin().read_to_end(&mut body)?;
    Ok(body)
}

#[derive(Clone, Copy)]
enum Wire {
    Anthropic,
    Responses,
    Chat,
}

impl Wire {
    fn named(name: &str) -> anyhow::Result<Self> {
        Ok(match name {
            "anthropic" => Self::Anthropic,
            "responses" => Self::Responses,
            "chat" => Self::Chat,
            _ => return Err(program::wrong(format!("there is no wire `{name}`; {USAGE}"))),
        })
    }

    /// The events of a body, and how it ended. A decoder takes the bytes as they come; here they
    /// all come at once.
    fn decode(self, body: &[u8]) -> (Vec<StreamEvent>, Result<(), Error>) {
        macro_rules! with {
            ($decoder:expr) => {{
                let mut decoder = $decoder;
                let end = decoder.push(body).and_then(|()| decoder.finish());
                (std::iter::from_fn(|| decoder.next_event()).collect(), end)
            }};
        }
        match self {
            Self::Anthropic => with!(anthropic::decoder(AnswerLimits::default())),
            Self::Responses => with!(responses::decoder(AnswerLimits::default())),
            Self::Chat => with!(chat::decoder(AnswerLimits::default(), chat::Reading::default())),
        }
    }
}

#[derive(Default)]
struct Call {
    block: u32,
    id: String,
    name: String,
    arguments: String,
    ended: bool,
}

fn summary(file: &str, events: &[StreamEvent], end: Result<(), Error>) -> Value {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut calls: Vec<Call> = Vec::new();
    let mut usage = Usage::default();
    let mut stop = None;
    for event in events {
        match event {
            StreamEvent::TextDelta { text: more, .. } => text.push_str(more),
            StreamEvent::ReasoningDelta { text: more, .. } => reasoning.push_str(more),
            StreamEvent::ToolCallStart { block, id, name } => {
                let (id, name) = (id.clone(), name.clone());
                calls.push(Call { block: *block, id, name, ..Call::default() });
            }
            StreamEvent::ToolCallDelta { block, json } => {
                if let Some(call) = calls.iter_mut().rfind(|call| call.block == *block) {
                    call.arguments.push_str(json);
                }
            }
            StreamEvent::ToolCallArguments { block, json } => {
                if let Some(call) = calls.iter_mut().rfind(|call| call.block == *block) {
                    call.arguments.clone_from(json);
                }
            }
            StreamEvent::ToolCallEnd { block } => {
                if let Some(call) = calls.iter_mut().rfind(|call| call.block == *block) {
                    call.ended = true;
                }
            }
            StreamEvent::UsageSoFar(so_far) => usage = *so_far,
            StreamEvent::Completed { stop: why, usage: all } => {
                (stop, usage) = (Some(*why), **all);
            }
            // What a vendor wants back is of no interest here, nor is what comes in later versions.
            _ => {}
        }
    }
    let truncated = stop == Some(StopReason::Truncated);
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            let args: Option<Value> = match call.arguments.trim() {
                "" => (call.ended && !truncated).then(|| json!({})),
                text => serde_json::from_str(text).ok(),
            };
            let valid = args.is_some();
            json!({"id": call.id, "name": call.name, "args": args, "args_valid": valid})
        })
        .collect();
    let error = end
        .as_ref()
        .err()
        .map(|err| json!({"status": err.status(), "code": err.code(), "message": err.message()}));
    json!({
        "file": file,
        "text": text,
        "reasoning_text": reasoning,
        "tool_calls": calls,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "stop": stop_of(stop, &end),
        "error": error,
    })
}

/// One line of JSON in which nothing acts on a terminal: what is not visible has its number, which is
/// the same to whatever reads JSON.
fn legible(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        let mut units = [0; 2];
        match visible(c.encode_utf8(&mut [0; 4])).chars().eq([c]) {
            true => line.push(c),
            false => {
                for unit in c.encode_utf16(&mut units) {
                    line += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    line
}

fn stop_of(stop: Option<StopReason>, end: &Result<(), Error>) -> &'static str {
    match (stop, end) {
        (_, Err(err)) if err.kind() == ErrorKind::CutOff => "interrupted",
        (_, Err(_)) => "failed",
        (Some(StopReason::Complete), Ok(())) => "complete",
        (Some(StopReason::ToolCalls), Ok(())) => "tool_calls",
        (Some(StopReason::Truncated), Ok(())) => "truncated",
        (Some(StopReason::Paused), Ok(())) => "paused",
        (Some(StopReason::Refused), Ok(())) => "refused",
        (Some(StopReason::Unsupported(_)), Ok(())) => "unsupported",
        (Some(_), Ok(())) => "other",
        (None, Ok(())) => "interrupted",
    }
}
