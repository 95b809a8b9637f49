//! What is told about a conversation is so: whose it is, what counts, what is stopped, and what is over.

mod rig;
mod script;

use std::collections::BTreeMap;

use futures_util::future::join_all;
use harness::{CallOutcome, Outcome, journal::Fact};
use harness_restate::{Client, ClientError, Conversation};
use rig::{
    Engine, answered, at_rest, calm, ends, entries, held_at, is_noted, machine, said, until,
};
use serde_json::json;

/// The run is over for everybody who asks.
async fn is_over(chat: &Conversation, run: &str) {
    assert_eq!(chat.facts(0).await.expect("facts").run, None);
    chat.watch(run, 0, |_| ()).await.expect("it ends");
}

// Names and keys.

#[test]
fn a_name_that_an_address_changes_is_refused() {
    let client = Client::new("http://127.0.0.1:1").expect("an address");
    let long = "n".repeat(1025);
    for name in ["", ".", "..", "a\tb", "x\ny", "m\r\nn", "\0", "\u{7f}", &long] {
        let error = client.conversation(name).expect_err("refused");
        assert!(error.to_string().contains("cannot be the name"), "{error}");
    }
    for name in ["a/b c", "%2E%2E", "...", " ", "a\\b", "ü/日本", "?#", &long[1..]] {
        client.conversation(name).expect("a name");
    }
}

#[tokio::test]
async fn a_name_stays_another_one_on_the_engine() {
    let Some((engine, _worker)) = calm().await else { return };
    let long = "日".repeat(341);
    let names = ["a/b c", "%2E%2E", "...", " ", "a\\b", "ü/日本", "?#", &long, "send"];
    for name in names {
        let ended = engine.chat(name).send("Hello.", "one").await.expect("an end");
        assert_eq!(ended.outcome, Outcome::Answered);
    }
    for name in names {
        assert_eq!(engine.chat(name).facts(0).await.expect("facts").facts.len(), 2, "{name:?}");
    }
    // One that is begun by hand cannot hear a stop.
    for name in ["%2E%2E", "a%09b"] {
        let (status, said) = engine.by_hand(&format!("{name}/send"), &json!("Hello.")).await;
        assert!(status == 400 && said.contains("cannot be the name"), "{status} {said}");
    }
}

#[tokio::test]
async fn a_key_is_the_same_only_if_it_has_the_same_letters() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("keys");
    let keys = ["k", " k ", "k\n", "ü", "%C3%BC"];
    for key in keys.iter().chain(&keys) {
        chat.send("Hello.", key).await.expect("an end");
    }
    let facts = chat.facts(0).await.expect("facts").facts;
    let said = entries(&facts).into_iter().filter(|it| matches!(it, Fact::UserSaid { .. }));
    assert_eq!(said.count(), keys.len());
    for key in ["", &"k".repeat(1025)] {
        assert!(matches!(chat.send("Hello.", key).await, Err(ClientError::Refused(_))));
    }
}

#[tokio::test]
async fn a_message_that_is_refused_leaves_the_kind_of_the_run_that_waits() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("kinds");
    let guest = chat.clone().kind("guest");
    guest.send("Mail and say whose.", "one").await.expect("it waits");
    chat.clone().kind("admin").send("", "two").await.expect_err("it says nothing");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    let run = chat.decide(question.yes()).await.expect("it counts");
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Answered);
    let facts = chat.facts(0).await.expect("facts").facts;
    let told = format!("{:?}", machine(&facts).transcript().messages());
    assert!(told.contains("the guest of kinds"), "{told}");
}

// Answers.

