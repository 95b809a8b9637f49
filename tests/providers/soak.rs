//! Many conversations over real sockets with all kinds of failures: how each ends, and what is left.
//!
//! A normal test run has a few of them. `HARNESS_SOAK=1000 cargo test -p harness-tests soak --
//! --nocapture` has a thousand on each wire, and prints the table.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, AnthropicProvider, ErrorKind, Event, Guardrails, Outcome, Permissions, Provider, State,
    Stopped, Transcript,
    client::{ChatCompletionsProvider, OpenAIProvider, Timeouts},
    policy::{FallbackProvider, RetryPolicy, RetryProvider},
    testing::{Answer, Chaos, Fault, LoopbackServer, anthropic, chat, responses},
    tool, tools,
};
use serde_json::{Value, json};

/// One wire: how it is asked, and what a model says on it.
struct Wire {
    name: &'static str,
    provider: fn(&str) -> Box<dyn Provider>,
    says: fn(Turn, &str) -> Answer,
}

/// All wires. A new one is a line here.
const WIRES: [Wire; 3] = [
    Wire { name: "messages", provider: messages, says: says_messages },
    Wire { name: "responses", provider: open_responses, says: says_responses },
    Wire { name: "chat", provider: completions, says: says_chat },
];

fn messages(url: &str) -> Box<dyn Provider> {
    let provider = AnthropicProvider::builder().api_key("k").base_url(url).timeouts(clocks());
    Box::new(provider.build().unwrap())
}

fn open_responses(url: &str) -> Box<dyn Provider> {
    let provider = OpenAIProvider::builder().api_key("k").base_url(url).timeouts(clocks());
    Box::new(provider.build().unwrap())
}

fn completions(url: &str) -> Box<dyn Provider> {
    let provider = ChatCompletionsProvider::builder().base_url(url).model("m").timeouts(clocks());
    Box::new(provider.build().unwrap())
}

fn says_messages(turn: Turn, id: &str) -> Answer {
    let body = anthropic::body().id(&format!("msg_{id}")).text(turn.words());
    match turn.calls() {
        Some((name, arguments)) => body.call(&format!("toolu_{id}"), name, arguments).answer(),
        None => body.answer(),
    }
}

fn says_responses(turn: Turn, id: &str) -> Answer {
    let body = responses::body().id(&format!("resp_{id}")).text(turn.words());
    match turn.calls() {
        Some((name, arguments)) => body.call(&format!("call_{id}"), name, arguments).answer(),
        None => body.answer(),
    }
}

fn says_chat(turn: Turn, id: &str) -> Answer {
    let body = chat::body().id(&format!("chatcmpl-{id}")).text(turn.words());
    match turn.calls() {
        Some((name, arguments)) => body.call(&format!("call_{id}"), name, arguments).answer(),
        None => body.answer(),
    }
}

fn clocks() -> Timeouts {
    let short = Duration::from_millis(500);
    Timeouts { first_event: short, between_events: short, ..Timeouts::default() }
}

/// What the model wants next, told from what the tools have answered so far.
#[derive(Clone, Copy)]
enum Turn {
    Look,
    Book,
    Done,
}

impl Turn {
    fn after(request: &str) -> Self {
        match (request.contains("seat-is-free"), request.contains("seat-is-yours")) {
            (_, true) => Self::Done,
            (true, false) => Self::Book,
            (false, false) => Self::Look,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Look => "Let me look at the seats.",
            Self::Book => "It is free, so I take it.",
            Self::Done => "All done: the seat is yours.",
        }
    }

    fn calls(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Look => Some(("look", json!({"seat": 4}))),
            Self::Book => Some(("book", json!({"seat": 4}))),
            Self::Done => None,
        }
    }
}

/// Looks at a seat.
#[tool(side_effects = "read")]
fn look(
    /** Its number */
    seat: u32,
) -> String {
    format!("{seat}: seat-is-free")
}

/// Books a seat, which cannot be taken back.
#[tool(side_effects = "mutate")]
fn book(
    /** Its number */
    seat: u32,
    booked: State<Booked>,
) -> String {
    booked.0.fetch_add(1, Ordering::SeqCst);
    format!("{seat}: seat-is-yours")
}

/// How often a seat was booked in one conversation.
#[derive(Clone, Default)]
struct Booked(Arc<AtomicU32>);

