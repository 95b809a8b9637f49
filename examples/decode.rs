//! Decodes recorded answers of a model, and prints a JSON object a line for each:
//!
//! ```sh
//! cargo run --release --example decode -- --wire anthropic|responses|chat [--events] FILE..
//! ```
//!
//! A file is the body of an answer as a server sent it: server-sent events. With `-` the body is
//! read from standard input. Each line has
//!
//! - `file`: the name as it was given,
//! - `text`, `reasoning_text`: the text and the visible reasoning of the model,
//! - `tool_calls`: of each call `id`, `name`, `args` (the arguments as JSON, or `null`) and
//!   `args_valid` (whether they are complete and JSON),
//! - `input_tokens`, `output_tokens`, `reasoning_tokens`: `null` if the answer does not say;
//!   input includes cached tokens, output includes reasoning,
//! - `stop`: `complete`, `tool_calls`, `truncated`, `paused`, `refused`, `unsupported` (the model waits
//!   for something that the library cannot do), `other`, `failed` (the server reported an error) or
//!   `interrupted` (the answer ended too early); calls may run only after the first two,
//! - `error`: `null`, or `status`, `code` and `message`.
//!
//! With `--events` each event of the answer is printed before its line. The exit status is 2 if the
//! arguments are wrong, 1 if a file cannot be read, is empty or ends in the middle of the answer, and
//! 0 otherwise: an answer in which the server reports an error is an answer.

mod program;

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use harness::{
    Error, ErrorKind, StopReason, StreamEvent, Usage,
    policy::visible,
    provider::ResponseSizeLimits,
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
        let mut fault = |text: &str| {
            let _ = writeln!(io::stderr(), "{}", visible(&format!("{file}: {text}")));
            code = ExitCode::FAILURE;
        };
        let body = match read(&file) {
            Ok(body) if body.trim_ascii().is_empty() => {
                fault("it is empty; expected the body of an answer: server-sent events");
                continue;
            }
            Ok(body) => body,
            Err(err) => {
                fault(&err.to_string());
                continue;
            }
        };
        let (all, end) = wire.decode(&body);
        if stop_of(stop(&all), &end) == INTERRUPTED {
            fault(match all.is_empty() {
                true => "it holds no whole event of this wire; is `--wire` right?",
                false => "it ends in the middle of the answer",
            });
        }
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

const USAGE: &str = "\
decode --wire anthropic|responses|chat [--events] FILE..: decodes recorded answers of a model
A FILE is the body of an answer as the server sent it: server-sent events, such as a tap of a provider or
`curl -N` records them; - is standard input. `--wire` is the protocol: anthropic is /v1/messages, responses
is /v1/responses, chat is /v1/chat/completions.
For each FILE it prints a JSON object on one line: file, text, reasoning_text, tool_calls, input_tokens,
output_tokens, reasoning_tokens, stop, error. With --events it prints each event before it.
Exit status: 0 decoded, 1 a FILE cannot be read, is empty or ends in the middle, 2 wrong arguments.";

/// What was expected, in the errors of wrong arguments.
const EXPECTED: &str = "expected `decode --wire anthropic|responses|chat [--events] FILE..`";

fn arguments(given: Vec<String>) -> anyhow::Result<Arguments> {
    let mut given = given.into_iter();
    let (mut wire, mut events, mut files) = (None, false, Vec::new());
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--wire" => {
                let name = given.next().ok_or_else(|| wrong("`--wire` needs a name"))?;
                wire = Some(Wire::named(&name)?);
            }
            "--events" => events = true,
            option if option.starts_with('-') && option != "-" => {
                return Err(wrong(&format!("`{option}` is unknown")));
            }
            _ => files.push(argument),
        }
    }
    let wire = wire.ok_or_else(|| wrong("`--wire` is missing"))?;
    match files.is_empty() {
        true => Err(wrong("the FILE is missing")),
        false => Ok(Arguments { wire, events, files }),
    }
}

fn wrong(fault: &str) -> anyhow::Error {
    program::wrong(format!("{fault}; {EXPECTED}"))
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
            _ => return Err(wrong(&format!("there is no wire `{name}`"))),
        })
    }

    /// The events of a body, and how it ended. A decoder takes any split of its input; here it gets
    /// all bytes at once.
    fn decode(self, body: &[u8]) -> (Vec<StreamEvent>, Result<(), Error>) {
        macro_rules! with {
            ($decoder:expr) => {{
                let mut decoder = $decoder;
                let end = decoder.push(body).and_then(|()| decoder.finish());
                (std::iter::from_fn(|| decoder.next_event()).collect(), end)
            }};
        }
        match self {
            Self::Anthropic => with!(anthropic::decoder(ResponseSizeLimits::default())),
            Self::Responses => with!(responses::decoder(ResponseSizeLimits::default())),
            Self::Chat => {
                with!(chat::decoder(ResponseSizeLimits::default(), chat::DecodeOptions::default()))
            }
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
    let stop = stop(events);
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
            StreamEvent::Completed { usage: all, .. } => usage = **all,
            // The data that a vendor wants back is not shown, nor are events of later versions.
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
    let error = end.as_ref().err().map(|err| {
        // The library's own text speaks of a connection.
        let message = match err.kind() {
            ErrorKind::CutOff => "the file ends in the middle of the answer",
            _ => err.message(),
        };
        json!({"status": err.status(), "code": err.code(), "message": message})
    });
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

/// One line of JSON in which no character acts on a terminal: invisible characters are JSON escapes,
/// which every reader of JSON reads as the same text.
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

/// Why the model stopped, if the answer says so.
fn stop(events: &[StreamEvent]) -> Option<StopReason> {
    events.iter().rev().find_map(|event| match event {
        StreamEvent::Completed { stop, .. } => Some(*stop),
        _ => None,
    })
}

/// How an answer is called that ends too early.
const INTERRUPTED: &str = "interrupted";

fn stop_of(stop: Option<StopReason>, end: &Result<(), Error>) -> &'static str {
    match (stop, end) {
        (_, Err(err)) if err.kind() == ErrorKind::CutOff => INTERRUPTED,
        (_, Err(_)) => "failed",
        (Some(StopReason::Complete), Ok(())) => "complete",
        (Some(StopReason::ToolCalls), Ok(())) => "tool_calls",
        (Some(StopReason::Truncated), Ok(())) => "truncated",
        (Some(StopReason::Paused), Ok(())) => "paused",
        (Some(StopReason::Refused), Ok(())) => "refused",
        (Some(StopReason::Unsupported(_)), Ok(())) => "unsupported",
        (None, Ok(())) => INTERRUPTED,
    }
}
