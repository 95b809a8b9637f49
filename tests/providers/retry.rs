//! Retries: which failures are retried, after which waits, how often in a call and in a run, and what
//! the program sees of them. The clock is paused, so waits are exact.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, AnthropicProvider, CancellationToken, Error, ErrorKind, Event, FallbackProvider,
    Message, Outcome, Provider as _, Reply, Stopped, StreamEvent, Transcript,
    client::{ChatCompletionsProvider, OpenAIProvider},
    policy::{
        GiveUp, RetryBudget, RetryPolicy, RetryProvider, RetryScope, RetryVerdict,
        ThrottledProvider,
    },
    provider::{EventStream, Request, RetryAccounting, RetryCost, Usage, accumulate},
    testing::{
        Gate, LoopbackServer, ScriptedProvider, ScriptedReply, anthropic, chat, reply, responses,
    },
    tool, tools,
};
use serde_json::json;
use tokio::time::Instant;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn api(status: u16) -> Error {
    Error::new(ErrorKind::Api, "no").with_status(status)
}

fn asked() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    transcript
}

/// What a call and its run have lost when this many tries have failed.
fn failed(attempts: u32) -> RetryCost {
    RetryCost { attempts, time: Duration::ZERO }
}

fn failing(error: impl Fn() -> Error, times: usize) -> Vec<ScriptedReply> {
    (0..times).map(|_| reply().error(error())).collect()
}

/// The waits of one call, and how it ended.
async fn waits(
    provider: &(impl harness::Provider + ?Sized),
) -> (Vec<Duration>, Result<String, Error>) {
    let transcript = asked();
    let mut waits = Vec::new();
    let stream = provider.stream(Request::new(&transcript).unwrap()).inspect(|item| {
        if let Ok(StreamEvent::Retrying { wait, .. }) = item {
            waits.push(*wait);
        }
    });
    let answer = accumulate(stream).await;
    (waits, answer.map(|answer| answer.message.unwrap().text()))
}

#[test]
fn each_failure_has_its_verdict() {
    let policy = RetryPolicy::default();
    let again = |error: &Error| match policy.decide(error, failed(1), failed(1), 0.5) {
        RetryVerdict::Wait(wait) => Some(wait),
        RetryVerdict::GiveUp(GiveUp::Lasting) => None,
        RetryVerdict::GiveUp(other) => panic!("{other:?}"),
    };
    let half = Some(seconds(0.5));
    for status in [408, 409, 429, 500, 502, 503, 504, 507, 520, 522, 524, 525, 529, 530, 599] {
        assert_eq!(again(&api(status)), half, "{status}");
    }
    for status in [307, 400, 401, 402, 403, 404, 405, 413, 422, 451, 501, 505] {
        assert_eq!(again(&api(status)), None, "{status}");
    }
    for kind in [ErrorKind::Connect, ErrorKind::Timeout, ErrorKind::CutOff] {
        assert_eq!(again(&Error::new(kind, "no")), half, "{kind:?}");
    }
    for kind in [
        ErrorKind::Configuration,
        ErrorKind::Transcript,
        ErrorKind::Protocol,
        ErrorKind::TooLarge,
        ErrorKind::Journal,
    ] {
        assert_eq!(again(&Error::new(kind, "no")), None, "{kind:?}");
    }
    // Inside a stream there is no status, only the vendor's word.
    for code in ["overloaded_error", "api_error", "timeout_error", "rate_limit_error"] {
        assert_eq!(again(&Error::new(ErrorKind::Api, "no").with_code(code)), half, "{code}");
    }
    for code in ["rate_limit_exceeded", "server_error", "slow_down", "server_is_overloaded"] {
        assert_eq!(again(&Error::new(ErrorKind::Api, "no").with_code(code)), half, "{code}");
    }
    for code in ["invalid_request_error", "invalid_prompt", "authentication_error"] {
        assert_eq!(again(&Error::new(ErrorKind::Api, "no").with_code(code)), None, "{code}");
    }
    // Money that is gone does not come back by waiting.
    for code in ["insufficient_quota", "billing_error", "enforced_spend_limit_reached"] {
        assert_eq!(again(&api(429).with_code(code)), None, "{code}");
    }
    // The vendor's verdict wins over all of that.
    assert_eq!(again(&api(400).with_should_retry(true)), half);
    assert_eq!(again(&api(529).with_should_retry(false)), None);
}

