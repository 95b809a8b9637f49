//! The retries of the ready providers, over real HTTP: which failures a simple program survives,
//! what it sees of them, and which policy counts if there are several.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use harness::{
    Agent, AnthropicProvider, CancellationToken, ChatCompletionsProvider, ErrorKind, Event,
    FallbackProvider, Message, OpenAIProvider, Outcome, Provider, Reply, Stopped, Transcript,
    policy::{RetryPolicy, RetryProvider, ThrottledProvider},
    provider::{Request, accumulate},
    testing::{Answer, LoopbackServer, Point, anthropic, chat, responses},
    tool, tools,
};
use harness_test_support::refusing::RefusingPort;
use serde_json::json;

/// As the default, without long waits.
fn quick() -> RetryPolicy {
    RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() }
}

fn provider(server: &LoopbackServer) -> AnthropicProvider {
    provider_at(&server.url())
}

fn provider_at(url: &str) -> AnthropicProvider {
    AnthropicProvider::builder().api_key("k").base_url(url).build().unwrap()
}

fn overloaded() -> Answer {
    anthropic::error(529, "overloaded_error", "Overloaded")
}

fn cold() -> Answer {
    anthropic::body().text("Cold.").answer()
}

/// A run, and what it said of its tries: which one follows, of how many, after which wait.
async fn run(
    provider: impl Provider + 'static,
) -> (Result<Reply, Stopped>, Vec<(u32, u32, Duration)>) {
    let agent = Agent::builder(provider).build().unwrap();
    let mut tries = Vec::new();
    let result = agent
        .run("Oslo?")
        .on_event(|event| {
            if let Event::Retrying { attempt, of, wait, cause } = event {
                assert!(!cause.is_empty());
                tries.push((attempt, of, wait));
            }
        })
        .await;
    (result, tries)
}

#[tokio::test]
async fn a_first_program_survives_an_overload() {
    // The server's own wait, so that the test has not to wait for the default one.
    let busy = || overloaded().header("retry-after-ms", "3");
    let server = LoopbackServer::start([busy(), busy(), cold()]).await.unwrap();
    let (result, tries) = run(provider(&server)).await;
    assert_eq!(result.unwrap().text(), "Cold.");
    assert_eq!(tries.iter().map(|(at, of, _)| (*at, *of)).collect::<Vec<_>>(), [(2, 3), (3, 3)]);
    for (_, _, wait) in tries {
        assert!((3..=5).contains(&wait.as_millis()), "3 ms and up to a half: {wait:?}");
    }
    server.assert_finished();
}

/// A wire: a provider that speaks it, an error in its words, and an answer.
struct Wire {
    provider: fn(&str) -> Arc<dyn Provider>,
    error: fn(u16) -> Answer,
    answer: fn() -> Answer,
}

const WIRES: [Wire; 3] = [
    Wire {
        provider: |url| {
            let provider = AnthropicProvider::builder().api_key("k").base_url(url);
            Arc::new(provider.build().unwrap().with_retry(quick()))
        },
        error: |status| anthropic::error(status, "some_error", "no"),
        answer: || anthropic::body().text("Cold.").answer(),
    },
    Wire {
        provider: |url| {
            let provider = OpenAIProvider::builder().api_key("k").base_url(url);
            Arc::new(provider.build().unwrap().with_retry(quick()))
        },
        error: |status| responses::error(status, "some_error", "no"),
        answer: || responses::body().text("Cold.").answer(),
    },
    Wire {
        provider: |url| {
            let provider = ChatCompletionsProvider::builder().base_url(url).model("m");
            Arc::new(provider.build().unwrap().with_retry(quick()))
        },
        error: |status| chat::error(status, "some_error", "no"),
        answer: || chat::body().text("Cold.").answer(),
    },
];

