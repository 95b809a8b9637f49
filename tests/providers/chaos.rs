//! Random failures: from a seed, at a rate, of the chosen kinds; and how the policies handle them,
//! without a socket.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, AnthropicProvider, CallOutcome, ErrorKind, Message, Outcome, Permissions, Provider,
    State, Transcript,
    client::Timeouts,
    policy::{FallbackProvider, RetryPolicy, RetryProvider, ThrottledProvider},
    provider::{Request, accumulate},
    testing::{Chaos, ChaosProvider, Fault, LoopbackServer, ScriptedProvider, anthropic, reply},
    tool, tools,
};
use serde_json::json;

fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|_| reply().text("It is cold and windy there."))
}

/// How each of many calls ended: its words, or the kind and status of its error.
async fn ends(provider: &impl Provider, calls: usize) -> Vec<String> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let mut ends = Vec::new();
    for _ in 0..calls {
        let answer = accumulate(provider.stream(Request::new(&transcript).unwrap())).await;
        ends.push(match answer {
            Ok(answer) => answer.message.unwrap().text(),
            Err(err) => match err.status() {
                Some(status) => format!("{:?} {status}", err.kind()),
                None => format!("{:?}", err.kind()),
            },
        });
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_fails_in_the_same_way() {
    let run = async |seed| ends(&ChaosProvider::new(model(), Chaos::seeded(seed)), 50).await;
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
    assert!(first.iter().any(|end| end.starts_with("It is cold")));
}

#[tokio::test(start_paused = true)]
async fn the_rate_is_kept_and_every_kind_comes() {
    let chaos = Chaos::seeded(7).rate(0.2);
    ends(&ChaosProvider::new(model(), chaos.clone()), 2000).await;
    let injected: BTreeMap<Fault, u64> = chaos.injected();
    let all: u64 = injected.values().sum();
    assert_eq!(chaos.request_count(), 2000);
    assert!((340..460).contains(&all), "{all} of 2000");
    assert!(Fault::ALL.iter().all(|fault| injected[fault] > 20), "{injected:?}");

    let none = Chaos::seeded(7).rate(0.0);
    ends(&ChaosProvider::new(model(), none.clone()), 100).await;
    assert!(none.injected().is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_kind_is_what_it_says() {
    let of = async |fault| {
        let chaos = Chaos::seeded(7).rate(1.0).only([fault]);
        let mut ends = ends(&ChaosProvider::new(model(), chaos), 30).await;
        ends.sort_unstable();
        ends.dedup();
        ends
    };
    assert_eq!(of(Fault::ServerError).await.len(), 5);
    assert_eq!(of(Fault::RateLimit).await, ["Api 429"]);
    assert_eq!(of(Fault::RateLimitWithHint).await, ["Api 429"]);
    assert_eq!(of(Fault::Refused).await, ["Connect"]);
    assert_eq!(of(Fault::StallAtFirst).await, ["Timeout"]);
    assert_eq!(of(Fault::StallMidway).await, ["Timeout"]);
    assert_eq!(of(Fault::Cut).await, ["CutOff"]);
    assert_eq!(of(Fault::Garbage).await, ["Protocol"]);
    assert!(of(Fault::Duplicate).await.len() > 1);
}

#[tokio::test]
async fn the_server_fails_in_each_way_over_a_socket() {
    let of = async |fault| {
        let chaos = Chaos::seeded(3).rate(1.0).only([fault]);
        let faults = chaos.clone();
        let server = LoopbackServer::answering(move |_| {
            faults.spoil(anthropic::body().text("It is cold and windy there."))
        })
        .await
        .unwrap();
        // Where silence is what comes, it need not be long; elsewhere there is time.
        let silent = matches!(fault, Fault::StallAtFirst | Fault::StallMidway);
        let short = Duration::from_millis(if silent { 100 } else { 5000 });
        let clocks = Timeouts { first_event: short, between_events: short, ..Timeouts::default() };
        let provider =
            AnthropicProvider::builder().api_key("k").base_url(server.url()).timeouts(clocks);
        let provider = provider.build().unwrap().with_retry(RetryPolicy::none());
        let mut ends = ends(&provider, 4).await;
        assert_eq!(chaos.injected()[&fault], 4);
        ends.sort_unstable();
        ends.dedup();
        ends
    };
    let only = |ends: Vec<String>, kinds: &[&str]| {
        assert!(ends.iter().all(|end| kinds.iter().any(|kind| end.starts_with(kind))), "{ends:?}");
    };
    only(of(Fault::ServerError).await, &["Api 5"]);
    only(of(Fault::RateLimit).await, &["Api 429"]);
    only(of(Fault::RateLimitWithHint).await, &["Api 429"]);
    only(of(Fault::Refused).await, &["Connect"]);
    only(of(Fault::StallAtFirst).await, &["Timeout"]);
    only(of(Fault::StallMidway).await, &["Timeout"]);
    only(of(Fault::Cut).await, &["CutOff", "Connect"]);
    only(of(Fault::Garbage).await, &["Protocol", "CutOff", "It is"]);
    only(of(Fault::Duplicate).await, &["It is", "Protocol"]);
}

/// Charges the card: this is not done twice.
#[tool(side_effects = "mutate")]
fn charge(charged: State<Arc<AtomicU32>>) {
    charged.fetch_add(1, Ordering::SeqCst);
}

#[tokio::test(start_paused = true)]
async fn layers_around_layers_survive_what_chance_brings() {
    let model = || {
        ScriptedProvider::answering(|request| {
            match request.results().any(|result| result.outcome() == CallOutcome::Succeeded) {
                false => reply().text("One moment.").call("charge", json!({})),
                true => reply().text("Charged."),
            }
        })
    };
    let chaos = Chaos::seeded(11).rate(0.3);
    let layered = |name: &str| {
        let chaotic = ChaosProvider::new(model().with_name(name), chaos.clone());
        let policy = RetryPolicy { after_output: true, ..RetryPolicy::default() };
        RetryProvider::new(ThrottledProvider::new(chaotic, 2), policy).with_seed(5)
    };
    let provider = FallbackProvider::new(layered("first")).or(layered("second"));
    let provider = Arc::new(provider);
    let (mut answered, mut failed) = (0, 0);
    for _ in 0..500 {
        let charged = Arc::new(AtomicU32::new(0));
        let agent = Agent::builder(provider.clone())
            .tools(tools![charge])
            .permissions(Permissions::default().allow("charge"))
            .state(charged.clone())
            .build()
            .unwrap();
        match agent.run("Charge it.").await {
            Ok(reply) => {
                answered += 1;
                assert!(reply.transcript().sendable().is_ok());
                assert_eq!(charged.load(Ordering::SeqCst), 1);
            }
            Err(stopped) => {
                failed += 1;
                assert_eq!(stopped.outcome(), Outcome::Failed);
                assert_ne!(stopped.error().unwrap().kind(), ErrorKind::Configuration);
                assert!(stopped.transcript().sendable().is_ok());
                assert!(charged.load(Ordering::SeqCst) <= 1);
            }
        }
    }
    assert!(answered > 400 && failed > 0, "{answered} answered, {failed} failed");
}

#[tokio::test(start_paused = true)]
async fn layers_can_be_dropped_at_every_poll() {
    let mut polls = 0;
    // Counts up until a run comes to its end without being dropped.
    for stop_at in 0..2000 {
        let first = ScriptedProvider::new([
            reply().overloaded(),
            reply().started().pause(Duration::from_millis(5)).cut(),
            reply().error(harness::Error::new(ErrorKind::Api, "no").with_status(404)),
        ]);
        let second = ScriptedProvider::new([
            reply().overloaded(),
            reply().text("One moment.").call("charge", json!({})),
            reply().text("Charged."),
        ])
        .with_name("second");
        let throttled = ThrottledProvider::new(first.clone(), 1);
        let policy = RetryPolicy::default();
        let provider = FallbackProvider::new(RetryProvider::new(throttled.clone(), policy))
            .or(RetryProvider::new(second.clone(), policy));
        let agent = Agent::builder(provider)
            .tools(tools![charge])
            .permissions(Permissions::default().allow("charge"))
            .state(Arc::new(AtomicU32::new(0)))
            .build()
            .unwrap();
        let mut chat = agent.chat();
        let mut run = Box::pin(chat.send("Charge it.").into_future());
        let mut left = stop_at;
        let ended = std::future::poll_fn(|context| {
            if left == 0 {
                return std::task::Poll::Ready(None);
            }
            left -= 1;
            run.as_mut().poll(context).map(Some)
        })
        .await;
        drop(run);
        assert!(chat.transcript().sendable().is_ok(), "dropped at poll {stop_at}");
        assert_eq!((first.open_streams(), second.open_streams()), (0, 0));
        assert_eq!(throttled.in_flight(), 0, "dropped at poll {stop_at}");
        if let Some(ended) = ended {
            assert_eq!(ended.unwrap().provider(), "second");
            polls = stop_at;
            break;
        }
    }
    assert!(polls > 5, "{polls}");
}
