//! Tools beside what a program has already: a handler of its own, and a server of its own.

use std::time::Duration;

use axum::{Router, routing};
use harness::{
    ToolContent, ToolContext, ToolError, ToolLimits,
    mcp::{McpServer, McpService},
    tool, tools,
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use reqwest::StatusCode;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptArgument,
        PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        Resource, ResourceContents, Role, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use super::{
    call_with,
    served::{Client, is_error, text},
    served_http::client,
};

/// What a program serves by itself.
struct Own;

impl ServerHandler for Own {
    fn get_info(&self) -> ServerConfig {
        let able = ServerCapabilities::builder();
        ServerConfig::new(able.enable_resources().enable_prompts().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str| Tool::new(name, "The handler's own.", Map::new());
        Ok(ListToolsResult::with_all_items(vec![tool("own"), tool("add")]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = format!("the handler's own {}", request.name);
        Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("test://note", "note")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match request.uri.as_str() {
            "test://note" => {
                let note = ResourceContents::text("A note.", "test://note");
                Ok(ReadResourceResult::new(vec![note]).into())
            }
            _ => Err(ErrorData::resource_not_found("there is no such resource", None)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let who = PromptArgument::new("who").with_required(true);
        let greet = Prompt::new("greet", Some("Greets."), Some(vec![who]));
        Ok(ListPromptsResult::with_all_items(vec![greet]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let who = given.get("who").and_then(Value::as_str).unwrap_or("nobody");
        let said = PromptMessage::new_text(Role::User, format!("Greet {who}."));
        Ok(GetPromptResult::new(vec![said]).into())
    }
}

/// Adds two numbers.
#[tool(side_effects = "none")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

/// Asks before it goes on.
#[tool(side_effects = "write")]
fn pay(context: &ToolContext) -> Result<String, ToolError> {
    match context.answered() {
        None => Err(ToolError::asks("Pay 7 euros?", json!(7))),
        Some(answered) => Ok(format!("{}: {}", answered.token, answered.answer)),
    }
}

/// Never ends by itself.
#[tool(side_effects = "write")]
async fn hang() -> String {
    std::future::pending().await
}

fn service() -> McpService {
    McpService::new(tools![add, pay, hang])
}

/// What a client sees of the tools and of the handler beside them.
async fn has_all(server: McpServer) {
    let names: Vec<String> = server.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["it__add", "it__hang", "it__own", "it__pay"]);
    let tool = |name: &str| server.only([name]).expect("the tool").remove(0);
    // Of two with one name it is the service's that is called.
    let sum = call_with(&tool("add"), json!({"a": 1, "b": 2})).await;
    assert_eq!(super::text(sum), "3");
    assert_eq!(super::text(call_with(&tool("own"), json!({})).await), "the handler's own own");
    let resources = server.resources().await.expect("resources");
    assert_eq!(resources.iter().map(|it| it.uri.as_str()).collect::<Vec<_>>(), ["test://note"]);
    let note = server.read_resource("test://note").await.expect("a note");
    let [ToolContent::Document(note)] = note.as_slice() else { panic!("no document: {note:?}") };
    assert_eq!(note.text(), Some("A note."));
    assert!(server.read_resource("test://other").await.is_err());
    let said = server.prompt("greet", [("who", "Ada")]).await.expect("messages");
    assert_eq!(said[0].text(), "Greet Ada.");
    server.close().await;
}

async fn connect(url: &str) -> McpServer {
    McpServer::url(url).name("it").trust_hints().connect().await.expect("a service")
}

#[tokio::test]
async fn tools_stand_in_an_axum_router() {
    let routes = Router::new()
        .route("/health", routing::get(|| async { "well" }))
        .route_service("/tools/mcp", service().beside(Own).http().expect("a service"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let served = tokio::spawn(async move { axum::serve(listener, routes).await });
    let health = client().get(format!("http://{address}/health")).send().await.expect("an answer");
    assert_eq!(health.text().await.expect("a body"), "well");
    has_all(connect(&format!("http://{address}/tools/mcp")).await).await;
    served.abort();
}

#[tokio::test]
async fn tools_stand_in_a_server_of_hyper() {
    let service = service().beside(Own).http().expect("a service");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let served = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            let server = hyper::server::conn::http1::Builder::new();
            connections.spawn(server.serve_connection(TokioIo::new(socket), service));
        }
    });
    has_all(connect(&url).await).await;
    served.abort();
}

#[tokio::test]
async fn a_handler_that_declares_nothing_is_asked_for_nothing() {
    struct Silent;
    impl ServerHandler for Silent {}
    let (here, there) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(there);
    let served = tokio::spawn(service().beside(Silent).serve(read, write));
    let mut client = Client::of(here, served);
    let begun = client.start(json!({})).await;
    assert_eq!(begun["result"]["capabilities"], json!({"tools": {}}));
    assert_eq!(text(&client.call("add", json!({"a": 1, "b": 2})).await), "3");
    for method in ["prompts/get", "resources/read", "completion/complete"] {
        assert_eq!(client.ask(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
}

/// What a service sends to a request that is written by hand, over HTTP.
async fn post(url: &str, session: Option<&str>, body: &Value) -> reqwest::Response {
    let mut request = client()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.body(body.to_string()).send().await.expect("an answer")
}

/// The next message of a stream that is one.
async fn message(stream: &mut reqwest::Response) -> Value {
    let mut read = String::new();
    loop {
        let part = stream.chunk().await.expect("a body").expect("an event");
        read.push_str(std::str::from_utf8(&part).expect("a text"));
        let data = read.lines().filter_map(|line| line.strip_prefix("data:"));
        if let Some(message) = data.filter_map(|data| serde_json::from_str(data).ok()).next() {
            return message;
        }
    }
}

#[tokio::test]
async fn a_person_is_asked_over_the_stream_of_the_call() {
    let served = super::served_http::Served::start(service()).await;
    let info = json!({"name": "test", "version": "1"});
    let able = json!({"elicitation": {}});
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": able, "clientInfo": info});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin});
    let begun = post(&served.url, None, &begin).await;
    let id = begun.headers()["mcp-session-id"].to_str().expect("a text").to_owned();
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(&served.url, Some(&id), &told).await;
    let params = json!({"name": "pay", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    let mut stream = post(&served.url, Some(&id), &call).await;
    let asked = message(&mut stream).await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["params"]["message"], "Pay 7 euros?");
    let given = json!({"action": "accept", "content": {"answer": "yes"}});
    let given = json!({"jsonrpc": "2.0", "id": asked["id"], "result": given});
    assert_eq!(post(&served.url, Some(&id), &given).await.status(), StatusCode::ACCEPTED);
    let answer = message(&mut stream).await;
    assert_eq!((&answer["id"], text(&answer)), (&json!(2), "7: \"yes\""));
}

#[tokio::test]
async fn a_call_that_takes_too_long_over_http_leaves_its_place() {
    let limits = ToolLimits::default().time(Duration::from_millis(1)).tries(1);
    let service = service().limits(limits).at_once(1);
    let served = super::served_http::Served::start(service).await;
    let session = served.session().await;
    for id in 2..5 {
        let params = json!({"name": "hang", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let mut stream = session.post(&call).send().await.expect("an answer");
        let late = message(&mut stream).await;
        assert!(is_error(&late) && text(&late).contains("may have partly run"), "{late}");
    }
}
