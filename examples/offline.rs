//! A scripted model without a key: a server on this machine with Anthropic's protocol that follows a
//! few rules. The examples use it if `PROVIDER` is not set. This file is not a part of the library.
//!
//! It writes quoted text of the task to a file (`write 'hello world' to a file`), reads, lists and
//! searches files (`what does Cargo.toml say?`), calculates the first sum that it finds
//! (`17 * 23 - 100`, also in words), runs commands in backquotes, counts (`count to 500`), remembers a
//! favourite number, and answers with the real results.

use std::{io, time::Duration};

use harness::testing::{Answer, LoopbackServer, ReceivedRequest, anthropic};
use serde_json::{Value, json};

/// Starts the model. It answers until the server is dropped.
///
/// # Errors
/// Fails if the operating system provides no port.
pub(crate) async fn model() -> io::Result<LoopbackServer> {
    LoopbackServer::answering(answer).await
}

fn answer(request: &ReceivedRequest) -> Answer {
    if request.path() != "/v1/messages" {
        return anthropic::error(404, "not_found_error", "this server has only /v1/messages");
    }
    let body = request.json();
    let task = Task::of(&body);
    // A conversation can continue with another server, so new ids are made from its number of messages.
    let number = items(&body["messages"]).len();
    let said = task.next(number);
    // About four bytes for each input token, and one output token for each delta.
    let (read, written) = (request.body().len() as u64 / 4, said.events().len() as u64);
    let spoken = said.usage(read, written).id(&format!("msg_{number}")).answer();
    // In pieces, as a service does; and slowly enough to be interrupted while it counts.
    match task.count {
        Some(_) => spoken.in_pieces(120, Duration::from_millis(25)),
        None => spoken.in_pieces(96, Duration::from_millis(4)),
    }
}

/// The task, and its results so far.
#[derive(Default)]
struct Task {
    text: String,
    /// The tools of the request.
    tools: Vec<String>,
    /// Each call since the last message of the user, with its result.
    done: Vec<Done>,
    /// The user's favourite number, if it was named at any time.
    favourite: Option<String>,
    /// How far to count.
    count: Option<u64>,
}

struct Done {
    tool: String,
    /// Its main argument: the path, the sum or the command.
    about: String,
    result: String,
    failed: bool,
}

