//! Conversations in a journal: calls that wait, and what others decide meanwhile.

mod both;
mod limits;

use super::*;

/// A tool that only reads ends the process each time.
#[tokio::test]
async fn a_tool_that_kills_its_process_comes_to_an_end() {
    let mut broken = Vec::new();
    for (name, effects, again) in
        [("look", READ, false), ("put", WRITE, true), ("pay", WRITE, false)]
    {
        let journal = Odd { unheld: true, ..Odd::over(&MemoryJournal::new()) };
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let falls = Tool::new(name, "Falls.", json!({"type": "object"}), effects, move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        });
        let falls = if again { falls.idempotent() } else { falls };
        let model = ScriptedProvider::answering(move |_| reply().call(name, json!({})));
        let agent =
            Agent::builder(model).tools([falls]).guardrails(Guardrails::default().turns(5)).build();
        let agent = agent.expect("an agent");
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        assert!(chat.send("Go.").into_future().now_or_never().is_none());
        std::mem::forget(chat);
        let mut lives = 0;
        while lives < 300 {
            lives += 1;
            let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
            if chat.resume().into_future().now_or_never().is_some() {
                break;
            }
            std::mem::forget(chat);
        }
        if lives == 300 {
            broken.push(format!("{name} ran {} times", ran.load(Ordering::SeqCst)));
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// One behind a call that is in doubt ends the process each time, and an approver does.
#[tokio::test]
async fn whatever_kills_its_process_comes_to_an_end() {
    for who in ["tool", "approver", "reconcile"] {
        let world = World::default();
        let journal = Odd { unheld: true, ..Odd::over(&MemoryJournal::new()) };
        let falls = Tool::new("look", "Falls.", json!({"type": "object"}), READ, |_, _| {
            Box::pin(std::future::pending())
        });
        let pays = Tool::new("pay", "Falls.", json!({"type": "object"}), WRITE, |_, _| {
            Box::pin(std::future::pending())
        });
        let pays = pays.with_reconcile(|_, _| Box::pin(std::future::pending()));
        let pay = tool("pay", WRITE, &world);
        let pay = if who == "reconcile" { pays } else { pay };
        let last = if who == "approver" { "mail" } else { "look" };
        let model = ScriptedProvider::answering(move |_| {
            reply().call("pay", json!({"n": 1})).call(last, json!({}))
        });
        let agent = Agent::builder(model)
            .tools([pay, falls, tool("mail", NETWORK, &world)])
            .approver(|_: ApprovalRequest| std::future::pending())
            .early_start(false)
            .guardrails(Guardrails::default().turns(5))
            .build()
            .expect("an agent");
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        let none = polled(chat.send("Go.").into_future().as_mut(), 50).await;
        assert!(none.is_none());
        std::mem::forget(chat);
        let mut lives = 0;
        loop {
            lives += 1;
            assert!(lives < 30, "{who}: it has no end");
            let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
            let mut run = chat.resume().into_future();
            let ended = polled(run.as_mut(), 50).await;
            if let Some(ended) = ended {
                let stopped = ended.expect_err("a limit");
                assert_eq!(
                    stopped.outcome(),
                    Outcome::Limit(harness::journal::LimitKind::Turns),
                    "{who}: {stopped}"
                );
                break;
            }
            std::mem::forget(run);
        }
        assert!(world.count("pay 1") <= 1);
    }
}

/// A conversation that waits is opened and resumed often, and its limits are what they were.
#[tokio::test]
async fn to_wait_costs_nothing() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = mailing(&world, 1);
    agent.open(&journal, CHAT).await.expect("new").send("Go.").await.expect_err("it waits");
    let before = facts_of(&journal);
    for _ in 0..50 {
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        assert_eq!(chat.resume().await.expect_err("it waits").outcome(), Outcome::Waiting);
    }
    assert_eq!(facts_of(&journal), before, "nothing has happened");
    let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
    let yes = chat.waiting()[0].question().expect("a question").yes();
    chat.decide(yes).await.expect("it waits");
    assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
    assert_eq!(world.count("mail 1"), 1);
}

/// While somebody else has answered, the journal cannot be read for once: nothing is lost by that.
#[tokio::test]
async fn a_read_that_fails_while_others_answer_loses_nothing() {
    for fault in [JournalFault::FailBefore, JournalFault::FailAfter] {
        for at in 0..8 {
            let (inner, world) = (MemoryJournal::new(), World::default());
            let journal = FaultyJournal::new(inner.clone());
            let agent = mailing(&world, 2);
            let mut chat = agent.open(&journal, CHAT).await.expect("new");
            chat.send("Go.").await.expect_err("it waits");
            let open = chat.waiting();
            journal.fail(JournalCall::Append, journal.counts().appends, JournalFault::FailBefore);
            chat.decide(open[0].question().expect("a question").yes())
                .await
                .expect_err("not written");
            agent
                .inbox(&inner)
                .decide(CHAT, open[1].question().expect("a question").no("no"))
                .await
                .expect("it waits");
            journal.fail(JournalCall::Read, journal.counts().reads + at, fault);
            let mut saved = chat.save().await;
            for _ in 0..5 {
                if saved.is_ok() {
                    break;
                }
                saved = chat.save().await;
            }
            saved.unwrap_or_else(|err| panic!("{fault:?} {at}: {err}"));
            let _ = chat.resume().await;
            let ended = chat.resume().await;
            drop(ended);
            assert_eq!(
                world.count("mail 1"),
                1,
                "{fault:?} {at}: {:?}",
                outcomes(chat.transcript())
            );
            is_kept("a read", &inner, chat.transcript());
        }
    }
}

/// What was always allowed and is taken back is asked about again, in the next process too.
#[tokio::test]
async fn a_grant_that_was_revoked_is_asked_about_again() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let model = ScriptedProvider::answering(move |request| {
        let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
        match said {
            0 => reply().call_with_id("mail_1", "mail", json!({"n": 1})),
            1 => reply().call_with_id("mail_2", "mail", json!({"n": 1})).call_with_id(
                "mail_3",
                "mail",
                json!({"n": 1}),
            ),
            _ => reply().text("Done."),
        }
    });
    let agent = Agent::builder(model)
        .tools([tool("mail", NETWORK, &world)])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    chat.decide(question.always()).await.expect("it waits");
    chat.resume().await.expect("an answer");
    assert_eq!(world.count("mail 1"), 3);
    let facts = facts_of(&journal);
    drop(chat);
    let mut broken = Vec::new();
    for kept in 1..=facts.len() {
        let journal = with_facts(&facts[..kept]).await;
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        let Some(grant) = chat.grants().first().cloned() else { continue };
        assert!(chat.revoke(&grant));
        let started = |facts: &[Fact]| {
            let of = |id: &str| {
                facts
                    .iter()
                    .filter(|fact| matches!(fact, Fact::CallStarted { call } if call == id))
                    .count()
            };
            of("mail_2") + of("mail_3")
        };
        let before = started(&entries(&journal));
        let _ = chat.resume().await;
        if started(&entries(&journal)) > before {
            broken.push(format!("{kept}: it ran by a grant that was revoked"));
        }
        // Its process ends right after it was revoked.
        let journal = with_facts(&facts[..kept]).await;
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        assert!(chat.revoke(&grant));
        chat.save().await.expect("it is written");
        drop(chat);
        let chat = agent.open(&journal, CHAT).await.expect("it opens");
        if !chat.grants().is_empty() {
            broken.push(format!("{kept}: it holds again in the next process"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Facts that are missing, doubled, in another order, damaged: opening fails or not, and changes nothing.
#[tokio::test]
async fn damaged_facts_change_nothing() {
    let (facts, _) = whole().await;
    let mut kinds: Vec<(String, Vec<Envelope>)> = Vec::new();
    for at in 0..facts.len() {
        let mut without = facts.clone();
        without.remove(at);
        kinds.push((format!("without {at}"), without));
        let mut twice = facts.clone();
        twice.insert(at, facts[at].clone());
        kinds.push((format!("twice {at}"), twice));
        for to in 0..facts.len() {
            let mut swapped = facts.clone();
            swapped.swap(at, to);
            kinds.push((format!("swapped {at} {to}"), swapped));
        }
        for text in
            ["", "{}", "null", "{\"fact\":\"dreamt\"}", "{\"fact\":\"call_started\"}", "[[[["]
        {
            let mut broken = facts.clone();
            let Envelope { format, version, life, at: time, elapsed, .. } = facts[at].clone();
            broken[at] = Envelope::stored(format, version, life, time, elapsed, text);
            kinds.push((format!("{text} at {at}"), broken));
        }
        let mut future = facts.clone();
        future[at].format = 2;
        kinds.push((format!("future {at}"), future));
        let cut = facts[at].fact.len() / 2;
        let mut halved = facts.clone();
        halved[at].fact = facts[at].fact.get(..cut).unwrap_or("{").into();
        kinds.push((format!("halved {at}"), halved));
    }
    let (mut opened, mut refused) = (0, 0);
    for (label, facts) in &kinds {
        let journal = with_facts(facts).await;
        let world = World::default();
        let agent = agent(&world);
        match agent.open(&journal, CHAT).await {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Journal, "{label}: {error}");
                assert!(error.to_string().contains("fact "), "{label}: {error}");
                agent.inbox(&journal).waiting(CHAT).await.expect_err(label);
                agent.steps(CHAT, facts.clone()).map(|_| ()).expect_err(label);
                refused += 1;
            }
            Ok(chat) => {
                drop(chat);
                opened += 1;
            }
        }
        assert_eq!(facts_of(&journal), *facts, "{label}: nothing has changed");
        // It is not held any more.
        let _hold = journal.hold(CHAT).await.expect(label);
        assert!(world.did.lock().expect("unpoisoned").is_empty(), "{label}");
    }
    assert!(refused > kinds.len() / 3 && opened > 0, "{refused} {opened}");
}

#[tokio::test]
async fn approvals_of_others_do_not_count() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = mailing(&world, 3);
    for name in [CHAT, "other"] {
        agent.open(&journal, name).await.expect("new").send("Go.").await.expect_err("it waits");
    }
    let inbox = agent.inbox(&journal);
    let here: Vec<_> = inbox.waiting(CHAT).await.expect("it reads");
    let there: Vec<_> = inbox.waiting("other").await.expect("it reads");
    assert_eq!((here.len(), there.len()), (3, 3));
    let before = facts_of(&journal);
    let ask = |open: &harness::agent::OpenCall| open.question().expect("a question");
    // Of another conversation, of another call, with other arguments, with another nonce.
    let mut wrong = vec![ask(&there[0])];
    let mut one = ask(&here[0]);
    one.call = "mail_2".into();
    wrong.push(one);
    let mut one = ask(&here[0]);
    one.fingerprint = here[1].call.fingerprint();
    wrong.push(one);
    let mut one = ask(&here[0]);
    one.nonce = ask(&here[1]).nonce;
    wrong.push(one);
    let mut one = ask(&there[0]);
    one.conversation = CHAT.into();
    wrong.push(one);
    let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
    for question in &wrong {
        for said in [question.yes(), question.always(), question.no("no"), question.later(None)] {
            inbox.decide(CHAT, said.clone()).await.expect_err("it is wrong");
            chat.decide(said).await.expect_err("it is wrong");
        }
    }
    chat.decide(ask(&here[0]).later(None)).await.expect_err("it decides nothing");
    for open in &here {
        for said in [open.succeeded("x"), open.failed("x"), open.not_happened(), open.answered("x")]
        {
            inbox.settle(CHAT, said.clone()).await.expect_err("it waits for a decision");
            chat.settle(said).await.expect_err("it waits for a decision");
        }
    }
    inbox.decide("none", ask(&here[0]).yes()).await.expect_err("there is none");
    inbox.decide("\n", ask(&here[0]).yes()).await.expect_err("no name");
    assert_eq!(facts_of(&journal), before, "nothing has changed");
    assert_eq!(world.count("mail 1"), 0);
    // In any order; what runs is what was allowed.
    inbox.decide(CHAT, ask(&here[2]).yes()).await.expect("it waits");
    chat.decide(ask(&here[1]).no("no")).await.expect("it waits");
    assert_eq!(chat.resume().await.expect_err("one waits").outcome(), Outcome::Waiting);
    assert_eq!((world.count("mail 1"), world.count("mail 3")), (0, 0));
    inbox.decide(CHAT, ask(&here[0]).yes()).await.expect("it waits");
    for question in [ask(&here[0]), ask(&here[1]), ask(&here[2])] {
        inbox.decide(CHAT, question.yes()).await.expect_err("it was decided");
        chat.decide(question.no("no")).await.expect_err("it was decided");
    }
    chat.resume().await.expect("an answer");
    assert_eq!((world.count("mail 1"), world.count("mail 2"), world.count("mail 3")), (1, 0, 1));
}

/// Two answers at once: one counts, whichever way they interleave.
#[tokio::test(start_paused = true)]
async fn of_two_answers_at_once_one_counts() {
    for delay in 0..12 {
        for faults in [0.0, 0.3] {
            let (inner, world) = (MemoryJournal::new(), World::default());
            let agent = mailing(&world, 1);
            let mut chat = agent.open(&inner, CHAT).await.expect("new");
            chat.send("Go.").await.expect_err("it waits");
            let question = chat.waiting()[0].question().expect("a question");
            let journal = Odd { slow: true, ..Odd::over(&inner) };
            let faulty = FaultyJournal::new(journal.clone());
            faulty.fail_by_chance(
                u64::try_from(delay).expect("not negative"),
                faults,
                [JournalFault::Repeat, JournalFault::FailBefore],
            );
            let (one, two) = (agent.inbox(&faulty), agent.inbox(&journal));
            let later = async {
                for _ in 0..delay {
                    tokio::task::yield_now().await;
                }
                two.decide(CHAT, question.no("no")).await
            };
            let (yes, no) = tokio::join!(one.decide(CHAT, question.yes()), later);
            assert!(yes.is_err() || no.is_err(), "{delay}: both count");
            if faults == 0.0 {
                assert!(yes.is_ok() || no.is_ok(), "{delay}: {yes:?} {no:?}");
            }
            let facts = entries(&inner);
            let decided =
                facts.iter().filter(|fact| matches!(fact, Fact::CallDecided { .. })).count();
            assert!(
                decided == usize::from(yes.is_ok()) + usize::from(no.is_ok()) || yes.is_err(),
                "{delay}: {decided}"
            );
            assert!(decided <= 1);
            let _ = chat.resume().await;
            assert_eq!(
                world.count("mail 1") == 1,
                yes.is_ok() || (decided == 1 && no.is_err()),
                "{delay}"
            );
            is_kept("two answers", &inner, chat.transcript());
        }
    }
}

/// While the owner runs, at each poll, somebody answers a call of it.
#[tokio::test]
async fn an_answer_while_the_owner_runs() {
    for polls in 0..200 {
        let label = format!("{polls} polls");
        let (inner, world) = (MemoryJournal::new(), World::default());
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = mailing(&world, 3);
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let open = chat.waiting();
        chat.decide(open[0].question().expect("a question").yes()).await.expect("it waits");
        let inbox = agent.inbox(&inner);
        let mut run = chat.resume().into_future();
        let ended = polled(run.as_mut(), polls).await;
        inbox.decide(CHAT, open[1].question().expect("a question").yes()).await.expect("it waits");
        let done = ended.is_some();
        let ended = match ended {
            Some(ended) => ended,
            None => run.as_mut().await,
        };
        drop(run);
        assert_eq!(ended.expect_err("the third one waits").outcome(), Outcome::Waiting, "{label}");
        inbox
            .decide(CHAT, open[2].question().expect("a question").no("no"))
            .await
            .expect("it waits");
        chat.resume().await.unwrap_or_else(|err| panic!("{label}: {err}"));
        is_kept(&label, &inner, chat.transcript());
        for (what, times) in [("mail 1", 1), ("mail 2", 1), ("mail 3", 0)] {
            assert_eq!(world.count(what), times, "{label}: {what}");
        }
        if done {
            break;
        }
    }
}

/// Dropped at each poll: opening, deciding and settling.
#[tokio::test]
async fn openings_and_answers_are_dropped_at_each_poll() {
    for polls in 0..40 {
        let label = format!("{polls} polls");
        let (inner, world) = (MemoryJournal::new(), World::default());
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = mailing(&world, 1);
        agent.open(&inner, CHAT).await.expect("new").send("Go.").await.expect_err("it waits");
        let before = facts_of(&inner);
        let _ = polled(Box::pin(agent.open(&journal, CHAT)).as_mut(), polls).await.is_some();
        assert_eq!(facts_of(&inner), before, "{label}");
        let mut chat =
            agent.open(&journal, CHAT).await.unwrap_or_else(|err| panic!("{label}: {err}"));
        let yes = chat.waiting()[0].question().expect("a question").yes();
        let mut deciding = Box::pin(chat.decide(yes.clone()));
        let done = polled(deciding.as_mut(), polls).await.is_some();
        drop(deciding);
        // It may have been decided or not, and what is here is what comes to be there.
        let waits = !chat.waiting().is_empty();
        let again = chat.decide(yes).await;
        assert_eq!(again.is_ok(), waits, "{label}: {again:?}");
        chat.save().await.expect("written");
        is_kept(&label, &inner, chat.transcript());
        chat.resume().await.unwrap_or_else(|err| panic!("{label}: {err}"));
        assert_eq!(world.count("mail 1"), 1, "{label}");
        is_kept(&label, &inner, chat.transcript());
        if done {
            break;
        }
    }
}

/// What a person was shown is what runs.
#[tokio::test]
async fn a_preview_that_changed_does_not_run() {
    for variant in
        ["same", "changed", "refuses", "asks more", "shows nothing", "no review", "panics"]
    {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let agent = |shown: Option<&'static str>| {
            let mail = tool("mail", NETWORK, &world);
            let mail = match shown {
                Some(shown) => mail.with_review(move |_| match shown {
                    "refuses" => Review::refuse("no"),
                    "shows nothing" => Review::pass(),
                    "asks more" => Review::ask("for another reason")
                        .with_preview(Preview::Text("to ada".into())),
                    "panics" => panic!("the review fell"),
                    shown => Review::ask("it is mail").with_preview(Preview::Text(shown.into())),
                }),
                None => mail,
            };
            let model = ScriptedProvider::answering(move |request| {
                match request.messages().iter().any(|message| message.results().next().is_some()) {
                    false => reply().call_with_id("mail_1", "mail", json!({"n": 1})),
                    true => reply().text("Done."),
                }
            });
            let builder = Agent::builder(model).tools([mail]);
            builder
                .approver(|question: ApprovalRequest| async move { question.later(None) })
                .build()
                .expect("an agent")
        };
        let mut chat = agent(Some("to ada")).open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.yes()).await.expect("it waits");
        drop(chat);
        let now = match variant {
            "same" => Some("to ada"),
            "changed" => Some("to bob"),
            "no review" => None,
            other => Some(other),
        };
        let mut chat = agent(now).open(&journal, CHAT).await.expect("it opens");
        let _ = chat.resume().await;
        let ran = world.count("mail 1");
        let may = usize::from(variant == "same");
        assert!(ran == may, "{variant}: ran {ran} times, {:?}", outcomes(chat.transcript()));
    }
}

