//! Random lives of conversations, whose programs, models and vendors change all the time.

use std::{
    fmt::Write as _,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use harness::{
    Agent, AnthropicProvider, Chat, Event, OpenAIProvider, Outcome, Provider, SideEffects, Stopped,
    Tool,
    agent::Run,
    context::Window,
    journal::{Journal, MemoryJournal},
    policy::{ApprovalRequest, RetryPolicy},
    provider::Settings,
    testing::{Answer, LoopbackServer, PrefixCheck, anthropic, responses},
    tool::SideEffect,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{SUMMARY, size, tool_of};

/// How many lives take some seconds.
const FEW: u64 = 50;

/// The beginning of the message that wants a typed answer.
const TYPED: &str = "What town?";

/// The vendors, and what is known of the requests to them.
#[derive(Default)]
struct Traffic {
    random: Mutex<fastrand::Rng>,
    answered: AtomicUsize,
}

/// The servers of both wires.
pub(crate) struct Vendors {
    checks: [Arc<PrefixCheck>; 2],
    traffic: Arc<Traffic>,
    servers: [LoopbackServer; 2],
}

/// What the vendors have counted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    answered: usize,
    kept: [usize; 2],
    refused: usize,
}

impl Vendors {
    pub(crate) async fn start() -> Self {
        let checks = [Arc::new(PrefixCheck::refusing()), Arc::new(PrefixCheck::refusing())];
        let traffic = Arc::new(Traffic::default());
        let servers = [
            serve(&checks[0], &traffic, "anthropic").await,
            serve(&checks[1], &traffic, "responses").await,
        ];
        Self { checks, traffic, servers }
    }

    pub(crate) fn begin(&self, seed: u64) {
        *self.traffic.random.lock().unwrap() = fastrand::Rng::with_seed(seed);
    }

    pub(crate) fn urls(&self) -> [String; 2] {
        self.servers.each_ref().map(LoopbackServer::url)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            answered: self.traffic.answered.load(Ordering::Relaxed),
            kept: self.checks.each_ref().map(|check| check.kept()),
            refused: self.checks.iter().map(|check| check.refusals() + check.lost()).sum(),
        }
    }

    /// A server that tells another process what was counted.
    pub(crate) async fn serve_counts(self: &Arc<Self>) -> LoopbackServer {
        let vendors = Arc::clone(self);
        let counts = move || Answer::json(200, &serde_json::to_value(vendors.counts()).unwrap());
        LoopbackServer::answering(move |_| counts()).await.unwrap()
    }
}

/// A server of one wire that answers at random.
async fn serve(
    check: &Arc<PrefixCheck>,
    traffic: &Arc<Traffic>,
    wire: &'static str,
) -> LoopbackServer {
    let traffic = Arc::clone(traffic);
    let mut calls = 0;
    check
        .serve(move |request, proof| {
            let body = request.json();
            if request.path().ends_with("/compact") || body.get("compaction").is_some() {
                return summary(wire, &body, proof);
            }
            traffic.answered.fetch_add(1, Ordering::Relaxed);
            calls += 1;
            let mut random = traffic.random.lock().unwrap();
            say(wire, &body, proof, &format!("{wire}_{calls}"), &mut random)
        })
        .await
        .unwrap()
}

/// The vendor's own summary.
pub(crate) fn summary(wire: &str, body: &Value, proof: &str) -> Answer {
    if wire == "anthropic" {
        let block = json!({"type": "compaction", "content": "So far.", "signature": proof});
        return anthropic::body().block(block).stop("compaction").usage(size(body), 9).answer();
    }
    let all = body["input"].as_array().unwrap().iter();
    let said = all.filter(|it| it["type"] == "message" && it["role"] == "user");
    let mut output: Vec<Value> = said.cloned().collect();
    output.push(json!({"type": "compaction", "id": "cmp_1", "encrypted_content": proof}));
    let usage = json!({"input_tokens": size(body), "output_tokens": 9});
    let body = json!({
        "id": "resp_9", "object": "response.compaction", "created_at": 1, "output": output,
        "usage": usage,
    });
    Answer::json(200, &body)
}

/// Whether the last question wants a typed answer.
fn is_typed(messages: &str) -> bool {
    let typed = messages.rfind(TYPED);
    typed > messages.rfind("Question ") && typed > messages.rfind("With fewer?")
}

