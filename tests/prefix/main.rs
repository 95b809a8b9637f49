//! Programs that change while their conversations live on, before servers that bind reasoning to its prefix.

mod caches;
mod detours;
mod lives;
mod policies;
#[cfg(unix)]
mod processes;
mod random;
mod refusals;
mod searches;

#[cfg(all(unix, feature = "postgres"))]
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../postgres/server.rs"]
mod server;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use harness::{
    Agent, AnthropicProvider, Chat, OpenAIProvider, Provider, SideEffects, Tool,
    agent::AgentBuilder,
    policy::RetryPolicy,
    testing::{Answer, LoopbackServer, PrefixCheck, anthropic, responses},
    tool::SideEffect,
};
use serde_json::{Value, json};

/// The protocols whose vendors bind reasoning.
const WIRES: [&str; 2] = ["anthropic", "responses"];

/// A summary as it is asked for.
const SUMMARY: &str = "## Goals\n- a\n## Decisions\n- a\n## Open work\n- a\n## Names and ids\n- a\n## Tried and failed\n- a\n";

/// What the model says next. It thinks before each.
enum Say {
    Text(&'static str),
    /// Text after which the stream ends early.
    Cut(&'static str),
    Call(&'static str, Value),
    /// A typed answer, in the way that the request asks for it.
    Typed(Value),
}

/// A vendor whose model follows a script, and says `Done.` after its end.
struct Vendor {
    wire: &'static str,
    model: &'static str,
    check: Arc<PrefixCheck>,
    server: LoopbackServer,
    script: Arc<Mutex<VecDeque<Say>>>,
}

impl Vendor {
    async fn start(wire: &'static str, check: PrefixCheck) -> Self {
        Self::start_refusing(wire, check, |_| None).await
    }

    /// A vendor that refuses some requests in these words, for another reason than the check.
    async fn start_refusing(
        wire: &'static str,
        check: PrefixCheck,
        refuses: fn(&Value) -> Option<&'static str>,
    ) -> Self {
        let check = Arc::new(check);
        let script = Arc::new(Mutex::new(VecDeque::new()));
        let next = Arc::clone(&script);
        let mut calls = 0;
        let server = check
            .serve(move |request, proof| {
                let body = request.json();
                if let Some(words) = refuses(&body) {
                    return anthropic::error(400, "invalid_request_error", words);
                }
                if request.path().ends_with("/compact") || body.get("compaction").is_some() {
                    return random::summary(wire, &body, proof);
                }
                let say = next.lock().unwrap().pop_front().unwrap_or(Say::Text("Done."));
                calls += 1;
                let id = format!("call_{calls}");
                answer(wire, &body, proof, &id, say)
            })
            .await
            .unwrap();
        let model = if wire == "anthropic" { "claude-opus-5-5" } else { "gpt-6.1-sol" };
        Self { wire, model, check, server, script }
    }

    fn with_model(mut self, model: &'static str) -> Self {
        self.model = model;
        self
    }

    /// The body of the last request.
    fn last(&self) -> Value {
        self.server.requests().last().unwrap().json()
    }

    fn says(&self, all: impl IntoIterator<Item = Say>) {
        self.script.lock().unwrap().extend(all);
    }

    fn provider(&self) -> Arc<dyn Provider> {
        let (url, none) = (self.server.url(), RetryPolicy::none());
        match self.wire {
            "anthropic" => {
                let builder = AnthropicProvider::builder().api_key("k").base_url(url);
                Arc::new(
                    builder.name("anthropic").model(self.model).build().unwrap().with_retry(none),
                )
            }
            _ => {
                let builder = OpenAIProvider::builder().api_key("k").base_url(url);
                Arc::new(builder.name("openai").model(self.model).build().unwrap().with_retry(none))
            }
        }
    }

    /// A program with these instructions and tools.
    fn program(&self, system: &str, tools: impl IntoIterator<Item = Tool>) -> AgentBuilder {
        Agent::builder(self.provider()).system(system).tools(tools.into_iter().collect::<Vec<_>>())
    }
}

/// About how many tokens a request has.
fn size(body: &Value) -> u64 {
    u64::try_from(body.to_string().len() / 4).unwrap()
}

fn answer(wire: &str, body: &Value, proof: &str, id: &str, say: Say) -> Answer {
    let is_cut = matches!(say, Say::Cut(_));
    let say = match say {
        Say::Typed(value) => {
            let format = ["/output_config/format", "/text/format"];
            let is_format = format.iter().any(|path| body.pointer(path).is_some());
            if is_format { Ok(value.to_string()) } else { Err(("final_answer", value)) }
        }
        Say::Text(text) | Say::Cut(text) => Ok(text.to_owned()),
        Say::Call(name, arguments) => Err((name, arguments)),
    };
    match wire {
        "anthropic" => {
            let body = anthropic::body().thinking("Hm.", proof).usage(size(body), 9);
            match say {
                Ok(text) if is_cut => body.text(text).cut().answer(),
                Ok(text) => body.text(text).answer(),
                Err((name, arguments)) => body.call(id, name, arguments).answer(),
            }
        }
        _ => {
            let body = responses::body().reasoning(&["Hm."], proof).usage(size(body), 9);
            match say {
                Ok(text) if is_cut => body.text(text).cut().answer(),
                Ok(text) => body.text(text).answer(),
                Err((name, arguments)) => body.call(id, name, arguments).answer(),
            }
        }
    }
}

/// A tool that reads, with this description.
fn tool(name: &'static str, description: &'static str) -> Tool {
    tool_of(name, description, json!({"city": {"type": "string", "description": "The city."}}))
}

fn tool_of(name: &'static str, description: &'static str, parameters: Value) -> Tool {
    let schema = json!({"type": "object", "properties": parameters});
    Tool::new(name, description, schema, SideEffects::of(&[SideEffect::Read]), |_, _| {
        Box::pin(async { Ok("It is 42.".into()) })
    })
}

/// Two turns, the first one with a call: three pieces of reasoning.
async fn begin(vendor: &Vendor, chat: &mut Chat) {
    vendor.says([Say::Call("look", json!({"city": "Oslo"})), Say::Text("42.")]);
    chat.send("What is it in Oslo?").await.unwrap();
    vendor.says([Say::Text("Yes.")]);
    chat.send("Sure?").await.unwrap();
}
