//! One engine, one worker: what a conversation on the engine does when nobody dies.

mod rig;
mod script;

use harness::{
    CallOutcome, Outcome,
    journal::{Fact, InterruptCause, LimitKind},
};
use harness_restate::ClientError;
use rig::{Engine, answered, at_rest, ends, entries, harm, machine, says_yes, until};
use script::Book;

/// Facts are at rest a moment before the last invocation is over.
async fn nothing_is_left(engine: &Engine) {
    let sql = "SELECT id FROM sys_invocation WHERE status <> 'completed'";
    until("nothing is left on the engine", async || {
        engine.query(sql).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_run_goes_to_its_end_and_is_said_once() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat("a/b c");
    let ended = chat.send("Hello.", "one").await.expect("an answer");
    assert_eq!((ended.outcome, ended.text.as_str()), (Outcome::Answered, "Done."));
    assert_eq!(chat.send("Hello.", "one").await.expect("the same"), ended);
    let facts = chat.facts(0).await.expect("facts");
    assert_eq!(facts.facts.len(), 2, "it was said once");

    let yes = says_yes(&chat);
    let waits = chat.send("Go.", "two").await.expect("it waits");
    assert_eq!(waits.outcome, Outcome::Waiting);
    let facts = at_rest(&chat, answered).await;
    drop(yes);
    let wrong = harm(&facts, &worker.read("effects"));
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(ends(&facts).values().all(|end| *end == CallOutcome::Succeeded), "{:?}", ends(&facts));

    // Each run has said that it is over: nothing is left on the engine that waits.
    nothing_is_left(&engine).await;
}

#[tokio::test]
async fn facts_are_seen_as_they_come_and_a_stop_is_heard_at_once() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    for (text, begun) in [("Think.", "asked"), ("Work.", "effects")] {
        let before = worker.read(begun).len();
        let chat = engine.chat(text);
        let run = chat.start(text, "one").await.expect("it is taken");
        until("it is being done", async || (worker.read(begun).len() > before).then_some(())).await;
        let seen = chat.facts(0).await.expect("facts");
        assert!(
            seen.run.is_some() && !seen.facts.is_empty(),
            "they are seen while the run goes on"
        );
        chat.stop().await.expect("it is stopped");
        let ended = chat.ended(&run).await.expect("an end");
        assert_eq!(ended.outcome, Outcome::Cancelled);
        let facts = chat.facts(0).await.expect("facts").facts;
        let stops = |entry: &Fact| {
            matches!(entry, Fact::Interrupted { cause: InterruptCause::Program, .. })
        };
        assert_eq!(entries(&facts).iter().filter(|entry| stops(entry)).count(), 1);
        if text == "Work." {
            assert!(
                ends(&facts).values().all(|end| *end == CallOutcome::InDoubt),
                "{:?}",
                ends(&facts)
            );
        }
        let ended = chat.send("Hello.", "two").await.expect("it goes on");
        assert_eq!(ended.outcome, Outcome::Answered);
    }
}

/// From a stop to the drop of a stream, what passes is what the engine keeps for two invocations.
#[tokio::test]
async fn a_stop_is_few_steps() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[("KEEP_JOURNALS", "1")]);
    engine.register().await;
    let chat = engine.chat("few");
    let run = chat.start("Think.", "one").await.expect("it is taken");
    until("it thinks", async || (!worker.read("asked").is_empty()).then_some(())).await;
    chat.stop().await.expect("it is stopped");
    assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Cancelled);
    nothing_is_left(&engine).await;
    // The next bell has the name of this run.
    let steps = async |handler: &str| {
        let sql = format!(
            "SELECT j.index, j.entry_type FROM sys_journal j JOIN sys_invocation i ON i.id = j.id \
             WHERE i.target_handler_name = '{handler}' \
             AND i.idempotency_key NOT LIKE 'inv_%' ORDER BY j.index"
        );
        let rows = engine.query(&sql).await;
        rows.iter().map(|row| row["entry_type"].to_string()).collect::<Vec<_>>()
    };
    let (stop, stopped) = (steps("stop").await, steps("stopped").await);
    // It reads which bell it is and rings it: then the step hears it. The rest is the mark in the queue.
    let rings = stop.iter().position(|step| step.contains("SendSignal"));
    assert_eq!((rings, stop.len(), stopped.len()), (Some(5), 16, 3), "{stop:?} {stopped:?}");
}

#[tokio::test]
async fn what_waits_is_answered_once_by_who_was_asked() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat("waits");
    assert_eq!(chat.send("Mail soon.", "one").await.expect("it waits").outcome, Outcome::Waiting);
    let open = chat.open().await.expect("calls");
    let question = open[0].question().expect("a question");
    let mut forged = question.yes();
    forged.question.nonce = "another".into();
    assert!(matches!(chat.decide(forged).await, Err(ClientError::Refused(_))));
    assert!(matches!(chat.settle(open[0].succeeded("sent")).await, Err(ClientError::Refused(_))));
    chat.decide(question.no("not today").by("ada")).await.expect("it counts");
    let facts = at_rest(&chat, answered).await;
    assert!(ends(&facts).values().all(|end| *end == CallOutcome::Denied));
    assert!(matches!(chat.decide(question.yes()).await, Err(ClientError::Refused(_))));
    assert!(worker.read("effects").is_empty());

    // A message that comes while calls wait ends their waiting.
    assert_eq!(chat.send("Mail soon.", "two").await.expect("it waits").outcome, Outcome::Waiting);
    assert_eq!(chat.send("Hello.", "three").await.expect("no").outcome, Outcome::Answered);
    assert!(chat.open().await.expect("calls").is_empty());
    // So does a stop.
    assert_eq!(chat.send("Mail soon.", "four").await.expect("it waits").outcome, Outcome::Waiting);
    chat.stop().await.expect("it is stopped");
    until("it is stopped", async || chat.open().await.ok()?.is_empty().then_some(())).await;
    assert!(worker.read("effects").is_empty());
}

