//! A server of 2026-07-28, which knows no `initialize`; and servers of both versions whose tools change.

use std::fs;

use serde_json::{Value, json};

use super::{Server, say, tool};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Server {
    /// Answers what only such a server answers.
    pub(super) fn newer_message(&self, method: &str, request: &Value) -> bool {
        let id = &request["id"];
        let answer = |result: Value| say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let is_newer = self.way.starts_with("newer");
        match method {
            "initialize" if is_newer => {
                self.note("initialize");
                // Source: `UnsupportedProtocolVersionError` of the specification's schema.
                let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
                let error = json!({"code": -32022, "message": "not this version", "data": data});
                say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            "initialize" if self.way == "older-quiet" => answer(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            })),
            "server/discover" if is_newer => {
                self.note("discover");
                let tells = self.way != "newer-quiet";
                answer(json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {"listChanged": tells}}, "ttlMs": 0, "cacheScope": "private",
                }));
            }
            "subscriptions/listen" if is_newer => {
                self.note("listen");
                fs::write(format!("{}.subscription", self.log), id.to_string()).expect("a file");
                if !matches!(self.way.as_str(), "newer-mute" | "newer-late-changes") {
                    acknowledge(id);
                }
            }
            "tools/list" if is_newer || self.way == "older-quiet" => {
                self.note("list");
                let mut listed = tool("run");
                let stays = self.way == "newer" || self.way.starts_with("newer-answers");
                if !stays && self.has_called() {
                    listed["description"] = "Does something else.".into();
                }
                let mut list = json!({"tools": [listed]});
                if self.way.ends_with("quiet") {
                    list["ttlMs"] = json!(0);
                }
                answer(list);
                if self.way == "newer-late-changes" && self.count("list") == 1 {
                    acknowledge(&self.subscription());
                }
            }
            _ => return false,
        }
        true
    }

    fn has_called(&self) -> bool {
        self.count("call") > 0
    }

    /// The id of the last request `subscriptions/listen`.
    fn subscription(&self) -> Value {
        let id = fs::read_to_string(format!("{}.subscription", self.log)).expect("a subscription");
        serde_json::from_str(&id).expect("its number")
    }

    /// Tells the subscriber that the tools have changed.
    pub(super) fn tell_of_change(&self) {
        let params = json!({"_meta": {SUBSCRIPTION: self.subscription()}});
        let method = "notifications/tools/list_changed";
        say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

/// Acknowledges the subscription of this id.
fn acknowledge(id: &Value) {
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": {SUBSCRIPTION: id}});
    let method = "notifications/subscriptions/acknowledged";
    say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
}
