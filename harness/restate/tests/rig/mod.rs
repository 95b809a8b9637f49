//! The engine and its workers, as processes that a test starts, kills and ends.

// Each test program uses a part of it.
#![allow(dead_code, unreachable_pub)]

use std::{
    collections::BTreeMap,
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use harness::{
    CallOutcome,
    agent::Machine,
    journal::{Envelope, Fact},
    testing::Harm,
};
use harness_restate::{Client, Conversation, Facts};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
    task::JoinHandle,
};

/// One engine at a time: it needs a lot of memory.
static ENGINE: Mutex<()> = Mutex::const_new(());

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program of the engine: `RESTATE_SERVER`, or one that is found in the path.
fn program() -> Option<PathBuf> {
    let named = env::var_os("RESTATE_SERVER").map(PathBuf::from);
    named.or_else(in_path).map(|file| server_itself(&file))
}

/// What npm puts into its folder of programs only starts the server and passes some signals on: to kill it leaves the
/// server alone. The server itself is in the package of this system, beside it.
fn server_itself(file: &Path) -> PathBuf {
    let found = || {
        let launcher = file.canonicalize().ok()?;
        let packages = launcher.ancestors().find(|it| it.ends_with("@restatedev"))?;
        let each = fs::read_dir(packages).ok()?.flatten();
        each.map(|it| it.path().join("bin/restate-server")).find(|it| it.is_file())
    };
    found().unwrap_or_else(|| file.to_owned())
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join("restate-server")).find(|file| file.is_file())
}

/// A port that nobody uses, and that was not given to anybody in this process.
pub fn free_port() -> u16 {
    static GIVEN: std::sync::Mutex<Vec<u16>> = std::sync::Mutex::new(Vec::new());
    let mut given = GIVEN.lock().expect("unpoisoned");
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        if !given.contains(&port) {
            given.push(port);
            return port;
        }
    }
}

/// One process of the engine.
struct Node {
    folder: tempfile::TempDir,
    ports: [u16; 3],
    server: Child,
}

impl Node {
    async fn dies(&mut self) {
        let ingress = ("127.0.0.1", self.ports[0]);
        let lives = async || tokio::net::TcpStream::connect(ingress).await.ok();
        until("the node lives", lives).await;
        self.server.kill().await.expect("it is killed");
        let there = tokio::net::TcpStream::connect(ingress).await;
        assert!(there.is_err(), "what was killed is not the server: it still takes requests");
    }
}

pub struct Engine {
    program: PathBuf,
    nodes: Vec<Node>,
    /// Where requests and operators reach it.
    ports: [u16; 2],
    /// What stands before several nodes.
    balancers: Vec<JoinHandle<()>>,
    http: reqwest::Client,
    /// The port of the workers.
    pub port: u16,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.balancers.iter().for_each(JoinHandle::abort);
    }
}

impl Engine {
    /// Starts the engine with an empty store, or says that the test is skipped.
    pub async fn start() -> Option<Self> {
        Self::of(1, &[]).await
    }

    /// The same, and the engine has these settings.
    pub async fn start_with(settings: &[(&str, &str)]) -> Option<Self> {
        Self::of(1, settings).await
    }

    /// Starts three nodes that keep all in two copies, with one partition, so that one of them leads all.
    pub async fn cluster() -> Option<Self> {
        Self::of(3, &[]).await
    }