fn say(wire: &str, body: &Value, proof: &str, id: &str, random: &mut fastrand::Rng) -> Answer {
    let form = ["/output_config/format", "/text/format"];
    let messages = body.get("messages").or_else(|| body.get("input")).unwrap().to_string();
    let answer = || json!({"name": "Oslo"});
    let call = if messages.contains("Sum it up now") && !messages.contains("in short") {
        Err(SUMMARY.to_owned())
    } else if form.iter().any(|path| body.pointer(path).is_some()) {
        Err(answer().to_string())
    } else {
        let tools = ["look", "see", "write", "gone"];
        match random.u32(..10) {
            0..5 if is_typed(&messages) => Ok(("final_answer", answer())),
            0..5 => Err("Done.".to_owned()),
            _ => Ok((tools[random.usize(..tools.len())], json!({"city": "Oslo"}))),
        }
    };
    match wire {
        "anthropic" => {
            let body = anthropic::body().thinking("Hm.", proof).usage(size(body), 9);
            match call {
                Err(text) => body.text(text).answer(),
                Ok((name, arguments)) => body.call(id, name, arguments).answer(),
            }
        }
        _ => {
            let body = responses::body().reasoning(&["Hm."], proof).usage(size(body), 9);
            match call {
                Err(text) => body.text(text).answer(),
                Ok((name, arguments)) => body.call(id, name, arguments).answer(),
            }
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Town {
    #[expect(dead_code, reason = "only its schema matters")]
    name: String,
}

fn a_tool(name: &'static str, random: &mut fastrand::Rng) -> Tool {
    let description = ["Looks.", "Looks it up."][random.usize(..2)];
    let words = ["The city.", "A town."][random.usize(..2)];
    let more = random.u32(..4) == 0;
    let mut parameters = json!({"city": {"type": "string", "description": words}});
    if more {
        parameters["land"] = json!({"type": "string"});
    }
    if name != "write" {
        return tool_of(name, description, parameters);
    }
    let schema = json!({"type": "object", "properties": parameters});
    Tool::new(name, description, schema, SideEffects::of(&[SideEffect::Mutate]), |_, _| {
        Box::pin(async { Ok("Written.".into()) })
    })
}

const MODELS: [(&str, &str); 6] = [
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("responses", "gpt-6.1-sol"),
    ("responses", "gpt-6.1-sol"),
];

fn provider(wire: &str, model: &str, url: &str) -> Arc<dyn Provider> {
    let none = RetryPolicy::none();
    match wire {
        "anthropic" => {
            let builder = AnthropicProvider::builder().api_key("k").base_url(url);
            Arc::new(builder.name("anthropic").model(model).build().unwrap().with_retry(none))
        }
        _ => {
            let builder = OpenAIProvider::builder().api_key("k").base_url(url);
            Arc::new(builder.name("openai").model(model).build().unwrap().with_retry(none))
        }
    }
}

/// Whether a run may end so: calls wait, or they were too many.
fn is_ordinary(stopped: &Stopped) -> bool {
    matches!(stopped.outcome(), Outcome::Waiting | Outcome::Limit(_))
}

/// What stands before the messages besides instructions and tools, as far as the test knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Form {
    #[default]
    NotBegun,
    Unknown,
    Known {
        strict: bool,
        format: bool,
    },
}

impl Form {
    /// The form of the next request, if only what has to change changes.
    fn next(self, strict: bool, wants_format: bool) -> Self {
        let fresh = Self::Known { strict, format: wants_format };
        let by_tool = Self::Known { strict, format: false };
        match self {
            Self::Unknown if wants_format => Self::Unknown,
            known if known == by_tool => known,
            _ => fresh,
        }
    }
}

/// What is expected of one conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Expected {
    /// How many pieces of reasoning each wire could get back; `None` if only the vendor's summary knows it.
    alive: [Option<usize>; 2],
    form: Form,
    /// The model that was asked last, of those that bind their reasoning.
    model: String,
    /// Whether the vendor has made a summary, so that each model sees other messages.
    by_vendor: bool,
    /// How many pieces of reasoning are of models that bind nothing, since such a model was asked last.
    unbound: u64,
    /// Whether the open run wants a typed answer.
    typed: bool,
}

/// A conversation, and where it can be forked: at so many facts, with what is expected then.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Life {
    pub(crate) seed: u64,
    /// Which program goes on with it.
    pub(crate) program: u64,
    name: String,
    known: Expected,
    places: Vec<(u64, Expected)>,
    pub(crate) story: String,
    pub(crate) faults: Vec<String>,
    pub(crate) reasoning: u64,
    pub(crate) left_out: u64,
}

impl Life {
    pub(crate) fn new(seed: u64) -> Self {
        let alive = [Some(0), Some(0)];
        let known = Expected { alive, ..Expected::default() };
        Self { seed, name: format!("c{seed}"), known, ..Self::default() }
    }

