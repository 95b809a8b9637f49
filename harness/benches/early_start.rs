//! Measures the benefit of early start. A turn of 1 s contains three read-only calls of 100 ms. The
//! arguments of the calls are complete at 0.2, 0.4 and 0.6 s. One run measures three modes, on each
//! wire over real HTTP: the calls run one after the other after the turn, the calls run in parallel
//! after the turn, or each call starts early. The same modes are measured with paused time, where
//! the results are exact.
//!
//!     cargo bench -p harness --bench early_start --features testing
//!
//! The important results are the time from the end of the stream to the last result, and the ratio
//! of the total time to the time of the stream.

use std::time::Duration;

use harness::wire::WIRES;
use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, Event, OpenAIProvider, Permissions,
    Provider, SideEffect, SideEffects, Tool,
    testing::{Answer, LoopbackServer, ScriptedProvider, anthropic, chat, reply, responses},
};
use serde_json::json;
use tokio::time::Instant;

/// The duration of a call.
const CALL: Duration = Duration::from_millis(100);
/// The time until the arguments of the next call are complete (`STEP`), and the time from the last
/// arguments to the end of the stream (`TAIL`).
const STEP: Duration = Duration::from_millis(200);
const TAIL: Duration = Duration::from_millis(400);
/// The number of runs of each mode over real HTTP. The median counts.
const RUNS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Sequential,
    Parallel,
    Early,
}

const MODES: [Mode; 3] = [Mode::Sequential, Mode::Parallel, Mode::Early];

/// Three tools, each of which takes 100 ms. In the sequential mode, the tools declare `write`, so
/// that their calls run one after the other.
fn tools(mode: Mode) -> impl Iterator<Item = Tool> {
    let effect = if mode == Mode::Sequential { SideEffect::Write } else { SideEffect::Read };
    ["one", "two", "three"].into_iter().map(move |name| {
        let schema = json!({"type": "object", "properties": {}});
        Tool::new(name, "Looks.", schema, SideEffects::of(&[effect]), |_, _| {
            Box::pin(async {
                tokio::time::sleep(CALL).await;
                Ok("seen".into())
            })
        })
    })
}

/// The time from the request to the end of the stream, and the time from the request to the last
/// result, in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    stream: f64,
    results: f64,
}

async fn run(provider: impl Provider + 'static, mode: Mode) -> Times {
    let agent = Agent::builder(provider)
        .tools(tools(mode))
        .permissions(Permissions::allow_all())
        .early_start(mode == Mode::Early)
        .build()
        .expect("an agent");
    let begun = Instant::now();
    let milliseconds = || begun.elapsed().as_secs_f64() * 1e3;
    let mut times = Times { stream: 0.0, results: 0.0 };
    let run = agent.run("Go.").on_event(|event| match event {
        Event::TurnEnded { turn: 1, .. } => times.stream = milliseconds(),
        Event::ToolResult { .. } => times.results = milliseconds(),
        _ => {}
    });
    run.await.expect("an answer");
    times
}

/// The body of an answer with this number of calls, and with or without text at its end.
fn body(wire: &str, calls: usize, words: bool) -> Vec<u8> {
    let calls = ["one", "two", "three"].into_iter().take(calls);
    match wire {
        "anthropic" => {
            let body = calls.fold(anthropic::body(), |body, name| body.call(name, name, json!({})));
            if words { body.text("That is all.") } else { body }.into()
        }
        "responses" => {
            let body = calls.fold(responses::body(), |body, name| body.call(name, name, json!({})));
            if words { body.text("That is all.") } else { body }.into()
        }
        "chat" => {
            let body = calls.fold(chat::body(), |body, name| body.call(name, name, json!({})));
            if words { body.text("That is all.") } else { body }.into()
        }
        other => panic!("a wire without a bench: {other}"),
    }
}

/// The answer of the turn, with pauses so that each call is complete at its time. The positions of
/// the pauses come from a comparison of answers with one call more each: they are equal up to the
/// end of the calls that both contain.
fn turn(wire: &str) -> Answer {
    let same = |one: &[u8], other: &[u8]| one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let bodies: Vec<Vec<u8>> =
        [(1, false), (2, false), (3, false), (3, true)].map(|(n, w)| body(wire, n, w)).into();
    let ends: Vec<usize> = bodies.windows(2).map(|pair| same(&pair[0], &pair[1])).collect();
    Answer::sse(bodies[3].clone())
        .pause_at(1, STEP)
        .pause_at(ends[0], STEP)
        .pause_at(ends[1], STEP)
        .pause_at(ends[2], TAIL)
}

async fn over_http(wire: &str, mode: Mode) -> Times {
    let server = LoopbackServer::start([turn(wire), Answer::sse(body(wire, 0, true))]);
    let server = server.await.expect("a port");
    let url = server.url();
    match wire {
        "anthropic" => {
            let provider = AnthropicProvider::builder().api_key("none").base_url(url).build();
            run(provider.expect("a provider"), mode).await
        }
        "responses" => {
            let provider = OpenAIProvider::builder().api_key("none").base_url(url).build();
            run(provider.expect("a provider"), mode).await
        }
        "chat" => {
            let provider = ChatCompletionsProvider::builder().base_url(url).model("none").build();
            run(provider.expect("a provider"), mode).await
        }
        other => panic!("a wire without a bench: {other}"),
    }
}

fn scripted() -> ScriptedProvider {
    let said = ["one", "two", "three"]
        .into_iter()
        .fold(reply(), |said, name| said.pause(STEP).call(name, json!({})));
    ScriptedProvider::new([said.pause(TAIL).text("That is all."), reply().text("Done.")])
}

fn line(name: &str, mode: Mode, Times { stream, results }: Times) {
    println!(
        "{name:<11} {:<11} stream {stream:>7.1} ms   last result {results:>7.1} ms   {:>+6.1} ms \
         after the stream   x {:.3}",
        format!("{mode:?}").to_lowercase(),
        results - stream,
        results.max(stream) / stream,
    );
}

fn main() {
    let runtime = |paused| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(paused)
            .build()
            .expect("a runtime")
    };
    for mode in MODES {
        line("paused time", mode, runtime(true).block_on(run(scripted(), mode)));
    }
    runtime(false).block_on(async {
        // All modes are measured in each round, so that other load on the machine affects all of
        // them.
        let mut times = vec![Vec::new(); WIRES.len() * MODES.len()];
        for _ in 0..RUNS {
            let kinds = WIRES.iter().flat_map(|wire| MODES.map(|mode| (*wire, mode)));
            for (slot, (wire, mode)) in times.iter_mut().zip(kinds) {
                slot.push(over_http(wire, mode).await);
            }
        }
        let kinds = WIRES.iter().flat_map(|wire| MODES.map(|mode| (*wire, mode)));
        for (slot, (wire, mode)) in times.iter_mut().zip(kinds) {
            slot.sort_by(|a, b| (a.results - a.stream).total_cmp(&(b.results - b.stream)));
            line(wire, mode, slot[slot.len() / 2]);
        }
    });
}