    async fn of(count: usize, settings: &[(&str, &str)]) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!(
                "skipped: set RESTATE_SERVER to the program `restate-server`, or put it into the path"
            );
            return None;
        };
        let alone = ENGINE.lock().await;
        let all: Vec<[u16; 3]> =
            (0..count).map(|_| [free_port(), free_port(), free_port()]).collect();
        let mut nodes = Vec::new();
        for ports in &all {
            let folder = tempfile::tempdir().expect("a folder");
            let server = serve(&program, folder.path(), *ports, &all, settings);
            nodes.push(Node { folder, ports: *ports, server });
        }
        let (mut ports, mut balancers) = ([all[0][0], all[0][1]], Vec::new());
        if count > 1 {
            for (which, port) in ports.iter_mut().enumerate() {
                let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
                let listener = listener.expect("a free port");
                *port = listener.local_addr().expect("an address").port();
                let to = all.iter().map(|ports| ports[which]).collect();
                balancers.push(tokio::spawn(balance(listener, to)));
            }
        }
        // The first client of the process needs the provider that `Client` installs.
        Client::new("http://127.0.0.1").expect("an address");
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client");
        let port = free_port();
        let engine = Self { program, nodes, ports, balancers, http, port, _alone: alone };
        engine.is_there().await;
        Some(engine)
    }

    /// Kills the node that leads, and starts it again when this is done and another one leads.
    pub async fn leader_dies_while(&mut self, done: impl FnOnce()) {
        let (at, epoch) = until("somebody leads", async || self.leader()).await;
        self.nodes[at].dies().await;
        done();
        let another = async || self.leader().filter(|(_, later)| *later > epoch);
        let (now, _) = until("another one leads", another).await;
        assert_ne!(now, at, "it is dead");
        let all: Vec<[u16; 3]> = self.nodes.iter().map(|node| node.ports).collect();
        let node = &mut self.nodes[at];
        node.server = serve(&self.program, node.folder.path(), node.ports, &all, &[]);
        self.is_there().await;
    }

    /// The node that has said last that it leads, and in which epoch.
    fn leader(&self) -> Option<(usize, u64)> {
        let said = |(at, node): (usize, &Node)| {
            let log = fs::read_to_string(node.folder.path().join("log")).unwrap_or_default();
            let epochs = log.split("became Leader of epoch e").skip(1);
            let digits = |rest: &str| rest.find(|letter: char| !letter.is_ascii_digit());
            let epoch = |rest: &str| rest[..digits(rest)?].parse::<u64>().ok();
            Some((at, epochs.filter_map(epoch).max()?))
        };
        self.nodes.iter().enumerate().filter_map(said).max_by_key(|(_, epoch)| *epoch)
    }

    async fn is_there(&self) {
        for address in [format!("{}/restate/health", self.ingress()), self.admin("health")] {
            until("the engine is there", async || {
                let answer = self.http.get(&address).send().await;
                answer.is_ok_and(|answer| answer.status().is_success()).then_some(())
            })
            .await;
        }
    }

    /// The process of the first node.
    pub fn process(&self) -> u32 {
        self.nodes[0].server.id().unwrap_or_default()
    }

    pub fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub fn admin(&self, what: &str) -> String {
        format!("http://127.0.0.1:{}/{what}", self.ports[1])
    }

    /// Kills the engine, as a machine dies, and starts it again with what it has kept.
    pub async fn dies(&mut self) {
        self.dies_while(|| ()).await;
    }

    /// The same, and this is done while it is dead.
    pub async fn dies_while(&mut self, done: impl FnOnce()) {
        let node = &mut self.nodes[0];
        node.dies().await;
        done();
        node.server = serve(&self.program, node.folder.path(), node.ports, &[node.ports], &[]);
        self.is_there().await;
    }

    /// Tells the engine where the workers are.
    pub async fn register(&self) {
        let body = json!({"uri": format!("http://127.0.0.1:{}", self.port), "force": true});
        until("the workers are known", async || {
            let answer = self.http.post(self.admin("deployments")).json(&body).send().await;
            answer.is_ok_and(|answer| answer.status().is_success()).then_some(())
        })
        .await;
    }

    /// What an operator sees.
    pub async fn query(&self, sql: &str) -> Vec<serde_json::Value> {
        let request = self.http.post(self.admin("query")).header("accept", "application/json");
        let answer = request.json(&json!({"query": sql})).send().await.expect("an answer");
        let mut rows: serde_json::Value = answer.json().await.expect("JSON");
        rows["rows"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }

    /// An operator cancels or kills an invocation.
    pub async fn operator(&self, invocation: &str, does: &str) {
        let status = self.operated(invocation, does).await;
        assert!(status.is_success(), "{status}");
    }

    /// What an operator is answered.
    pub async fn operated(&self, invocation: &str, does: &str) -> reqwest::StatusCode {
        let url = self.admin(&format!("invocations/{invocation}/{does}"));
        self.http.patch(url).send().await.expect("an answer").status()
    }

    /// What a request by hand is answered, and its status. Clients of HTTP change some paths.
    pub async fn by_hand(&self, path: &str, body: &serde_json::Value) -> (u16, String) {
        let body = body.to_string();
        let request = format!(
            "POST /Conversations/{path} HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let engine = tokio::net::TcpStream::connect(("127.0.0.1", self.ports[0])).await;
        let (mut engine, mut answer) = (engine.expect("the engine"), String::new());
        engine.write_all(request.as_bytes()).await.expect("it is sent");
        engine.read_to_string(&mut answer).await.expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), answer)
    }

    /// The invocations of a handler for a conversation that are not over.
    pub async fn open_invocations(&self, chat: &str, handler: &str) -> Vec<String> {
        self.invocations(chat, handler, "<> 'completed'").await
    }

    pub async fn invocations(&self, chat: &str, handler: &str, status: &str) -> Vec<String> {
        let sql = format!(
            "SELECT id FROM sys_invocation WHERE target_service_key = '{chat}' \
             AND target_handler_name = '{handler}' AND status {status} ORDER BY created_at"
        );
        let rows = self.query(&sql).await;
        rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// An operator writes the state of a conversation.
    pub async fn write_state(&self, chat: &str, state: &BTreeMap<String, String>) {
        let bytes = |(name, value): (&String, &String)| (name.clone(), value.clone().into_bytes());
        let state: BTreeMap<String, Vec<u8>> = state.iter().map(bytes).collect();
        let body = json!({"object_key": chat, "new_state": state});
        let url = self.admin("services/Conversations/state");
        let answer = self.http.post(url).json(&body).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
        let names: Vec<String> = state.into_keys().collect();
        until("the state is written", async || {
            let written: Vec<String> = self.state(chat).await.into_keys().collect();
            (written == names).then_some(())
        })
        .await;
    }

    pub async fn state(&self, chat: &str) -> BTreeMap<String, String> {
        let sql = format!("SELECT key, value_utf8 FROM state WHERE service_key = '{chat}'");
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let rows = self.query(&sql).await;
        rows.iter().map(|row| (text(&row["key"]), text(&row["value_utf8"]))).collect()
    }

    /// Sends to the object that is on the engine alone, and waits for its end.
    pub async fn alone(&self, key: &str) {
        let url = format!("{}/Alone/{key}/send", self.ingress());
        let answer = self.http.post(url).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }

    pub fn chat(&self, name: &str) -> Conversation {
        let client = Client::new(&self.ingress()).expect("an address");
        client.conversation(name).expect("a name")
    }

    /// Keeps a worker alive that dies at these points, until the guard is dropped. It reaches the engine at `INGRESS`, if
    /// something stands before the engine.
    pub fn worker(&self, kill_at: &str, more: &[(&str, &str)]) -> Worker {
        let world = Arc::new(tempfile::tempdir().expect("a folder"));
        Worker::keep(self.command(world.path(), kill_at, more), world, "lives")
    }

    /// A second worker, at the same port and with the same effects.
    pub fn beside(&self, first: &Worker, more: &[(&str, &str)]) -> Worker {
        let world = Arc::clone(&first.world);
        Worker::keep(self.command(world.path(), "100000", more), world, "other lives")
    }

    pub fn command(&self, world: &Path, kill_at: &str, more: &[(&str, &str)]) -> Command {
        let tests = env::current_exe().expect("a path");
        let built = tests
            .ancestors()
            .nth(2)
            .expect("the folder of the build")
            .join("examples/scripted_worker");
        assert!(built.is_file(), "run `cargo build --example scripted_worker` first");
        let mut command = Command::new(built);
        let ingress = more.iter().find(|(name, _)| *name == "INGRESS");
        command
            .arg(self.port.to_string())
            .arg(ingress.map_or_else(|| self.ingress(), |(_, at)| (*at).to_owned()))
            .env("WORLD", world)
            .env("KILL_AT", kill_at);
        command.envs(more.iter().copied()).kill_on_drop(true);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Each connection goes to the first node that takes it.
async fn balance(listener: tokio::net::TcpListener, to: Vec<u16>) {
    while let Ok((mut from, _)) = listener.accept().await {
        let to = to.clone();
        tokio::spawn(async move {
            for port in to {
                if let Ok(mut node) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                    // It ends when one of them does.
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut node).await;
                    return;
                }
            }
        });
    }
}