#[test]
fn waits_double_up_to_the_longest_and_are_spread_over_their_whole_length() {
    let policy = RetryPolicy { max: seconds(10.0), attempts: 100, ..RetryPolicy::default() };
    let wait = |call, chance| policy.decide(&api(529), call, failed(50), chance);
    for (tries, longest) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (41, 10.0)] {
        assert_eq!(wait(failed(tries), 0.0), RetryVerdict::Wait(Duration::ZERO));
        assert_eq!(wait(failed(tries), 0.25), RetryVerdict::Wait(seconds(longest / 4.0)));
        let plain = RetryPolicy { jitter: false, ..policy };
        let verdict = plain.decide(&api(529), failed(tries), failed(50), 0.25);
        assert_eq!(verdict, RetryVerdict::Wait(seconds(longest)));
    }
}

#[test]
fn what_the_server_says_is_waited_and_never_less() {
    let policy = RetryPolicy::default();
    let busy = || api(429).with_retry_after(seconds(8.0));
    let wait = |chance| policy.decide(&busy(), failed(2), failed(2), chance);
    assert_eq!(wait(0.0), RetryVerdict::Wait(seconds(8.0)));
    assert_eq!(wait(0.5), RetryVerdict::Wait(seconds(10.0)));
    let plain = RetryPolicy { jitter: false, ..policy };
    let exact = plain.decide(&busy(), failed(2), failed(2), 0.5);
    assert_eq!(exact, RetryVerdict::Wait(seconds(8.0)));
    // No time at all is no time to wait for.
    let now = api(429).with_retry_after(Duration::ZERO);
    assert_eq!(policy.decide(&now, failed(1), failed(1), 0.5), RetryVerdict::Wait(seconds(0.5)));
}

#[test]
fn a_wait_longer_than_what_is_left_fails_at_once_and_says_so() {
    let policy = RetryPolicy::default();
    let lost = |time| RetryCost { attempts: 2, time: seconds(time) };
    let why = |wait: f64, call, run| {
        let long = api(429).with_retry_after(seconds(wait));
        let RetryVerdict::GiveUp(why) = policy.decide(&long, lost(call), lost(run), 0.0) else {
            panic!("it waits")
        };
        why.to_string()
    };
    assert_eq!(
        why(21.0, 100.0, 100.0),
        "gave up: the server asks to wait 21.0s, and of the 120.0s that this call may lose to \
         failures 20.0s are left"
    );
    assert_eq!(
        why(21.0, 10.0, 1780.0),
        "gave up: the server asks to wait 21.0s, and of the 1800.0s that this run may lose to \
         failures 20.0s are left"
    );
    // The spread takes what is left, and no more.
    let fits = api(429).with_retry_after(seconds(19.0));
    for (call, run) in [(100.0, 100.0), (0.0, 1780.0)] {
        let verdict = policy.decide(&fits, lost(call), lost(run), 0.99);
        assert_eq!(verdict, RetryVerdict::Wait(seconds(20.0)));
    }
}

#[test]
fn a_wait_of_exactly_what_is_left_is_waited() {
    let policy = RetryPolicy { jitter: false, time: seconds(1.0), ..RetryPolicy::default() };
    let verdict = policy.decide(&api(503), failed(1), failed(1), 1.0);
    assert_eq!(verdict, RetryVerdict::Wait(seconds(1.0)));
    let verdict = policy.decide(&api(503), failed(2), failed(2), 1.0);
    assert!(matches!(verdict, RetryVerdict::GiveUp(GiveUp::NoTimeLeft { .. })), "{verdict:?}");
}