#[tokio::test]
async fn every_wire_tries_again_what_passes_and_nothing_else() {
    let passes = [408, 409, 429, 500, 502, 503, 504, 529].map(|status| (status, true));
    let lasts = [400, 401, 403, 404, 413, 422, 501].map(|status| (status, false));
    for (at, wire) in WIRES.iter().enumerate() {
        let failure = Arc::new(Mutex::new(None));
        let next = Arc::clone(&failure);
        let server = LoopbackServer::answering(move |_| {
            next.lock().unwrap().take().unwrap_or_else(wire.answer)
        })
        .await
        .unwrap();
        let provider = (wire.provider)(&server.url());
        for (status, again) in passes.into_iter().chain(lasts) {
            let error = || (wire.error)(status);
            let table = [
                (error(), again),
                (error().header("x-should-retry", "true"), true),
                (error().header("x-should-retry", "false"), false),
            ];
            for (error, again) in table {
                *failure.lock().unwrap() = Some(error);
                let before = server.requests().len();
                let (result, tries) = run(Arc::clone(&provider)).await;
                assert_eq!(
                    (tries.len(), result.is_ok()),
                    (usize::from(again), again),
                    "{at} {status}"
                );
                assert_eq!(server.requests().len() - before, 1 + tries.len(), "{at} {status}");
            }
        }
    }
}

#[tokio::test]
async fn none_asks_once() {
    let server = LoopbackServer::start([overloaded()]).await.unwrap();
    let (result, tries) = run(provider(&server).with_retry(RetryPolicy::none())).await;
    assert_eq!(
        result.unwrap_err().error().unwrap().to_string(),
        "529 overloaded_error: Overloaded (request req_01)"
    );
    assert_eq!((tries.len(), server.requests().len()), (0, 1));
}

#[tokio::test]
async fn a_clone_with_another_policy_leaves_the_first_as_it_is() {
    let server = LoopbackServer::start([overloaded(), overloaded(), cold()]).await.unwrap();
    let first = provider(&server).with_retry(quick());
    let once = first.clone().with_retry(RetryPolicy::none());
    assert!(run(once).await.0.is_err());
    assert!(run(first).await.0.is_ok());
    server.assert_finished();
}

#[tokio::test]
async fn a_policy_around_a_ready_provider_counts_in_its_place() {
    let asked = async |wrap: &dyn Fn(AnthropicProvider) -> Box<dyn Provider>| {
        // No refusal for which a throttle would slow down.
        let down = || anthropic::error(500, "api_error", "down");
        let server = LoopbackServer::answering(move |_| down()).await.unwrap();
        let (result, tries) = run(wrap(provider(&server).with_retry(quick()))).await;
        assert!(result.is_err());
        assert_eq!(server.requests().len(), tries.len() + 1);
        server.requests().len()
    };
    let policy = |attempts| RetryPolicy { attempts, ..quick() };
    assert_eq!(asked(&|it| Box::new(it)).await, 3);
    assert_eq!(asked(&|it| Box::new(RetryProvider::new(it, policy(2)))).await, 2);
    assert_eq!(asked(&|it| Box::new(RetryProvider::new(it, policy(6)))).await, 6);
    assert_eq!(asked(&|it| Box::new(RetryProvider::new(it, RetryPolicy::none()))).await, 1);
    assert_eq!(asked(&|it| Box::new(FallbackProvider::new(it).with_retry(policy(4)))).await, 4);
    assert_eq!(asked(&|it| Box::new(FallbackProvider::new(it))).await, 3);
    assert_eq!(asked(&|it| Box::new(ThrottledProvider::new(it, 1))).await, 3);
    let wrapped = |it| RetryProvider::new(ThrottledProvider::new(it, 1), policy(2));
    assert_eq!(asked(&|it| Box::new(wrapped(it))).await, 2);
}

#[tokio::test]
async fn a_fallback_asks_the_next_one_when_the_first_has_given_up() {
    let first = LoopbackServer::answering(|_| overloaded()).await.unwrap();
    let second = LoopbackServer::start([overloaded(), cold()]).await.unwrap();
    let both = FallbackProvider::new(provider(&first).with_retry(quick()))
        .or(provider(&second).with_retry(quick()));
    let (result, tries) = run(both).await;
    assert_eq!(result.unwrap().text(), "Cold.");
    assert_eq!(first.requests().len(), 3);
    assert_eq!(
        tries.iter().map(|(at, of, _)| (*at, *of)).collect::<Vec<_>>(),
        [(2, 3), (3, 3), (2, 3)]
    );
    second.assert_finished();
}