fn serve(
    program: &Path,
    folder: &Path,
    ports: [u16; 3],
    all: &[[u16; 3]],
    settings: &[(&str, &str)],
) -> Child {
    let at = |port: u16| format!("127.0.0.1:{port}");
    let [ingress, admin, node] = ports;
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
    let mut command = Command::new(program);
    command
        .env("RESTATE_LISTEN_MODE", "tcp")
        .env("RESTATE_BIND_IP", "127.0.0.1")
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        .env("RESTATE_BASE_DIR", folder)
        .env("RESTATE_BIND_ADDRESS", at(node))
        .env("RESTATE_INGRESS__BIND_ADDRESS", at(ingress))
        .env("RESTATE_ADMIN__BIND_ADDRESS", at(admin))
        .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "128MB")
        .env("RESTATE_DEFAULT_RETRY_POLICY__INITIAL_INTERVAL", "50ms")
        .env("RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL", "200ms")
        .env("RESTATE_LOG_DISABLE_ANSI_CODES", "true");
    if all.len() > 1 {
        let nodes: Vec<String> =
            all.iter().map(|ports| format!("http://{}", at(ports[2]))).collect();
        command
            .env("RESTATE_CLUSTER_NAME", "cluster")
            .env("RESTATE_NODE_NAME", format!("node-{node}"))
            .env("RESTATE_ADVERTISED_ADDRESS", format!("http://{}/", at(node)))
            .env("RESTATE_AUTO_PROVISION", (all[0] == ports).to_string())
            .env("RESTATE_METADATA_CLIENT__ADDRESSES", json!(nodes).to_string())
            .env("RESTATE_DEFAULT_REPLICATION", "2")
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "1")
            .env("RESTATE_LOG_FILTER", "warn,restate_worker=info")
            .stdout(log.expect("a file"));
    } else {
        command.env("RESTATE_DEFAULT_NUM_PARTITIONS", "2").env("RUST_LOG", "warn");
        command.stdout(Stdio::null());
    }
    command.envs(settings.iter().copied());
    command.stderr(Stdio::null()).kill_on_drop(true).spawn().expect("the engine starts")
}

