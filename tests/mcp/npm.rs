//! The reference servers of the protocol, from npm. `HARNESS_MCP_NPM` names a folder in which
//! `npm install @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem` was run; without it
//! these tests say that they skip.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use harness::{
    SideEffect, SideEffects, ToolContent, ToolContext,
    mcp::{McpServer, McpServerBuilder},
};
use serde_json::json;

use super::{call_with, text};

/// The script of this server, if it is there.
fn script(server: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("HARNESS_MCP_NPM") else {
        eprintln!("skipped: HARNESS_MCP_NPM names no folder with the servers");
        return None;
    };
    let package = PathBuf::from(folder).join("node_modules/@modelcontextprotocol").join(server);
    let script = package.join("dist/index.js");
    assert!(script.exists(), "{} is not there", script.display());
    Some(script.display().to_string())
}

/// A server over HTTP, which ends with this value.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects as soon as the server listens.
async fn connected(server: impl Fn() -> McpServerBuilder) -> McpServer {
    for _ in 0..200 {
        if let Ok(server) = server().connect().await {
            return server;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server().connect().await.expect("a server")
}

/// What the server that has everything hands over, over any transport.
async fn has_everything(server: McpServer) {
    assert!(server.left_out().is_empty(), "{:?}", server.left_out());
    let tool = |name: &str| server.only([name]).expect("the tool").remove(0);
    let echo = tool("echo");
    assert_eq!(echo.side_effects(), SideEffects::ALL, "it may do anything without a word");
    let said = text(call_with(&echo, json!({"message": "hello"})).await);
    assert!(said.contains("hello"), "{said}");
    let wrong = call_with(&echo, json!({})).await.expect_err("no message");
    assert!(wrong.to_string().contains("message"), "{wrong}");

    let output = call_with(&tool("get-tiny-image"), json!({})).await.expect("a picture");
    let pictures = output.content().iter().filter(|part| matches!(part, ToolContent::Image(_)));
    assert_eq!(pictures.count(), 1, "{output:?}");
    let structured = tool("get-structured-content");
    let schema = structured.output_schema().expect("a schema");
    assert_eq!(schema["type"], "object");
    let output = call_with(&structured, json!({"location": "Chicago"})).await.expect("weather");
    let value = match (output.value(), output.content()) {
        (Some(value), _) | (None, [ToolContent::Json(value)]) => value,
        _ => panic!("no value: {output:?}"),
    };
    assert!(value.get("temperature").is_some_and(|it| it.is_number()), "{value}");
    let references = tool("get-resource-reference");
    let output = call_with(&references, json!({"resourceType": "Text", "resourceId": 1})).await;
    let output = output.expect("a resource");
    let documents = output.content().iter().filter(|part| matches!(part, ToolContent::Document(_)));
    assert_eq!(documents.count(), 1, "{output:?}");
    let output = call_with(&tool("get-resource-links"), json!({"count": 3})).await.expect("links");
    let links = output.content().iter().filter(|part| matches!(part, ToolContent::Link(_)));
    assert_eq!(links.count(), 3, "{output:?}");

    let context = ToolContext::new("call_1");
    let long = tool("trigger-long-running-operation");
    let done = long.call(&context, json!({"duration": 1, "steps": 2})).await;
    assert!(text(done).contains("completed"), "it ends");
    assert!(!context.progress_log().is_empty(), "it tells how far it is");

    let resources = server.resources().await.expect("resources");
    assert!(resources.iter().any(|it| it.is_template), "{resources:?}");
    let plain = resources.iter().find(|it| !it.is_template).expect("a resource");
    assert!(!server.read_resource(&plain.uri).await.expect("contents").is_empty());
    let prompts = server.prompts().await.expect("prompts");
    let simple = prompts.iter().find(|it| it.arguments.is_empty()).expect("a simple prompt");
    let said = server.prompt(&simple.name, [("", ""); 0]).await.expect("messages");
    assert!(!said[0].text().is_empty());
    server.close().await;
}

#[tokio::test]
async fn the_server_that_has_everything_over_pipes() {
    let Some(script) = script("server-everything") else { return };
    let server = McpServer::command("node", [script, "stdio".to_owned()]).name("all");
    has_everything(server.connect().await.expect("a server")).await;
}

#[tokio::test]
async fn the_server_that_has_everything_over_http() {
    let Some(script) = script("server-everything") else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let mut command = Command::new("node");
    command.args([&script, "streamableHttp"]).env("PORT", port.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _listening = Listening(command.spawn().expect("node"));
    let url = format!("http://127.0.0.1:{port}/mcp");
    has_everything(connected(|| McpServer::url(&url).name("all")).await).await;
}

#[tokio::test]
async fn the_server_of_files_reads_and_writes_in_its_folder_alone() {
    let Some(script) = script("server-filesystem") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a folder");
    let path = |name: &str| folder.join(name).display().to_string();
    let reads = SideEffects::of(&[SideEffect::Read]);
    let server = McpServer::command("node", [script, folder.display().to_string()])
        .name("files")
        .effects("read_text_file", reads)
        .connect()
        .await
        .expect("a server");
    let tool = |name: &str| server.only([name]).expect("the tool").remove(0);
    assert_eq!(tool("read_text_file").side_effects(), reads);
    let note = json!({"path": path("note"), "content": "# Note"});
    call_with(&tool("write_file"), note).await.expect("written");
    assert_eq!(std::fs::read_to_string(path("note")).expect("a file"), "# Note");
    let read = call_with(&tool("read_text_file"), json!({"path": path("note")})).await;
    // The server says the same as words and as a structure: the model reads the words.
    let read = read.expect("the text");
    assert_eq!(read.content(), [ToolContent::from("# Note")]);
    assert_eq!(read.value(), Some(&json!({"content": "# Note"})));
    let outside = call_with(&tool("read_text_file"), json!({"path": "/etc/hostname"})).await;
    let outside = outside.expect_err("it is outside");
    assert!(outside.to_string().contains("denied") && !outside.is_in_doubt(), "{outside}");
    server.close().await;
}