#[tokio::test]
async fn names_that_are_hostile() {
    let world = World::default();
    let agent = agent(&world);
    let (journal, long) = (MemoryJournal::new(), "x".repeat(512));
    for name in [
        "../../etc/passwd",
        "a/b",
        "'; drop table fact; --",
        "%",
        "_",
        ".",
        "\u{202e}evil",
        "e\u{301}",
        "é",
        "A",
        "a",
        " ",
        " a",
        "a ",
        long.as_str(),
    ] {
        let mut chat =
            agent.open(&journal, name).await.unwrap_or_else(|err| panic!("{name}: {err}"));
        assert!(chat.transcript().messages().is_empty(), "{name} is another one");
        chat.send("Pay.").await.expect("an answer");
        assert_eq!(chat.conversation(), Some(name));
    }
    let long = "x".repeat(513);
    for name in ["", "\n", "a\0b", "\u{7f}", "\u{85}", long.as_str()] {
        let error = agent.open(&journal, name).await.map(|_| ()).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Configuration);
        agent.import(&journal, name, Transcript::default()).await.map(|_| ()).expect_err(name);
        agent.inbox(&journal).waiting(name).await.expect_err(name);
        agent
            .open(&journal, "a")
            .await
            .expect("there")
            .fork(name, 1)
            .await
            .map(|_| ())
            .expect_err(name);
    }
    let mut chat = agent.open(&journal, "a").await.expect("there");
    let facts = chat.facts();
    chat.fork("a", 1).await.map(|_| ()).expect_err("it is itself");
    assert_eq!(chat.facts(), facts);
    chat.send("And now?").await.expect("an answer");
}

#[tokio::test]
async fn thousands_of_facts_and_large_ones() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let model = ScriptedProvider::answering(|request| {
        let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
        match said % 40 {
            39 => reply().text("x".repeat(200_000)),
            _ => reply().call("look", json!({"n": said})),
        }
    });
    let rails = Guardrails::default().turns(1_000).repetitions(None).repeated_calls(None);
    let agent = Agent::builder(model)
        .tools([tool("look", READ, &world)])
        .guardrails(rails)
        .build()
        .expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    let large = "y".repeat(20_000_000);
    for n in 0..25 {
        let sent = chat.send(if n == 0 { large.as_str() } else { "Go." }).await;
        drop(sent);
    }
    let facts = chat.facts();
    drop(chat);
    let chat = agent.open(&journal, CHAT).await.expect("it opens");
    assert!(facts > 100, "{facts}");
    is_kept("large", &journal, chat.transcript());
}