/// A worker that is started again whenever it dies.
pub struct Worker {
    pub world: Arc<tempfile::TempDir>,
    lives: &'static str,
    keeper: JoinHandle<()>,
}

impl Worker {
    pub fn keep(mut command: Command, world: Arc<tempfile::TempDir>, name: &'static str) -> Self {
        let lives = world.path().join(name);
        let keeper = tokio::spawn(async move {
            loop {
                let mut child = command.spawn().expect("the worker starts");
                let id = child.id().unwrap_or_default();
                fs::write(
                    &lives,
                    format!("{}{id}\n", fs::read_to_string(&lives).unwrap_or_default()),
                )
                .expect("a file");
                child.wait().await.expect("it ends");
            }
        });
        Self { world, lives: name, keeper }
    }

    pub fn read(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.world.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The process that lives now.
    pub fn process(&self) -> u32 {
        self.read(self.lives).pop().and_then(|id| id.parse().ok()).unwrap_or_default()
    }

    /// Lets what is held at a point go on.
    pub fn releases(&self) {
        fs::write(self.world.path().join("released"), "").expect("a file");
    }

    /// Lets it panic in runs of the kind `ill`, or no more.
    pub fn is_ill(&self, is_ill: bool) {
        let file = self.world.path().join("ill");
        if is_ill { fs::write(file, "") } else { fs::remove_file(file) }.expect("a file");
    }

    /// How often it has died.
    pub fn deaths(&self) -> usize {
        self.read(self.lives).len().saturating_sub(1)
    }

    /// Kills the process that lives now.
    pub async fn dies(&self) {
        let Some(id) = self.read(self.lives).pop() else { return };
        // It may be dead already.
        let _ = Command::new("kill").args(["-9", &id]).stderr(Stdio::null()).status().await;
    }
}

impl Worker {
    /// Kills it, and nobody starts it again.
    pub async fn dies_for_good(self) {
        self.keeper.abort();
        self.dies().await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// An engine with a worker that nobody kills.
pub async fn calm() -> Option<(Engine, Worker)> {
    let engine = Engine::start().await?;
    let worker = engine.worker("", &[]);
    engine.register().await;
    Some((engine, worker))
}

/// A worker that is held at this point.
pub fn held_at(engine: &Engine, point: &str) -> Worker {
    engine.worker("100000", &[("HOLD_AT", point)])
}

pub async fn is_noted(worker: &Worker, file: &str, times: usize) {
    until(file, async || (worker.read(file).len() >= times).then_some(())).await;
}

/// What the user has said, in order.
pub fn said(facts: &[Envelope]) -> Vec<String> {
    let text = |entry| match entry {
        Fact::UserSaid { message, .. } => Some(message.text()),
        _ => None,
    };
    entries(facts).into_iter().filter_map(text).collect()
}

/// Asks again and again until there is an answer.
pub async fn until<T>(what: &str, mut asks: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = asks().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: it did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Says yes to each question that waits, until it is dropped.
pub fn says_yes(chat: &Conversation) -> Yes {
    let chat = chat.clone();
    Yes(tokio::spawn(async move {
        loop {
            for open in chat.open().await.unwrap_or_default() {
                if let Some(question) = open.question() {
                    // It fails while no worker is there, and where it was said already.
                    let _ = chat.decide(question.yes().by("ada")).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }))
}

pub struct Yes(JoinHandle<()>);

impl Drop for Yes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All facts, and nothing runs.
pub async fn at_rest(chat: &Conversation, is_it: impl Fn(&[Envelope]) -> bool) -> Vec<Envelope> {
    until("the conversation is at rest", async || {
        let Facts { facts, run, .. } = chat.facts(0).await.ok()?;
        (run.is_none() && is_it(&facts)).then_some(facts)
    })
    .await
}

pub fn entries(facts: &[Envelope]) -> Vec<Fact> {
    facts.iter().map(|fact| fact.fact().expect("a fact")).collect()
}

/// Whether the model has answered what was said last.
pub fn answered(facts: &[Envelope]) -> bool {
    machine(facts).next() == harness::agent::Action::Finish(harness::Outcome::Answered)
}

pub fn machine(facts: &[Envelope]) -> Machine {
    let mut machine = Machine::new();
    entries(facts).iter().for_each(|entry| machine.apply(entry).expect("facts that follow"));
    machine
}

/// How each call ended, as the model is told.
pub fn ends(facts: &[Envelope]) -> BTreeMap<String, CallOutcome> {
    let machine = machine(facts);
    let results =
        machine.transcript().messages().iter().flat_map(|said| said.results().collect::<Vec<_>>());
    results.map(|result| (result.call_id().to_owned(), result.outcome())).collect()
}

/// What is wrong, by the words of the library's own crash test.
pub fn harm(facts: &[Envelope], effects: &[String]) -> Vec<(Harm, String)> {
    let machine = machine(facts);
    let (messages, ends) = (machine.transcript().messages(), ends(facts));
    let mut harm = Vec::new();
    let keys = counted(effects);
    for call in messages.iter().flat_map(|said| said.calls().collect::<Vec<_>>()) {
        let Some(end) = ends.get(call.id()) else {
            harm.push((Harm::Stuck, format!("{} has no end", call.id())));
            continue;
        };
        // What they did is not noted.
        if matches!(call.name(), "read_result" | "tool_search") {
            continue;
        }
        let arguments: serde_json::Value = serde_json::from_str(call.arguments()).expect("JSON");
        let line = format!("{} {} ", call.name(), arguments["n"]);
        let ran: usize =
            keys.iter().filter(|(key, _)| key.starts_with(&line)).map(|(_, ran)| ran).sum();
        let distinct = keys.keys().filter(|key| key.starts_with(&line)).count();
        let reads = matches!(call.name(), "look" | "page" | "huge" | "whose");
        let told = format!("{} ran {ran} times under {distinct} keys and is {end:?}", call.id());
        if distinct > 1 || (ran > 1 && !reads && call.name() != "put") {
            harm.push((Harm::Repeated, told.clone()));
        }
        let is_true = match end {
            CallOutcome::Succeeded => ran >= 1,
            CallOutcome::InDoubt => !reads,
            CallOutcome::NotStarted => ran == 0 || reads,
            _ => false,
        };
        if !is_true {
            harm.push((Harm::Untrue, told));
        }
    }
    harm
}

/// Waits until the conversation is at rest, and says what is wrong: facts that were seen and are gone, a run that
/// does not come to its end, and what [`harm`] finds.
pub async fn harm_at_rest(
    chat: &Conversation,
    worker: &Worker,
    is_it: impl Fn(&[Envelope]) -> bool,
) -> (Vec<Envelope>, Vec<(Harm, String)>) {
    let (begun, mut seen, mut lost) = (Instant::now(), Vec::<Envelope>::new(), Vec::new());
    loop {
        if let Ok(Facts { facts, run, .. }) = chat.facts(0).await {
            if !facts.starts_with(&seen) {
                lost.push((Harm::Lost, format!("{} facts are {} others", seen.len(), facts.len())));
            }
            seen = facts;
            if run.is_none() && is_it(&seen) {
                lost.extend(harm(&seen, &worker.read("effects")));
                return (seen, lost);
            }
        }
        if begun.elapsed() > PATIENCE {
            lost.push((Harm::Stuck, format!("{} facts, and no end", seen.len())));
            return (seen, lost);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn counted(effects: &[String]) -> BTreeMap<&str, usize> {
    let mut keys = BTreeMap::new();
    for effect in effects {
        *keys.entry(effect.as_str()).or_default() += 1;
    }
    keys
}