#[test]
fn a_call_and_a_run_have_a_bound_each() {
    let run = RetryBudget { tries: 4, ..RetryBudget::default() };
    let policy = RetryPolicy { run, ..RetryPolicy::default() };
    let gives_up = |call, run| match policy.decide(&api(529), failed(call), failed(run), 0.0) {
        RetryVerdict::GiveUp(GiveUp::NoAttemptLeft { of, scope }) => Some((of, scope)),
        RetryVerdict::GiveUp(other) => panic!("{other:?}"),
        RetryVerdict::Wait(_) => None,
    };
    assert_eq!(gives_up(2, 3), None);
    assert_eq!(gives_up(3, 3), Some((3, RetryScope::Call)));
    assert_eq!(gives_up(1, 4), Some((4, RetryScope::Run)));
    let once = RetryPolicy { attempts: 0, ..policy };
    let verdict = once.decide(&api(529), failed(1), failed(1), 0.0);
    assert!(matches!(verdict, RetryVerdict::GiveUp(GiveUp::NoAttemptLeft { of: 1, .. })));
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_a_seed_are_always_the_same() {
    let policy = RetryPolicy { attempts: 5, ..RetryPolicy::default() };
    let mut script = failing(|| api(529), 4);
    script.push(reply().text("Cold."));
    let model = ScriptedProvider::new(script);
    let provider = RetryProvider::new(model.clone(), policy).with_seed(7);
    let begun = Instant::now();
    let (waits, result) = waits(&provider).await;
    let millis: Vec<u128> = waits.iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [773, 444, 2873, 3849]);
    // The clock counts in whole milliseconds and rounds each wait up.
    let total: Duration = waits.iter().sum();
    assert!(begun.elapsed() >= total && begun.elapsed() < total + Duration::from_millis(8));
    assert_eq!(result.unwrap(), "Cold.");
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn without_spread_the_clock_shows_each_wait() {
    let policy = RetryPolicy { attempts: 5, jitter: false, ..RetryPolicy::default() };
    let mut script = failing(|| api(503), 4);
    script.push(reply().text("Cold."));
    let model = ScriptedProvider::new(script);
    let begun = Instant::now();
    let (waits, result) = waits(&RetryProvider::new(model.clone(), policy)).await;
    assert_eq!(waits, [seconds(1.0), seconds(2.0), seconds(4.0), seconds(8.0)]);
    assert_eq!(begun.elapsed(), seconds(15.0));
    assert_eq!(result.unwrap(), "Cold.");
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn the_third_failure_is_the_last_and_the_first_one_is_the_cause() {
    let script = [
        reply().error(api(529).with_code("overloaded_error").with_request_id("req_1")),
        reply().error(Error::new(ErrorKind::Connect, "refused")),
        reply().error(api(503)),
    ];
    let model = ScriptedProvider::new(script);
    let provider = RetryProvider::new(model.clone(), RetryPolicy::default());
    let (_, result) = waits(&provider).await;
    let err = result.unwrap_err();
    assert_eq!((err.status(), err.code()), (Some(529), Some("overloaded_error")));
    assert_eq!(err.later().len(), 2);
    assert_eq!(
        err.to_string(),
        "529 overloaded_error: no (request req_1); then refused; then 503: no; gave up after 3 tries"
    );
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn equal_failures_are_told_once_with_their_number() {
    let refused = || reply().error(Error::new(ErrorKind::Connect, "refused"));
    let model = ScriptedProvider::new([refused(), refused(), refused()]);
    let provider = RetryProvider::new(model.clone(), RetryPolicy::default());
    let err = waits(&provider).await.1.unwrap_err();
    assert_eq!(err.to_string(), "refused (3 times); gave up after 3 tries");
    assert_eq!(err.later().len(), 2);
    let model = ScriptedProvider::new([refused(), refused(), reply().error(api(503))]);
    let err = waits(&RetryProvider::new(model, RetryPolicy::default())).await.1.unwrap_err();
    assert_eq!(err.to_string(), "refused (2 times); then 503: no; gave up after 3 tries");
}

#[tokio::test(start_paused = true)]
async fn a_lasting_failure_is_not_tried_again() {
    let model = ScriptedProvider::new([reply().error(api(529)), reply().error(api(401))]);
    let provider = RetryProvider::new(model.clone(), RetryPolicy::default());
    let (waits, result) = waits(&provider).await;
    let err = result.unwrap_err();
    assert_eq!((waits.len(), err.to_string().as_str()), (1, "529: no; then 401: no"));
    assert!(!err.is_retryable(), "the last failure decides");
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn of_policies_around_policies_the_outermost_one_counts() {
    let policy = |attempts| RetryPolicy { attempts, jitter: false, ..RetryPolicy::default() };
    for (outer, inner) in [(4, 2), (2, 4), (1, 4)] {
        let model = ScriptedProvider::answering(|_| reply().error(api(529)));
        let inner = RetryProvider::new(model.clone(), policy(inner));
        let inner = RetryProvider::new(ThrottledProvider::new(inner, 4), policy(5));
        let provider = RetryProvider::new(inner, policy(outer));
        let ledger = RetryAccounting::default();
        let transcript = asked();
        let request = Request::new(&transcript).unwrap().with_ledger(Some(&ledger));
        let err = accumulate(provider.stream(request)).await.unwrap_err();
        assert_eq!(
            (model.requests().len(), err.later().len()),
            (outer as usize, outer as usize - 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn none_makes_one_try_whatever_is_inside() {
    let model = ScriptedProvider::answering(|_| reply().error(api(529)));
    let inner = RetryProvider::new(model.clone(), RetryPolicy::default());
    let provider = RetryProvider::new(inner, RetryPolicy::none());
    let (waits, result) = waits(&provider).await;
    assert_eq!((waits.len(), model.requests().len()), (0, 1));
    assert_eq!(result.unwrap_err().to_string(), "529: no");
}

/// A provider of somebody else's that asks again whatever happened, and tells nobody.
struct Stubborn<P>(P, u32);

impl<P: harness::Provider> harness::Provider for Stubborn<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn model(&self) -> &str {
        self.0.model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let tries = (0..self.1).map(move |_| self.0.stream(request.clone()));
        Box::pin(stream::iter(tries).flatten())
    }
}

#[tokio::test(start_paused = true)]
async fn all_tries_of_a_call_share_its_counter_whoever_repeats_it() {
    let model = ScriptedProvider::answering(|_| reply().error(api(529)));
    let policy = RetryPolicy::default();
    let retried = || RetryProvider::new(model.clone(), policy);
    let ask = async |provider: &dyn harness::Provider| {
        let before = model.requests().len();
        let transcript = asked();
        let stream = provider.stream(Request::new(&transcript).unwrap());
        let _: Vec<_> = stream.collect().await;
        model.requests().len() - before
    };
    // Three tries, and from then on each question of the stubborn one is one try.
    assert_eq!(ask(&Stubborn(retried(), 4)).await, 3 + 3);
    let both = FallbackProvider::new(retried()).or(retried());
    assert_eq!(ask(&Stubborn(both, 4)).await, 2 * (3 + 3));
}

#[tokio::test(start_paused = true)]
async fn time_lost_in_a_try_counts_once() {
    let slow = || reply().pause(seconds(10.0)).error(Error::new(ErrorKind::Timeout, "slow"));
    let script = || ScriptedProvider::new([slow(), slow(), reply().text("Cold.")]);
    let policy = RetryPolicy { jitter: false, ..RetryPolicy::default() };
    let inner = || RetryProvider::new(script(), policy);
    let ledger = async |provider: &dyn harness::Provider| {
        let ledger = RetryAccounting::default();
        let transcript = asked();
        let request = Request::new(&transcript).unwrap().with_ledger(Some(&ledger));
        accumulate(provider.stream(request)).await.unwrap();
        ledger.lost()
    };
    let lost = RetryCost { attempts: 2, time: seconds(20.0 + 1.0 + 2.0) };
    assert_eq!(ledger(&inner()).await, lost);
    assert_eq!(ledger(&RetryProvider::new(inner(), policy)).await, lost);
    assert_eq!(ledger(&FallbackProvider::new(inner())).await, lost);
}

/// Looks at the weather.
#[tool(side_effects = "read")]
fn weather(
    /** Where */
    city: String,
) -> String {
    format!("cold in {city}")
}

/// A run of this many turns, of each of which the first try fails, and who has seen what.
async fn long_run(turns: usize, policy: RetryPolicy) -> (Result<Reply, Stopped>, Vec<(u32, u32)>) {
    let city = |at: usize| json!({"city": format!("city {at}")});
    let mut script = Vec::new();
    for turn in 1..turns {
        script.extend([reply().overloaded(), reply().call("weather", city(turn))]);
    }
    script.extend([reply().overloaded(), reply().text("Cold.")]);
    let provider = RetryProvider::new(ScriptedProvider::new(script), policy);
    let agent = Agent::builder(provider).tools(tools![weather]).build().unwrap();
    let mut tries = Vec::new();
    let result = agent.run("Where is it cold?").on_event(|event| {
        if let Event::Retrying { attempt, of, .. } = event {
            tries.push((attempt, of));
        }
    });
    (result.await, tries)
}

#[tokio::test(start_paused = true)]
async fn each_turn_has_its_own_attempts() {
    let (result, tries) = long_run(20, RetryPolicy::default()).await;
    assert_eq!(result.unwrap().text(), "Cold.");
    assert_eq!(tries, [(2, 3); 20]);
}

#[tokio::test(start_paused = true)]
async fn one_budget_serves_all_turns_of_a_run() {
    let run = RetryBudget { tries: 5, ..RetryBudget::default() };
    let (result, tries) = long_run(20, RetryPolicy { run, ..RetryPolicy::default() }).await;
    // What is said of the last tries is true, too: the fifth failure will be the last one.
    assert_eq!(tries, [(2, 3), (2, 3), (2, 3), (2, 2)]);
    let stopped = result.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Failed);
    let words = "gave up: 5 tries of this run have failed, and no more are allowed";
    let error = stopped.error().unwrap().to_string();
    assert!(error.ends_with(words), "{error}");

    // The same in time: 1 s for each failure.
    let run = RetryBudget { time: seconds(4.5), ..RetryBudget::default() };
    let policy = RetryPolicy { run, jitter: false, ..RetryPolicy::default() };
    let (result, tries) = long_run(20, policy).await;
    assert_eq!(tries.len(), 4);
    let stopped = result.unwrap_err();
    let words = "of the 4.5s that this run may lose to failures 500.0ms are left";
    let error = stopped.error().unwrap().to_string();
    assert!(error.ends_with(words), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_next_run_has_a_budget_of_its_own() {
    let model = ScriptedProvider::new([
        reply().overloaded(),
        reply().overloaded(),
        // The next run.
        reply().overloaded(),
        reply().text("Cold."),
    ]);
    let run = RetryBudget { tries: 2, ..RetryBudget::default() };
    let policy = RetryPolicy { run, ..RetryPolicy::default() };
    let agent = Agent::builder(RetryProvider::new(model.clone(), policy)).build().unwrap();
    let mut chat = agent.chat();
    let stopped = chat.send("Oslo?").await.unwrap_err();
    assert_eq!(stopped.error().unwrap().status(), Some(529));
    assert_eq!(chat.resume().await.unwrap().text(), "Cold.");
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn what_has_been_said_is_not_asked_again() {
    let model = ScriptedProvider::new([reply().text_in(["Co"]).error(api(529))]);
    let provider = RetryProvider::new(model.clone(), RetryPolicy::default());
    let (waits, result) = waits(&provider).await;
    assert_eq!((waits.len(), result.unwrap_err().status()), (0, Some(529)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_began_and_said_nothing_is_asked_again_and_nobody_hears_of_it() {
    let model = ScriptedProvider::new([
        reply().started().error(Error::new(ErrorKind::Api, "full").with_code("overloaded_error")),
        reply().started().cut(),
        reply().text("Cold."),
    ]);
    let provider = RetryProvider::new(model, RetryPolicy::default());
    let transcript = asked();
    let events: Vec<_> = provider.stream(Request::new(&transcript).unwrap()).collect().await;
    let begun = events.iter().filter(|item| matches!(item, Ok(StreamEvent::Started { .. })));
    assert_eq!(begun.count(), 1);
    assert!(matches!(events.last(), Some(Ok(StreamEvent::Completed { .. }))));
}

#[tokio::test]
async fn tokens_count_of_an_answer_that_is_stopped_before_its_first_word() {
    let gate = Gate::new();
    let counted = Usage { input: Some(120), ..Usage::default() };
    let begun = reply().started().event(StreamEvent::UsageSoFar(counted)).wait_for(&gate);
    let provider = RetryProvider::new(ScriptedProvider::new([begun]), RetryPolicy::default());
    let agent = Agent::builder(provider).build().unwrap();
    let stop = CancellationToken::new();
    let run = agent.run("Oslo?").cancel_with(stop.clone()).into_future();
    let test = async {
        gate.reached().await;
        stop.cancel();
    };
    let (result, ()) = tokio::join!(run, test);
    assert_eq!(result.unwrap_err().usage().input, Some(120));
}

#[tokio::test(start_paused = true)]
async fn each_wait_is_seen_before_it_begins_and_can_be_ended_at_once() {
    let model = ScriptedProvider::new([reply().error(api(529).with_code("overloaded_error"))]);
    let policy = RetryPolicy { jitter: false, ..RetryPolicy::default() };
    let agent = Agent::builder(RetryProvider::new(model.clone(), policy)).build().unwrap();
    let (stop, mut shown) = (CancellationToken::new(), String::new());
    let begun = Instant::now();
    let stopped = agent
        .run("Oslo?")
        .cancel_with(stop.clone())
        .on_event(|event| {
            if let Event::Retrying { attempt, of, wait, cause } = event {
                shown = format!("retrying in {} s ({attempt} of {of}): {cause}", wait.as_secs());
                stop.cancel();
            }
        })
        .await
        .unwrap_err();
    assert_eq!(shown, "retrying in 1 s (2 of 3): 529 overloaded_error: no");
    assert_eq!(stopped.outcome(), Outcome::Cancelled);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(model.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_begun_again_after_output_only_where_that_is_asked_for() {
    let script = || {
        ScriptedProvider::new([
            reply().call("weather", json!({"city": "Oslo"})).text_in(["It is "]).cut(),
            reply().text_in(["It is cold."]),
        ])
    };
    let run = async |policy| {
        let agent = Agent::builder(RetryProvider::new(script(), policy));
        let agent = agent.tools(tools![weather]).build().unwrap();
        let mut shown = String::new();
        let result = agent
            .run("Oslo?")
            .on_event(|event| match event {
                Event::Text(text) => shown.push_str(text),
                Event::Discarded { .. } => shown.clear(),
                _ => {}
            })
            .await;
        (shown, result)
    };
    let (shown, result) = run(RetryPolicy::default()).await;
    assert_eq!((shown.as_str(), result.unwrap_err().outcome()), ("It is ", Outcome::Failed));

    let (shown, result) = run(RetryPolicy { after_output: true, ..RetryPolicy::default() }).await;
    let reply = result.unwrap();
    assert_eq!((shown.as_str(), reply.text()), ("It is cold.", "It is cold."));
    assert_eq!(reply.transcript().messages().len(), 2, "nothing is left of the first beginning");
}

#[tokio::test]
async fn an_overload_that_is_told_inside_the_stream_is_tried_again_on_every_wire() {
    let policy = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
    let asked_again = async |provider: &dyn harness::Provider, server: &LoopbackServer| {
        let (waits, result) = waits(provider).await;
        assert_eq!(result.unwrap(), "Cold.");
        server.assert_finished();
        waits
    };

    let body = anthropic::body();
    let full = body.clone().error("overloaded_error", "Overloaded").answer();
    let server = LoopbackServer::start([full, body.text("Cold.").answer()]).await.unwrap();
    let provider = AnthropicProvider::builder().api_key("k").base_url(server.url());
    let provider = provider.build().unwrap().with_retry(policy);
    assert_eq!(asked_again(&provider, &server).await.len(), 1);

    let body = responses::body();
    let limited = body.clone().failed("rate_limit_exceeded", "Please try again in 7ms.").answer();
    let server = LoopbackServer::start([limited, body.text("Cold.").answer()]).await.unwrap();
    let provider = OpenAIProvider::builder().api_key("k").base_url(server.url());
    let provider = provider.build().unwrap().with_retry(policy);
    let waits = asked_again(&provider, &server).await;
    assert!(waits[0] >= Duration::from_millis(7), "the words say how long: {waits:?}");

    let body = chat::body();
    let down = body.clone().error("502", "upstream").answer();
    let server = LoopbackServer::start([down, body.text("Cold.").answer()]).await.unwrap();
    let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
    let provider = provider.build().unwrap().with_retry(policy);
    assert_eq!(asked_again(&provider, &server).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_discarded_of_an_answer_that_has_said_nothing() {
    let script = [reply().error(api(529)), reply().started().cut(), reply().text("Cold.")];
    let policy = RetryPolicy { after_output: true, ..RetryPolicy::default() };
    let provider = RetryProvider::new(ScriptedProvider::new(script), policy);
    let transcript = asked();
    let events: Vec<_> = provider.stream(Request::new(&transcript).unwrap()).collect().await;
    let is_discarded = |it: &Result<_, _>| matches!(it, Ok(StreamEvent::Discarded { .. }));
    assert!(!events.iter().any(is_discarded), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_too_many_requests_is_seen_by_its_status_or_its_code() {
    let busy = |code: &str| Error::new(ErrorKind::Api, "no").with_status(503).with_code(code);
    let table = [
        (api(429), true),
        (api(529), true),
        (busy("rate_limit_exceeded"), true),
        (busy("overloaded_error"), true),
        (busy("slow_down"), true),
        (busy("server_error"), false),
        (api(503), false),
        (Error::new(ErrorKind::Timeout, "slow"), false),
    ];
    for (error, expected) in table {
        let text = error.to_string();
        let script = [reply().error(error), reply().text("Cold.")];
        let provider = RetryProvider::new(ScriptedProvider::new(script), RetryPolicy::default());
        let transcript = asked();
        let events: Vec<_> = provider.stream(Request::new(&transcript).unwrap()).collect().await;
        let refused = events.iter().find_map(|it| match it {
            Ok(StreamEvent::Retrying { refused, .. }) => Some(refused.is_some()),
            _ => None,
        });
        assert_eq!(refused, Some(expected), "{text}");
    }
}

#[test]
fn what_a_provider_can_do_is_the_same_with_retries_around_it() {
    /// Does what another one does, and says what it can.
    struct Can(ScriptedProvider, bool, bool);

    impl harness::Provider for Can {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn model(&self) -> &str {
            self.0.model()
        }

        fn tells_answer_schema(&self) -> bool {
            self.1
        }

        fn has_vendor_summaries(&self) -> bool {
            self.2
        }

        fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
            self.0.stream(request)
        }
    }

    /// A wrapper of a program's own.
    struct Wrapper(RetryProvider<Can>);

    impl harness::Provider for Wrapper {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn model(&self) -> &str {
            self.0.model()
        }

        fn inner(&self) -> Option<&dyn harness::Provider> {
            Some(&self.0)
        }

        fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
            self.0.stream(request)
        }
    }

    for can in [(false, false), (true, false), (false, true)] {
        let inner = Can(ScriptedProvider::new([]), can.0, can.1);
        let provider = Wrapper(RetryProvider::new(inner, RetryPolicy::default()));
        assert_eq!((provider.tells_answer_schema(), provider.has_vendor_summaries()), can);
        let provider: std::sync::Arc<dyn harness::Provider> = std::sync::Arc::new(provider);
        assert_eq!((provider.tells_answer_schema(), provider.has_vendor_summaries()), can);
    }
}

#[test]
fn a_run_may_lose_a_hundred_tries_and_half_an_hour_unless_something_else_is_set() {
    let said = RetryBudget { tries: 100, time: seconds(1_800.0) };
    assert_eq!((RetryBudget::default(), RetryPolicy::default().run), (said, said));
}

#[test]
fn why_nobody_tries_again_is_said_in_words() {
    let one = GiveUp::NoAttemptLeft { of: 1, scope: RetryScope::Call };
    let three = GiveUp::NoAttemptLeft { of: 3, scope: RetryScope::Call };
    let told = [GiveUp::Lasting, one, three].map(|why| why.to_string());
    let expected = [
        "the same request would fail in the same way",
        "not tried again: one try was allowed",
        "gave up after 3 tries",
    ];
    assert_eq!(told, expected);
}