#[tokio::test]
async fn of_two_answers_one_counts_and_the_other_is_told_that_it_does_not() {
    let Some((engine, worker)) = calm().await else { return };
    for turn in 0..10 {
        let chat = engine.chat(&format!("two {turn}"));
        chat.send("Mail soon.", "one").await.expect("it waits");
        let question = chat.open().await.expect("calls")[0].question().expect("a question");
        let before = worker.read("effects").len();
        let (yes, no) = (question.yes().by("ada"), question.no("never").by("eve"));
        // At once, or one after the other.
        let (yes, no) = if turn % 2 == 0 {
            tokio::join!(chat.decide(yes), chat.decide(no))
        } else {
            (chat.decide(yes).await, chat.decide(no).await)
        };
        let facts = at_rest(&chat, answered).await;
        let (ran, end) = (worker.read("effects").len() - before, ends(&facts).into_values().next());
        match (yes, no) {
            (Ok(_), Err(ClientError::Refused(_))) => {
                assert_eq!((ran, end), (1, Some(CallOutcome::Succeeded)));
            }
            (Err(ClientError::Refused(_)), Ok(_)) => {
                assert_eq!((ran, end), (0, Some(CallOutcome::Denied)));
            }
            both => panic!("{both:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_behind_a_message_is_told_that_it_does_not_count() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "before say#2");
    engine.register().await;
    let chat = engine.chat("behind");
    chat.send("Mail soon.", "one").await.expect("it waits");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    let run = chat.start("Hello.", "two").await.expect("it is taken");
    is_noted(&worker, "held", 1).await;
    // It is seen as one that may count, and queues behind the message.
    let queues = async {
        until("it queues", async || engine.open_invocations("behind", "answered").await.pop())
            .await;
        worker.releases();
    };
    let (decided, ()) = tokio::join!(chat.decide(question.yes()), queues);
    assert!(matches!(decided, Err(ClientError::Refused(_))), "{decided:?}");
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Answered);
    assert!(worker.read("effects").is_empty());
}

#[tokio::test]
async fn an_answer_that_an_operator_ends_is_no_success() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "before answer#1");
    engine.register().await;
    let chat = engine.chat("ended answer");
    chat.send("Mail soon.", "one").await.expect("it waits");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    let killed = async {
        is_noted(&worker, "held", 1).await;
        let answered = engine.open_invocations("ended answer", "answered").await;
        engine.operator(&answered[0], "kill").await;
        worker.releases();
    };
    let (decided, ()) = tokio::join!(chat.decide(question.yes()), killed);
    assert!(matches!(decided, Err(ClientError::Failed { .. })), "{decided:?}");
    // It can be said again.
    let run = chat.decide(question.yes()).await.expect("it counts");
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Answered);
}

// Stops.

#[tokio::test]
async fn a_stop_counts_while_the_run_comes_to_wait() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "kept decide#1");
    engine.register().await;
    let chat = engine.chat("comes to wait");
    let run = chat.start("Mail soon.", "one").await.expect("it is taken");
    is_noted(&worker, "held", 1).await;
    // Nobody waits for a step any more.
    let stop = async { chat.stop().await.expect("it is stopped") };
    let goes_on = async {
        until("it is stopped", async || {
            engine.invocations("comes to wait", "stopped", "= 'completed'").await.pop()
        })
        .await;
        worker.releases();
    };
    tokio::join!(stop, goes_on);
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Cancelled);
    assert!(chat.open().await.expect("calls").is_empty());
    is_over(&chat, &run).await;
}

#[tokio::test]
async fn a_stop_counts_for_a_run_that_has_not_begun_and_for_no_later_one() {
    let Some(engine) = Engine::start().await else { return };
    // Nothing begins without a worker.
    let worker = engine.worker("", &[]);
    engine.register().await;
    worker.dies_for_good().await;
    let chats: Vec<_> = (0..5).map(|turn| engine.chat(&format!("queued {turn}"))).collect();
    let mut runs = Vec::new();
    for chat in &chats {
        runs.push(chat.start("Think.", "one").await.expect("it is taken"));
    }
    let stops = join_all(chats.iter().map(Conversation::stop));
    let begins = async {
        for turn in 0..chats.len() {
            let name = format!("queued {turn}");
            until("a stop is taken", async || engine.open_invocations(&name, "stop").await.pop())
                .await;
        }
        engine.worker("", &[])
    };
    let (stops, _worker) = tokio::join!(stops, begins);
    for ((chat, run), stop) in chats.iter().zip(&runs).zip(stops) {
        stop.expect("it is stopped");
        assert_eq!(chat.ended(run).await.expect("an end").outcome, Outcome::Cancelled);
        let later = chat.send("Hello.", "two").await.expect("an end");
        assert_eq!((later.outcome, later.text.as_str()), (Outcome::Answered, "Done."));
    }
    // Where nothing goes on nothing is stopped.
    chats[0].stop().await.expect("it is heard");
    let later = chats[0].send("Hello.", "three").await.expect("an end");
    assert_eq!(later.outcome, Outcome::Answered);
    let new = engine.chat("new");
    new.stop().await.expect("it is heard");
    assert_eq!(new.send("Hello.", "one").await.expect("an end").outcome, Outcome::Answered);
}

