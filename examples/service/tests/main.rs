//! The service as a process, over HTTP: tabs, reloads, kills, forgeries, and many readers. The page is tested in a real browser where
//! there is one: see `browser.mjs`.

mod access;
mod crowd;
mod page;
mod tabs;

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

/// A service on a free port, with its journal in a folder of its own. It ends with this.
struct Service {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
    tokens: Option<&'static str>,
    client: Client,
}

impl Service {
    fn start() -> Self {
        Self::with_tokens(None)
    }

    fn with_tokens(tokens: Option<&'static str>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        let (child, address) = spawn(folder.path(), "127.0.0.1:0", tokens);
        Self { child, address, folder, tokens, client }
    }

    fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
    }

    /// Kills the process, unless it has ended, and starts another one at the same address.
    fn kill_and_start(&mut self) {
        self.kill();
        (self.child, _) = spawn(self.folder.path(), &self.address, self.tokens);
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.expect("a response")
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        let request = self.client.post(self.url(path)).header("content-type", "application/json");
        request.body(body.to_string()).send().await.expect("a response")
    }

    /// Says something, as `useChat` does.
    async fn say(&self, id: &str, text: &str) -> Response {
        self.post("/api/chat", &said(id, text)).await
    }

    /// Sends a decision about a call.
    async fn decide(&self, id: &str, approval: &str, approved: bool) -> Response {
        self.post("/api/chat", &decided(id, approval, approved)).await
    }

    async fn messages(&self, id: &str) -> Vec<Value> {
        let response = self.get(&format!("/api/chat/{id}")).await;
        assert_eq!(response.status(), StatusCode::OK);
        let body: Value =
            serde_json::from_str(&response.text().await.expect("a text")).expect("JSON");
        body["messages"].as_array().expect("messages").clone()
    }

    /// Waits until no run goes on.
    async fn idle(&self, id: &str) {
        while self.get(&format!("/api/chat/{id}/stream")).await.status() != StatusCode::NO_CONTENT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The id of the approval that waits.
    async fn approval(&self, id: &str) -> String {
        self.approvals(id).await.remove(0)
    }

    /// The ids of the approvals that wait.
    async fn approvals(&self, id: &str) -> Vec<String> {
        let messages = self.messages(id).await;
        let parts = messages.last().expect("an answer")["parts"].as_array().expect("parts").clone();
        let asked = parts.iter().filter(|part| part["state"] == "approval-requested");
        let id = |part: &Value| part["approval"]["id"].as_str().expect("an id").to_owned();
        asked.map(id).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.env_remove("PROVIDER").env_remove("SERVICE_TOKENS");
    command
}

fn spawn(folder: &std::path::Path, address: &str, tokens: Option<&str>) -> (Child, String) {
    let mut command = command();
    command.args(["--listen", address, "--journal"]).arg(folder.join("chats.sqlite"));
    command.arg("--trace").arg(folder.join("trace.jsonl"));
    if let Some(tokens) = tokens {
        command.env("SERVICE_TOKENS", tokens);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut lines = std::iter::from_fn(|| lines.next()).map(|line| line.expect("a line"));
    let address = lines.find_map(|line| line.strip_prefix("http://").map(str::to_owned));
    (child, address.expect("an address"))
}

fn said(id: &str, text: &str) -> Value {
    let message = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]});
    json!({"id": id, "trigger": "submit-message", "messages": [message]})
}

fn decided(id: &str, approval: &str, approved: bool) -> Value {
    let approval = json!({"id": approval, "approved": approved});
    let part = json!({"type": "tool-x", "toolCallId": "x", "state": "approval-responded", "approval": approval});
    json!({"id": id, "messages": [{"id": "m", "role": "assistant", "parts": [part]}]})
}

/// A stream of chunks that is being read.
struct Chunks {
    response: Response,
    text: String,
    ids: Vec<String>,
}

impl Chunks {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new(), ids: Vec::new() }
    }

    /// The next chunk, unless the stream ends.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                self.ids.extend(
                    event.lines().filter_map(|it| it.strip_prefix("id: ")).map(str::to_owned),
                );
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                if let Some(data) = data.filter(|data| *data != "[DONE]") {
                    return Some(serde_json::from_str(data).expect("JSON"));
                }
            }
            let piece = self.response.chunk().await.ok()??;
            self.text.push_str(std::str::from_utf8(&piece).expect("whole characters"));
        }
    }

    /// Reads up to a chunk of this type, or to the end.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await {
            let is_last = chunk["type"] == kind;
            all.push(chunk);
            if is_last {
                break;
            }
        }
        all
    }

    /// Reads on until the words have this in them, and returns the words.
    async fn until_words(&mut self, wanted: &str) -> String {
        let mut words = String::new();
        while !words.contains(wanted) {
            let chunk = self.next().await.unwrap_or_else(|| panic!("`{wanted}` in {words}"));
            words += chunk["delta"].as_str().unwrap_or_default();
        }
        words
    }
}

/// The words of the model in chunks.
fn words(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["delta"].as_str()).collect()
}

/// The words of the model in messages, and what the user has said.
fn texts(messages: &[Value]) -> Vec<String> {
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().expect("parts"));
    parts.filter_map(|part| Some(part["text"].as_str()?.to_owned())).collect()
}

fn numbers(to: u32) -> String {
    (1..=to).map(|number| format!("{number} ")).collect()
}
