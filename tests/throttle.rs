//! A bound on requests in flight, and a pace after a refusal, shared by all who use the provider.

use std::time::Duration;

use futures_util::future::join_all;
use harness::{
    Error, ErrorKind, Message, Transcript,
    policy::ThrottledProvider,
    provider::{Request, accumulate},
    testing::{Gate, ScriptedProvider, ScriptedReply, reply},
};
use tokio::time::Instant;

async fn ask(provider: &impl harness::Provider) -> Result<String, Error> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let answer = accumulate(provider.stream(Request::new(&transcript).unwrap())).await?;
    Ok(answer.message.unwrap().text())
}

fn busy(seconds: u64) -> ScriptedReply {
    let error = Error::new(ErrorKind::Api, "too many").with_status(429);
    reply().error(error.with_retry_after(Duration::from_secs(seconds)))
}

#[tokio::test]
async fn no_more_than_so_many_are_in_flight_whoever_asks() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = ScriptedProvider::answering(move |_| reply().wait_for(&held).text("Cold."));
    let shared = ThrottledProvider::new(model.clone(), 3);
    let agents: Vec<_> = (0..10).map(|_| shared.clone()).collect();
    let answers = join_all(agents.iter().map(ask));
    let test = async {
        gate.reached().await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
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