#[tokio::test]
async fn a_stop_is_heard_while_a_message_asks_what_became_of_a_call() {
    let Some((engine, worker)) = calm().await else { return };
    let chat = engine.chat("asks").kind("slow");
    let run = chat.start("Pay.", "one").await.expect("it is taken");
    is_noted(&worker, "effects", 1).await;
    engine.operator(&run, "kill").await;
    let run = chat.start("Hello.", "two").await.expect("it is taken");
    is_noted(&worker, "finding out", 1).await;
    chat.stop().await.expect("it is stopped");
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Cancelled);
    let facts = chat.facts(0).await.expect("facts").facts;
    assert!(ends(&facts).values().all(|end| *end == CallOutcome::InDoubt), "{:?}", ends(&facts));
    assert_eq!(said(&facts), ["Pay.", "Hello."], "its message is kept");
    assert_eq!(worker.read("finding out").len(), 1, "it asks no more");
    let ended = chat.send("Hello.", "three").await.expect("it goes on");
    assert_eq!(ended.outcome, Outcome::Answered);
}

#[tokio::test]
async fn a_stop_is_heard_when_an_operator_has_ended_who_waits_for_it() {
    let Some((engine, worker)) = calm().await else { return };
    for (turn, does) in ["cancel", "kill"].into_iter().enumerate() {
        let chat = engine.chat(does);
        let run = chat.start("Think.", "one").await.expect("it is taken");
        is_noted(&worker, "asked", turn + 1).await;
        let waits = async || engine.open_invocations(does, "stopped").await.pop();
        let bell = until("it waits for a stop", waits).await;
        engine.operator(&bell, does).await;
        until("it is ended", async || waits().await.filter(|it| *it != bell)).await;
        chat.stop().await.expect("it is stopped");
        assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Cancelled);
        until("no bell is left", async || waits().await.is_none().then_some(())).await;
    }
}

#[tokio::test]
async fn a_stop_counts_for_what_a_killed_run_has_left() {
    let Some(engine) = Engine::start().await else { return };
    let worker = held_at(&engine, "before answer#1");
    engine.register().await;
    let chat = engine.chat("left");
    chat.send("Two mails.", "one").await.expect("it waits");
    let open = chat.open().await.expect("calls");
    assert_eq!(open.len(), 2);
    let question = open[0].question().expect("a question");
    let killed = async {
        is_noted(&worker, "held", 1).await;
        let answered = engine.open_invocations("left", "answered").await;
        engine.operator(&answered[0], "kill").await;
    };
    let (decided, ()) = tokio::join!(chat.decide(question.yes()), killed);
    decided.expect_err("it is killed");
    chat.stop().await.expect("it is stopped");
    until("it is stopped", async || chat.open().await.ok()?.is_empty().then_some(())).await;
    assert!(matches!(chat.decide(question.yes()).await, Err(ClientError::Refused(_))));
    assert!(worker.read("effects").is_empty());
}

#[tokio::test]
async fn a_cancel_that_comes_last_leaves_what_a_stop_needs() {
    for (at, text) in [("kept ask#1", "Hello."), ("kept decide#1", "Mail soon.")] {
        let Some(engine) = Engine::start().await else { return };
        let worker = held_at(&engine, at);
        engine.register().await;
        let chat = engine.chat("cancelled last");
        let run = chat.start(text, "one").await.expect("it is taken");
        is_noted(&worker, "held", 1).await;
        engine.operator(&run, "cancel").await;
        worker.releases();
        let ended = chat.ended(&run).await.expect("an end, and no error");
        is_over(&chat, &run).await;
        if text == "Hello." {
            assert_eq!((ended.outcome, ended.text.as_str()), (Outcome::Answered, "Done."));
        } else {
            chat.stop().await.expect("it is stopped");
            until("it is stopped", async || chat.open().await.ok()?.is_empty().then_some(())).await;
        }
    }
}

// What is over, and what goes on.

