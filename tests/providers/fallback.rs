//! Another provider when one is down: which failures lead to it, how long a provider is skipped,
//! and who is reported to have answered.

use std::time::Duration;

use harness::{
    Agent, AnthropicProvider, CancellationToken, Error, ErrorKind, Event, Message, Outcome,
    Provider, Transcript,
    client::OpenAIProvider,
    journal::Fact,
    policy::{FallbackProvider, RetryBudget, RetryPolicy, RetryProvider},
    provider::{ProviderResponse, Request, RetryAccounting, RetryCost, accumulate},
    testing::{Gate, LoopbackServer, ScriptedProvider, ScriptedReply, anthropic, reply, responses},
    tool, tools,
};
use serde_json::json;
use tokio::time::advance;

use crate::kept::{entries, recorded};

fn api(status: u16) -> Error {
    Error::new(ErrorKind::Api, "no").with_status(status)
}

fn named(name: &str, script: impl IntoIterator<Item = ScriptedReply>) -> ScriptedProvider {
    ScriptedProvider::new(script).with_name(name).with_model(format!("{name}-model"))
}

async fn ask(provider: &(impl Provider + ?Sized)) -> Result<ProviderResponse, Error> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    accumulate(provider.stream(Request::new(&transcript).unwrap())).await
}

async fn falls_back(error: Error) -> bool {
    let first = named("first", [reply().error(error)]);
    let second = ScriptedProvider::answering(|_| reply().text("Cold."));
    let result = ask(&FallbackProvider::new(first).or(second.clone())).await;
    assert_eq!(result.is_ok(), !second.requests().is_empty());
    result.is_ok()
}

#[tokio::test]
async fn what_another_one_would_not_share_leads_to_it() {
    for status in [307, 401, 402, 403, 404, 408, 409, 410, 429, 500, 502, 503, 504, 529] {
        assert!(falls_back(api(status)).await, "{status}");
    }
    assert!(falls_back(api(429).with_code("insufficient_quota")).await);
    assert!(falls_back(api(400).with_code("billing_hard_limit_reached")).await);
    for kind in [ErrorKind::Connect, ErrorKind::Timeout, ErrorKind::CutOff, ErrorKind::Protocol] {
        assert!(falls_back(Error::new(kind, "no")).await, "{kind:?}");
    }
    assert!(falls_back(Error::new(ErrorKind::Api, "no").with_code("overloaded_error")).await);
}

#[tokio::test]
async fn what_is_bad_everywhere_does_not() {
    for status in [400, 413, 422] {
        assert!(!falls_back(api(status)).await, "{status}");
    }
    for kind in
        [ErrorKind::Configuration, ErrorKind::Transcript, ErrorKind::TooLarge, ErrorKind::Journal]
    {
        assert!(!falls_back(Error::new(kind, "no")).await, "{kind:?}");
    }
    for code in ["invalid_request_error", "invalid_prompt", "context_length_exceeded"] {
        assert!(!falls_back(Error::new(ErrorKind::Api, "no").with_code(code)).await, "{code}");
    }
}

#[tokio::test]
async fn a_provider_that_has_begun_to_speak_is_not_replaced() {
    let first = named("first", [reply().text_in(["Co"]).error(api(529))]);
    let second = named("second", [reply().text("Cold.")]);
    let err = ask(&FallbackProvider::new(first).or(second.clone())).await.unwrap_err();
    assert_eq!((err.status(), err.provider()), (Some(529), Some("first")));
    assert!(second.requests().is_empty());
}

