//! A retry policy around a function of the program, and what its errors say.

use std::{cell::Cell, future::pending, rc::Rc, time::Duration};

use harness::{
    Agent, Error, ErrorKind, FallbackProvider, Provider, RetryPolicy, RetryProvider,
    policy::{RetryBudget, RetryStatuses},
    testing::{ScriptedProvider, reply},
};
use tokio::time::{Instant, timeout};

fn policy() -> RetryPolicy {
    RetryPolicy { jitter: false, ..RetryPolicy::default() }
}

fn status(status: u16) -> Error {
    Error::new(ErrorKind::Api, "no").with_status(status)
}

#[tokio::test(start_paused = true)]
async fn a_function_is_tried_again_as_a_provider_is() {
    let begun = Instant::now();
    let done = policy().run(|attempt| async move {
        match attempt {
            1 => Err(status(503)),
            2 => Err(status(429).with_retry_after(Duration::from_secs(20))),
            attempt => Ok(attempt),
        }
    });
    assert_eq!(done.await.expect("the third attempt"), 3);
    // One second before the second attempt, and before the third one what the server asked for.
    assert_eq!(begun.elapsed(), Duration::from_secs(21));
}

#[tokio::test(start_paused = true)]
async fn the_error_says_that_the_budget_is_used_up_and_has_every_failure() {
    let failed = policy()
        .run(|attempt| async move { Err::<(), _>(status(if attempt == 1 { 502 } else { 504 })) });
    let error = failed.await.expect_err("three failures");
    assert!(error.is_retry_budget_exhausted() && error.is_retryable());
    assert_eq!((error.status(), error.later().len()), (Some(502), 2));
    assert!(error.to_string().ends_with("gave up after 3 tries"), "{error}");

    let asks = status(503).with_retry_after(Duration::from_secs(3600));
    let asks = Cell::new(Some(asks));
    let error = policy().run(|_| async { Err::<(), _>(asks.take().expect("one attempt")) }).await;
    assert!(error.expect_err("the wait is too long").is_retry_budget_exhausted());

    for lasting in [status(400), status(402), Error::new(ErrorKind::Protocol, "no")] {
        let lasting = Cell::new(Some(lasting));
        let error = policy().run(|_| async { Err::<(), _>(lasting.take().expect("one attempt")) });
        let error = error.await.expect_err("lasting");
        assert!(!error.is_retry_budget_exhausted() && error.later().is_empty(), "{error:?}");
    }
    let error = RetryPolicy::none().run(|_| async { Err::<(), _>(status(503)) }).await;
    assert!(!error.expect_err("no retry").is_retry_budget_exhausted());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_ends_the_attempt_and_the_wait() {
    struct Guard(Rc<Cell<u32>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let stalls = policy().run(|_| async {
        let _guard = Guard(Rc::clone(&dropped));
        pending::<Result<(), Error>>().await
    });
    assert!(timeout(Duration::from_secs(5), stalls).await.is_err());
    assert_eq!(dropped.get(), 1);
    let tries = Cell::new(0);
    let waits = policy().run(|attempt| {
        tries.set(attempt);
        async { Err::<(), _>(status(503)) }
    });
    assert!(timeout(Duration::from_millis(1500), waits).await.is_err());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(tries.get(), 2);
}

#[test]
fn without_a_runtime_it_is_an_error_and_no_panic() {
    let run = policy().run(|_| async { Err::<(), _>(status(503)) });
    let error =
        futures_util::FutureExt::now_or_never(run).expect("it cannot wait").expect_err("no timer");
    assert!(error.is_configuration(), "{error}");
    let now = policy().run(|attempt| async move { Ok::<_, Error>(attempt) });
    assert_eq!(futures_util::FutureExt::now_or_never(now).expect("ready").expect("done"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_statuses_that_are_retried_can_be_changed() {
    let tries = async |statuses: RetryStatuses, number: u16| {
        let tries = Cell::new(0);
        let policy = RetryPolicy { statuses, ..policy() };
        let run = policy.run(|attempt| {
            tries.set(attempt);
            async move { Err::<(), _>(status(number)) }
        });
        run.await.expect_err("it always fails");
        tries.get()
    };
    let default = RetryStatuses::default();
    for (number, expected) in
        [(408, 3), (409, 3), (425, 1), (429, 3), (500, 3), (501, 1), (505, 1), (529, 3), (999, 3)]
    {
        assert_eq!(tries(default, number).await, expected, "{number}");
        assert_eq!(tries(default.with(number), number).await, 3, "{number}");
        assert_eq!(tries(default.without(number), number).await, 1, "{number}");
        assert_eq!(tries(RetryStatuses::none(), number).await, 1, "{number}");
    }
    // The vendor's own verdict counts more than the setting.
    let final_one = Cell::new(Some(status(503).with_should_retry(false)));
    let error =
        policy().run(|_| async { Err::<(), _>(final_one.take().expect("one attempt")) }).await;
    assert!(error.expect_err("it is final").later().is_empty());
}

async fn failure(provider: impl Provider + 'static) -> Error {
    let agent = Agent::builder(provider).build().expect("an agent");
    let stopped = agent.run("Hello?").await.expect_err("no answer");
    let error = stopped.error().expect("an error");
    Error::new(error.kind(), format!("{} {:?}", error.is_retry_budget_exhausted(), error.status()))
}

#[tokio::test(start_paused = true)]
async fn an_agent_retries_the_statuses_of_its_policy_and_says_when_it_has_given_up() {
    let tea = || reply().error(status(418));
    let with =
        |policy| RetryProvider::new(ScriptedProvider::new([tea(), reply().text("Here.")]), policy);
    assert_eq!(failure(with(policy())).await.message(), "false Some(418)");
    let statuses = RetryStatuses::default().with(418);
    let agent =
        Agent::builder(with(RetryPolicy { statuses, ..policy() })).build().expect("an agent");
    assert_eq!(agent.run("Hello?").await.expect("the second attempt").text(), "Here.");

    let down = || ScriptedProvider::answering(|_| reply().overloaded());
    assert_eq!(failure(RetryProvider::new(down(), policy())).await.message(), "true Some(529)");
    let run = RetryBudget { tries: 1, ..RetryBudget::default() };
    let few = RetryPolicy { run, ..policy() };
    assert_eq!(failure(RetryProvider::new(down(), few)).await.message(), "true Some(529)");
    // What the last provider has said decides.
    let wrong = ScriptedProvider::answering(|_| reply().error(status(401)));
    let both = FallbackProvider::new(RetryProvider::new(down(), policy())).or(wrong);
    assert_eq!(failure(both).await.message(), "false Some(529)");
}
