//! Random lives of conversations, whose programs, models and vendors change all the time.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use harness::{
    Agent, AnthropicProvider, Chat, Event, OpenAIProvider, Outcome, Provider, SideEffects, Stopped,
    Tool,
    agent::Run,
    journal::MemoryJournal,
    policy::{ApprovalRequest, RetryPolicy},
    testing::{Answer, LoopbackServer, PrefixCheck, anthropic, responses},
    tool::SideEffect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{size, tool_of};

/// How many lives take some seconds.
const FEW: u64 = 50;

/// What is known of the requests to all vendors.
#[derive(Default)]
struct Traffic {
    random: Mutex<Option<fastrand::Rng>>,
    answered: AtomicUsize,
    /// How many pieces of reasoning the last request should have sent.
    bodies: Mutex<Vec<String>>,
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
            traffic.answered.fetch_add(1, Ordering::Relaxed);
            let body = request.json();
            traffic.bodies.lock().unwrap().push(body.to_string());
            // Old models bind nothing.
            let proof = match body["model"] == "claude-sonnet-4-5" {
                true => "old",
                false => proof,
            };
            calls += 1;
            let mut random = traffic.random.lock().unwrap();
            say(wire, &body, proof, &format!("{wire}_{calls}"), random.as_mut().unwrap())
        })
        .await
        .unwrap()
}

