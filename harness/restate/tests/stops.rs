//! A stop counts for the run that goes on, waits, or was started and has not begun, whatever else happens, and what was
//! stopped or killed does not continue by itself.

mod rig;
mod script;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use harness::{CallOutcome, Outcome, journal::Fact};
use harness_restate::{Client, ClientError, Conversation};
use rig::{Engine, PATIENCE, Worker, calm, ends, entries, harm, held_at, is_noted, said, until};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

async fn nothing_waits(chat: &Conversation) {
    until("it is stopped", async || chat.open().await.ok()?.is_empty().then_some(())).await;
}

async fn outcome(chat: &Conversation, run: &str) -> Outcome {
    let ended = timeout(PATIENCE, chat.ended(run)).await.expect("in time");
    ended.expect("an end").outcome
}

/// Says this, and returns when the model is asked. It takes too long to be waited for.
async fn thinks(chat: &Conversation, worker: &Worker, key: &str) -> String {
    let asked = worker.read("asked").len();
    let run = chat.start("Think.", key).await.expect("it is taken");
    is_noted(worker, "asked", asked + 1).await;
    run
}

// Stops in a row.

#[tokio::test]
async fn a_second_stop_counts_for_what_was_started_after_the_first() {
    let Some(engine) = Engine::start().await else { return };
    // The first run is stopped and not over.
    let worker = held_at(&engine, "kept ask#1");
    engine.register().await;
    let chat = engine.chat("again");
    let first = thinks(&chat, &worker, "one").await;
    chat.stop().await.expect("it is stopped");
    is_noted(&worker, "held", 1).await;
    let second = chat.start("Hello.", "two").await.expect("it is taken");
    chat.stop().await.expect("it is stopped");
    let third = chat.start("Hello.", "three").await.expect("it is taken");
    worker.releases();
    assert_eq!(outcome(&chat, &first).await, Outcome::Cancelled);
    assert_eq!(outcome(&chat, &second).await, Outcome::Cancelled);
    assert_eq!(outcome(&chat, &third).await, Outcome::Answered);
    let facts = chat.facts(0).await.expect("facts").facts;
    assert_eq!(said(&facts), ["Think.", "Hello.", "Hello."]);
}

#[tokio::test]
async fn two_stops_of_one_run_stop_none_that_queued_behind_it() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "kept ask#1");
    engine.register().await;
    let chat = engine.chat("twice");
    let first = thinks(&chat, &worker, "one").await;
    let mut queue = vec![chat.start("Hello.", "two").await.expect("it is taken")];
    chat.stop().await.expect("it is stopped");
    is_noted(&worker, "held", 1).await;
    // It is behind the first stop, and another run comes between.
    queue.push(chat.start("Hello.", "three").await.expect("it is taken"));
    chat.stop().await.expect("it is stopped");
    worker.releases();
    assert_eq!(outcome(&chat, &first).await, Outcome::Cancelled);
    for run in &queue {
        assert_eq!(outcome(&chat, run).await, Outcome::Answered);
    }
}

/// An invocation whose key is used again after it was forgotten has the id of an earlier one.
#[tokio::test]
async fn keys_that_are_used_again_do_not_stop_a_conversation() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[("FORGET_KEYS", "1")]);
    engine.register().await;
    let chat = engine.chat("forgotten");
    let hello = async |key: &str| {
        let ended = timeout(PATIENCE, chat.send("Hello.", key)).await.expect("in time");
        ended.expect("an end").outcome
    };
    let http = reqwest::Client::new();
    // A worker has died after it was told to stop and before it has sent its mark. It comes back after another stop has left
    // the same mark, and sends its own.
    let posts = async |handler: &str, body: Value| {
        let address = format!("{}/Conversations/forgotten/{handler}", engine.ingress());
        let request = http.post(address).header("idempotency-key", "the same");
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = timeout(PATIENCE, request.send()).await.expect("in time").expect("an answer");
        assert!(answer.status().is_success(), "{handler}: {answer:?}");
    };
    for round in 0..3 {
        assert_eq!(hello("one").await, Outcome::Answered, "{round}");
        posts("stop", Value::Null).await;
        posts("end", json!("the same")).await;
        assert_eq!(hello("two").await, Outcome::Answered, "{round}");
        posts("end", json!("the same")).await;
        let run = thinks(&chat, &worker, "three").await;
        posts("stop", Value::Null).await;
        assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled, "{round}");
    }
    let facts = chat.facts(0).await.expect("facts").facts;
    assert_eq!(said(&facts).len(), 9);
}