/// What was seen, of one conversation or of all.
#[derive(Default)]
struct Tally {
    runs: u64,
    answered: u64,
    resumed: u64,
    answered_after_resume: u64,
    stopped: BTreeMap<String, u64>,
    retries: u64,
    fallbacks: u64,
    by_second: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.answered += other.answered;
        self.resumed += other.resumed;
        self.answered_after_resume += other.answered_after_resume;
        for (kind, count) in other.stopped {
            *self.stopped.entry(kind).or_default() += count;
        }
        self.retries += other.retries;
        self.fallbacks += other.fallbacks;
        self.by_second += other.by_second;
    }

    fn print(&self, wire: &str, asked: u64, injected: &BTreeMap<Fault, u64>) {
        println!("\n{wire}: {} runs, {asked} requests", self.runs);
        for fault in Fault::ALL {
            println!("  {:<18} {:>5}", fault.to_string(), injected.get(&fault).unwrap_or(&0));
        }
        println!("  faults in all      {:>5}", injected.values().sum::<u64>());
        println!("  retries            {:>5}", self.retries);
        println!("  fallbacks          {:>5}", self.fallbacks);
        println!("  answered at once   {:>5}", self.answered);
        for (kind, count) in &self.stopped {
            println!("  ended by {kind:<10}{count:>5}");
        }
        println!("  resumed            {:>5}", self.resumed);
        println!("  answered at last   {:>5}", self.answered + self.answered_after_resume);
        println!("  by the second      {:>5}", self.by_second);
    }
}

/// A transcript that every provider takes: all calls are answered, and it can be kept and read.
fn is_valid(transcript: &Transcript) {
    assert!(transcript.sendable().is_ok());
    let kept = serde_json::to_string(transcript).unwrap();
    assert_eq!(serde_json::from_str::<Transcript>(&kept).unwrap(), *transcript);
}

/// An error that says what it was, and first of all what it was first.
fn is_typed(stopped: &Stopped) -> String {
    assert_eq!(stopped.outcome(), Outcome::Failed, "{stopped}");
    let error = stopped.error().expect("a failed run has an error");
    assert!(error.provider().is_some(), "it says who failed: {error}");
    match error.kind() {
        ErrorKind::Api => {
            assert!(error.status().is_some() || error.code().is_some(), "{error:?}");
        }
        ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::CutOff | ErrorKind::Protocol => {}
        other => panic!("{other:?} is no failure of a network: {error}"),
    }
    format!("{:?}", error.kind())
}

/// One conversation, resumed until it is answered.
async fn converse(provider: Arc<FallbackProvider>) -> Tally {
    let booked = Booked::default();
    let agent = Agent::builder(provider)
        .tools(tools![look, book])
        .permissions(Permissions::default().allow("book"))
        .state(booked.clone())
        .build()
        .unwrap();
    let mut chat = agent.chat();
    let mut tally = Tally { runs: 1, ..Tally::default() };
    let mut tries = 0;
    loop {
        let sending = match tries {
            0 => chat.send("Book me seat 4."),
            _ => chat.resume(),
        };
        let result = sending
            .on_event(|event| match event {
                Event::Retrying { .. } => tally.retries += 1,
                Event::FallingBack { .. } => tally.fallbacks += 1,
                _ => {}
            })
            .await;
        is_valid(chat.transcript());
        assert!(booked.0.load(Ordering::SeqCst) <= 1, "booked twice");
        match result {
            Ok(reply) => {
                assert_eq!(booked.0.load(Ordering::SeqCst), 1, "{reply}");
                tally.by_second += u64::from(reply.provider().starts_with("second"));
                match tries {
                    0 => tally.answered += 1,
                    _ => tally.answered_after_resume += 1,
                }
                return tally;
            }
            Err(stopped) => {
                *tally.stopped.entry(is_typed(&stopped)).or_default() += 1;
                tries += 1;
                assert!(tries < 50, "it never ends: {stopped}");
                tally.resumed += 1;
            }
        }
    }
}