#[tokio::test]
async fn a_timer_lets_no_run_go_on_that_was_killed() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[("MAIL_WAITS", "4000")]);
    engine.register().await;
    let chat = engine.chat("timer");
    chat.send("Mail and work.", "one").await.expect("it waits");
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    let run = chat.decide(question.yes()).await.expect("it counts");
    let works =
        async || worker.read("effects").iter().any(|it| it.starts_with("slow ")).then_some(());
    until("it works", works).await;
    engine.operator(&run, "kill").await;
    let (facts, asked) = (chat.facts(0).await.expect("facts").facts, worker.read("asked").len());
    until("the timer has come and is over", async || {
        engine.invocations("timer", "expired", "IS NOT NULL").await.is_empty().then_some(())
    })
    .await;
    assert_eq!(chat.facts(0).await.expect("facts").facts, facts);
    assert_eq!(worker.read("asked").len(), asked, "nobody has asked for an answer");
    // The next message finds what was open.
    let ended = chat.send("Hello.", "two").await.expect("it goes on");
    assert_eq!(ended.outcome, Outcome::Answered);
}

#[tokio::test]
async fn nobody_finds_out_about_a_call_that_still_runs_here() {
    for turn in 0..3 {
        let Some(mut engine) = Engine::start().await else { return };
        // It holds its thread, so that it goes on when its connection is cut.
        let worker = held_at(&engine, "in pay before it#1");
        engine.register().await;
        let chat = engine.chat(&format!("cut {turn}"));
        chat.start("Pay.", "one").await.expect("it is taken");
        is_noted(&worker, "held", 1).await;
        engine.dies().await;
        let again = async || {
            let points = worker.read("points");
            (points.iter().filter(|it| *it == "before run").count() > 1).then_some(())
        };
        until("it runs again", again).await;
        worker.releases();
        let facts = at_rest(&chat, answered).await;
        assert_eq!(worker.read("effects").len(), 1, "{:?}", worker.read("points"));
        assert!(ends(&facts).values().all(|end| *end == CallOutcome::Succeeded));
        assert_eq!(worker.deaths(), 0);
    }
}

#[tokio::test]
async fn a_killed_run_is_over_for_who_watches() {
    let Some((engine, worker)) = calm().await else { return };
    let chat = engine.chat("killed");
    let run = chat.start("Work.", "one").await.expect("it is taken");
    is_noted(&worker, "effects", 1).await;
    let (mut seen, next) = (0, async {
        until("it is seen", async || chat.facts(0).await.ok()?.run).await;
        engine.operator(&run, "kill").await;
    });
    let (watched, ()) = tokio::join!(chat.watch(&run, 0, |_| seen += 1), next);
    watched.expect("it ends");
    let facts = chat.facts(0).await.expect("facts");
    assert_eq!((facts.run, facts.facts.len()), (None, seen));
}

#[tokio::test]
async fn who_watches_a_run_sees_all_of_it_though_it_has_not_begun() {
    let Some((engine, _worker)) = calm().await else { return };
    let watches = async |turn: usize| {
        let chat = engine.chat(&format!("watched {turn}"));
        let run = chat.start("Mail soon.", "one").await.expect("it is taken");
        let mut seen = 0;
        let next = chat.watch(&run, 0, |_| seen += 1).await.expect("it waits");
        assert_eq!(seen, chat.facts(0).await.expect("facts").facts.len());
        let question = chat.open().await.expect("calls")[0].question().expect("a question");
        let run = chat.decide(question.yes()).await.expect("it counts");
        let mut later = Vec::new();
        chat.watch(&run, next, |fact| later.push(fact)).await.expect("it ends");
        let all = chat.facts(0).await.expect("facts").facts;
        assert!(answered(&all) && later == all[seen..], "{} of {}", seen + later.len(), all.len());
    };
    join_all((0..30).map(watches)).await;
    let chat = engine.chat("watched 0");
    let unknown = chat.watch("inv_1iCJuRWQsFzM4b0s8prfhjLNXVnVBSZqLt", 0, |_| ()).await;
    assert!(matches!(unknown, Err(ClientError::Failed { status: 404, .. })), "{unknown:?}");
}

