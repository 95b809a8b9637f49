//! The program's own tools, served to others: what a client sees and what a tool sees, over pipes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, Media, State, Tool, ToolContent, ToolContext, ToolError, ToolLimits, ToolOutput,
    mcp::McpService,
    message::Link,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex, split},
    sync::Notify,
    task::JoinHandle,
};

/// The version of the protocol with sessions, and the one without.
const SESSIONS: &str = "2025-11-25";
const NONE: &str = "2026-07-28";

/// A client that writes and reads lines, and adds nothing of its own.
pub(super) struct Client {
    to: tokio::io::WriteHalf<DuplexStream>,
    from: Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>,
    served: JoinHandle<Result<(), harness::Error>>,
    version: &'static str,
    capabilities: Value,
    last: u64,
    /// What the server has sent by itself.
    pub(super) heard: Vec<Value>,
}

impl Client {
    /// A session of the older version, with a client that can do this.
    pub(super) async fn able(service: McpService, capabilities: Value) -> Self {
        let mut client = Self::silent(service, SESSIONS, capabilities.clone());
        client.start(capabilities).await;
        client
    }

    /// Begins a session, and gives what the server says of itself.
    pub(super) async fn start(&mut self, capabilities: Value) -> Value {
        let info = json!({"name": "test", "version": "1"});
        let begin = json!({
            "protocolVersion": SESSIONS, "capabilities": capabilities, "clientInfo": info
        });
        let begun = self.ask("initialize", begin).await;
        assert_eq!(begun["result"]["protocolVersion"], SESSIONS, "{begun}");
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        begun
    }

    pub(super) async fn new(service: McpService) -> Self {
        Self::able(service, json!({})).await
    }

    /// A client of the newer version, which has no session to begin.
    pub(super) fn sessionless(service: McpService, capabilities: Value) -> Self {
        Self::silent(service, NONE, capabilities)
    }

    fn silent(service: McpService, version: &'static str, capabilities: Value) -> Self {
        let (here, there) = duplex(1 << 20);
        let (read, write) = split(there);
        let served = tokio::spawn(service.serve(read, write));
        Self { version, capabilities, ..Self::of(here, served) }
    }

    /// A client of the older version at this end of pipes.
    pub(super) fn of(here: DuplexStream, served: JoinHandle<Result<(), harness::Error>>) -> Self {
        let (from, to) = split(here);
        let from = BufReader::new(from).lines();
        let (version, capabilities) = (SESSIONS, json!({}));
        Self { to, from, served, version, capabilities, last: 0, heard: Vec::new() }
    }

    /// Sends bytes as a line.
    pub(super) async fn line(&mut self, line: &[u8]) {
        self.to.write_all(&[line, b"\n"].concat()).await.expect("a server that reads");
    }

    pub(super) async fn send(&mut self, message: Value) {
        self.line(message.to_string().as_bytes()).await;
    }

