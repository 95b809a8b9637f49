//! The service of the examples on a real engine: pages see what the model writes, and each fact once, also when the
//! process dies. This program is also that process, which a test starts and kills.

mod rig;
mod script;

#[path = "../../../examples/service/access.rs"]
#[allow(dead_code, reason = "the program of the example uses the rest")]
mod access;
#[path = "../examples/service/handlers.rs"]
mod handlers;
#[path = "../../../examples/service/limits.rs"]
#[allow(dead_code, reason = "the service without the engine uses the rest")]
mod limits;
#[path = "../examples/service/live.rs"]
mod live;

use std::{collections::BTreeMap, env, process::Stdio, sync::Arc, time::Instant};

use futures_util::StreamExt as _;
use harness::{CallOutcome, journal::Fact};
use harness_restate::Client;
use rig::{Engine, Worker, answered, at_rest, ends, entries, free_port, harm, until};
use script::{World, agent, given};
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

/// The process with the page and the worker, until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the tests start it"]
async fn serves() {
    let (Ok(pages), Ok(worker)) = (env::var("PAGES"), env::var("WORKER")) else { return };
    let set = |name: &str| env::var(name).expect("an address");
    let (pages, worker) = (pages.parse().expect("an address"), worker.parse().expect("an address"));
    let at = handlers::Addresses { pages, worker, ingress: set("INGRESS"), admin: set("ADMIN") };
    let agent = agent(&Arc::new(World::of_this_process())).expect("an agent");
    let users = access::Users::default();
    handlers::serve(agent, users, at, given).await.expect("it serves");
}

struct Service {
    http: reqwest::Client,
    pages: String,
    process: Worker,
}

impl Service {
    async fn start(engine: &Engine) -> Self {
        let service = Self::at(engine, engine.port);
        engine.register().await;
        service
    }

    /// One to which the engine sends no runs, if it does not know this port.
    fn at(engine: &Engine, port: u16) -> Self {
        let (world, pages) = (tempfile::tempdir().expect("a folder"), free_port());
        let mut command = Command::new(env::current_exe().expect("a path"));
        command
            .args(["--ignored", "--exact", "serves", "--nocapture"])
            .env("PAGES", format!("127.0.0.1:{pages}"))
            .env("WORKER", format!("127.0.0.1:{port}"))
            .env("INGRESS", engine.ingress())
            .env("ADMIN", engine.admin(""))
            .env("WORLD", world.path())
            .kill_on_drop(true)
            .stdout(Stdio::null());
        let process = Worker::keep(command, Arc::new(world), "lives");
        // The first client of the process needs the provider that `Client` installs.
        Client::new("http://127.0.0.1").expect("an address");
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client");
        Self { http, pages: format!("http://127.0.0.1:{pages}"), process }
    }

    /// The stream of a conversation, when the process is there.
    async fn follow(&self, id: &str) -> Chunks {
        let url = format!("{}/api/chat/{id}/stream?follow", self.pages);
        let response = until("the page is served", async || {
            let response = self.http.get(&url).send().await.ok()?;
            response.status().is_success().then_some(response)
        });
        Chunks::of(response.await)
    }

    async fn post(&self, body: &Value) -> reqwest::Response {
        let url = format!("{}/api/chat", self.pages);
        self.http.post(url).json(body).send().await.expect("a response")
    }

