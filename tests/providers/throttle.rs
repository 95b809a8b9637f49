//! A limit of concurrent requests, and a pace after a refusal, shared by all users of the provider.

use std::time::Duration;

use futures_util::future::join_all;
use harness::{
    Error, ErrorKind, Message, Transcript,
    policy::{RetryPolicy, RetryProvider, ThrottledProvider},
    provider::{Request, accumulate},
    testing::{Gate, ScriptedProvider, ScriptedReply, reply},
};
use tokio::time::Instant;

async fn ask(provider: &(impl harness::Provider + ?Sized)) -> Result<String, Error> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let answer = accumulate(provider.stream(Request::new(&transcript).unwrap())).await?;
    Ok(answer.message.unwrap().text())
}

fn busy(seconds: u64) -> ScriptedReply {
    let error = Error::new(ErrorKind::Api, "too many").with_status(429);
    reply().error(error.with_retry_after(Duration::from_secs(seconds)))
}

#[tokio::test(start_paused = true)]
async fn no_more_than_so_many_are_in_flight_whoever_asks() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = ScriptedProvider::answering(move |_| reply().wait_for(&held).text("Cold."));
    let shared = ThrottledProvider::new(model.clone(), 3);
    let agents: Vec<_> = (0..10).map(|_| shared.clone()).collect();
    let answers = join_all(agents.iter().map(ask));
    let test = async {
        gate.reached().await;
        // Paused time goes on only when nobody can do anything more.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((model.open_streams(), shared.in_flight()), (3, 3));
        gate.open();
    };
    let (answers, ()) = tokio::join!(answers, test);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!((model.requests().len(), shared.in_flight()), (10, 0));
}

#[tokio::test]
async fn a_dropped_call_gives_its_place_back() {
    let model = ScriptedProvider::new([reply().stall(), reply().text("Cold.")]);
    let shared = ThrottledProvider::new(model, 1);
    let stalled = tokio::time::timeout(Duration::from_millis(10), ask(&shared)).await;
    assert!(stalled.is_err());
    assert_eq!(ask(&shared).await.unwrap(), "Cold.");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_closes_the_door_for_all_and_opens_it_one_by_one() {
    let begun = Instant::now();
    let model =
        ScriptedProvider::new([busy(2)].into_iter().chain((0..5).map(|_| reply().text("Cold."))));
    let shared = ThrottledProvider::new(model, 10);
    assert_eq!(ask(&shared).await.unwrap_err().status(), Some(429));
    let started = join_all((0..5).map(|_| async {
        ask(&shared).await.unwrap();
        begun.elapsed().as_millis()
    }))
    .await;
    assert_eq!(started, [2000, 2100, 2200, 2300, 2400]);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_refusals_slows_the_pace_once_and_answers_open_it_again() {
    let begun = Instant::now();
    let late = || {
        let error = Error::new(ErrorKind::Api, "too many").with_status(429);
        reply().pause(Duration::from_millis(50)).error(error)
    };
    let script = (0..20).map(|_| late()).chain((0..100).map(|_| reply().text("Cold.")));
    let shared = ThrottledProvider::new(ScriptedProvider::new(script), 20);
    let refused = join_all((0..20).map(|_| ask(&shared))).await;
    assert!(refused.iter().all(Result::is_err));
    let mut gaps = Vec::new();
    let mut last = begun.elapsed();
    for _ in 0..60 {
        ask(&shared).await.unwrap();
        gaps.push((begun.elapsed() - last).as_millis());
        last = begun.elapsed();
    }
    assert_eq!(gaps[..3], [1000, 100, 88], "one refusal, and each answer closes the gap");
    assert_eq!(gaps.last(), Some(&0));
}

#[tokio::test(start_paused = true)]
async fn money_that_is_gone_paces_nobody() {
    let gone = Error::new(ErrorKind::Api, "no").with_status(429).with_code("insufficient_quota");
    let model = ScriptedProvider::new([reply().error(gone), reply().text("Cold.")]);
    let shared = ThrottledProvider::new(model, 2);
    let begun = Instant::now();
    assert!(ask(&shared).await.is_err());
    assert!(ask(&shared).await.is_ok());
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// Both ways to try again with a shared pace: around it, and inside it.
fn tries_again(model: &ScriptedProvider, at_once: usize) -> [Box<dyn harness::Provider>; 2] {
    let policy = RetryPolicy { jitter: false, ..RetryPolicy::default() };
    let around = ThrottledProvider::new(model.clone(), at_once);
    let inside = RetryProvider::new(model.clone(), policy);
    [
        Box::new(RetryProvider::new(around, policy)),
        Box::new(ThrottledProvider::new(inside, at_once)),
    ]
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_next_try_holds_no_place() {
    for way in 0..2 {
        let down = reply().error(Error::new(ErrorKind::Api, "down").with_status(503));
        let script = [down, reply().text("second"), reply().text("first")];
        let shared = &tries_again(&ScriptedProvider::new(script), 1)[way];
        let begun = Instant::now();
        let timed = async || {
            let answer = ask(shared).await.unwrap();
            (answer, begun.elapsed().as_millis())
        };
        let (first, second) = tokio::join!(timed(), timed());
        assert_eq!(first, ("first".to_owned(), 1000), "{way}");
        assert_eq!(second, ("second".to_owned(), 0), "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_in_line_is_not_lost_to_failures() {
    for way in 0..2 {
        let long = reply().pause(Duration::from_secs(1000)).text("first");
        let down = reply().error(Error::new(ErrorKind::Api, "down").with_status(503));
        let script = [long, down, reply().text("second")];
        let shared = &tries_again(&ScriptedProvider::new(script), 1)[way];
        // The second one waits for longer than it may lose to failures, and then fails once.
        let (first, second) = tokio::join!(ask(shared), ask(shared));
        assert_eq!(
            (first.unwrap().as_str(), second.unwrap().as_str()),
            ("first", "second"),
            "{way}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_seen_also_where_the_provider_inside_tries_again() {
    for way in 0..2 {
        let script = [busy(2)].into_iter().chain((0..5).map(|_| reply().text("Cold.")));
        let model = ScriptedProvider::new(script);
        let shared = &tries_again(&model, 10)[way];
        let begun = Instant::now();
        let timed = async || {
            ask(shared).await.unwrap();
            begun.elapsed().as_millis()
        };
        // The first one is refused before the others ask.
        let others = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            join_all((0..4).map(|_| timed())).await
        };
        let (first, others) = tokio::join!(timed(), others);
        let mut started = [vec![first], others].concat();
        started.sort_unstable();
        assert_eq!(started, [2000, 2100, 2200, 2300, 2400], "{way}");
        model.assert_finished();
    }
}