#[tokio::test]
async fn a_stop_behind_many_others_rings_few_bells() {
    let Some(engine) = Engine::start().await else { return };
    let more = [("HOLD_AT", "kept ask#1"), ("KEEP_JOURNALS", "1")];
    let worker = engine.worker("100000", &more);
    engine.register().await;
    let chat = engine.chat("many");
    let run = thinks(&chat, &worker, "one").await;
    for _ in 0..6 {
        chat.stop().await.expect("it is stopped");
    }
    let last = engine.invocations("many", "stop", "= 'completed'").await.pop().expect("a stop");
    let sql = format!("SELECT entry_json FROM sys_journal WHERE id = '{last}'");
    let rings = |row: &&Value| row.to_string().contains(r#"handler\":\"stopped"#);
    assert_eq!(engine.query(&sql).await.iter().filter(rings).count(), 3);
    // Of stops at once, each counts.
    let stops = futures_util::future::join_all((0..6).map(async |_| chat.stop().await));
    assert!(stops.await.iter().all(Result::is_ok));
    worker.releases();
    assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled);
    assert_eq!(chat.send("Hello.", "two").await.expect("an end").outcome, Outcome::Answered);
}

#[tokio::test]
async fn two_stops_of_what_waits_stop_none_that_was_started_before_them() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "before expire#1");
    engine.register().await;
    let chat = engine.chat("both");
    chat.send("Mail soon.", "one").await.expect("it waits");
    let stops = async {
        is_noted(&worker, "held", 1).await;
        let run = chat.start("Hello.", "two").await.expect("it is taken");
        let (one, other) = tokio::join!(chat.stop(), chat.stop());
        one.and(other).expect("it is stopped");
        worker.releases();
        outcome(&chat, &run).await
    };
    // A timer of nothing has the turn.
    let timer = json!(["no call", 0]);
    let (_, outcome) = tokio::join!(engine.by_hand("both/expired", &timer), stops);
    assert_eq!(outcome, Outcome::Answered);
    nothing_waits(&chat).await;
}

#[tokio::test]
async fn stops_and_starts_in_turn_stop_each_run() {
    let Some((engine, worker)) = calm().await else { return };
    for turn in 0..20 {
        let chat = engine.chat(&format!("in turn {turn}"));
        let mut runs = vec![thinks(&chat, &worker, "one").await];
        for key in ["two", "three"] {
            chat.stop().await.expect("it is stopped");
            runs.push(chat.start("Think.", key).await.expect("it is taken"));
        }
        chat.stop().await.expect("it is stopped");
        let last = chat.start("Hello.", "last").await.expect("it is taken");
        for run in &runs {
            assert_eq!(outcome(&chat, run).await, Outcome::Cancelled, "{turn}");
        }
        assert_eq!(outcome(&chat, &last).await, Outcome::Answered, "{turn}");
    }
}

// Stops while something else has the turn.

#[tokio::test]
async fn a_stop_counts_for_a_run_that_was_started_after_a_kill() {
    let Some((engine, worker)) = calm().await else { return };
    for turn in 0..5 {
        let chat = engine.chat(&format!("killed {turn}"));
        let run = chat.start("Work.", "one").await.expect("it is taken");
        is_noted(&worker, "effects", turn + 1).await;
        engine.operator(&run, "kill").await;
        chat.ended(&run).await.expect_err("it is killed");
        let run = chat.start("Think.", "two").await.expect("it is taken");
        chat.stop().await.expect("it is stopped");
        assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled);
        let facts = chat.facts(0).await.expect("facts").facts;
        assert_eq!(said(&facts), ["Work.", "Think."]);
    }
}

