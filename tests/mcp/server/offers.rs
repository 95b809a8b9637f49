//! What a server has beside its tools.

use serde_json::{Value, json};

use super::{Server, say};

impl Server {
    /// Answers a request for resources or prompts.
    pub(super) fn offers(&self, method: &str, request: &Value) {
        let id = &request["id"];
        if id.is_null() {
            return;
        }
        self.note(method);
        let answer = |result: Value| say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let refuse = |code: i32, message: &str| {
            let error = json!({"code": code, "message": message});
            say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        };
        let params = &request["params"];
        let bad = self.way == "offers-badly";
        // As much as a message may have, page after page.
        if let Some(wide) = self.way.strip_prefix("offers-wide-") {
            let next = format!("{}+", params["cursor"].as_str().unwrap_or_default());
            let uri = format!("x:{}", next.len());
            let one = match wide {
                "text" => json!({"uri": uri, "name": "x".repeat(15 << 20)}),
                _ => json!({"uri": uri, "name": uri, "_meta": {"all": vec![0; 240_000]}}),
            };
            return match method {
                "resources/list" => answer(json!({"resources": [one], "nextCursor": next})),
                "prompts/list" => answer(json!({"prompts": [one], "nextCursor": next})),
                _ => refuse(-32601, "no such method"),
            };
        }
        match method {
            "resources/list" if bad => answer(json!({"resources": [], "nextCursor": "again"})),
            "resources/list" if params["cursor"].is_null() => answer(json!({
                "resources": [
                    {"uri": "db://notes", "name": "notes", "title": "All notes", "mimeType": "text/markdown",
                     "description": "What was noted."},
                    {"name": "nowhere"}, 7, {"uri": ""},
                ],
                "nextCursor": "2",
            })),
            "resources/list" => answer(json!({"resources": [
                {"uri": "db://logo", "name": "logo"}, {"uri": "db://notes", "name": "twice"},
            ]})),
            "resources/templates/list" if self.way == "offers-no-templates" => {
                refuse(-32601, "no such method");
            }
            "resources/templates/list" => answer(json!({"resourceTemplates": [
                {"uriTemplate": "db://row/{id}", "name": "row"},
            ]})),
            "resources/read" if bad => answer(json!({"text": "no contents"})),
            "resources/read" => match params["uri"].as_str() {
                Some("db://notes") => answer(json!({"contents": [
                    {"uri": "db://notes", "mimeType": "text/markdown", "text": "# Notes"},
                    {"uri": "db://logo", "mimeType": "image/png", "blob": "AQID"},
                ]})),
                _ => refuse(-32002, "no such resource"),
            },
            "prompts/list" => answer(json!({"prompts": [
                {"name": "review", "title": "Review", "description": "Reviews a file.",
                 "arguments": [{"name": "file", "required": true}, {"name": "tone"}, 7]},
                {"title": "no name"},
            ]})),
            "prompts/get" => {
                let file = params["arguments"]["file"].as_str().unwrap_or("nothing");
                answer(json!({"messages": [
                    {"role": "user", "content": {"type": "text", "text": format!("Review {file}.")}},
                    {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
                    {"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": "AQID"}},
                    {"role": "user", "content": {"type": "smell"}},
                ]}));
            }
            _ => refuse(-32601, "no such method"),
        }
    }
}