#[tokio::test]
async fn when_all_fail_the_first_is_the_cause_and_all_are_named() {
    let provider = FallbackProvider::new(named("a", [reply().error(api(529))]))
        .or(named("b", [reply().error(api(401))]))
        .or(named("c", [reply().error(Error::new(ErrorKind::Connect, "refused"))]));
    let err = ask(&provider).await.unwrap_err();
    assert_eq!((err.status(), err.provider()), (Some(529), Some("a")));
    assert_eq!(err.to_string(), "a: 529: no; then b: 401: no; then c: refused");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_down_is_passed_over_until_it_has_cooled_down() {
    let first = named("first", [reply().overloaded(), reply().text("back")]);
    let second = ScriptedProvider::answering(|_| reply().text("Cold.")).with_name("second");
    let provider = FallbackProvider::new(first.clone())
        .or(second.clone())
        .with_cool_down(Duration::from_secs(30));
    for _ in 0..3 {
        assert_eq!(ask(&provider).await.unwrap().provider.as_deref(), Some("second"));
        advance(Duration::from_secs(9)).await;
    }
    assert_eq!((first.requests().len(), second.requests().len()), (1, 3));
    advance(Duration::from_secs(3)).await;
    let answer = ask(&provider).await.unwrap();
    assert_eq!(answer.provider.as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_more_time_has_it() {
    let busy = api(429).with_retry_after(Duration::from_secs(300));
    let first = named("first", [reply().error(busy), reply().text("back")]);
    let second = ScriptedProvider::answering(|_| reply().text("Cold."));
    let provider = FallbackProvider::new(first.clone()).or(second);
    ask(&provider).await.unwrap();
    advance(Duration::from_secs(299)).await;
    ask(&provider).await.unwrap();
    assert_eq!(first.requests().len(), 1);
    advance(Duration::from_secs(1)).await;
    ask(&provider).await.unwrap();
    assert_eq!(first.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_down_is_still_better_than_none() {
    let first = named("first", [reply().overloaded(), reply().text("back")]);
    let second = named("second", [reply().text("Cold."), reply().overloaded()]);
    let provider = FallbackProvider::new(first).or(second);
    ask(&provider).await.unwrap();
    assert_eq!(ask(&provider).await.unwrap().provider.as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn each_of_them_has_its_own_attempts_and_all_share_the_run() {
    let down = || ScriptedProvider::answering(|_| reply().overloaded());
    let (a, b) = (down().with_name("a"), down().with_name("b"));
    let c = named("c", [reply().text("Cold.")]);
    let policy = RetryPolicy { jitter: false, ..RetryPolicy::default() };
    let retried = |provider: &ScriptedProvider| RetryProvider::new(provider.clone(), policy);
    let provider =
        FallbackProvider::new(retried(&a)).or(retried(&b)).or(RetryProvider::new(c, policy));
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let ledger = RetryAccounting::default();
    let request = Request::new(&transcript).unwrap().with_ledger(Some(&ledger));
    let answer = accumulate(provider.stream(request)).await.unwrap();
    assert_eq!(answer.provider.as_deref(), Some("c"));
    assert_eq!((a.requests().len(), b.requests().len()), (3, 3));
    assert_eq!(ledger.lost(), RetryCost { attempts: 6, time: Duration::from_secs(2 * (1 + 2)) });
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_lost_enough_is_not_waited_for() {
    let down = || ScriptedProvider::answering(|_| reply().overloaded());
    let (a, b) = (down().with_name("a"), down().with_name("b"));
    let run = RetryBudget { tries: 4, ..RetryBudget::default() };
    let policy = RetryPolicy { run, ..RetryPolicy::default() };
    let retried = |provider: &ScriptedProvider| RetryProvider::new(provider.clone(), policy);
    let provider =
        FallbackProvider::new(retried(&a)).or(retried(&b)).or(named("c", [reply().text("Cold.")]));
    let ledger = RetryAccounting::default();
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let request = Request::new(&transcript).unwrap().with_ledger(Some(&ledger));
    let answer = accumulate(provider.stream(request)).await.unwrap();
    assert_eq!(answer.provider.as_deref(), Some("c"));
    assert_eq!((a.requests().len(), b.requests().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn its_own_policy_counts_in_place_of_those_inside_and_one_around_it_in_place_of_all() {
    let down = || ScriptedProvider::answering(|_| reply().overloaded());
    let (a, b) = (down(), down());
    let policy = |attempts| RetryPolicy { attempts, ..RetryPolicy::default() };
    let retried = |provider: &ScriptedProvider| RetryProvider::new(provider.clone(), policy(5));
    let both = || FallbackProvider::new(retried(&a)).or(retried(&b));
    let asked = async |provider: &dyn Provider| {
        let before = (a.requests().len(), b.requests().len());
        ask(provider).await.unwrap_err();
        (a.requests().len() - before.0, b.requests().len() - before.1)
    };
    assert_eq!(asked(&both()).await, (5, 5));
    assert_eq!(asked(&both().with_retry(policy(1))).await, (1, 1));
    assert_eq!(asked(&both().with_retry(policy(2))).await, (2, 2));
    assert_eq!(asked(&both().with_retry(RetryPolicy::none())).await, (1, 1));
    assert_eq!(asked(&RetryProvider::new(both(), policy(2))).await, (2, 2));
    let around = RetryProvider::new(both().with_retry(policy(4)), policy(2));
    assert_eq!(asked(&around).await, (2, 2));
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
async fn a_conversation_that_began_on_one_wire_goes_on_on_the_other() {
    let body = anthropic::body().thinking("Oslo is far.", "signed").text("Let me see.").call(
        "toolu_01",
        "weather",
        json!({"city": "Oslo"}),
    );
    let first = LoopbackServer::start([
        body.into(),
        anthropic::error(529, "overloaded_error", "Overloaded"),
    ])
    .await
    .unwrap();
    let second = LoopbackServer::start([responses::body().text("Cold.")]).await.unwrap();
    let provider = FallbackProvider::new(
        AnthropicProvider::builder().api_key("k").base_url(first.url()).build().unwrap(),
    )
    .or(OpenAIProvider::builder().api_key("k").base_url(second.url()).build().unwrap())
    .with_retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() });
    let agent = Agent::builder(provider).tools(tools![weather]).build().unwrap();
    let (mut chat, journal) = recorded(&agent);
    let mut switches = Vec::new();
    let reply = chat
        .send("Oslo?")
        .on_event(|event| {
            if let Event::FallingBack { from, to, .. } = event {
                switches.push(format!("{from} -> {to}"));
            }
        })
        .await
        .unwrap();
    assert_eq!((reply.text(), reply.provider()), ("Cold.", "openai"));
    assert_eq!(switches, ["anthropic -> openai"]);
    let answered: Vec<String> = entries(&journal)
        .iter()
        .filter_map(|fact| match fact {
            Fact::ModelReplied { provider, .. } => Some(provider.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answered, ["anthropic", "openai"]);
    let sent = second.requests()[0].json().to_string();
    assert!(sent.contains("cold in Oslo") && sent.contains("toolu_01"), "{sent}");
    first.assert_finished();
}

#[tokio::test]
async fn a_stop_by_the_program_asks_nobody_else() {
    let gate = Gate::new();
    let first = named("first", [reply().wait_for(&gate)]);
    let second = named("second", [reply().text("Cold.")]);
    let provider = FallbackProvider::new(first.clone()).or(second.clone());
    let agent = Agent::builder(provider).build().unwrap();
    let stop = CancellationToken::new();
    let run = agent.run("Oslo?").cancel_with(stop.clone()).into_future();
    let test = async {
        gate.reached().await;
        stop.cancel();
    };
    let (result, ()) = tokio::join!(run, test);
    assert_eq!(result.unwrap_err().outcome(), Outcome::Cancelled);
    assert_eq!((first.open_streams(), second.requests().len()), (0, 0));
}