#[tokio::test]
async fn a_stop_counts_for_what_waits_while_a_request_is_refused() {
    for at in ["before say#2", "before resume#1"] {
        let Some(engine) = Engine::start().await else { return };
        let worker = held_at(&engine, at);
        engine.register().await;
        let chat = engine.chat("refused");
        chat.send("Mail soon.", "one").await.expect("it waits");
        let question = chat.open().await.expect("calls")[0].question().expect("a question");
        let request = async {
            match at {
                "before say#2" => chat.send("", "two").await,
                _ => chat.resume().await,
            }
        };
        let stops = async {
            is_noted(&worker, "held", 1).await;
            chat.stop().await.expect("it is stopped");
            worker.releases();
        };
        let (refused, ()) = tokio::join!(request, stops);
        assert!(!matches!(refused, Ok(ended) if ended.outcome != Outcome::Cancelled));
        nothing_waits(&chat).await;
        assert!(matches!(chat.decide(question.yes()).await, Err(ClientError::Refused(_))));
        assert!(worker.read("effects").is_empty());
    }
}

#[tokio::test]
async fn a_stop_counts_for_a_run_that_begins_while_the_ingress_fails() {
    let Some(engine) = Engine::start().await else { return };
    let answers = Arc::new(Mutex::new(Vec::new()));
    let next = Arc::clone(&answers);
    let at = gateway(&engine, "/stopped", move || next.lock().unwrap().pop()).await;
    let worker = engine.worker("100000", &[("HOLD_AT", "before say#2"), ("INGRESS", &at)]);
    engine.register().await;
    let chat = engine.chat("begins");
    chat.send("Hello.", "one").await.expect("an end");
    let stops = async {
        is_noted(&worker, "held", 1).await;
        let run = chat.start("Write.", "three").await.expect("it is taken");
        chat.stop().await.expect("it is stopped");
        answers.lock().unwrap().extend(FAILS);
        worker.releases();
        outcome(&chat, &run).await
    };
    let (refused, outcome) = tokio::join!(chat.send("", "two"), stops);
    refused.expect_err("it is refused");
    assert_eq!(outcome, Outcome::Cancelled);
    assert!(answers.lock().unwrap().is_empty(), "it has failed");
    assert!(worker.read("effects").is_empty());
}

/// The worker loses the ingress in the middle of a run, and reaches it again after the stop. Calls that change something wait.
#[tokio::test]
async fn a_stop_counts_though_the_worker_has_lost_the_ingress_meanwhile() {
    let Some(engine) = Engine::start().await else { return };
    for (words, at) in
        [("Write.", "kept ask#1"), ("Pay.", "kept ask#1"), ("Write.", "before run#1")]
    {
        let door = Door::before(&engine).await;
        let worker = engine.worker("100000", &[("HOLD_AT", at), ("INGRESS", &door.address)]);
        engine.register().await;
        let chat = engine.chat(&format!("lost {words} {at}"));
        let run = chat.start(words, "one").await.expect("it is taken");
        is_noted(&worker, "held", 1).await;
        door.is_cut.send_replace(true);
        chat.stop().await.expect("it is stopped");
        let before = door.refused.load(Ordering::SeqCst);
        worker.releases();
        let asks = async || (door.refused.load(Ordering::SeqCst) > before + 1).then_some(());
        until("it asks in vain", asks).await;
        door.is_cut.send_replace(false);
        assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled, "{words} {at}");
        assert!(worker.read("effects").is_empty(), "{words} {at}");
        worker.dies_for_good().await;
    }
}

