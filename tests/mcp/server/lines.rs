//! Ways of a server that writes lines that are no answers to what it was asked.

use std::io;

use serde_json::{Value, json};

use super::{Server, hear, say};

impl Server {
    /// Whether a message was dealt with.
    pub(super) fn lines_message(
        &self,
        method: &str,
        request: &Value,
        lines: &mut impl Iterator<Item = io::Result<String>>,
    ) -> bool {
        let id = &request["id"];
        let answer = |text: &str| {
            let result = json!({"content": [{"type": "text", "text": text}]});
            say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        };
        if self.way == "logs-in-json" {
            return match method {
                // It does not read while it writes, and this is more than a pipe holds.
                "tools/call" => {
                    self.note("call");
                    for row in 0..3000 {
                        println!(
                            "{}",
                            json!({"level": "info", "message": format!("row {row} was read")})
                        );
                    }
                    answer("all rows");
                    true
                }
                "" => {
                    self.note("answer");
                    println!("{}", json!({"error": "unknown message"}));
                    true
                }
                _ => false,
            };
        }
        if let Some((at, line)) =
            self.way.strip_prefix("logs-at ").and_then(|it| it.split_once(':'))
        {
            if at == method {
                println!("{}", line.replace("ID", &id.to_string()));
            }
            return false;
        }
        let Some((order, line)) =
            self.way.strip_prefix("replies-").and_then(|way| way.split_once(':'))
        else {
            return false;
        };
        let pinged = |lines: &mut _| {
            say(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
            let pong = hear(lines).unwrap_or_default();
            assert!(pong["result"].is_object(), "{pong}");
        };
        match (method, request["params"]["arguments"]["a"].as_i64()) {
            // The reply follows together with the next answer, so that the request is open by then.
            ("notifications/initialized" | "notifications/cancelled", _) => {
                self.owed.set(self.owed.get() + 1);
                self.note(method);
                return true;
            }
            ("tools/call", Some(2)) => {
                pinged(lines);
                println!("{line}");
                answer("after a ping");
                return true;
            }
            // One reply more than there are messages without an id.
            ("tools/call", Some(3)) => {
                pinged(lines);
                println!("{line}\n{line}");
                return true;
            }
            ("tools/call", Some(4)) => {
                self.note("call");
                return true;
            }
            ("tools/list" | "tools/call", _) if order == "first" => {
                (0..self.owed.take()).for_each(|_| println!("{line}"));
            }
            _ => {}
        }
        false
    }

    /// Writes what it owes behind an answer.
    pub(super) fn pay(&self) {
        if let Some(line) = self.way.strip_prefix("replies-last:") {
            (0..self.owed.take()).for_each(|_| println!("{line}"));
        }
    }
}