/// A server on which a model speaks this wire, with failures.
async fn serve(wire: &'static Wire, chaos: &Chaos) -> LoopbackServer {
    let chaos = chaos.clone();
    let mut answers = 0;
    LoopbackServer::answering(move |request| {
        answers += 1;
        let turn = Turn::after(&request.text());
        let answer = (wire.says)(turn, &answers.to_string());
        chaos.spoil(answer.in_pieces(400, Duration::ZERO))
    })
    .await
    .unwrap()
}

/// Gives a provider a name of its own, so that it is known who answered.
struct Named(&'static str, Box<dyn Provider>);

impl Provider for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn model(&self) -> &str {
        self.1.model()
    }

    fn stream<'a>(
        &'a self,
        request: harness::provider::Request<'a>,
    ) -> harness::provider::EventStream<'a> {
        self.1.stream(request)
    }
}

#[tokio::test]
async fn every_run_ends_in_an_answer_or_in_an_error_that_says_why() {
    let runs = std::env::var("HARNESS_SOAK").ok().and_then(|runs| runs.parse().ok());
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for (at, wire) in WIRES.iter().enumerate() {
        let other = &WIRES[(at + 1) % WIRES.len()];
        let chaos = Chaos::seeded(20_261_122 + at as u64).hint(Duration::from_millis(5));
        let servers = [serve(wire, &chaos).await, serve(other, &chaos).await];
        let policy = RetryPolicy {
            base: Duration::from_millis(2),
            max: Duration::from_millis(20),
            ..RetryPolicy::default()
        };
        let retried = |name, wire: &Wire, server: &LoopbackServer| {
            RetryProvider::new(Named(name, (wire.provider)(&server.url())), policy)
        };
        let provider = FallbackProvider::new(retried("first", wire, &servers[0]))
            .or(retried("second", other, &servers[1]))
            .with_cool_down(Duration::from_millis(20));
        let provider = Arc::new(provider);

        let mut tally = Tally::default();
        let conversations = (0..runs.unwrap_or(30)).map(|_| converse(Arc::clone(&provider)));
        let mut conversations = stream::iter(conversations).buffer_unordered(50);
        while let Some(one) = conversations.next().await {
            tally.add(one);
        }
        drop(conversations);
        tally.print(wire.name, chaos.request_count(), &chaos.injected());
        assert_eq!(tally.answered + tally.answered_after_resume, tally.runs);

        // With the provider goes all that it held: what is left then is a leak.
        drop(provider);
        let gone = async {
            while servers.iter().any(|server| server.open_connections() > 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for server in servers {
                server.shutdown().await;
            }
            while alive() > before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
        assert!(gone.is_ok(), "{} tasks are left, and there were {before}", alive());
    }
}

/// Rings a bell, which everybody hears.
#[tool(side_effects = "mutate")]
fn ring(rung: State<Booked>) -> &'static str {
    rung.0.fetch_add(1, Ordering::SeqCst);
    "seat-is-yours"
}

#[tokio::test]
async fn an_event_that_comes_twice_rings_no_bell_twice() {
    let bodies = [
        anthropic::body().text("Ding.").call("toolu_1", "ring", json!({})).to_string(),
        responses::body().text("Ding.").call("call_1", "ring", json!({})).to_string(),
        chat::body().text("Ding.").call("call_1", "ring", json!({})).to_string(),
    ];
    for (wire, body) in WIRES.iter().zip(bodies) {
        let records: Vec<&str> = body.split_inclusive("\n\n").collect();
        for twice in 0..records.len() {
            let mut records = records.clone();
            records.insert(twice, records[twice]);
            let spoiled = records.concat();
            let server = LoopbackServer::answering(move |request| {
                match request.text().contains("seat-is-yours") {
                    true => (wire.says)(Turn::Done, "2"),
                    false => Answer::sse(spoiled.clone()),
                }
            })
            .await
            .unwrap();
            let rung = Booked::default();
            let agent = Agent::builder((wire.provider)(&server.url()))
                .tools(tools![ring])
                .permissions(Permissions::default().allow("ring"))
                .state(rung.clone())
                .guardrails(Guardrails::default().turns(3))
                .build()
                .unwrap();
            // How it ends is another matter: an event that comes twice may spoil the answer.
            let _ = agent.run("Ring.").await;
            let times = rung.0.load(Ordering::SeqCst);
            assert!(times <= 1, "{}: rang {times} times, twice: {}", wire.name, records[twice]);
        }
    }
}