#[tokio::test]
async fn a_decision_behind_a_stop_lets_nothing_run() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "before say#2");
    engine.register().await;
    let chat = engine.chat("queues");
    chat.send("Mail soon.", "one").await.expect("it waits");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    // The decision queues behind a message that is refused, and the stop comes after it.
    let stops = async {
        is_noted(&worker, "held", 1).await;
        let queues = async || engine.open_invocations("queues", "answered").await.pop();
        let decides = async { chat.decide(question.yes()).await };
        let stops = async {
            until("it queues", queues).await;
            chat.stop().await.expect("it is stopped");
            worker.releases();
        };
        tokio::join!(decides, stops).0
    };
    let (refused, decided) = tokio::join!(chat.send("", "two"), stops);
    refused.expect_err("it is refused");
    assert!(matches!(decided, Err(ClientError::Refused(_))), "{decided:?}");
    nothing_waits(&chat).await;
    assert!(worker.read("effects").is_empty());
}

#[tokio::test]
async fn a_stop_counts_for_a_run_behind_an_old_timer() {
    let Some(engine) = Engine::start().await else { return };
    let more = [("HOLD_AT", "before expire#1"), ("MAIL_WAITS", "3000")];
    let worker = engine.worker("100000", &more);
    engine.register().await;
    let chat = engine.chat("old timer");
    chat.send("Mail soon.", "one").await.expect("it waits");
    chat.send("Hello.", "two").await.expect("an end");
    is_noted(&worker, "held", 1).await;
    let run = chat.start("Hello.", "three").await.expect("it is taken");
    chat.stop().await.expect("it is stopped");
    worker.releases();
    assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled);
}

