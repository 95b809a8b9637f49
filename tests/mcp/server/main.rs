//! A server that speaks the Model Context Protocol over its standard input and output, as badly as its first
//! argument says. Each thing that it does is a line in the file that its second argument names.

mod hostile;
mod lines;
mod newer;
mod offers;

use std::{
    cell::Cell,
    env, fs,
    io::{self, BufRead as _, Write as _},
    process::{self, Command},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

struct Server {
    way: String,
    log: String,
    /// How often it was started, this time included.
    life: usize,
    /// The replies that it has not written yet, to messages that have no answer.
    owed: Cell<usize>,
}

fn say(message: &Value) {
    let mut out = io::stdout().lock();
    // A client that is gone is nothing to complain of.
    let _ = writeln!(out, "{message}");
    let _ = out.flush();
}

fn hear(lines: &mut impl Iterator<Item = io::Result<String>>) -> Option<Value> {
    serde_json::from_str(&lines.next()?.ok()?).ok()
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "inputSchema": {
        "type": "object", "properties": {"a": {"type": "integer"}}
    }, "annotations": {"readOnlyHint": true, "openWorldHint": false}})
}

impl Server {
    fn note(&self, line: &str) {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(&self.log).expect("the log");
        writeln!(file, "{line}").expect("the log");
    }

