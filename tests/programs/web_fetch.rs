//! The tool that reads pages of the web.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, Permissions, Tool,
    policy::Question,
    testing::{Answer, LoopbackServer, ScriptedProvider, reply},
    toolbox::WebFetch,
};
use serde_json::json;

/// What the model reads of a call.
async fn fetched(tools: &[Tool], arguments: serde_json::Value) -> String {
    let model = ScriptedProvider::answering(move |request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("web_fetch", arguments.clone()),
    });
    let limits = harness::ToolLimits::default().tries(1);
    let agent = Agent::builder(model).tools(tools.to_vec()).tool_limits(limits);
    let agent = agent.permissions(Permissions::allow_all());
    let reply = agent.build().expect("an agent").run("Read it.").await.expect("an answer");
    reply.text().to_owned()
}

fn page(text: &str) -> Answer {
    Answer::bytes(200, "text/html; charset=utf-8", text.to_owned())
}

#[tokio::test]
async fn a_page_is_read_as_text_and_a_long_one_in_parts() {
    let long = "word ".repeat(20_000);
    let server = LoopbackServer::answering(move |request| match request.path() {
        "/page" => page("<h1>News</h1><p>It is <a href='/more'>cold</a>.<script>steal()</script>"),
        "/data" => Answer::json(200, &json!({"a": 1})),
        "/moved" => Answer::empty(302).header("location", "/page"),
        "/circle" => Answer::empty(302).header("location", "/circle"),
        "/picture" => Answer::bytes(200, "image/png", "png"),
        "/long" => Answer::bytes(200, "text/plain", long.clone()),
        _ => Answer::empty(404),
    })
    .await
    .expect("a port");
    let tools = WebFetch::allowing(["127.0.0.1"]).expect("the tool").tools();
    let read =
        async |path: &str| fetched(&tools, json!({"url": format!("{}{path}", server.url())})).await;
    assert_eq!(read("/page").await, "News\nIt is [cold](/more).");
    assert_eq!(read("/data").await, r#"{"a":1}"#);
    assert_eq!(read("/moved").await, "News\nIt is [cold](/more).");
    assert!(read("/circle").await.contains("redirects too often"));
    assert!(read("/picture").await.contains("`image/png`"));
    assert!(read("/none").await.contains("404"));
    let first = read("/long").await;
    assert!(
        first.starts_with("(bytes 0 to 49152 of 100000; `from` = 49152 reads on)\n"),
        "{}",
        &first[..80]
    );
    let arguments = json!({"url": format!("{}/long", server.url()), "from": 98_304});
    assert_eq!(fetched(&tools, arguments).await.len(), 100_000 - 98_304);
}

#[tokio::test]
async fn nothing_of_this_machine_or_its_network_is_reached_by_any_way() {
    let server = LoopbackServer::start([] as [Answer; 0]).await.expect("a port");
    let port = server.url().rsplit_once(':').expect("a port").1.to_owned();
    let tools = WebFetch::new().expect("the tool").tools();
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "127.1",
        "169.254.169.254",
        "10.0.0.1",
    ] {
        let text = fetched(&tools, json!({"url": format!("http://{host}:{port}/")})).await;
        assert!(text.contains("public internet"), "{host}: {text}");
    }
    for (url, fault) in [
        ("file:///etc/passwd", "`file`"),
        ("ftp://127.0.0.1/", "`ftp`"),
        ("http://ann:secret@1.1.1.1/", "password"),
        ("/etc/passwd", "not valid"),
    ] {
        let text = fetched(&tools, json!({"url": url})).await;
        assert!(text.contains(fault) && !text.contains("secret"), "{url}: {text}");
    }
    // A server that is allowed leads to one that is not.
    let to = format!("http://localhost:{port}/");
    let leads = LoopbackServer::start([
        Answer::empty(302).header("location", &*to),
        Answer::empty(302).header("location", "http://169.254.169.254/latest/meta-data"),
    ]);
    let leads = leads.await.expect("a port");
    let tools = WebFetch::allowing(["127.0.0.1"]).expect("the tool").tools();
    for _ in 0..2 {
        let text = fetched(&tools, json!({"url": leads.url()})).await;
        assert!(text.contains("public internet"), "{text}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_person_is_asked_about_each_host_and_can_allow_all_its_pages() {
    let server = LoopbackServer::answering(|_| page("<p>Here.")).await.expect("a port");
    let url = server.url();
    let turn = AtomicUsize::new(0);
    let model = ScriptedProvider::answering(move |_| match turn.fetch_add(1, Ordering::Relaxed) {
        0 => reply().call("web_fetch", json!({"url": format!("{url}/1")})),
        1 => reply().call("web_fetch", json!({"url": format!("{url}/2")})),
        _ => reply().text("Read."),
    });
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&asked);
    let approver = move |question: Question| {
        keeps.lock().unwrap().push(format!("{:?}", question.reasons));
        let approval = question.always_for(question.scopes.last().expect("the host"));
        async move { approval }
    };
    let tools = WebFetch::allowing(["127.0.0.1"]).expect("the tool").tools();
    assert_eq!(tools[0].side_effects().to_string(), "read, network");
    let agent = Agent::builder(model).tools(tools).approver(approver).build().expect("an agent");
    agent.run("Read both.").await.expect("an answer");
    let asked = asked.lock().unwrap();
    assert!(asked.len() == 1 && asked[0].contains("127.0.0.1"), "{asked:?}");
    assert_eq!(server.requests().len(), 2);
}