    async fn say(&self, id: &str, text: &str) -> reqwest::Response {
        let message = json!({"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]});
        self.post(&json!({"id": id, "trigger": "submit-message", "messages": [message]})).await
    }

    async fn approve(&self, id: &str, approval: &str) -> reqwest::Response {
        let approval = json!({"id": approval, "approved": true});
        let part =
            json!({"type": "dynamic-tool", "state": "approval-responded", "approval": approval});
        let message = json!({"role": "assistant", "parts": [part]});
        self.post(&json!({"id": id, "trigger": "submit-message", "messages": [message]})).await
    }

    async fn get(&self, path: &str) -> Value {
        let response = self.http.get(format!("{}{path}", self.pages)).send().await;
        response.expect("a response").json().await.expect("JSON")
    }
}

/// What a tab reads.
struct Chunks {
    bytes: futures_util::stream::BoxStream<'static, Vec<u8>>,
    text: String,
    read: Vec<Value>,
}

impl Chunks {
    fn of(response: reqwest::Response) -> Self {
        assert!(response.status().is_success(), "{response:?}");
        let bytes = futures_util::stream::unfold(response, async |mut response| {
            let bytes = response.chunk().await.ok().flatten()?;
            Some((bytes.to_vec(), response))
        });
        Self { bytes: bytes.boxed(), text: String::new(), read: Vec::new() }
    }

    /// The next chunk; `None` if the connection has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let chunk = data.and_then(|data| serde_json::from_str::<Value>(data).ok());
                self.text = rest.to_owned();
                match chunk {
                    Some(chunk) => {
                        self.read.push(chunk.clone());
                        return Some(chunk);
                    }
                    None => continue,
                }
            }
            let bytes = self.bytes.next().await?;
            self.text += &String::from_utf8(bytes).expect("whole words");
        }
    }

    async fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let left = rig::PATIENCE.saturating_sub(begun.elapsed());
            match timeout(left, self.next()).await.ok().flatten() {
                Some(chunk) if is_it(&chunk) => return chunk,
                Some(_) => {}
                None => panic!("it did not come: {:#?}", self.read),
            }
        }
    }

    async fn until_end(&mut self, outcome: &str) {
        self.until(|chunk| chunk["messageMetadata"]["outcome"] == outcome).await;
    }

    /// Reads on until the connection breaks.
    async fn broken(&mut self) {
        while self.next().await.is_some() {}
    }

    /// The words of the model that were not taken back.
    fn words(&self) -> String {
        let mut steps = Vec::<String>::new();
        for chunk in &self.read {
            match chunk["type"].as_str() {
                Some("start-step") => steps.push(String::new()),
                Some("reset-step") => steps.last_mut().expect("a step").clear(),
                Some("text-delta") => {
                    *steps.last_mut().expect("a step") += chunk["delta"].as_str().expect("words");
                }
                _ => {}
            }
        }
        steps.concat()
    }

    /// How often each call has got its arguments and its result in each run. A run that had waited is another one, and a call that
    /// had waited is shown again.
    fn calls(&self) -> BTreeMap<(usize, String, String), usize> {
        let (mut calls, mut run, mut waited) = (BTreeMap::new(), 0, None);
        for chunk in &self.read {
            let kind = chunk["type"].as_str().unwrap_or_default();
            if kind == "start" {
                run += 1;
                waited = None;
            }
            if kind == "tool-approval-request" {
                waited = chunk["toolCallId"].as_str().map(str::to_owned);
            }
            if kind == "tool-input-available" || kind.starts_with("tool-output-") {
                let call = chunk["toolCallId"].as_str().expect("a call").to_owned();
                if waited.take_if(|waited| *waited == call).is_some() {
                    continue;
                }
                *calls.entry((run, call, kind[..8].to_owned())).or_default() += 1;
            }
        }
        calls
    }
}

fn is_words(chunk: &Value) -> bool {
    chunk["type"] == "text-delta"
}

#[tokio::test]
async fn a_process_that_dies_in_a_step_goes_on_and_pages_see_each_fact_once() {
    let Some(engine) = Engine::start().await else { return };
    let service = Service::start(&engine).await;
    let (mut first, mut second) = (service.follow("a").await, service.follow("a").await);
    assert_eq!(service.say("a", "Mail and work.").await.status(), 200);
    let question = first.until(|chunk| chunk["type"] == "tool-approval-request").await;
    first.until_end("waiting").await;
    second.until_end("waiting").await;
    // Both answer, and one counts.
    let approval = question["approvalId"].as_str().expect("an id");
    let (one, other) = tokio::join!(service.approve("a", approval), service.approve("a", approval));
    let mut statuses = [one.status().as_u16(), other.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);

    // It dies in a tool that has begun.
    let slow =
        |chunk: &Value| chunk["type"] == "tool-input-available" && chunk["toolName"] == "slow";
    first.until(slow).await;
    let begun = async || service.process.read("effects").iter().any(|it| it.starts_with("slow"));
    until("the tool has begun", async || begun().await.then_some(())).await;
    service.process.dies().await;
    first.broken().await;
    second.broken().await;
    for tab in [&first, &second] {
        assert!(tab.calls().values().all(|times| *times == 1), "{:?}", tab.calls());
    }

    // It is started again, and goes on without being asked.
    let mut again = service.follow("a").await;
    again.until_end("answered").await;
    let chat = engine.chat("a");
    let facts = at_rest(&chat, answered).await;
    let wrong = harm(&facts, &service.process.read("effects"));
    assert!(wrong.is_empty(), "{wrong:?}");
    let ends = ends(&facts);
    assert_eq!(ends.len(), 3, "{ends:?}");
    let doubtful = ends.iter().filter(|(_, end)| **end == CallOutcome::InDoubt);
    assert_eq!(doubtful.map(|(call, _)| &call[..4]).collect::<Vec<_>>(), ["slow"]);
    assert!(again.calls().values().all(|times| *times == 1), "{:?}", again.calls());
    assert_eq!(again.calls().len(), 6, "three calls and their ends: {:?}", again.calls());
    assert_eq!(again.words(), "Done.");
    // The messages of a page that is loaded now are the same.
    let messages = service.get("/api/chat/a").await;
    assert_eq!(messages["busy"], false);
    let parts = &messages["messages"][1]["parts"];
    let is_call = |part: &&Value| part["type"].as_str().expect("a type").starts_with("tool-");
    assert_eq!(parts.as_array().expect("parts").iter().filter(is_call).count(), 3, "{messages:#}");
    let list = service.get("/api/chats").await;
    assert_eq!(list["conversations"][0]["title"], "Mail and work.", "{list}");
}

