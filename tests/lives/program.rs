//! The program of a life in one of its versions: its tools, its agents and their models, and its rules.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use harness::{
    Agent, Block, Guardrails, Message, Permissions, SideEffect, SideEffects, StreamEvent, Tool,
    ToolContext, ToolError,
    agent::OpenCall,
    context::Window,
    message::{Arguments, VendorData},
    models::{Models, Price},
    policy::DataFlowPolicy,
    provider::VendorPart,
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply, summary},
    tool::{Review, Scope},
};
use serde_json::{Map, Value, json};

use crate::{
    people::Person,
    world::{Asks, Place, What, World, present},
};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const LOOKS_UP: SideEffects = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
const MUTATE: SideEffects = SideEffects::of(&[SideEffect::Mutate]);

/// Words that only private data holds, and words that only strangers write.
const PRIVATE: &str = "PRIVATE";
const STRANGE: &str = "STRANGE";

/// What differs between the versions of a program.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The default of an amount, if it has one.
    cents: Option<u64>,
    /// Whether there is an argument more.
    notes: bool,
    /// Whether an address may be anything.
    loose: bool,
    /// Whether paying declares all side effects.
    declares_all: bool,
    /// Whether the docs are other words.
    is_renamed: bool,
    /// The folder in which it pays, if it says one.
    folder: Option<&'static str>,
    has_pay: bool,
    helper: Helper,
    /// Whether what was read is followed.
    pub(crate) follows: bool,
    early: bool,
    /// Whether the window is small.
    is_small: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Helper {
    Agent,
    Function,
    Gone,
}

impl Default for Version {
    fn default() -> Self {
        Self {
            cents: Some(5),
            notes: false,
            loose: false,
            declares_all: false,
            is_renamed: false,
            folder: None,
            has_pay: true,
            helper: Helper::Agent,
            follows: true,
            early: true,
            is_small: false,
        }
    }
}