#[tokio::test]
async fn nobody_answers_in_time() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[("MAIL_WAITS", "1500")]);
    engine.register().await;
    let chat = engine.chat("late");
    assert_eq!(chat.send("Mail soon.", "one").await.expect("it waits").outcome, Outcome::Waiting);
    let facts = at_rest(&chat, answered).await;
    assert!(ends(&facts).values().all(|end| *end == CallOutcome::Denied), "{:?}", ends(&facts));
    assert!(worker.read("effects").is_empty());
}

#[tokio::test]
async fn what_the_engine_cannot_take_ends_the_run_and_says_why() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[("BIG", "1")]);
    engine.register().await;
    let chat = engine.chat("big");
    let ended = chat.send("Big.", "one").await.expect("an end");
    assert_eq!(ended.outcome, Outcome::Failed);
    let facts = chat.facts(0).await.expect("facts").facts;
    let says = |entry: &Fact| matches!(entry, Fact::Interrupted { cause: InterruptCause::Failure { error, .. }, .. } if error.contains("bytes"));
    assert!(entries(&facts).iter().any(says), "{facts:?}");
    assert_eq!(worker.read("effects").len(), 1, "it is not asked for again");
    assert_eq!(chat.send("Hello.", "two").await.expect("it goes on").outcome, Outcome::Answered);
}

#[tokio::test]
async fn a_run_has_values_limits_and_a_type_and_keeps_them_while_it_waits() {
    let Some(engine) = Engine::start().await else { return };
    let _worker = engine.worker("", &[]);
    engine.register().await;
    // A value, also for the part of the run that goes on after an answer.
    let chat = engine.chat("values");
    let guest = chat.clone().kind("guest");
    let ended = guest.send("Mail and say whose.", "one").await.expect("it waits");
    assert_eq!(ended.outcome, Outcome::Waiting);
    let question = chat.open().await.expect("calls")[0].question().expect("a question");
    chat.decide(question.yes()).await.expect("it counts");
    let facts = at_rest(&chat, answered).await;
    let told = format!("{:?}", machine(&facts).transcript().messages());
    assert!(told.contains("the guest of values"), "{told}");

    // Limits.
    let short = engine.chat("limits").kind("short");
    let ended = short.send("Go within two calls.", "one").await.expect("an end");
    assert_eq!(ended.outcome, Outcome::Limit(LimitKind::ToolCalls));

    // An answer of a type: the first one does not fit, and the next run wants none.
    let books = engine.chat("books");
    let ended = books.clone().kind("book").send("Which book?", "one").await.expect("an end");
    assert_eq!(ended.outcome, Outcome::Answered);
    let book: Book = books.answered().await.expect("a book");
    assert_eq!((book.title.as_str(), book.year), ("Moby-Dick", 1851));
    assert!(matches!(books.answered::<u32>().await, Err(ClientError::Failed { .. })));
    let facts = books.facts(0).await.expect("facts").facts;
    let rejected = |entry: &&Fact| matches!(entry, Fact::AnswerRejected { .. });
    assert_eq!(entries(&facts).iter().filter(rejected).count(), 1);
    // A function that looks at answers.
    let checked = engine.chat("checked").kind("checked");
    assert_eq!(checked.send("Hello.", "one").await.expect("an end").outcome, Outcome::Unfit);
    assert_eq!(books.send("Hello.", "two").await.expect("an end").text, "Done.");
}

#[tokio::test]
async fn a_value_that_is_missing_ends_the_run_and_is_named() {
    let Some(engine) = Engine::start().await else { return };
    let _worker = engine.worker("", &[("GIVE_NOTHING", "1")]);
    engine.register().await;
    let error = engine.chat("nothing").send("Hello.", "one").await.expect_err("no user");
    assert!(error.to_string().contains("User"), "{error}");
}

#[tokio::test]
async fn an_agent_is_a_tool() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat("lead");
    let ended = chat.send("Ask an agent.", "one").await.expect("an end");
    assert_eq!((ended.outcome, worker.read("effects").len()), (Outcome::Answered, 1));
}

#[tokio::test]
async fn an_operator_cancels_and_kills() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat("operated");
    let running = "SELECT id FROM sys_invocation WHERE status <> 'completed' AND target_handler_name = 'send'";
    // A kill frees the conversation; what ran is in doubt, and the worker still does it.
    let before = worker.read("effects").len();
    let run = chat.start("Work.", "one").await.expect("it is taken");
    until("it works", async || (worker.read("effects").len() > before).then_some(())).await;
    assert_eq!(engine.query(running).await[0]["id"], run.as_str());
    engine.operator(&run, "kill").await;
    let ended = chat.send("Hello.", "two").await.expect("it goes on");
    assert_eq!(ended.outcome, Outcome::Answered);
    let facts = chat.facts(0).await.expect("facts").facts;
    assert!(ends(&facts).values().all(|end| *end == CallOutcome::InDoubt), "{:?}", ends(&facts));
    nothing_is_left(&engine).await;
}