#[tokio::test]
async fn a_stop_is_heard_in_a_conversation_that_was_deleted() {
    let Some((engine, worker)) = calm().await else { return };
    let chat = engine.chat("deleted");
    chat.send("Hello.", "hello").await.expect("an end");
    for life in ["one", "two", "three"] {
        let again = async || {
            let marks = async || engine.open_invocations("deleted", "end").await;
            until("no mark is left", async || marks().await.is_empty().then_some(())).await;
            engine.write_state("deleted", &BTreeMap::new()).await;
        };
        again().await;
        let run = thinks(&chat, &worker, life).await;
        chat.stop().await.expect("it is stopped");
        assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled, "{life}");
        // An old stop counts no more.
        again().await;
        let ended = chat.send("Mail soon.", &format!("mail {life}")).await.expect("it waits");
        assert_eq!(ended.outcome, Outcome::Waiting, "{life}");
        chat.stop().await.expect("it is stopped");
        nothing_waits(&chat).await;
    }
    until("no bell is left", async || {
        engine.open_invocations("deleted", "stopped").await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_old_stop_counts_no_more_though_the_ingress_fails_once() {
    let Some(engine) = Engine::start().await else { return };
    let answer = Arc::new(Mutex::new(None));
    let once = Arc::clone(&answer);
    let at = gateway(&engine, "stopped/first/output", move || once.lock().unwrap().take()).await;
    let worker = engine.worker("", &[("INGRESS", &at)]);
    engine.register().await;
    for (number, fails) in FAILS.into_iter().enumerate() {
        let name = format!("deleted {number}");
        let chat = engine.chat(&name);
        let run = thinks(&chat, &worker, "one").await;
        chat.stop().await.expect("it is stopped");
        assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled);
        let marks = async || engine.open_invocations(&name, "end").await;
        until("no mark is left", async || marks().await.is_empty().then_some(())).await;
        engine.write_state(&name, &BTreeMap::new()).await;
        *answer.lock().unwrap() = Some(fails);
        let ended = chat.send("Hello.", "two").await.expect("an end");
        assert_eq!(ended.outcome, Outcome::Answered, "{fails}");
        assert_eq!(*answer.lock().unwrap(), None, "it has failed");
    }
}

#[tokio::test]
async fn a_stop_counts_though_a_run_was_killed_as_it_came_to_wait() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("came to wait");
    let run = chat.start("Mail soon.", "one").await.expect("it is taken");
    assert_eq!(outcome(&chat, &run).await, Outcome::Waiting);
    // It has told its bell that it is over, and has not stored it.
    let mut state = engine.state("came to wait").await;
    state.insert("run".to_owned(), format!(r#"{{"bell":"first","run":"{run}"}}"#));
    engine.write_state("came to wait", &state).await;
    until("it is written", async || (engine.state("came to wait").await == state).then_some(()))
        .await;
    chat.stop().await.expect("it is stopped");
    nothing_waits(&chat).await;
}

#[tokio::test]
async fn a_bell_that_an_operator_has_ended_leaves_no_other() {
    let Some((engine, worker)) = calm().await else { return };
    let chat = engine.chat("bells");
    let run = thinks(&chat, &worker, "one").await;
    let bells = async || engine.open_invocations("bells", "stopped").await;
    let bell = until("it listens", async || bells().await.pop()).await;
    engine.operator(&bell, "kill").await;
    until("it listens again", async || bells().await.pop().filter(|it| *it != bell)).await;
    engine.operator(&run, "cancel").await;
    // The step that is cancelled ends with its worker.
    worker.dies().await;
    assert_eq!(outcome(&chat, &run).await, Outcome::Cancelled);
    until("no bell is left", async || bells().await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_cancel_of_the_mark_of_a_stop_stops_what_waits() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "before end#1");
    engine.register().await;
    let chat = engine.chat("mark");
    chat.send("Mail soon.", "one").await.expect("it waits");
    chat.stop().await.expect("it is stopped");
    is_noted(&worker, "held", 1).await;
    let marks = engine.open_invocations("mark", "end").await;
    engine.operator(&marks[0], "cancel").await;
    worker.releases();
    nothing_waits(&chat).await;
}

#[tokio::test]
async fn a_stop_whose_mark_fails_counts_for_what_waits_and_for_no_later_message() {
    let Some((engine, worker)) = calm().await else { return };
    let marked = async |name: &str| {
        let marks = async || engine.open_invocations(name, "end").await;
        until("no mark is left", async || marks().await.is_empty().then_some(())).await;
    };
    let cases = [("Hello.", "Hello."), ("Mail soon.", "Hello."), ("Mail soon.", "")];
    for (number, (said, then)) in cases.into_iter().enumerate() {
        let name = format!("ill {number}");
        let chat = engine.chat(&name).kind("ill");
        chat.send(said, "one").await.expect("an end");
        let open = chat.open().await.expect("calls");
        worker.is_ill(true);
        chat.stop().await.expect("it is stopped");
        is_noted(&worker, "was ill", number + 1).await;
        marked(&name).await;
        worker.is_ill(false);
        if then.is_empty() {
            let decided = chat.decide(open[0].question().expect("a question").yes()).await;
            assert!(matches!(decided, Err(ClientError::Refused(_))), "{decided:?}");
        } else {
            let ended = chat.send(then, "two").await.expect("an end");
            assert_eq!(ended.outcome, Outcome::Answered, "{said}");
        }
        nothing_waits(&chat).await;
        assert!(worker.read("effects").is_empty());
    }
    let chat = engine.chat("unread");
    chat.send("Hello.", "one").await.expect("an end");
    let (mut state, chunk) = (engine.state("unread").await, "facts 00000000".to_owned());
    let was = state.insert(chunk.clone(), "no facts".to_owned()).expect("facts");
    engine.write_state("unread", &state).await;
    chat.stop().await.expect("it is stopped");
    marked("unread").await;
    let mut state = engine.state("unread").await;
    state.insert(chunk, was);
    engine.write_state("unread", &state).await;
    let ended = chat.send("Hello.", "two").await.expect("an end");
    assert_eq!(ended.outcome, Outcome::Answered);
}

// Kills by an operator.

#[tokio::test]
async fn what_is_told_of_a_call_is_true_though_its_run_is_killed_as_it_begins() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "kept call#1");
    engine.register().await;
    let chat = engine.chat("begins");
    let run = chat.start("Write.", "one").await.expect("it is taken");
    is_noted(&worker, "held", 1).await;
    engine.operator(&run, "kill").await;
    chat.ended(&run).await.expect_err("it is killed");
    worker.releases();
    // This queues in the worker behind what it still does.
    assert_eq!(chat.send("Hello.", "two").await.expect("an end").outcome, Outcome::Answered);
    let facts = chat.facts(0).await.expect("facts").facts;
    let wrong = harm(&facts, &worker.read("effects"));
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[tokio::test]
async fn a_stop_of_a_run_that_is_killed_before_its_end_counts_for_the_next_in_the_queue() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "kept ask#1");
    engine.register().await;
    let chat = engine.chat("next");
    let run = thinks(&chat, &worker, "one").await;
    let next = chat.start("Hello.", "two").await.expect("it is taken");
    let last = chat.start("Hello.", "three").await.expect("it is taken");
    chat.stop().await.expect("it is stopped");
    is_noted(&worker, "held", 1).await;
    engine.operator(&run, "kill").await;
    chat.ended(&run).await.expect_err("it is killed");
    worker.releases();
    assert_eq!(outcome(&chat, &next).await, Outcome::Cancelled);
    assert_eq!(outcome(&chat, &last).await, Outcome::Answered);
}

