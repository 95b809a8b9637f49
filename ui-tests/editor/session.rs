//! A session with rust-analyzer: the few messages of the Language Server Protocol that an editor
//! needs, over the server's standard input and output.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};

/// How long the server may say nothing: it builds the macros before it answers.
const PATIENCE: Duration = Duration::from_secs(600);

/// An editor with one file open.
pub(crate) struct Session {
    server: Child,
    input: ChildStdin,
    said: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
    file: String,
    requests: u64,
    version: u64,
}

impl Session {
    /// Opens a package that depends on `harness`, and waits until all of it was read. `None` if there
    /// is no rust-analyzer.
    pub(crate) fn open() -> Option<Self> {
        let named = env::var_os("RUST_ANALYZER");
        let program = named.clone().unwrap_or_else(|| "rust-analyzer".into());
        // Where rustup has a proxy but no such component, the proxy is there and fails.
        let version = Command::new(&program).arg("--version").output();
        if !version.is_ok_and(|version| version.status.success()) {
            assert!(named.is_none(), "{program:?} is no rust-analyzer");
            return None;
        }
        let folder = package();
        let mut server = Command::new(&program)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = server.stdin.take().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let (say, said) = channel();
        let reader = thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if say.send(message).is_err() {
                    break;
                }
            }
        });
        let file = format!("file://{}", folder.join("src/lib.rs").display());
        let reader = Some(reader);
        let mut session = Self { server, input, said, reader, file, requests: 0, version: 0 };
        session.begin(&folder);
        Some(session)
    }

    fn begin(&mut self, folder: &Path) {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        self.request(
            "initialize",
            &json!({
                "processId": null,
                "rootUri": format!("file://{}", folder.display()),
                "capabilities": { "experimental": { "serverStatusNotification": true } },
                "initializationOptions": {
                    "checkOnSave": false,
                    "cachePriming": { "enable": false },
                    "cargo": {
                        "extraArgs": ["--offline"],
                        "extraEnv": { "CARGO_TARGET_DIR": target },
                    },
                },
            }),
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }));
        self.send(&json!({
            "jsonrpc": "2.0",
            "method": "textDocument/didOpen",
            "params": { "textDocument": {
                "uri": self.file, "languageId": "rust", "version": 0, "text": "",
            } },
        }));
        loop {
            let message = self.next();
            if message["method"] == "experimental/serverStatus" {
                let status = &message["params"];
                assert_ne!(status["health"], "error", "{status}");
                if status["quiescent"] == true {
                    break;
                }
            }
        }
    }

    /// The labels that are offered at the `$0` in this text.
    pub(crate) fn completions(&mut self, text: &str) -> Vec<String> {
        let offered = self.ask("textDocument/completion", text);
        let items = offered.get("items").unwrap_or(&offered).as_array().cloned();
        let labels = items.into_iter().flatten();
        labels.filter_map(|item| Some(item["label"].as_str()?.to_owned())).collect()
    }

    /// What is shown when the mouse rests at the `$0` in this text.
    pub(crate) fn hover(&mut self, text: &str) -> String {
        let shown = self.ask("textDocument/hover", text);
        shown["contents"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// The signature that is shown while the arguments at the `$0` in this text are typed.
    pub(crate) fn signature(&mut self, text: &str) -> String {
        let shown = self.ask("textDocument/signatureHelp", text);
        shown["signatures"][0]["label"].as_str().unwrap_or_default().to_owned()
    }

    /// Types the text without its `$0`, and asks at that place.
    fn ask(&mut self, method: &str, text: &str) -> Value {
        let (before, after) = text.split_once("$0").unwrap();
        self.version += 1;
        self.send(&json!({
            "jsonrpc": "2.0",
            "method": "textDocument/didChange",
            "params": {
                "textDocument": { "uri": self.file, "version": self.version },
                "contentChanges": [{ "text": format!("{before}{after}") }],
            },
        }));
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
        let place = json!({
            "textDocument": { "uri": self.file },
            "position": { "line": line, "character": column },
        });
        self.request(method, &place)
    }

    /// Sends a request and waits for its answer.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        /// The answer of a server that was told of a change in the meantime.
        const CONTENT_MODIFIED: i64 = -32801;
        loop {
            self.requests += 1;
            let id = self.requests;
            self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
            let answer = loop {
                let message = self.next();
                if message["id"] == id && message.get("method").is_none() {
                    break message;
                }
            };
            match answer.get("error") {
                None => return answer["result"].clone(),
                Some(err) => assert_eq!(err["code"], CONTENT_MODIFIED, "{method}: {err}"),
            }
        }
    }

    /// The next message. What the server asks for is answered with nothing.
    fn next(&mut self) -> Value {
        let message = self.said.recv_timeout(PATIENCE).unwrap();
        if let (Some(id), true) = (message.get("id"), message.get("method").is_some()) {
            self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": null }));
        }
        message
    }

    fn send(&mut self, message: &Value) {
        let message = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{message}", message.len()).unwrap();
        self.input.flush().unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Reads one message; `None` at the end.
fn read(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut header = String::new();
        output.read_line(&mut header).ok().filter(|read| *read > 0)?;
        match header.trim().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut message = vec![0; length];
    output.read_exact(&mut message).ok()?;
    serde_json::from_slice(&message).ok()
}

/// Writes the package, and says where.
fn package() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui-editor");
    let manifest = format!(
        "[package]\nname = \"ui-editor\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nharness = {{ path = \"{}\" }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\nschemars = \"1\"\n",
        here.join("../harness").display()
    );
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(here.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder
}
