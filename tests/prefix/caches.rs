//! What a deploy costs a conversation whose vendor has a prompt cache.

use std::sync::Arc;

use harness::{
    Agent, AnthropicProvider, Usage,
    journal::MemoryJournal,
    models::{Model, Models},
    policy::RetryPolicy,
    testing::{PrefixCheck, SimulatedCache, anthropic},
};

use crate::tool;

const MODEL: &str = "claude-opus-5-5";

/// How many turns the conversation has before the deploy, and after it.
const TURNS: usize = 20;

/// A conversation over a deploy with other instructions and a new tool. Returns what the first request after it has cost, and
/// all of them, in US dollars, and how many tokens the last one before it had.
async fn costs(appends: Option<bool>) -> ([f64; 2], u64) {
    let cache = Arc::new(SimulatedCache::anthropic());
    let check = Arc::new(PrefixCheck::refusing());
    let counts = Arc::clone(&cache);
    let answers = move |request: &harness::testing::ReceivedRequest, proof: &str| {
        let usage = counts.usage(request.body()).unwrap();
        let (read, written) = (usage.cache_read.unwrap(), usage.cache_write.unwrap());
        let rest = usage.input.unwrap() - read - written;
        let body = anthropic::body().thinking("Hm. ".repeat(200), proof);
        body.text("It is so. ".repeat(100)).usage(rest, 400).cache(written, read).answer()
    };
    let server = check.serve(answers).await.unwrap();
    let known = Models::default().find("anthropic", MODEL);
    let price = known.price.unwrap();
    let program = |system: &str, tools: &[&'static str]| {
        let row = Model { appends_changes: appends, ..known };
        let provider = AnthropicProvider::builder()
            .api_key("k")
            .name("anthropic")
            .model(MODEL)
            .models(Models::default().with(MODEL, row))
            .base_url(server.url())
            .build()
            .unwrap()
            .with_retry(RetryPolicy::none());
        let tools: Vec<_> =
            tools.iter().map(|name| tool(name, "Looks a city up, in all that is known.")).collect();
        Agent::builder(provider).system(system.repeat(200)).tools(tools).build().unwrap()
    };
    let journal = MemoryJournal::new();
    for agent in [program("Be brief. ", &["look"]), program("Be kind. ", &["look", "see"])] {
        let mut chat = agent.open(&journal, "c").await.unwrap();
        for _ in 0..TURNS {
            chat.send("What of the next one? ".repeat(50)).await.unwrap();
        }
    }
    assert_eq!(check.refusals(), 0);
    let requests = cache.requests();
    let first = price.of(&Usage { output: Some(0), ..requests[TURNS] }).unwrap();
    ([first, cache.cost(&price)], requests[TURNS - 1].input.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_deploy_costs_less_behind_the_messages() {
    let (appended, tokens) = costs(None).await;
    let (replaced, _) = costs(Some(false)).await;
    println!("{tokens} tokens; the first request, all: {appended:?} behind, {replaced:?} before");
    assert!(appended[0] * 5.0 < replaced[0], "{appended:?} {replaced:?}");
    assert!(appended[1] < replaced[1], "{appended:?} {replaced:?}");
}