#[tokio::test]
async fn who_watches_waits_until_the_run_begins() {
    let Some((engine, worker)) = calm().await else { return };
    worker.dies_for_good().await;
    let chat = engine.chat("begins late");
    let run = chat.start("Hello.", "one").await.expect("it is taken");
    // An operator keeps it from beginning when there is a worker again.
    let sql = "SELECT id FROM sys_invocation WHERE status = 'backing-off'";
    until("it is tried", async || engine.query(sql).await.pop()).await;
    engine.operator(&run, "pause").await;
    let sql = "SELECT id FROM sys_invocation WHERE status = 'paused'";
    until("it is paused", async || engine.query(sql).await.pop()).await;
    let _worker = engine.worker("", &[]);
    until("there is a worker", async || chat.facts(0).await.ok()).await;
    let mut seen = 0;
    let goes_on = async {
        assert_eq!(chat.facts(0).await.expect("facts").run, None);
        engine.operator(&run, "resume").await;
    };
    let (watched, ()) = tokio::join!(chat.watch(&run, 0, |_| seen += 1), goes_on);
    watched.expect("it ends");
    assert_eq!(seen, 2);
}

#[tokio::test]
async fn the_text_of_an_end_is_the_models() {
    let Some((engine, worker)) = calm().await else { return };
    let chat = engine.chat("texts");
    let ended = chat.send("Hello.", "one").await.expect("an end");
    assert_eq!((ended.text.as_str(), ended.to_string().as_str()), ("Done.", "Done."));
    let ended = chat.send("Fail.", "two").await.expect("an end");
    assert_eq!((&ended.outcome, ended.text.as_str()), (&Outcome::Failed, ""));
    let run = chat.start("Think.", "three").await.expect("it is taken");
    is_noted(&worker, "asked", 3).await;
    chat.stop().await.expect("it is stopped");
    let ended = chat.ended(&run).await.expect("an end");
    assert_eq!((&ended.outcome, ended.text.as_str()), (&Outcome::Cancelled, ""));
    // What does not fit was said by the model, and the complaint was not.
    let books = engine.chat("unfit").kind("checked");
    let ended = books.send("Hello.", "one").await.expect("an end");
    assert_eq!((ended.outcome, ended.text.as_str()), (Outcome::Unfit, "Done."));
    let later = engine.chat("complained of").kind("checked");
    let ended = later.send("Fail later.", "one").await.expect("an end");
    assert_eq!((ended.outcome, ended.text.as_str()), (Outcome::Failed, "Done."));
    // A run that waits goes on by itself.
    let ended = chat.send("Mail soon.", "four").await.expect("it waits");
    assert!(ended.to_string().contains("by itself"), "{ended}");
}

#[tokio::test]
async fn a_panic_of_what_the_worker_gives_is_an_error_of_the_run() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("panics");
    let error = chat.clone().kind("panics").send("Hello.", "one").await.expect_err("a panic");
    assert!(error.to_string().contains("no such kind"), "{error}");
    assert_eq!(chat.facts(0).await.expect("facts").run, None);
    assert_eq!(chat.send("Hello.", "two").await.expect("an end").outcome, Outcome::Answered);
}

#[tokio::test]
async fn a_step_that_was_kept_and_not_counted_is_counted() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("whole");
    chat.send("Write.", "one").await.expect("an end");
    let before = chat.facts(0).await.expect("facts");
    let mut state = engine.state("whole").await;
    state.insert("chunks".to_owned(), (before.next - 1).to_string());
    engine.write_state("cut", &state).await;
    let chat = engine.chat("cut");
    let ended = chat.send("Hello.", "two").await.expect("an end");
    assert_eq!(ended.outcome, Outcome::Answered);
    let after = chat.facts(0).await.expect("facts").facts;
    assert!(after.starts_with(&before.facts), "{:?}", entries(&after));
    assert!(answered(&after));
}