impl Version {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let often = |rng: &mut Rng| rng.u8(..3) > 0;
        Self {
            cents: [Some(5), Some(5), Some(6), None][rng.usize(..4)],
            notes: !often(rng),
            loose: !often(rng),
            declares_all: !often(rng),
            is_renamed: rng.bool(),
            folder: [None, None, Some("/tmp"), Some("/usr")][rng.usize(..4)],
            has_pay: rng.u8(..7) > 0,
            helper: match rng.u8(..8) {
                0 => Helper::Function,
                1 => Helper::Gone,
                _ => Helper::Agent,
            },
            follows: often(rng),
            early: rng.bool(),
            is_small: !often(rng),
        }
    }

    fn effects(&self) -> SideEffects {
        if self.declares_all { SideEffects::ALL } else { MUTATE }
    }

    /// What a tool is, so that a person who has seen it has seen all of it.
    pub(crate) fn definition(&self, tool: &str) -> String {
        match tool {
            "pay" => format!("{} notes={} loose={}", self.effects(), self.notes, self.loose),
            _ => String::new(),
        }
    }

    /// Whether this version may ask a person about a call with these arguments.
    pub(crate) fn can_run(&self, tool: &str, arguments: &Arguments) -> bool {
        let is_any = match tool {
            "pay" => self.loose,
            tool => tool != "order",
        };
        is_any || arguments.get("to").is_none_or(Value::is_string)
    }

    fn folder(&self) -> String {
        match self.folder {
            Some(folder) => folder.to_owned(),
            None => own_folder(),
        }
    }

    /// The agent of this version, which asks this person.
    pub(crate) fn agent(&self, rng: &mut Rng, world: &World, person: &Person) -> Agent {
        let deep = self.below(rng, world, None);
        let inner = self.below(rng, world, Some(&deep));
        let mut tools = self.tools(world);
        match self.helper {
            Helper::Agent => tools.push(inner.as_tool("helper", "Helps.")),
            Helper::Function => tools.push(plain("helper")),
            Helper::Gone => {}
        }
        tools.push(pair(&deep, &self.below(rng, world, None)));
        let permissions = match self.follows {
            true => Permissions::default().data_flow(DataFlowPolicy::default()),
            false => Permissions::default(),
        };
        let names = ["pay", "order", "files", "fetch", "ext", "ask", "helper", "pair"];
        let model = model(rng, world, &names, 8);
        let agent = Agent::builder(model).tools(tools).permissions(permissions);
        let agent = agent.approver(person.approver(self, world)).early_start(self.early);
        let agent = agent.models(Models::none().with("*", Price::new(1.0, 1.0)));
        let agent = agent.guardrails(Guardrails::default().turns(30));
        let agent = match self.is_small {
            true => agent.window(Window::new().tokens(4_000)),
            false => agent,
        };
        agent.build().expect("an agent")
    }

    /// An agent that is used as a tool, with another one below it.
    fn below(&self, rng: &mut Rng, world: &World, deeper: Option<&Agent>) -> Agent {
        let deeper = deeper.map(|deeper| deeper.as_tool("deeper", "Helps the helper."));
        let mut names = vec!["pay", "order", "files", "fetch", "ext", "ask"];
        names.extend(deeper.iter().map(|_| "deeper"));
        let tools = self.tools(world).into_iter().chain(deeper);
        let agent = Agent::builder(model(rng, world, &names, 2)).tools(tools.collect::<Vec<_>>());
        agent.early_start(self.early).build().expect("an agent")
    }

    fn tools(&self, world: &World) -> Vec<Tool> {
        let mut tools = vec![files(), self.fetch(world), external(), self.order(), asks()];
        if self.has_pay {
            tools.push(self.pay(world));
        }
        tools
    }

    fn pay(&self, world: &World) -> Tool {
        let to = if self.loose { json!({}) } else { json!({"type": "string"}) };
        let mut properties = json!({"to": to, "cents": {"type": "integer"}});
        if let Some(cents) = self.cents {
            properties["cents"]["default"] = cents.into();
        }
        if self.notes {
            properties["note"] = json!({"type": "string"});
        }
        let schema = json!({"type": "object", "properties": properties});
        let docs = if self.is_renamed { "Pays." } else { "Pays somebody." };
        let tool = Tool::new("pay", docs, schema, self.effects(), {
            let (world, version) = (world.clone(), self.clone());
            move |context, arguments| {
                let does = version.call("pay", &context, &arguments);
                let world = world.clone();
                Box::pin(async move {
                    gives_way().await;
                    world.does(does.0, does.1, Asks::Each);
                    gives_way().await;
                    Ok("did".into())
                })
            }
        });
        let Some(folder) = self.folder else { return tool };
        tool.with_review(move |arguments| {
            let to = arguments.get("to").and_then(Value::as_str).unwrap_or_default();
            let wide = Scope::new(format!("to:{to}"), format!("payments to {to}"));
            Review::pass().in_folder(folder).with_scope(wide)
        })
    }

    /// A tool of which the program itself answers what a person has allowed.
    fn order(&self) -> Tool {
        let mut cents = json!({"type": "integer"});
        if let Some(default) = self.cents {
            cents["default"] = default.into();
        }
        let properties = json!({"to": {"type": "string"}, "cents": cents});
        let schema = json!({"type": "object", "properties": properties});
        Tool::external("order", "Orders.", schema, MUTATE)
    }

    fn fetch(&self, world: &World) -> Tool {
        let schema = json!({"type": "object", "properties": {"q": {"type": "integer"}}});
        let (world, version) = (world.clone(), self.clone());
        Tool::new("fetch", "Fetches.", schema, LOOKS_UP, move |context, arguments| {
            let (place, mut what) = version.call("fetch", &context, &arguments);
            // Only paying has a folder of its own.
            what.folder = own_folder();
            let asks = if version.follows { Asks::Carrying } else { Asks::Nobody };
            let world = world.clone();
            Box::pin(async move {
                gives_way().await;
                world.does(place, what, asks);
                Ok(STRANGE.into())
            })
        })
    }

    fn call(
        &self,
        tool: &str,
        context: &ToolContext,
        arguments: &Map<String, Value>,
    ) -> (Place, What) {
        let what = What {
            tool: tool.to_owned(),
            arguments: present(arguments),
            definition: self.definition(tool),
            folder: self.folder(),
        };
        (Place::of_key(context.idempotency_key()), what)
    }
}

/// The folder of the program.
fn own_folder() -> String {
    std::env::current_dir().unwrap_or_default().display().to_string()
}

/// What the program does for a call that it answers itself, if the call changes something.
pub(crate) fn ordered(open: &OpenCall) -> Option<What> {
    let arguments = open.allowed.clone().or_else(|| open.call.decoded().ok()).unwrap_or_default();
    (open.call.name() == "order").then(|| What {
        tool: "order".to_owned(),
        arguments: present(&arguments),
        definition: String::new(),
        folder: own_folder(),
    })
}

async fn gives_way() {
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
}

fn nothing() -> Value {
    json!({"type": "object", "properties": {}})
}

fn files() -> Tool {
    Tool::new("files", "Reads files.", nothing(), READ, |_, _| {
        Box::pin(async {
            gives_way().await;
            Ok(format!("{PRIVATE} {}", "of a file ".repeat(60)).into())
        })
    })
}

/// Its result comes from outside.
fn external() -> Tool {
    Tool::external("ext", "Asks another program.", nothing(), READ)
}

/// What people say from outside.
pub(crate) fn said_outside() -> String {
    format!("{PRIVATE} from outside")
}

fn asks() -> Tool {
    Tool::new("ask", "Asks the user.", nothing(), READ, |context, _| {
        Box::pin(async move {
            match context.answered() {
                Some(answered) => Ok(format!("They say {}.", answered.answer).into()),
                None => Err(ToolError::asks("Which one?", json!(1))),
            }
        })
    })
}