    /// How many programs one after the other go on with it.
    pub(crate) fn programs(&self) -> u64 {
        self.seed % 3 + 2
    }
}

/// What the events of a run have said.
#[derive(Default)]
struct Seen {
    left_out: u64,
    appended: usize,
}

/// One program, which goes on with a conversation.
struct Program<'a, C> {
    random: fastrand::Rng,
    life: &'a mut Life,
    counts: C,
    agent: Agent,
    /// The number of its wire.
    at: usize,
    model: &'static str,
    binds: bool,
    by_vendor: bool,
}

/// Lets the next program go on with this life.
pub(crate) async fn go_on<J, C, F>(life: &mut Life, journal: &J, urls: &[String; 2], counts: C)
where
    J: Journal + Clone + 'static,
    C: Fn() -> F,
    F: Future<Output = Counts>,
{
    let mut random = fastrand::Rng::with_seed(life.seed * 100 + life.program);
    let (wire, model) = MODELS[random.usize(..MODELS.len())];
    let at = usize::from(wire == "responses");
    let system = ["Be brief.", "Be kind.", "Be exact."][random.usize(..3)];
    let mut tools = Vec::new();
    for name in ["look", "see", "write"] {
        if random.u32(..4) > 0 {
            tools.push(a_tool(name, &mut random));
        }
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    let by_vendor = random.bool();
    let _ = writeln!(
        life.story,
        "a program: {model}, {system}, {names:?}, summaries by the vendor: {by_vendor}"
    );
    let window = if by_vendor { Window::new().vendor_summaries() } else { Window::new() };
    let agent = Agent::builder(provider(wire, model, &urls[at]))
        .system(system)
        .tools(tools)
        .window(window)
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .unwrap();
    let binds = model != "claude-sonnet-4-5";
    let mut chat = agent.open(journal, &life.name).await.unwrap();
    let steps = random.u32(2..6);
    let mut program = Program { random, life, counts, agent, at, model, binds, by_vendor };
    for step in 0..steps {
        chat = program.step(chat, journal, step).await;
    }
    life.program += 1;
}

impl<C, F> Program<'_, C>
where
    C: Fn() -> F,
    F: Future<Output = Counts>,
{
    fn tells(&mut self, line: &str) {
        let _ = writeln!(self.life.story, "{line}");
    }

    /// Runs, and compares what was sent with what was expected.
    async fn run(&mut self, run: Run<'_>, strict: bool, typed: bool) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let sees = Arc::clone(&seen);
        let before = (self.counts)().await;
        let run = run.on_event(move |event| {
            if let Event::PrefixChanged { left_out, appended, .. } = event {
                let mut seen = sees.lock().unwrap();
                seen.left_out += left_out;
                seen.appended += usize::from(appended);
            }
        });
        let run = if strict {
            run.settings(Settings { strict_tools: Some(true), ..Settings::default() })
        } else {
            run
        };
        let ended = match typed {
            true => run.answer::<Town>().await.map(drop),
            false => run.await.map(drop),
        };
        let outcome = match ended {
            Ok(()) => "answered".to_owned(),
            Err(stopped) if is_ordinary(&stopped) => "stopped".to_owned(),
            Err(stopped) => format!("{stopped:?}"),
        };
        let after = (self.counts)().await;
        let requests = after.answered - before.answered;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        self.tells(&format!(
            "  {requests} requests, {} refused, {} left out, {} appended: {outcome}",
            after.refused - before.refused,
            seen.left_out,
            seen.appended
        ));
        let (life, at) = (&mut *self.life, self.at);
        if !matches!(&*outcome, "answered" | "stopped") {
            life.faults.push(outcome);
        }
        if after.refused > before.refused {
            life.faults.push(format!("{} were refused", after.refused - before.refused));
        }
        if requests == 0 {
            return;
        }
        let known = &mut life.known;
        known.typed = typed;
        let form = known.form.next(strict, typed && at == 1);
        let is_other = known.by_vendor && known.model != self.model;
        // Reasoning of a model that binds nothing was made behind anything. It alone is left out.
        if seen.left_out > 0 && seen.left_out != known.unbound && !is_other {
            if matches!(form, Form::Known { .. }) && form == known.form {
                life.faults.push(format!("reasoning is left out without need: {known:?}"));
            }
            known.alive = [Some(0), Some(0)];
        }
        if seen.left_out > 0 {
            known.unbound = 0;
            life.left_out += seen.left_out;
        }
        if !self.binds {
            known.unbound += u64::try_from(requests).unwrap();
            return;
        }
        if is_other {
            known.alive = [None, None];
        }
        known.model = self.model.to_owned();
        known.form = form;
        let kept = after.kept[at];
        let made = requests - 1;
        if let Some(expected) = known.alive[at].map(|alive| alive + made)
            && kept != expected
        {
            life.faults.push(format!("{kept} pieces were sent instead of {expected}"));
        }
        known.alive[at] = Some(kept + 1);
        life.reasoning += u64::try_from(requests).unwrap();
    }

    async fn step<J>(&mut self, mut chat: Chat, journal: &J, step: u32) -> Chat
    where
        J: Journal + Clone + 'static,
    {
        let strict = self.random.u32(..10) == 0;
        match self.random.u32(..12) {
            0..4 => {
                self.tells(&format!("a message, strict: {strict}"));
                let run = chat.send(format!("Question {step}? ").repeat(300));
                self.run(run, strict, false).await;
            }
            4 => {
                let names = self.agent.tools().tools().iter().take(1);
                let names: Vec<String> = names.map(|it| it.name().to_owned()).collect();
                self.tells(&format!("a message with {names:?}, strict: {strict}"));
                self.run(chat.send("With fewer?").only_tools(names), strict, false).await;
            }
            5 | 6 => {
                self.tells(&format!("a typed answer, strict: {strict}"));
                self.run(chat.send(TYPED), strict, true).await;
            }
            7 | 8 => {
                chat.save().await.unwrap();
                let inbox = self.agent.inbox(journal);
                let open: Vec<_> = inbox.waiting(&self.life.name).await.unwrap();
                self.tells(&format!("{} calls are decided", open.len()));
                for open in open {
                    let Some(question) = open.question() else { continue };
                    let answer =
                        if self.random.bool() { question.yes() } else { question.no("no") };
                    inbox.decide(&self.life.name, answer).await.unwrap();
                }
                if chat.can_resume() {
                    let typed = self.life.known.typed;
                    self.run(chat.resume(), false, typed).await;
                }
            }
            9 => {
                let compacted = chat.compact().await;
                self.tells(&format!("compacted: {:?}", compacted.as_ref().map(|_| ())));
                if compacted.is_ok() {
                    let alive = if self.by_vendor { None } else { Some(0) };
                    self.life.known.alive = [alive, alive];
                    (self.life.known.by_vendor, self.life.known.unbound) = (self.by_vendor, 0);
                    self.life.places.clear();
                }
            }
            _ => {
                let all = &self.life.places;
                let place = all.get(self.random.usize(..all.len().max(1))).cloned();
                let Some((facts, known)) = place else { return chat };
                let name = format!("{}f{}{step}", self.life.name, self.life.program);
                let fork = chat.fork(&name, facts).await.unwrap();
                self.tells(&format!("a fork at {facts} of {}: {known:?}", chat.facts()));
                (self.life.name, self.life.known) = (name, known);
                self.life.places.retain(|(at, _)| *at <= facts);
                return fork;
            }
        }
        self.life.places.push((chat.facts(), self.life.known.clone()));
        chat
    }
}

/// The number in this variable.
pub(crate) fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|set| set.parse().ok())
}

