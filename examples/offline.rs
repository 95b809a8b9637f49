//! A model that needs no key: a server on this machine that speaks Anthropic's protocol and plans
//! with a few rules instead of a network of neurons. The examples use it when there is no key.
//! It is no part of the library.
//!
//! It writes what is quoted in the task (`write 'hello world' to a file`), reads the file back,
//! works out the first sum that it finds (`17 * 23 - 100`), and answers with the real results.

use std::{io, time::Duration};

use harness::testing::{Answer, LoopbackServer, ReceivedRequest, anthropic};
use serde_json::{Value, json};

/// Starts the model. It answers as long as the server lives.
///
/// # Errors
/// Fails if the system gives no port.
pub(crate) async fn model() -> io::Result<LoopbackServer> {
    let mut answers = 0;
    LoopbackServer::answering(move |request| {
        answers += 1;
        answer(request, answers)
    })
    .await
}

/// Speaks as a service does: not all at once.
fn spoken(body: anthropic::Body, number: usize) -> Answer {
    body.id(&format!("msg_{number}")).answer().in_pieces(96, Duration::from_millis(4))
}

fn answer(request: &ReceivedRequest, number: usize) -> Answer {
    if request.path() != "/v1/messages" {
        return anthropic::error(404, "not_found_error", "this server has only /v1/messages");
    }
    let said = Task::of(&request.json()).next(number);
    // About four bytes a token in, and a token a delta out.
    let (read, written) = (request.body().len() as u64 / 4, said.events().len() as u64);
    spoken(said.usage(read, written), number)
}

/// What is to be done, and what came of it so far.
struct Task {
    text: String,
    /// The tools that the model was told of.
    tools: Vec<String>,
    /// Each call since the person spoke, with its result.
    done: Vec<Done>,
}

struct Done {
    tool: String,
    result: String,
    failed: bool,
}

impl Task {
    /// Reads the task from the body of a request.
    fn of(body: &Value) -> Self {
        let mut task = Self { text: String::new(), tools: Vec::new(), done: Vec::new() };
        for tool in items(&body["tools"]) {
            task.tools.extend(tool["name"].as_str().map(str::to_owned));
        }
        let mut names: Vec<(&str, &str)> = Vec::new();
        for message in items(&body["messages"]) {
            for block in items(&message["content"]) {
                match block["type"].as_str() {
                    Some("text") if message["role"] == "user" => {
                        text_of(block).clone_into(&mut task.text);
                        task.done.clear();
                    }
                    Some("tool_use") => names.push((word(block, "id"), word(block, "name"))),
                    Some("tool_result") => {
                        let id = word(block, "tool_use_id");
                        let call = names.iter().rev().find(|(known, _)| *known == id);
                        task.done.push(Done {
                            tool: call.map_or("", |(_, name)| name).to_owned(),
                            result: content_of(&block["content"]),
                            failed: block["is_error"] == true,
                        });
                    }
                    _ => {}
                }
            }
        }
        task
    }

    /// What the model says next.
    fn next(&self, number: usize) -> anthropic::Body {
        let id = |call: usize| format!("toolu_{number}_{call}");
        if let Some(done) = self.done.iter().find(|done| done.failed) {
            let text = format!("`{}` went wrong, so I stop here: {}", done.tool, done.result);
            return anthropic::body().text(text);
        }
        let asks = |word: &str| self.text.to_lowercase().contains(word);
        let quoted = quoted(&self.text).filter(|_| self.has("write_file") && asks("write"));
        let sum = sum(&self.text).filter(|_| self.has("calc"));
        let reads = self.has("read_file") && asks("read");
        match self.done.len() {
            0 if quoted.is_some() => anthropic::body().text("First I write the file.").call(
                &id(1),
                "write_file",
                json!({"path": FILE, "content": quoted}),
            ),
            0 | 1 if self.done.iter().all(|done| done.tool == "write_file") => {
                let mut body = anthropic::body();
                if !reads && sum.is_none() {
                    return body.text(self.last_words());
                }
                if !self.done.is_empty() {
                    body = body.text("It is written. Now I check it, and do the sum.");
                }
                if reads {
                    body = body.call(&id(1), "read_file", json!({"path": FILE}));
                }
                match sum {
                    Some(sum) => body.call(&id(2), "calc", json!({"expression": sum})),
                    None => body,
                }
            }
            _ => anthropic::body().text(self.last_words()),
        }
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| name == tool)
    }

    /// The answer, from what the tools really said.
    fn last_words(&self) -> String {
        let mut words = Vec::new();
        for done in &self.done {
            words.push(match done.tool.as_str() {
                "write_file" => format!("I wrote {FILE}."),
                "read_file" => format!("{FILE} says: {}", file_of(&done.result)),
                "calc" => {
                    format!("{} = {}", sum(&self.text).unwrap_or_default(), done.result.trim())
                }
                other => format!("{other}: {}", done.result),
            });
        }
        if words.is_empty() {
            return "I am a few rules, not a model: I write what is 'quoted' to a file, read it \
                    back, and do a sum such as 17 * 23 - 100. Set ANTHROPIC_API_KEY to talk to a \
                    model."
                .to_owned();
        }
        words.join("\n")
    }
}

const FILE: &str = "hello.txt";

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word<'a>(block: &'a Value, field: &str) -> &'a str {
    block[field].as_str().unwrap_or_default()
}

fn text_of(block: &Value) -> &str {
    word(block, "text")
}

/// The content of a result: text, or blocks of text.
fn content_of(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => items(content).iter().map(text_of).collect::<Vec<_>>().join("\n"),
    }
}

/// What a file says, without the line in brackets that the tool puts before it.
fn file_of(result: &str) -> &str {
    let body = match result.split_once('\n') {
        Some((first, body)) if first.starts_with('[') && first.ends_with(']') => body,
        _ => result,
    };
    body.trim_end()
}

/// What stands between the first two quotes of a kind. An apostrophe inside a word is none.
fn quoted(text: &str) -> Option<&str> {
    let begins = |(at, _): &(usize, &str)| text[..*at].chars().last().is_none_or(|c| c == ' ');
    let (at, quote) = text.match_indices(['\'', '"']).find(begins)?;
    text[at + quote.len()..].split_once(quote).map(|(inside, _)| inside)
}

/// The longest run of digits, operators and brackets that is a sum: it begins with a number and
/// has two at least.
fn sum(text: &str) -> Option<&str> {
    text.split(|c: char| !(c.is_ascii_digit() || " .+-*/()".contains(c)))
        .map(|run| run.trim().trim_end_matches(['.', ' ']))
        .filter(|run| {
            run.split(['+', '-', '*', '/']).filter(|part| !part.trim().is_empty()).count() > 1
        })
        .max_by_key(|run| run.len())
}