    /// Sends a request and does not wait for the answer.
    pub(super) async fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.last += 1;
        if self.version == NONE {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NONE.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({"name": "test", "version": "1"});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        let message =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.send(message).await;
        self.last
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let line = self.from.next_line().await.expect("a pipe")?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    /// The answer of a request, with what comes before it kept.
    pub(super) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await.expect("an answer");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

/// The first text of the answer of a call.
pub(super) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

pub(super) fn is_error(answer: &Value) -> bool {
    answer["result"]["isError"] == true
}

/// Adds two numbers.
#[tool(side_effects = "none", title = "Sum")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

#[tokio::test]
async fn a_tool_is_listed_with_its_hints_and_called() {
    /// Stores a word.
    #[tool(side_effects = "write", idempotent)]
    fn store(
        /** The word */
        word: &str,
    ) -> String {
        format!("stored {word}")
    }
    let service = McpService::new(tools![add, store]).name("sums", "1.2").instructions("Add.");
    let mut client = Client::silent(service, SESSIONS, json!({}));
    let begin = json!({
        "protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}
    });
    let begun = client.ask("initialize", begin).await;
    let result = &begun["result"];
    assert_eq!(result["serverInfo"]["name"], "sums");
    assert_eq!(result["serverInfo"]["version"], "1.2");
    assert_eq!(result["instructions"], "Add.");
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let listed = client.ask("tools/list", json!({})).await;
    let listed = &listed["result"]["tools"];
    assert_eq!(listed[0]["name"], "add");
    assert_eq!(listed[0]["title"], "Sum");
    assert_eq!(listed[0]["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(listed[0]["annotations"], json!({"readOnlyHint": true, "openWorldHint": false}));
    let hints = json!({
        "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true,
        "openWorldHint": false
    });
    assert_eq!(listed[1]["annotations"], hints);
    assert_eq!(text(&client.call("add", json!({"a": 2, "b": 3})).await), "5");
    assert_eq!(text(&client.call("store", json!({"word": "x"})).await), "stored x");
    // What is not declared is not there.
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        assert_eq!(client.ask(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
    assert_eq!(client.ask("tools/list", json!({"cursor": "2"})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn all_faults_of_arguments_come_at_once_and_nothing_runs() {
    let mut client = Client::new(McpService::new(tools![add])).await;
    let wrong = client.call("add", json!({"a": "x", "c": 1})).await;
    assert!(is_error(&wrong));
    for part in ["`a`", "`b`", "`c`"] {
        assert!(text(&wrong).contains(part), "{part} in {}", text(&wrong));
    }
    let unknown = client.call("sub", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[tokio::test]
async fn parts_of_every_kind_arrive() {
    /// Hands over all that there is.
    #[tool(side_effects = "read")]
    fn all() -> Vec<ToolContent> {
        vec![
            "words".into(),
            ToolContent::Json(json!([1, 2])),
            ToolContent::Image(Media::from_bytes("image/png", [1, 2, 3])),
            ToolContent::Audio(Media::from_bytes("audio/wav", [4, 5, 6])),
            ToolContent::Document(Media::from_text("text/markdown", "# M").with_uri("file:///m")),
            ToolContent::Document(Media::from_bytes("application/pdf", [7, 8, 255])),
            ToolContent::Link(
                Link::new("https://e.com/l", "l").with_description("A link").with_mime("text/html"),
            ),
            ToolContent::Image(Media::from_url("https://e.com/p.png")),
            ToolContent::Document(Media::from_file_id("anthropic", "file_1")),
        ]
    }
    let mut client = Client::new(McpService::new(tools![all])).await;
    let answer = client.call("all", json!({})).await;
    let parts = answer["result"]["content"].as_array().expect("parts").clone();
    assert_eq!(parts[0], json!({"type": "text", "text": "words"}));
    assert_eq!(parts[1], json!({"type": "text", "text": "[1,2]"}));
    assert_eq!(parts[2], json!({"type": "image", "mimeType": "image/png", "data": "AQID"}));
    assert_eq!(parts[3], json!({"type": "audio", "mimeType": "audio/wav", "data": "BAUG"}));
    let markdown = json!({"uri": "file:///m", "mimeType": "text/markdown", "text": "# M"});
    assert_eq!(parts[4], json!({"type": "resource", "resource": markdown}));
    assert_eq!(parts[5]["resource"]["blob"], "Bwj/");
    assert!(parts[5]["resource"]["uri"].as_str().is_some_and(|uri| uri.starts_with("harness:")));
    let link = json!({
        "type": "resource_link", "uri": "https://e.com/l", "name": "l", "description": "A link",
        "mimeType": "text/html"
    });
    assert_eq!(parts[6], link);
    assert_eq!(parts[7]["uri"], "https://e.com/p.png");
    assert!(parts[8]["text"].as_str().is_some_and(|text| text.contains("file_1")));
    assert_eq!(parts.len(), 9);
}

#[tokio::test]
async fn a_structure_comes_with_the_schema_that_declares_it() {
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Weather {
        celsius: f64,
    }
    /// The weather.
    #[tool(side_effects = "read")]
    fn weather(
        /** Where */
        city: &str,
    ) -> Result<Weather, ToolError> {
        if city.is_empty() {
            return Err(ToolError::new("no city"));
        }
        Ok(Weather { celsius: 3.5 })
    }
    /// The weather in words, and as a value.
    #[tool(side_effects = "read")]
    fn told() -> Result<ToolOutput, ToolError> {
        ToolOutput::from("It is warm.").with_value(&Weather { celsius: 20.0 })
    }
    /// Too much weather.
    #[tool(side_effects = "read")]
    fn much() -> ToolOutput {
        "a".repeat(70_000).into()
    }
    let [told_plain, much] = tools![told, much].try_into().expect("two tools");
    let schema = json!({"type": "object", "properties": {"celsius": {"type": "number"}}});
    let told = Tool::clone(&told_plain).with_output_schema(schema.clone());
    let much = much.with_output_schema(schema);
    let service =
        McpService::new(tools![weather, add].into_iter().chain([told, much]).collect::<Vec<_>>());
    let mut client = Client::new(service).await;
    let listed = client.ask("tools/list", json!({})).await;
    let listed = &listed["result"]["tools"];
    assert_eq!(listed[0]["outputSchema"]["properties"]["celsius"]["type"], "number");
    // A number is told as text alone.
    assert_eq!(listed[1].get("outputSchema"), None);
    assert_eq!(listed[2]["outputSchema"]["type"], "object");

    let oslo = client.call("weather", json!({"city": "Oslo"})).await;
    assert_eq!(oslo["result"]["structuredContent"], json!({"celsius": 3.5}));
    assert_eq!(text(&oslo), r#"{"celsius":3.5}"#);
    let nowhere = client.call("weather", json!({"city": ""})).await;
    assert!(is_error(&nowhere) && nowhere["result"].get("structuredContent").is_none());
    assert_eq!(
        client.call("add", json!({"a": 1, "b": 1})).await["result"].get("structuredContent"),
        None
    );
    let told = client.call("told", json!({})).await;
    assert_eq!(text(&told), "It is warm.");
    assert_eq!(told["result"]["structuredContent"], json!({"celsius": 20.0}));
    // A success without its structure is refused by clients, so it says what has happened.
    let much = client.call("much", json!({})).await;
    assert!(is_error(&much) && text(&much).contains("ran to its end"), "{}", text(&much));
    // A value for the program stays in it where no schema declares it.
    let mut client = Client::new(McpService::new([told_plain])).await;
    assert_eq!(client.call("told", json!({})).await["result"].get("structuredContent"), None);
}

#[tokio::test]
async fn errors_and_panics_are_results_and_the_next_call_runs() {
    /// Fails.
    #[tool(side_effects = "write")]
    fn fail(
        /** How */
        panics: bool,
    ) -> Result<String, ToolError> {
        assert!(!panics, "it broke");
        Err(ToolError::transient("the key sk-of-the-program is wrong"))
    }
    let service = McpService::new(tools![add, fail]).secret("sk-of-the-program");
    let mut client = Client::new(service).await;
    let failed = client.call("fail", json!({"panics": false})).await;
    assert!(is_error(&failed));
    assert_eq!(text(&failed), "the key [secret] is wrong");
    let panicked = client.call("fail", json!({"panics": true})).await;
    assert!(is_error(&panicked) && text(&panicked).contains("it broke"), "{}", text(&panicked));
    assert!(text(&panicked).contains("may have partly run"), "{}", text(&panicked));
    assert_eq!(text(&client.call("add", json!({"a": 1, "b": 1})).await), "2");
}

/// How often it has begun.
#[derive(Clone, Default)]
struct Begun(Arc<AtomicUsize>);

#[tokio::test]
async fn a_request_runs_its_tool_once_even_if_it_may_be_repeated() {
    /// Reads, and fails for a passing reason.
    #[tool(side_effects = "read")]
    fn flaky(begun: State<Begun>) -> Result<String, ToolError> {
        begun.0.fetch_add(1, Ordering::SeqCst);
        Err(ToolError::transient("the line is busy"))
    }
    let begun = Begun::default();
    let mut client = Client::new(McpService::new(tools![flaky]).state(begun.clone())).await;
    assert!(is_error(&client.call("flaky", json!({})).await));
    assert_eq!(begun.0.load(Ordering::SeqCst), 1);
    let limits = ToolLimits::default().tries(3).backoff(Duration::ZERO);
    let service = McpService::new(tools![flaky]).state(begun.clone()).limits(limits);
    let mut client = Client::new(service).await;
    client.call("flaky", json!({})).await;
    assert_eq!(begun.0.load(Ordering::SeqCst), 1 + 3);
}

/// Told when a call begins and when it is dropped.
#[derive(Clone, Default)]
struct Seen {
    begun: Arc<Notify>,
    ended: Arc<Notify>,
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Never ends by itself.
#[tool(side_effects = "write")]
async fn hang(seen: State<Seen>) -> String {
    let _end = OnDrop(Arc::clone(&seen.ended));
    seen.begun.notify_one();
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_and_has_no_answer() {
    let seen = Seen::default();
    let mut client = Client::new(McpService::new(tools![hang, add]).state(seen.clone())).await;
    let id = client.begin("tools/call", json!({"name": "hang", "arguments": {}})).await;
    seen.begun.notified().await;
    client
        .send(json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}
        }))
        .await;
    seen.ended.notified().await;
    assert_eq!(text(&client.call("add", json!({"a": 1, "b": 1})).await), "2");
    assert_eq!(client.heard, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_stopped_and_tells_the_truth() {
    let seen = Seen::default();
    let limits = ToolLimits::default().time(Duration::from_secs(2)).tries(1);
    let service = McpService::new(tools![hang]).state(seen.clone()).limits(limits);
    let mut client = Client::new(service).await;
    let late = client.call("hang", json!({})).await;
    seen.ended.notified().await;
    assert!(is_error(&late) && text(&late).contains("may have partly run"), "{}", text(&late));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_ends_its_calls() {
    let seen = Seen::default();
    let mut client = Client::new(McpService::new(tools![hang]).state(seen.clone())).await;
    client.begin("tools/call", json!({"name": "hang", "arguments": {}})).await;
    seen.begun.notified().await;
    let Client { to, from, served, .. } = client;
    drop((to, from));
    seen.ended.notified().await;
    served.await.expect("no panic").expect("a session that has ended");
}

#[tokio::test(start_paused = true)]
async fn one_call_too_many_is_refused_and_runs_later() {
    let seen = Seen::default();
    let service = McpService::new(tools![hang, add]).state(seen.clone()).at_once(1);
    let mut client = Client::new(service).await;
    let id = client.begin("tools/call", json!({"name": "hang", "arguments": {}})).await;
    seen.begun.notified().await;
    let refused = client.call("add", json!({"a": 1, "b": 1})).await;
    assert!(is_error(&refused) && text(&refused).contains("did not run"), "{}", text(&refused));
    let cancel = json!({"requestId": id});
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    seen.ended.notified().await;
    assert_eq!(text(&client.call("add", json!({"a": 1, "b": 1})).await), "2");
}

#[tokio::test(start_paused = true)]
async fn progress_rises_and_the_last_report_is_told() {
    /// Counts.
    #[tool(side_effects = "none")]
    async fn count(
        /** How far */
        to: u32,
        context: ToolContext,
    ) -> u32 {
        for at in 1..=to {
            context.progress().report(format!("{at} of {to}"));
            if at % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        to
    }
    let mut client = Client::new(McpService::new(tools![count])).await;
    let call = json!({
        "name": "count", "arguments": {"to": 5000}, "_meta": {"progressToken": "p"}
    });
    assert_eq!(text(&client.ask("tools/call", call).await), "5000");
    let reports: Vec<(f64, String)> = client
        .heard
        .iter()
        .map(|report| {
            assert_eq!(report["method"], "notifications/progress");
            let params = &report["params"];
            assert_eq!(params["progressToken"], "p");
            let message = params["message"].as_str().expect("words");
            (params["progress"].as_f64().expect("a number"), message.to_owned())
        })
        .collect();
    assert!((2..=10).contains(&reports.len()), "{reports:?}");
    assert!(reports.is_sorted_by(|one, next| one.0 < next.0), "{reports:?}");
    assert_eq!(reports.last().expect("a report"), &(5000.0, "5000 of 5000".to_owned()));
    // Who gives no token hears nothing.
    client.heard.clear();
    client.call("count", json!({"to": 3})).await;
    assert_eq!(client.heard, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_too_large_is_not_sent() {
    /// Hands over a file.
    #[tool(side_effects = "read")]
    fn file(
        /** Its size */
        bytes: usize,
    ) -> ToolContent {
        ToolContent::Image(Media::from_bytes("image/png", vec![0; bytes]))
    }
    let service = McpService::new(tools![file]).result_bytes(10_000).request_bytes(2_000);
    let mut client = Client::new(service).await;
    assert!(!is_error(&client.call("file", json!({"bytes": 1000})).await));
    let large = client.call("file", json!({"bytes": 10_000})).await;
    assert!(is_error(&large) && text(&large).contains("10000"), "{}", text(&large));
    // A request that is too large is not read, and the session goes on.
    client.begin("tools/call", json!({"name": "file", "arguments": {"x": "a".repeat(3000)}})).await;
    assert!(!is_error(&client.call("file", json!({"bytes": 10})).await));
}

/// Asks before it greets.
#[tool(side_effects = "write")]
fn greet(context: ToolContext, begun: State<Begun>) -> Result<String, ToolError> {
    begun.0.fetch_add(1, Ordering::SeqCst);
    match context.answered() {
        None => Err(ToolError::asks("Who is there?", json!({"secret": 7}))),
        Some(answered) => {
            assert_eq!(answered.token, json!({"secret": 7}));
            Ok(format!("Hello, {}.", answered.answer.as_str().unwrap_or("nobody")))
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_asks_over_a_session() {
    let begun = Begun::default();
    let service = || McpService::new(tools![greet]).state(begun.clone());
    let mut client = Client::able(service(), json!({"elicitation": {}})).await;
    for (given, said) in [
        (json!({"action": "accept", "content": {"answer": "Ada"}}), "Hello, Ada."),
        (json!({"action": "decline"}), "declined"),
        (json!({"action": "accept", "content": {"answer": 7}}), "does not fit"),
    ] {
        let id = client.begin("tools/call", json!({"name": "greet", "arguments": {}})).await;
        let asked = client.next().await.expect("a question");
        assert_eq!(asked["method"], "elicitation/create");
        assert_eq!(asked["params"]["message"], "Who is there?");
        assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["answer"]));
        client.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": given})).await;
        let answer = client.answer(id).await;
        assert!(text(&answer).contains(said), "{said} in {}", text(&answer));
    }
    // Once to ask in each of the three calls, and once after the answer.
    assert_eq!(begun.0.load(Ordering::SeqCst), 4);
    // A client that is there, and says what nobody can read.
    for odd in [json!({"action": "weird"}), json!("x"), json!(7)] {
        let id = client.begin("tools/call", json!({"name": "greet", "arguments": {}})).await;
        let asked = client.next().await.expect("a question");
        client.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": odd})).await;
        let answer = client.answer(id).await;
        let said = text(&answer);
        assert!(is_error(&answer) && said.contains("cannot be read"), "{odd}: {said}");
    }
    // Nobody answers.
    let late = client.call("greet", json!({})).await;
    assert!(is_error(&late) && text(&late).contains("nobody has answered"), "{}", text(&late));
    // Nobody can be asked.
    let mut client = Client::new(service()).await;
    let alone = client.call("greet", json!({})).await;
    assert!(is_error(&alone) && text(&alone).contains("Who is there?"), "{}", text(&alone));
}

#[tokio::test]
async fn a_tool_asks_by_its_answer_and_is_called_again() {
    let begun = Begun::default();
    let service = McpService::new(tools![greet]).state(begun.clone());
    let mut client = Client::sessionless(service, json!({"elicitation": {"form": {}}}));
    let asked = client.call("greet", json!({})).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let question = &result["inputRequests"]["answer"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who is there?");
    let state = result["requestState"].clone();
    assert!(!state.to_string().contains("secret"));

    let again = |state: &Value, given: Value| {
        json!({
            "name": "greet", "arguments": {}, "requestState": state,
            "inputResponses": {"answer": given}
        })
    };
    let ada = json!({"action": "accept", "content": {"answer": "Ada"}});
    let answer = client.ask("tools/call", again(&state, ada.clone())).await;
    assert_eq!(text(&answer), "Hello, Ada.");
    assert_eq!(begun.0.load(Ordering::SeqCst), 2);
    // What does not fit is asked again, and nothing runs.
    let odd = json!({"action": "accept", "content": {"answer": 7}});
    let asked = client.ask("tools/call", again(&state, odd)).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let declined = client.ask("tools/call", again(&state, json!({"action": "decline"}))).await;
    assert!(is_error(&declined) && text(&declined).contains("declined"));
    // A state that is not this server's runs nothing.
    let forged = client.ask("tools/call", again(&json!("AAAA"), ada)).await;
    assert_eq!(forged["error"]["code"], -32602, "{forged}");
    assert_eq!(begun.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_agent_is_served_like_any_tool() {
    let model = ScriptedProvider::new([
        reply().call("add", json!({"a": 20, "b": 22})),
        reply().text("It is 42."),
    ]);
    let agent = Agent::builder(model).tools(tools![add]).build().expect("an agent");
    let service = McpService::new([agent.as_tool("sums", "Does sums.")]);
    let mut client = Client::new(service).await;
    let answer = client.call("sums", json!({"task": "20 and 22?"})).await;
    assert_eq!(text(&answer), "It is 42.");
}

#[tokio::test]
async fn what_cannot_be_served_is_said_before_anybody_connects() {
    let refused =
        |service: McpService| service.http().map(drop).expect_err("a mistake").to_string();
    assert!(refused(McpService::new([tools![add], tools![add]].concat())).contains("two tools"));
    assert!(refused(McpService::new(tools![hang])).contains("State<"));
    assert!(refused(McpService::new(tools![add]).at_once(0)).contains("at_once"));
    let form = Tool::external("form", "Asks.", json!({"type": "object"}), Default::default());
    assert!(refused(McpService::new([form])).contains("form"));
}