/// What became of all lives.
#[derive(Default)]
pub(crate) struct Lives {
    broken: Vec<u64>,
    lived: u64,
    reasoning: u64,
    left_out: u64,
}

impl Lives {
    pub(crate) fn add(&mut self, life: &Life) {
        self.lived += 1;
        self.reasoning += life.reasoning;
        self.left_out += life.left_out;
        if set("HARNESS_LIVES") == Some(1) {
            println!("{}", life.story);
        }
        if !life.faults.is_empty() {
            if self.broken.len() < 3 {
                println!("life {}: {:#?}\n{}", life.seed, life.faults, life.story);
            }
            self.broken.push(life.seed);
        }
    }

    pub(crate) fn end(self) {
        let Self { broken, lived, reasoning, left_out } = self;
        println!("{lived} lives, {reasoning} pieces of reasoning, {left_out} messages lost some");
        assert!(broken.is_empty(), "{} lives: {broken:?}", broken.len());
    }
}

#[tokio::test]
async fn no_random_life_is_refused_and_none_loses_reasoning_without_need() {
    let first = set("HARNESS_LIFE").unwrap_or(0);
    let vendors = Vendors::start().await;
    let urls = vendors.urls();
    let mut lives = Lives::default();
    for seed in first..first + set("HARNESS_LIVES").unwrap_or(FEW) {
        vendors.begin(seed);
        let (mut life, journal) = (Life::new(seed), MemoryJournal::new());
        for _ in 0..life.programs() {
            go_on(&mut life, &journal, &urls, || std::future::ready(vendors.counts())).await;
        }
        lives.add(&life);
    }
    lives.end();
}