// Timers.

#[tokio::test]
async fn nothing_continues_by_itself_after_a_kill() {
    let Some(engine) = Engine::start().await else { return };
    let more = [("HOLD_AT", "before answer#1"), ("MAIL_WAITS", "3000")];
    let worker = engine.worker("100000", &more);
    engine.register().await;
    let chat = engine.chat("date");
    chat.send("Mail soon.", "one").await.expect("it waits");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    let killed = async {
        is_noted(&worker, "held", 1).await;
        let answered = engine.open_invocations("date", "answered").await;
        engine.operator(&answered[0], "kill").await;
        worker.releases();
    };
    let (decided, ()) = tokio::join!(chat.decide(question.no("never")), killed);
    decided.expect_err("it is killed");
    until("the timer has come and is over", async || {
        engine.invocations("date", "expired", "IS NOT NULL").await.is_empty().then_some(())
    })
    .await;
    assert_eq!(worker.read("asked").len(), 1, "nobody has asked for an answer");
    assert!(chat.open().await.expect("calls").is_empty(), "the question has expired");
    // Somebody lets it go on.
    assert_eq!(chat.resume().await.expect("an end").outcome, Outcome::Answered);
}

#[tokio::test]
async fn each_question_has_one_timer() {
    let Some(engine) = Engine::start().await else { return };
    let _worker = engine.worker("", &[("MAIL_WAITS", "600000")]);
    engine.register().await;
    let chat = engine.chat("timers");
    chat.send("Two mails.", "one").await.expect("it waits");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    let run = chat.decide(question.yes()).await.expect("it counts");
    assert_eq!(outcome(&chat, &run).await, Outcome::Waiting);
    assert_eq!(engine.invocations("timers", "expired", "IS NOT NULL").await.len(), 2);
}

#[tokio::test]
async fn a_question_is_kept_behind_its_timer() {
    let Some(engine) = Engine::start().await else { return };
    let _worker = engine.worker("", &[("KEEP_JOURNALS", "1"), ("MAIL_WAITS", "600000")]);
    engine.register().await;
    let chat = engine.chat("behind");
    let run = chat.start("Mail soon.", "one").await.expect("it is taken");
    assert_eq!(outcome(&chat, &run).await, Outcome::Waiting);
    // The engine carries the commands of a run out in their order, also if it kills it in their middle.
    let sql = format!("SELECT entry_json FROM sys_journal WHERE id = '{run}' ORDER BY index");
    let commands = engine.query(&sql).await;
    let last = |what: &str| {
        let is_it = |row: &Value| row["entry_json"].as_str().is_some_and(|it| it.contains(what));
        commands.iter().rposition(is_it).expect("the command")
    };
    assert!(last(r#""handler":"expired""#) < last(r#""key":"chunks""#));
}

#[tokio::test]
async fn a_timer_that_fails_comes_again() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[("MAIL_WAITS", "2000")]);
    engine.register().await;
    let chat = engine.chat("fails").kind("ill");
    chat.send("Mail soon.", "one").await.expect("it waits");
    worker.is_ill(true);
    is_noted(&worker, "was ill", 1).await;
    worker.is_ill(false);
    nothing_waits(&chat).await;
    assert!(worker.read("effects").is_empty());
}