#[tokio::test]
async fn words_are_in_the_page_before_the_engine_has_them() {
    let Some(engine) = Engine::start().await else { return };
    let service = Service::start(&engine).await;
    let (mut first, chat) = (service.follow("a").await, engine.chat("a"));
    assert_eq!(service.say("a", "Say it slowly.").await.status(), 200);
    first.until(is_words).await;
    let facts = chat.facts(0).await.expect("facts").facts;
    let replied = |fact: &Fact| matches!(fact, Fact::ModelReplied { .. });
    assert!(!entries(&facts).iter().any(replied), "the model still writes");
    // A tab that comes later begins with the beginning.
    let mut late = service.follow("a").await;
    late.until(is_words).await;
    service.process.dies().await;
    first.broken().await;
    late.broken().await;
    let lost = [first.words(), late.words()];
    assert!(lost.iter().all(|words| "Well".starts_with(words)), "{lost:?}");

    // The model is asked again. Nothing of the lost answer is left.
    let (mut again, mut other) = (service.follow("a").await, service.follow("a").await);
    again.until_end("answered").await;
    other.until_end("answered").await;
    assert_eq!([again.words(), other.words()], ["Well, done.", "Well, done."]);
    let messages = service.get("/api/chat/a").await;
    assert_eq!(messages["messages"].as_array().map(Vec::len), Some(2), "{messages:#}");
    assert_eq!(messages["messages"][1]["parts"][1]["text"], "Well, done.");

    // A stop is heard, and what was not stored is taken back.
    assert_eq!(service.say("a", "Think.").await.status(), 200);
    again.until(is_words).await;
    assert_eq!(service.say("a", "Hello.").await.status(), 409);
    let stop = format!("{}/api/chat/a/stop", service.pages);
    let stopped = service.http.post(&stop).json(&json!({})).send().await.expect("a response");
    assert_eq!(stopped.status(), 204);
    again.until_end("cancelled").await;
    assert_eq!(again.words(), "Well, done.");
    until("nothing goes on", async || {
        (service.get("/api/chat/a").await["busy"] == false).then_some(())
    })
    .await;
    let stopped = service.http.post(&stop).json(&json!({})).send().await.expect("a response");
    assert_eq!(stopped.status(), 404);
}

#[tokio::test]
async fn a_page_of_another_worker_sees_each_fact_once() {
    let Some(engine) = Engine::start().await else { return };
    let (works, only_shows) = (Service::start(&engine).await, Service::at(&engine, free_port()));
    let (mut near, mut far) = (works.follow("a").await, only_shows.follow("a").await);
    // What is said there begins a run here.
    assert_eq!(only_shows.say("a", "Mail soon.").await.status(), 200);
    let question = far.until(|chunk| chunk["type"] == "tool-approval-request").await;
    let approval = question["approvalId"].as_str().expect("an id");
    assert_eq!(only_shows.approve("a", approval).await.status(), 200);
    for tab in [&mut near, &mut far] {
        tab.until_end("answered").await;
        assert_eq!(tab.words(), "Done.");
        assert!(tab.calls().values().all(|times| *times == 1), "{:?}", tab.calls());
    }
    assert_eq!(works.process.read("effects").len(), 1);
    assert!(only_shows.process.read("effects").is_empty());
    let messages = async |service: &Service| service.get("/api/chat/a").await["messages"].clone();
    let (near, far) = (messages(&works).await, messages(&only_shows).await);
    assert_eq!(near.as_array().map(Vec::len), Some(2), "{near:#}");
    assert_eq!(near[1]["parts"], far[1]["parts"]);
}