#[tokio::test]
async fn a_conversation_that_cannot_be_read_names_what_is_wrong() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("whole");
    chat.send("Write.", "one").await.expect("an end");
    let whole = engine.state("whole").await;
    let chunk = "facts 00000001";
    let without = |name: &str| {
        let mut state = whole.clone();
        state.remove(name);
        state
    };
    let with = |name: &str, value: &str| {
        let mut state = whole.clone();
        state.insert(name.to_owned(), value.to_owned());
        state
    };
    let later = whole[chunk].replacen("\"format\":", "\"format\":9", 1);
    assert_ne!(later, whole[chunk]);
    let cases: [(&str, BTreeMap<String, String>); 9] = [
        ("chunks", without("chunks")),
        ("chunks", with("chunks", "1")),
        ("is missing", with("chunks", "4294967295")),
        ("run", with("run", r#"{"bell":"","run":"no id"}"#)),
        (chunk, without(chunk)),
        (chunk, with(chunk, "no facts")),
        ("chunks", with("chunks", "many")),
        ("run", with("run", "none")),
        ("fact", with(chunk, &later)),
    ];
    for (number, (named, state)) in cases.into_iter().enumerate() {
        let name = format!("wrong {number}");
        engine.write_state(&name, &state).await;
        let chat = engine.chat(&name);
        let error = chat.send("Hello.", "one").await.expect_err("it cannot be read");
        assert!(error.to_string().contains(named), "{error}");
        let is_of_state = error.to_string().contains("the state `");
        assert!(named == "fact" || is_of_state, "{error}");
        assert_eq!(error.to_string().contains("an operator can"), is_of_state, "{error}");
        // The turn is passed on also by a run that could not begin.
        let turn = &engine.state(&name).await["run"];
        assert!(named == "run" || turn.contains(r#""run":null"#), "{turn}");
        match chat.facts(0).await {
            // What is a fact only of a later version is for who reads it to say.
            Ok(facts) => assert_eq!(facts.run, None),
            Err(error) => assert!(error.to_string().contains(named), "{error}"),
        }
    }
    let sql = "SELECT id FROM sys_invocation WHERE status <> 'completed'";
    until("nothing is tried again", async || engine.query(sql).await.is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_changes_nothing() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("large");
    chat.send("Mail soon.", "one").await.expect("it waits");
    let error = chat.send("x".repeat(9 << 20), "two").await.expect_err("too large");
    assert!(error.to_string().contains("bytes"), "{error}");
    assert_eq!(chat.open().await.expect("calls").len(), 1, "it still waits");
    // A conversation that is full says so, before the engine can send it no more.
    let full = engine.chat("full");
    // Four of these are nearly as much as it takes.
    let large = "x".repeat((7 << 20) - (64 << 10));
    for turn in 0..4 {
        full.send(large.as_str(), &turn.to_string()).await.expect("an end");
    }
    let error = full.send(large.as_str(), "another").await.expect_err("it is full");
    assert!(error.to_string().contains("another conversation"), "{error}");
    assert!(!full.facts(0).await.expect("facts").facts.is_empty());
    full.stop().await.expect("it is heard");
    assert!(full.open().await.expect("calls").is_empty());
}

#[tokio::test]
async fn a_run_goes_on_however_long_no_worker_was_there() {
    let settings = [("RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS", "3")];
    let Some(engine) = Engine::start_with(&settings).await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat("alone");
    chat.send("Hello.", "one").await.expect("an end");
    worker.dies_for_good().await;
    let run = chat.start("Hello.", "two").await.expect("it is taken");
    let sql =
        "SELECT retry_count FROM sys_invocation WHERE status <> 'completed' AND retry_count > 5";
    until("it is tried again", async || engine.query(sql).await.pop()).await;
    let _worker = engine.worker("", &[]);
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Answered);
}

#[tokio::test]
async fn what_is_over_leaves_its_end_and_no_journal() {
    let Some((engine, _worker)) = calm().await else { return };
    let chat = engine.chat("read");
    let run = chat.start("Hello.", "one").await.expect("it is taken");
    chat.ended(&run).await.expect("an end");
    for _ in 0..5 {
        assert_eq!(chat.facts(0).await.expect("facts").facts.len(), 2);
        assert!(chat.open().await.expect("calls").is_empty());
    }
    until("nothing is kept", async || {
        let facts = engine.invocations("read", "facts", "IS NOT NULL").await;
        let open = engine.invocations("read", "open", "IS NOT NULL").await;
        let journals = engine.query("SELECT id FROM sys_journal").await;
        (facts.is_empty() && open.is_empty() && journals.is_empty()).then_some(())
    })
    .await;
    // An operator cannot let a run begin in the middle, which would meet steps of another one. The others are not held
    // up.
    let restarted = engine.operated(&run, "restart-as-new?from=2").await;
    assert!(!restarted.is_success(), "{restarted}");
    assert_eq!(chat.ended(&run).await.expect("the same end").outcome, Outcome::Answered);
    let later = chat.send("Hello.", "two").await.expect("an end");
    assert_eq!(later.outcome, Outcome::Answered);
}