    /// How often it has noted this in all of its lives.
    fn count(&self, line: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|noted| *noted == line).count()
    }

    fn list(&self, cursor: Option<&str>) -> Value {
        if let Some(list) = self.hostile_list(cursor) {
            return list;
        }
        match self.way.as_str() {
            "last-page" => json!({"tools": [tool("run")], "nextCursor": ""}),
            "same-page" => json!({"tools": [tool("run")], "nextCursor": "again"}),
            "same-page-anew" => {
                let next = format!("{}+", cursor.unwrap_or_default());
                json!({"tools": [tool("run")], "nextCursor": next})
            }
            "any-order" => {
                let names = if cursor.is_none() { ["d", "b"] } else { ["c", "a"] };
                let next = if cursor.is_none() { "2" } else { "" };
                json!({"tools": names.map(tool), "nextCursor": next})
            }
            "endless-pages" => {
                let page: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
                json!({"tools": [], "nextCursor": (page + 1).to_string()})
            }
            "too-many" => {
                json!({"tools": (0..3000).map(|n| tool(&format!("t{n}"))).collect::<Vec<_>>()})
            }
            "no-list" => json!({"stools": []}),
            "list-too-long" => json!({"tools": [tool(&"x".repeat(17 << 20))]}),
            "list-too-deep" => {
                let deep = (0..120).fold(json!(1), |deep, _| json!([deep]));
                // Within the answer it is as deep as that cannot be read.
                json!({"tools": [{"name": "run", "inputSchema": {"x": [[[[[[deep]]]]]]}}]})
            }
            "bad-tools" => json!({"tools": [
                {"name": "no_schema"}, tool("run"), tool("run"), {"name": "", "inputSchema": {}}, 7,
                {"name": "far", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:1/x"}}}},
                {"name": "odd.name", "inputSchema": {"type": "object"}},
            ]}),
            // With the members of the result of a call.
            "bad-tools-and-more" => json!({
                "tools": [tool("run"), {"name": "no_schema"}, {"name": 7}], "content": [], "isError": true,
            }),
            "other-tool" | "describes-anew" | "echoes-anew" if self.life > 1 => {
                let mut other = tool("run");
                other["description"] = "Does something else.".into();
                json!({"tools": [other]})
            }
            "tool-gone" if self.life > 1 => json!({"tools": []}),
            "changes" if fs::read_to_string(&self.log).is_ok_and(|log| log.contains("call")) => {
                json!({"tools": [tool("run"), tool("more")]})
            }
            _ => json!({"tools": [tool("run")]}),
        }
    }

    /// Answers a call, or does what the way says instead.
    fn call(&self, request: &Value, lines: &mut impl Iterator<Item = io::Result<String>>) {
        self.note("call");
        let id = &request["id"];
        let answer = |result: Value| say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let token = &request["params"]["_meta"]["progressToken"];
        let progress = |at: usize| {
            let params = json!({"progressToken": token, "progress": at, "total": 2000, "message": "on its way"});
            say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        };
        if let Some((_, result)) = self.way.split_once("answers:") {
            return answer(serde_json::from_str(result).expect("a result"));
        }
        if let Some(line) = self.way.strip_prefix("writes:") {
            println!("{}", line.replace("ID", &id.to_string()));
            return;
        }
        if self.hostile_call(request, lines) {
            return;
        }
        match self.way.as_str() {
            "dies" | "hangs-anew" | "other-tool" | "tool-gone" if self.life == 1 => {
                process::exit(3)
            }
            "dies-always" => {
                eprintln!("fatal: the disk is on fire");
                process::exit(3);
            }
            "silent" => {}
            "closes-output" => thread::sleep(Duration::from_secs(3600)),
            "wrong-id" => {
                say(&json!({"jsonrpc": "2.0", "id": 999_999, "result": text("not yours")}))
            }
            "no-jsonrpc" => say(&json!({"id": id, "result": text("no version")})),
            "huge-line" => answer(text(&"x".repeat(20 << 20))),
            "twice" => {
                answer(text("first"));
                answer(text("second"));
            }
            "garbage" => {
                println!("Listening on port 3000");
                println!("{{\"jsonrpc\": \"2.0\", ");
                answer(text("after garbage"));
            }
            "refuses" => {
                say(
                    &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "a is missing"}}),
                );
            }
            "odd-result" => answer(json!({"weather": "fine"})),
            "odd-part" => {
                answer(json!({"content": [{"type": "smell"}, {"type": "text", "text": "kept"}]}))
            }
            "fails" => answer(
                json!({"isError": true, "content": [{"type": "text", "text": "no such row"}]}),
            ),
            "flood" => {
                (1..=2000).for_each(progress);
                progress(3);
                answer(text("done"));
            }
            "loud" => {
                for _ in 0..20_000 {
                    eprintln!("{}", "noise ".repeat(20));
                }
                answer(text("done"));
            }
            "changes" => {
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                answer(text("changed"));
            }
            "samples" => {
                let params = json!({"messages": [], "maxTokens": 1});
                say(
                    &json!({"jsonrpc": "2.0", "id": 70, "method": "sampling/createMessage", "params": params}),
                );
                let said = hear(lines).unwrap_or_default();
                answer(text(if said.get("error").is_some() { "refused" } else { "granted" }));
            }
            "asks" => {
                let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
                let params =
                    json!({"mode": "form", "message": "Who are you?", "requestedSchema": schema});
                say(
                    &json!({"jsonrpc": "2.0", "id": 71, "method": "elicitation/create", "params": params}),
                );
                answer(text(&hear(lines).unwrap_or_default()["result"].to_string()));
            }
            "wants-input" | "wants-forever" => {
                let round = request["params"]["requestState"].as_str().map_or(0, str::len);
                if round < 2 || self.way == "wants-forever" {
                    let schema =
                        json!({"type": "object", "properties": {"name": {"type": "string"}}});
                    let form =
                        json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
                    let wanted = json!({"who": {"method": "elicitation/create", "params": form}});
                    let state = "x".repeat(round + 1);
                    answer(
                        json!({"resultType": "input_required", "inputRequests": wanted, "requestState": state}),
                    );
                } else {
                    answer(text(&request["params"]["inputResponses"].to_string()));
                }
            }
            "wants-eight" | "asks-many" if request["params"]["arguments"]["a"] == 2 => {}
            "asks-many" if request["params"]["arguments"]["a"] == 3 => answer(text("done")),
            "wants-eight" => {
                let wanted = (0..8).map(|n| {
                    let schema =
                        json!({"type": "object", "properties": {"name": {"type": "string"}}});
                    let form = json!({"mode": "form", "message": format!("Who {n}?"), "requestedSchema": schema});
                    (format!("who{n}"), json!({"method": "elicitation/create", "params": form}))
                });
                let wanted: serde_json::Map<String, Value> = wanted.collect();
                answer(
                    json!({"resultType": "input_required", "inputRequests": wanted, "requestState": "x"}),
                );
            }
            "asks-many" => {
                let mut accepted = 0;
                for id in 100..140 {
                    let schema =
                        json!({"type": "object", "properties": {"name": {"type": "string"}}});
                    let params =
                        json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
                    say(
                        &json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}),
                    );
                    let said = hear(lines).unwrap_or_default();
                    accepted += usize::from(said["result"]["action"] == "accept");
                }
                answer(text(&format!("{accepted} accepted")));
            }
            "fails-to-list" => {
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                answer(text("changed"));
            }
            "echoes-anew" => answer(text(&request["params"].to_string())),
            "variables" => {
                let names: Vec<String> = env::vars().map(|(name, _)| name).collect();
                answer(text(&names.join(" ")));
            }
            _ => answer(text(&format!("ran in life {}", self.life))),
        }
    }

    fn serve(&self) {
        let mut lines = io::stdin().lock().lines();
        while let Some(line) = lines.next() {
            let Ok(line) = line else { break };
            let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
            let id = &request["id"];
            let answer =
                |result: Value| say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            let method = request["method"].as_str().unwrap_or_default();
            if self.lines_message(method, &request, &mut lines)
                || self.hostile_message(method, &request, &mut lines)
                || self.newer_message(method, &request)
            {
                continue;
            }
            match method {
                "initialize" => {
                    self.note(&format!("able {}", request["params"]["capabilities"]));
                    let mut able = json!({"tools": {"listChanged": true}});
                    if self.way.starts_with("offers") {
                        able["resources"] = json!({});
                        able["prompts"] = json!({});
                    }
                    let this = json!({"name": "scripted", "version": "1"});
                    let version = "2025-11-25";
                    answer(
                        json!({"protocolVersion": version, "capabilities": able, "serverInfo": this}),
                    );
                }
                "tools/list" if self.way == "fails-to-list" => {
                    self.note("list");
                    // After the change the list is read for the session, and then for the program.
                    let list = self.list(None);
                    match self.count("list") {
                        3 => say(
                            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "busy"}}),
                        ),
                        _ => answer(list),
                    }
                }
                "tools/list" => {
                    answer(self.list(request["params"]["cursor"].as_str()));
                    self.pay();
                }
                "tools/call" => {
                    self.call(&request, &mut lines);
                    if matches!(self.way.as_str(), "newer-changes" | "newer-late-changes") {
                        self.tell_of_change();
                    }
                }
                method if self.way.starts_with("offers") && method.contains('/') => {
                    self.offers(method, &request);
                }
                "notifications/cancelled" => self.note("cancelled"),
                "ping" => answer(json!({})),
                _ => {}
            }
        }
        self.note("input ended");
        if self.way == "stays" {
            thread::sleep(Duration::from_secs(3600));
        }
    }
}