fn say(wire: &str, body: &Value, proof: &str, id: &str, random: &mut fastrand::Rng) -> Answer {
    let text = body.to_string();
    let form = ["/output_config/format", "/text/format"];
    let call = if text.contains("Sum it up now") && !text.contains("The conversation, in short") {
        let headings = ["Goals", "Decisions", "Open work", "Names and ids", "Tried and failed"];
        Err(headings.map(|heading| format!("## {heading}\n- none\n")).concat())
    } else if form.iter().any(|path| body.pointer(path).is_some()) {
        Err(json!({"name": "Oslo"}).to_string())
    } else {
        let tools = ["look", "see", "write", "gone"];
        match random.u32(..10) {
            0..5 => Err("Done.".to_owned()),
            _ => Ok(tools[random.usize(..tools.len())]),
        }
    };
    match wire {
        "anthropic" => {
            let body = anthropic::body().thinking("Hm.", proof).usage(size(body), 9);
            match call {
                Err(text) => body.text(text).answer(),
                Ok(name) => body.call(id, name, json!({"city": "Oslo"})).answer(),
            }
        }
        _ => {
            let body = responses::body().reasoning(&["Hm."], proof).usage(size(body), 9);
            match call {
                Err(text) => body.text(text).answer(),
                Ok(name) => body.call(id, name, json!({"city": "Oslo"})).answer(),
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

const MODELS: [(&str, &str); 5] = [
    ("anthropic", "claude-opus-5-5"),
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

/// What is expected of one conversation.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// How many pieces of reasoning each wire could get back.
    alive: [usize; 2],
    /// What the last request to a model that binds had besides instructions and tools.
    typed: bool,
    /// Whether a model was asked that binds.
    begun: bool,
}

struct Life {
    random: fastrand::Rng,
    checks: [Arc<PrefixCheck>; 2],
    urls: [String; 2],
    traffic: Arc<Traffic>,
    journal: MemoryJournal,
    story: String,
    faults: Vec<String>,
}

/// What the events of a run have said.
#[derive(Default)]
struct Seen {
    left_out: u64,
    refusals: usize,
    appended: usize,
}

impl Life {
    fn agent(&mut self) -> (Agent, usize, bool) {
        let (wire, model) = MODELS[self.random.usize(..MODELS.len())];
        let at = usize::from(wire == "responses");
        let system = ["Be brief.", "Be kind.", "Be exact."][self.random.usize(..3)];
        let mut tools = Vec::new();
        for name in ["look", "see", "write"] {
            if self.random.u32(..4) > 0 {
                tools.push(a_tool(name, &mut self.random));
            }
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        let _ = writeln!(self.story, "a program: {model}, {system}, {names:?}");
        let agent = Agent::builder(provider(wire, model, &self.urls[at]))
            .system(system)
            .tools(tools)
            .approver(|question: ApprovalRequest| async move { question.later(None) })
            .build()
            .unwrap();
        (agent, at, model != "claude-sonnet-4-5")
    }

    /// Runs, and compares what was sent with what was expected.
    async fn run(
        &mut self,
        run: Run<'_>,
        at: usize,
        binds: bool,
        [answers, typed]: [bool; 2],
        known: &mut Expected,
    ) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let sees = Arc::clone(&seen);
        let before = self.traffic.answered.load(Ordering::Relaxed);
        let run = run.on_event(move |event| {
            if let Event::PrefixChanged { left_out, refusal, appended, .. } = event {
                let mut seen = sees.lock().unwrap();
                seen.left_out += left_out;
                seen.refusals += usize::from(refusal.is_some());
                seen.appended += usize::from(appended);
            }
        });
        let outcome = match answers {
            true => match run.answer::<Town>().await {
                Ok(_) => "answered".to_owned(),
                Err(stopped) if is_ordinary(&stopped) => "stopped".to_owned(),
                Err(stopped) => format!("{stopped:?}"),
            },
            false => match run.await {
                Ok(_) => "answered".to_owned(),
                Err(stopped) if is_ordinary(&stopped) => "stopped".to_owned(),
                Err(stopped) => format!("{stopped:?}"),
            },
        };
        let requests = self.traffic.answered.load(Ordering::Relaxed) - before;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let _ = writeln!(
            self.story,
            "  {requests} requests, {} left out, {} appended: {outcome}",
            seen.left_out, seen.appended
        );
        if !matches!(&*outcome, "answered" | "stopped") {
            self.faults.push(outcome);
        }
        if requests == 0 {
            return;
        }
        if seen.left_out > 0 {
            // Earlier reasoning of a model that binds nothing was made behind anything.
            if known.begun && known.typed == typed {
                self.faults.push(format!("reasoning is left out without need: {known:?}"));
            }
            known.alive = [0, 0];
        }
        if binds {
            (known.typed, known.begun) = (typed, true);
            let expected = known.alive[at] + requests - 1;
            let kept = self.checks[at].kept();
            if kept != expected {
                self.faults.push(format!("{kept} pieces were sent instead of {expected}"));
            }
            known.alive[at] += requests;
        }
    }

    async fn live(&mut self, seed: u64) {
        let mut name = format!("c{seed}");
        let mut known = Expected::default();
        let (mut agent, mut at, mut binds) = self.agent();
        let mut chat: Chat = agent.open(&self.journal, &name).await.unwrap();
        for step in 0..self.random.u32(4..12) {
            match self.random.u32(..12) {
                0..4 => {
                    let _ = writeln!(self.story, "a message");
                    let run = chat.send(format!("Question {step}? ").repeat(300));
                    self.run(run, at, binds, [false, false], &mut known).await;
                }
                4 => {
                    let names: Vec<String> = agent
                        .tools()
                        .tools()
                        .iter()
                        .take(1)
                        .map(|it| it.name().to_owned())
                        .collect();
                    let _ = writeln!(self.story, "a message with {names:?}");
                    let run = chat.send("With fewer?").only_tools(names);
                    self.run(run, at, binds, [false, false], &mut known).await;
                }
                5 => {
                    let _ = writeln!(self.story, "a typed answer");
                    let run = chat.send("What town?");
                    // At Anthropic, its form is no part of the prefix.
                    self.run(run, at, binds, [true, at == 1], &mut known).await;
                }
                6 => {
                    let open: Vec<_> = agent.inbox(&self.journal).waiting(&name).await.unwrap();
                    let _ = writeln!(self.story, "{} calls are decided", open.len());
                    chat.save().await.unwrap();
                    for open in open {
                        let Some(question) = open.question() else { continue };
                        let answer =
                            if self.random.bool() { question.yes() } else { question.no("no") };
                        agent.inbox(&self.journal).decide(&name, answer).await.unwrap();
                    }
                    if chat.can_resume() {
                        self.run(chat.resume(), at, binds, [false, false], &mut known).await;
                    }
                }
                7 => {
                    let compacted = chat.compact().await;
                    let _ = writeln!(self.story, "compacted: {:?}", compacted.as_ref().map(|_| ()));
                    if compacted.is_ok() {
                        known.alive = [0, 0];
                    }
                }
                8 => {
                    let fork = format!("{name}f{step}");
                    let facts = chat.facts();
                    let Ok(other) = chat.fork(&fork, facts).await else { continue };
                    let _ = writeln!(self.story, "a fork");
                    (chat, name) = (other, fork);
                }
                _ => {
                    drop(chat);
                    (agent, at, binds) = self.agent();
                    chat = agent.open(&self.journal, &name).await.unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn no_random_life_is_refused_and_none_loses_reasoning_without_need() {
    let set = |name| std::env::var(name).ok().and_then(|set| set.parse::<u64>().ok());
    let first = set("HARNESS_LIFE").unwrap_or(0);
    let checks = [Arc::new(PrefixCheck::refusing()), Arc::new(PrefixCheck::refusing())];
    let traffic = Arc::new(Traffic::default());
    let servers = [
        serve(&checks[0], &traffic, "anthropic").await,
        serve(&checks[1], &traffic, "responses").await,
    ];
    let mut broken = Vec::new();
    for seed in first..first + set("HARNESS_LIVES").unwrap_or(FEW) {
        *traffic.random.lock().unwrap() = Some(fastrand::Rng::with_seed(seed));
        traffic.bodies.lock().unwrap().clear();
        let refused = || checks.iter().map(|check| check.refusals() + check.lost()).sum::<usize>();
        let before = refused();
        let mut life = Life {
            random: fastrand::Rng::with_seed(seed + 1),
            checks: checks.clone(),
            urls: servers.each_ref().map(LoopbackServer::url),
            traffic: Arc::clone(&traffic),
            journal: MemoryJournal::new(),
            story: String::new(),
            faults: Vec::new(),
        };
        life.live(seed).await;
        if refused() > before {
            life.faults.push(format!("{} requests were refused", refused() - before));
        }
        if set("HARNESS_LIVES") == Some(1) {
            println!("{}", life.story);
        }
        if !life.faults.is_empty() {
            if broken.len() < 3 {
                println!("life {seed}: {:#?}\n{}", life.faults, life.story);
            }
            broken.push(seed);
        }
    }
    assert!(broken.is_empty(), "{} lives: {broken:?}", broken.len());
}