#[tokio::test]
async fn what_has_been_said_is_not_asked_again() {
    let body = anthropic::body().text("Cold and windy.").cut_in_block().to_string();
    let torn = Answer::sse(body.clone()).cut_at(body.len());
    let server = LoopbackServer::start([torn]).await.unwrap();
    let (result, tries) = run(provider(&server).with_retry(quick())).await;
    let stopped = result.unwrap_err();
    assert!(stopped.text().starts_with("Cold and windy."), "{stopped}");
    assert!(tries.is_empty());
    assert_eq!(stopped.error().unwrap().kind(), ErrorKind::CutOff);
    server.assert_finished();
}

#[tokio::test]
async fn a_wait_ends_at_once_when_the_run_is_stopped() {
    let busy = overloaded().header("retry-after", "60");
    let server = LoopbackServer::start([busy]).await.unwrap();
    let agent = Agent::builder(provider(&server)).build().unwrap();
    let stop = CancellationToken::new();
    let run = agent.run("Oslo?").cancel_with(stop.clone()).on_event(|event| {
        if let Event::Retrying { .. } = event {
            stop.cancel();
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(30), run.into_future()).await;
    let stopped = ended.expect("the wait goes on").unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Cancelled);
}

/// Looks at the weather.
#[tool(side_effects = "read")]
fn weather(
    /** Where */
    city: String,
) -> String {
    format!("cold in {city}")
}

#[tokio::test]
async fn a_long_job_survives_as_many_overloads_as_it_has_turns() {
    let turns = 12;
    let mut answers = Vec::new();
    for turn in 0..turns {
        answers.push(overloaded());
        let call = anthropic::body().call(
            &format!("toolu_{turn}"),
            "weather",
            json!({"city": format!("city {turn}")}),
        );
        answers.push(call.answer());
    }
    answers.extend([overloaded(), cold()]);
    let server = LoopbackServer::start(answers).await.unwrap();
    let provider = provider(&server).with_retry(quick());
    let agent = Agent::builder(provider).tools(tools![weather]).build().unwrap();
    assert_eq!(agent.run("Where is it cold?").await.unwrap().text(), "Cold.");
    server.assert_finished();
}

#[tokio::test]
async fn a_throttle_sees_the_refusals_of_a_provider_that_tries_again_and_lends_its_place() {
    // One place, and a server that refuses the first and asks for a wait. Meanwhile the place is
    // free, but nobody starts, for the server refused.
    let busy = anthropic::error(429, "rate_limit_error", "no").header("retry-after-ms", "150");
    let server = LoopbackServer::start([busy, cold(), cold(), cold()]).await.unwrap();
    let shared = ThrottledProvider::new(provider(&server), 1);
    let ask = async |provider: &ThrottledProvider<AnthropicProvider>| {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Oslo?")).unwrap();
        accumulate(provider.stream(Request::new(&transcript).unwrap())).await
    };
    let answers = join_all((0..3).map(|_| ask(&shared))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!((server.requests().len(), shared.in_flight()), (4, 0));
    server.assert_finished();
}

#[tokio::test]
async fn a_connection_that_is_refused_is_a_failed_try() {
    let refusing = RefusingPort::bind();
    let (result, tries) = run(provider_at(&refusing.url()).with_retry(quick())).await;
    assert_eq!(tries.len(), 2);
    let stopped = result.unwrap_err();
    let error = stopped.error().unwrap();
    assert_eq!((error.kind(), error.later().len()), (ErrorKind::Connect, 2));
}

#[tokio::test]
async fn a_new_connection_that_breaks_is_a_failed_try() {
    let lost = || Answer::empty(200).reset_at(Point::BeforeHead);
    let server = LoopbackServer::start([lost(), lost(), cold()]).await.unwrap();
    let (result, tries) = run(provider(&server).with_retry(quick())).await;
    assert_eq!(result.unwrap().text(), "Cold.");
    assert_eq!((tries.len(), server.connections()), (2, 3));
    server.assert_finished();
}