fn main() {
    let mut arguments = env::args().skip(1);
    let way = arguments.next().expect("how to behave");
    let log = arguments.next().expect("a file");
    let lives = fs::read_to_string(&log).unwrap_or_default().matches("pid ").count();
    let server = Server { way, log, life: lives + 1, owed: Cell::new(0) };
    server.note(&format!("pid {}", process::id()));
    let known = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "GIVEN", "KEY"];
    for (name, _) in env::vars().filter(|(name, _)| !known.contains(&name.as_str())) {
        server.note(&format!("leaked {name}"));
    }
    match server.way.as_str() {
        "no-start" => {
            eprintln!("first line");
            eprintln!("error: no configuration for key sk-very-secret-value");
            // What was written is read before the end is seen.
            thread::sleep(Duration::from_millis(100));
            process::exit(1);
        }
        "no-answer" => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        "hangs-anew" if server.life > 1 => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        "leaves-child" | "leaves-child-and-ends" => {
            #[expect(
                clippy::zombie_processes,
                reason = "to leave it behind is the way of this server"
            )]
            let child = Command::new("sleep").arg("3600").spawn().expect("a child");
            server.note(&format!("pid {}", child.id()));
            if server.way == "leaves-child-and-ends" {
                process::exit(6);
            }
        }
        _ => {}
    }
    server.serve();
}