/// What was an agent in another version.
fn plain(name: &'static str) -> Tool {
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    Tool::new(name, "Helps.", schema, READ, |_, _| Box::pin(async { Ok("helped".into()) }))
}

/// A function that runs two agents; the second one gets the words of the first one.
fn pair(first: &Agent, second: &Agent) -> Tool {
    let (first, second) = (first.clone(), second.clone());
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    let tool =
        Tool::new("pair", "Runs two.", schema, SideEffects::ALL, move |context, arguments| {
            let (first, second) = (first.clone(), second.clone());
            let task = arguments.get("task").and_then(Value::as_str).unwrap_or_default().to_owned();
            Box::pin(async move {
                let said = first.run(task).in_call(&context).await?;
                let said = second.run(format!("Go on: {}", said.text())).in_call(&context).await?;
                Ok(said.text().into())
            })
        });
    tool.idempotent()
}

/// What a model has read.
#[derive(Clone, Copy, Default)]
struct Read {
    private: bool,
    strange: bool,
}

impl Read {
    fn of(request: &RecordedRequest) -> Self {
        let mut read = Self::default();
        for block in request.messages().iter().flat_map(Message::blocks) {
            match block {
                Block::Text(text) => read.reads(text.text()),
                Block::ToolCall(call) => read.reads(call.arguments()),
                Block::ToolResult(result) => read.reads(&result.to_text()),
                Block::Vendor(data) => read.reads(data.json()),
                _ => {}
            }
        }
        read
    }

    fn reads(&mut self, text: &str) {
        self.private |= text.contains(PRIVATE);
        self.strange |= text.contains(STRANGE);
    }

    /// What it says of that.
    fn words(self) -> &'static str {
        match (self.private, self.strange) {
            (true, true) => "PRIVATE STRANGE",
            (true, false) => PRIVATE,
            (false, true) => STRANGE,
            (false, false) => "nothing",
        }
    }
}

/// A search of the vendor, which is in the answer.
fn searched(answer: ScriptedReply) -> ScriptedReply {
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [STRANGE]});
    let data = VendorData::new("anthropic", found.to_string()).expect("JSON");
    answer.event(StreamEvent::Vendor { block: 90, part: VendorPart::Opaque, data })
}

/// A model that calls these tools, and has enough after so many calls.
fn model(rng: &mut Rng, world: &World, names: &[&'static str], enough: usize) -> ScriptedProvider {
    let (rng, world) = (Arc::new(Mutex::new(rng.fork())), world.clone());
    let names = names.to_vec();
    ScriptedProvider::answering(move |request| {
        let rng = &mut *rng.lock().expect("unpoisoned");
        let mut read = Read::of(request);
        if request.is_summary_request() {
            return summary(format!("They have read {}.", read.words()));
        }
        let mut answer = reply().tokens(rng.u64(..2_000), 10);
        match rng.u8(..60) {
            0 => return answer.text("It").cut(),
            1 => return answer.overloaded(),
            _ => {}
        }
        if rng.u8(..12) == 0 {
            answer = searched(answer);
            read.strange = true;
        }
        let calls = request.messages().iter().flat_map(Message::calls).count();
        if calls > enough || rng.u8(..3) == 0 {
            let words = read.words();
            return match rng.bool() {
                true => answer.text(json!({"n": 1, "words": words}).to_string()),
                false => answer.text(format!("I have read {words}.")),
            };
        }
        for _ in 0..rng.u8(1..4) {
            let (id, name) = (world.next_id(), names[rng.usize(..names.len())]);
            if read.private && read.strange {
                world.carries(&id);
            }
            let arguments = match (name, rng.u8(..6)) {
                ("pay" | "order", 0) => json!({"to": "A"}),
                ("pay" | "order", 1) => json!({"to": "A", "cents": null}),
                ("pay" | "order", 2) => json!({"to": 7}),
                ("pay" | "order", to) => {
                    json!({"to": if to == 3 { "A" } else { "B" }, "cents": rng.u8(..2)})
                }
                ("helper" | "deeper" | "pair", _) => {
                    json!({"task": format!("Use {}.", read.words())})
                }
                ("fetch", _) => json!({"q": rng.u8(..3)}),
                _ => json!({}),
            };
            answer = answer.call_with_id(id, name, arguments);
        }
        answer
    })
}

/// What a message of the user wants as an answer, at times.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its form counts")]
pub(crate) struct Wanted {
    n: u32,
    words: String,
}

/// A check of the answer, whose objections are read by the model.
pub(crate) fn objects(
    rng: &mut Rng,
) -> impl Fn(String) -> std::future::Ready<Result<(), String>> + Send + Sync + use<> {
    let objects = rng.bool();
    move |_| std::future::ready(if objects { Err(format!("{PRIVATE} {STRANGE}")) } else { Ok(()) })
}