/// A call to be made: the tool and its arguments.
type Call = (&'static str, Value);

impl Task {
    /// Reads the task from the body of a request.
    fn of(body: &Value) -> Self {
        let mut task = Self::default();
        for tool in items(&body["tools"]) {
            task.tools.extend(tool["name"].as_str().map(str::to_owned));
        }
        let mut calls: Vec<&Value> = Vec::new();
        for message in items(&body["messages"]) {
            for block in items(&message["content"]) {
                match block["type"].as_str() {
                    Some("text") if message["role"] == "user" => task.hear(text_of(block)),
                    Some("tool_use") => calls.push(block),
                    Some("tool_result") => {
                        let id = word(block, "tool_use_id");
                        let call = calls.iter().rev().find(|call| word(call, "id") == id);
                        let about = ["path", "expression", "command", "pattern"];
                        task.done.push(Done {
                            tool: call.map_or("", |call| word(call, "name")).to_owned(),
                            about: call
                                .and_then(|call| {
                                    about.iter().find_map(|field| call["input"][field].as_str())
                                })
                                .unwrap_or_default()
                                .to_owned(),
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

    /// Takes a message of the user as the task. A later one replaces it.
    fn hear(&mut self, text: &str) {
        // The message of `resume` after an answer that broke off does not change the task.
        if text.starts_with("Your reply above was cut off") {
            return;
        }
        text.clone_into(&mut self.text);
        self.done.clear();
        let low = text.to_lowercase();
        let told = low
            .split_once(FAVOURITE)
            .and_then(|(_, rest)| rest.trim_start().strip_prefix("is "))
            .and_then(first_number);
        if told.is_some() {
            self.favourite = told.map(str::to_owned);
        }
        let far = low.split_once("count to ").and_then(|(_, rest)| first_number(rest));
        self.count = far.and_then(|far| far.parse().ok()).map(|far: u64| far.min(1000));
    }

    /// The next answer.
    fn next(&self, number: usize) -> anthropic::AnthropicBody {
        if let Some(done) = self.done.iter().find(|done| done.failed) {
            let text = format!("`{}` went wrong, so I stop here: {}", done.tool, done.result);
            return anthropic::body().text(text);
        }
        let mut made = 0;
        for (words, calls) in self.plan() {
            if made == self.done.len() && !calls.is_empty() {
                let body = anthropic::body();
                let body = if words.is_empty() { body } else { body.text(words) };
                return calls.into_iter().enumerate().fold(
                    body,
                    |body, (at, (tool, arguments))| {
                        body.call(&format!("toolu_{number}_{}", at + 1), tool, arguments)
                    },
                );
            }
            made += calls.len();
        }
        anthropic::body().text(self.last_words())
    }

    /// The calls in steps, each with the text before it. The plan is the same in every turn.
    fn plan(&self) -> Vec<(String, Vec<Call>)> {
        let asks = |words: &[&str]| {
            let low = self.text.to_lowercase();
            words.iter().any(|word| low.contains(word))
        };
        let quoted = quoted(&self.text);
        let unquoted = self.text.replace(quoted.unwrap_or("'"), " ");
        let path = path(&unquoted).unwrap_or("hello.txt");
        let write = quoted
            .filter(|_| asks(&["write"]))
            .map(|content| ("write_file", json!({"path": path, "content": content})));
        let writes = write.is_some();
        let shows = asks(&["what does", "what is in", "what's in", "show me"]);
        let mut looks: Vec<Call> = Vec::new();
        if asks(&["read"]) || shows && path != "hello.txt" {
            looks.push(("read_file", json!({"path": path})));
        }
        if asks(&["list", "which files", "what files"]) {
            looks.push(("list_files", json!({})));
        }
        if let Some(pattern) = quoted.filter(|_| asks(&["search"])) {
            looks.push(("search_files", json!({"pattern": pattern})));
        }
        if let Some(sum) = self.sum() {
            looks.push(("calc", json!({"expression": sum})));
        }
        let commands = self.text.split('`').skip(1).step_by(2);
        let runs = commands.map(|command| ("bash", json!({"command": command}))).collect();
        let known = |calls: Vec<Call>| -> Vec<Call> {
            let has = |tool: &str| self.tools.iter().any(|name| name == tool);
            calls.into_iter().filter(|(tool, _)| has(tool)).collect()
        };
        let check = if writes { "It is written. Now I check it, and do the sum." } else { "" };
        vec![
            ("First I write the file.".to_owned(), known(write.into_iter().collect())),
            (check.to_owned(), known(looks)),
            (self.counted(), known(runs)),
        ]
    }

    /// The sum in the task, with the favourite number inserted.
    fn sum(&self) -> Option<String> {
        // Text in backquotes is not searched for a sum.
        let mut text = outside(&self.text, '`').to_lowercase();
        if let Some(number) = &self.favourite {
            text = text.replace(&format!("my {FAVOURITE}"), number);
            text = text.replace(" it ", &format!(" {number} "));
        }
        for (word, sign) in
            [(" times ", " * "), (" plus ", " + "), (" minus ", " - "), (" divided by ", " / ")]
        {
            text = text.replace(&format!(",{word}"), sign).replace(word, sign);
        }
        sum(&text).map(str::to_owned)
    }

    /// The numbers up to the one that the task names.
    fn counted(&self) -> String {
        let far = self.count.unwrap_or(0);
        (1..=far).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// The answer, made from the real results of the tools.
    fn last_words(&self) -> String {
        let mut words = Vec::new();
        for Done { tool, about, result, .. } in &self.done {
            words.push(match tool.as_str() {
                "write_file" => format!("I wrote {about}."),
                "read_file" => format!("{about} says: {}", file_of(result)),
                "calc" => format!("{about} = {}", result.trim()),
                "list_files" => format!("Here are: {}", result.trim().replace('\n', ", ")),
                other => format!("{other}: {result}"),
            });
        }
        // If there is a command, the model has counted before it.
        if self.count.is_some() && self.done.iter().all(|done| done.tool != "bash") {
            words.push(self.counted());
        }
        if words.is_empty() && self.text.to_lowercase().contains(FAVOURITE) {
            words.push(match &self.favourite {
                Some(number) if self.text.contains('?') => {
                    format!("Your favourite number is {number}.")
                }
                Some(number) => format!("I will remember it: {number}."),
                None => "You have not told me.".to_owned(),
            });
        }
        if words.is_empty() {
            return "I am a few rules, not a model: I write what is 'quoted' to a file, read it \
                    back, list files, do a sum such as 17 * 23 - 100, run a command in \
                    `backquotes`, count to 500 and remember your favourite number. Set PROVIDER \
                    and its key to talk to a model."
                .to_owned();
        }
        words.join("\n")
    }
}

const FAVOURITE: &str = "favourite number";

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

/// The content of a file, without the line in brackets that the tool puts before it.
fn file_of(result: &str) -> &str {
    let body = match result.split_once('\n') {
        Some((first, body)) if first.starts_with('[') && first.ends_with(']') => body,
        _ => result,
    };
    body.trim_end()
}

/// The text between the first two quotes of a kind. An apostrophe inside a word is not a quote.
fn quoted(text: &str) -> Option<&str> {
    let begins = |(at, _): &(usize, &str)| text[..*at].chars().last().is_none_or(|c| c == ' ');
    let (at, quote) = text.match_indices(['\'', '"']).find(begins)?;
    text[at + quote.len()..].split_once(quote).map(|(inside, _)| inside)
}

/// The text outside of pairs of this mark.
fn outside(text: &str, mark: char) -> String {
    text.split(mark).step_by(2).collect::<Vec<_>>().join(" ")
}

/// The first path: a word with a dot inside, such as `Cargo.toml`, that is not a number.
fn path(text: &str) -> Option<&str> {
    let words = text.split_whitespace();
    words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).find(|word| {
        word.contains('.')
            && word.chars().all(|c| c.is_alphanumeric() || "._-/".contains(c))
            && word.chars().any(char::is_alphabetic)
    })
}

fn first_number(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).filter(|number| !number.is_empty())
}

/// The longest sequence of digits, operators and brackets that is a sum: it begins with a number and
/// has at least two.
fn sum(text: &str) -> Option<&str> {
    text.split(|c: char| !(c.is_ascii_digit() || " .+-*/()".contains(c)))
        .map(|run| run.trim().trim_end_matches(['.', ' ']))
        .filter(|run| run.starts_with(|c: char| c.is_ascii_digit() || c == '('))
        .filter(|run| {
            run.split(['+', '-', '*', '/']).filter(|part| !part.trim().is_empty()).count() > 1
        })
        .max_by_key(|run| run.len())
}