// What a program is told.

/// The answer of a gateway that waits no longer.
const LATE: &str =
    "HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlate";

/// What a gateway says that has failed. At last it says nothing.
const FAILS: [&str; 4] = [
    LATE,
    "HTTP/1.1 404 Not Found\r\ncontent-length: 8\r\nconnection: close\r\n\r\nno route",
    "HTTP/1.1 200 OK\r\ncontent-length: 40\r\nconnection: close\r\n\r\n{\"over\"",
    "",
];

/// A way to the engine that can be cut: what goes through it breaks off, and nobody gets in.
struct Door {
    address: String,
    is_cut: watch::Sender<bool>,
    refused: Arc<AtomicUsize>,
}

impl Door {
    async fn before(engine: &Engine) -> Self {
        let to = engine.ingress().replace("http://", "");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (is_cut, cut) = watch::channel(false);
        let refused = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&refused);
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                if *cut.borrow() {
                    counts.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let (to, mut cut) = (to.clone(), cut.clone());
                tokio::spawn(async move {
                    let Ok(mut engine) = TcpStream::connect(to).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut from, &mut engine) => {}
                        _ = cut.wait_for(|is_cut| *is_cut) => {}
                    }
                });
            }
        });
        Self { address, is_cut, refused }
    }
}

/// Stands before the engine, and answers requests of this kind itself, if it has an answer.
async fn gateway(
    engine: &Engine,
    what: &'static str,
    answer: impl Fn() -> Option<&'static str> + Send + Sync + 'static,
) -> String {
    let answer = Arc::new(answer);
    let to = engine.ingress().replace("http://", "");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let (to, answer) = (to.clone(), Arc::clone(&answer));
            tokio::spawn(async move {
                let mut head = vec![0; 16 << 10];
                let read = from.read(&mut head).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                if head.lines().next().is_some_and(|line| line.contains(what))
                    && let Some(answer) = answer()
                {
                    let _ = from.write_all(answer.as_bytes()).await;
                    return;
                }
                let Ok(mut engine) = TcpStream::connect(to).await else { return };
                let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
                let _ = engine.write_all(head.as_bytes()).await;
                let _ = tokio::io::copy_bidirectional(&mut from, &mut engine).await;
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_time_of_a_gateway_is_not_the_end_of_a_run() {
    let Some((engine, worker)) = calm().await else { return };
    let times = Arc::new(AtomicUsize::new(0));
    let behind = async |what| {
        let times = Arc::clone(&times);
        let late = move || {
            times.fetch_add(1, Ordering::Relaxed);
            Some(LATE)
        };
        let client = Client::new(&gateway(&engine, what, late).await).expect("an address");
        client.conversation("gateway").expect("a name")
    };
    let (long, all) = (behind("/attach").await, behind("/restate/invocation").await);
    let run = thinks(&engine.chat("gateway"), &worker, "one").await;
    assert!(matches!(
        all.watch(&run, 0, |_| ()).await,
        Err(ClientError::Failed { status: 504, .. })
    ));
    assert!(matches!(all.facts(0).await, Err(ClientError::Failed { status: 504, .. })));
    assert_eq!(long.facts(0).await.expect("facts").run, Some(run.clone()));
    times.store(0, Ordering::Relaxed);
    let stops = async {
        let twice = async || (times.load(Ordering::Relaxed) > 1).then_some(());
        until("the gateway has answered twice", twice).await;
        engine.chat("gateway").stop().await.expect("it is stopped");
    };
    let (watched, ()) = tokio::join!(long.watch(&run, 0, |_| ()), stops);
    watched.expect("it ends");
    let mut seen = 0;
    long.watch(&run, 0, |_| seen += 1).await.expect("it is over");
    assert_eq!(seen, long.facts(0).await.expect("facts").facts.len());
}

#[tokio::test]
async fn only_the_engines_own_word_counts() {
    let Some((engine, worker)) = calm().await else { return };
    let empty = || Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let behind = async |what| {
        let client = Client::new(&gateway(&engine, what, empty).await).expect("an address");
        client.conversation("word").expect("a name")
    };
    thinks(&engine.chat("word"), &worker, "one").await;
    let is_failed = |error| matches!(error, ClientError::Failed { status: 200, .. });
    assert!(behind("/output").await.facts(0).await.is_err_and(is_failed), "it goes on");
    assert!(behind("/stop ").await.stop().await.is_err_and(is_failed), "nobody has stopped it");
}

#[tokio::test]
async fn who_watches_behind_a_gateway_that_fails_asks_no_more_often() {
    let Some((engine, worker)) = calm().await else { return };
    let times = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&times);
    let late = move || {
        seen.fetch_add(1, Ordering::Relaxed);
        Some(LATE)
    };
    let client = Client::new(&gateway(&engine, "/attach", late).await).expect("an address");
    let chat = client.conversation("often").expect("a name");
    let run = thinks(&engine.chat("often"), &worker, "one").await;
    let often = async || (times.load(Ordering::Relaxed) > 20).then_some(());
    let begun = Instant::now();
    tokio::select! {
        watched = chat.watch(&run, 0, |_| ()) => drop(watched.expect_err("it goes on")),
        () = until("it has asked", often) => {}
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_the_engine_would_not_take_is_not_sent() {
    let nowhere = Client::new("http://127.0.0.1:1").expect("an address");
    let chat = nowhere.conversation("nowhere").expect("a name");
    let refused = |came| matches!(came, Err(ClientError::Refused(_)));
    assert!(refused(chat.send("x".repeat(33 << 20), "one").await.map(drop)));
    assert!(refused(chat.start("x".repeat(8 << 20), "two").await.map(drop)));
    let chat = chat.kind("k".repeat(1025));
    assert!(refused(chat.send("Hello.", "three").await.map(drop)));
    let Some((engine, _worker)) = calm().await else { return };
    engine.chat("large").send("Mail soon.", "one").await.expect("it waits");
    let question = engine.chat("large").open().await.expect("calls")[0].question();
    let no = question.expect("a question").no("x".repeat(30 << 20));
    assert!(refused(chat.decide(no).await.map(drop)));
    // By hand, too.
    let words = json!({
        "message": harness::Message::user("Hello."), "kind": "k".repeat(1025)
    });
    let (status, said) = engine.by_hand("kind/send", &words).await;
    assert!(status == 413 && said.contains("1024 bytes"), "{status} {said}");
}

#[tokio::test]
async fn a_panic_of_who_is_told_of_steps_changes_nothing() {
    for at in ["before say", "after ask", "kept ask"] {
        let Some(engine) = Engine::start().await else { return };
        let _worker = engine.worker("100000", &[("PANIC_AT", at)]);
        engine.register().await;
        let chat = engine.chat("panics");
        let ended = timeout(PATIENCE, chat.send("Hello.", "one")).await.expect("in time");
        assert_eq!(ended.expect("an end").outcome, Outcome::Answered, "{at}");
    }
}

#[tokio::test]
async fn what_the_model_has_used_is_kept_if_a_result_is_too_large() {
    let Some(engine) = Engine::start().await else { return };
    // The call runs in the step in which the model asks for it.
    let _worker = engine.worker("", &[("BIG", "1"), ("EARLY", "1")]);
    engine.register().await;
    let chat = engine.chat("used");
    assert_eq!(chat.send("Big.", "one").await.expect("an end").outcome, Outcome::Failed);
    let facts = chat.facts(0).await.expect("facts").facts;
    let replied = |entry: &Fact| matches!(entry, Fact::ModelReplied { .. });
    assert!(entries(&facts).iter().any(replied), "{:?}", entries(&facts));
    assert!(ends(&facts).values().all(|end| *end != CallOutcome::Succeeded), "{:?}", ends(&facts));
    assert_eq!(chat.send("Hello.", "two").await.expect("an end").outcome, Outcome::Answered);
}
