//! Conversations in a journal: another driver, several ends, limits, imports.

use super::*;

/// Many scripts, both drivers, the second with each step applied twice from kept facts.
#[tokio::test]
async fn both_drivers_come_to_the_same_facts() {
    fn script(seed: u64, turn: usize) -> ScriptedReply {
        let mut random = fastrand_like(seed.wrapping_mul(31).wrapping_add(turn as u64));
        let mut it = reply().tokens(seed % 7 * 10 + 1, turn as u64 + 1);
        let calls = if turn < 3 { random() % 5 } else { 0 };
        for n in 0..calls {
            let name = ["look", "pay", "put", "none", "mail", "ask"]
                [usize::try_from(random() % 6).expect("small")];
            it = it.call_with_id(
                format!("{name}_{turn}{n}"),
                name,
                json!({"n": turn as u64 * 10 + n}),
            );
        }
        if calls == 0 { it.text("Done.") } else { it }
    }
    fn fastrand_like(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        }
    }
    fn built(seed: u64, world: &World) -> Agent {
        let model = ScriptedProvider::answering(move |request| {
            let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
            script(seed, said)
        });
        let mut all = tools(world);
        all.push(tool("mail", NETWORK, world));
        all.push(Tool::new("ask", "Asks.", json!({"type": "object"}), WRITE, |_, _| {
            Box::pin(async { Err(ToolError::new("no")) })
        }));
        // A journal offers one tool more, and an unknown tool is answered with all names.
        let agent = Agent::builder(model).tools(all).early_start(false).spills(false);
        agent.build().expect("an agent")
    }
    fn kind(fact: &Fact) -> String {
        match fact {
            Fact::UserSaid { limits, .. } => format!("said {limits:?}"),
            Fact::ModelReplied { stop, usage, .. } => format!("replied {stop:?} {usage:?}"),
            // Which of equal results has the note depends on which call ends first.
            Fact::CallFinished { result, .. } => {
                format!(
                    "{} {:?} {:?}",
                    result.call_id(),
                    result.outcome(),
                    result.content().first()
                )
            }
            other => format!("{other:?}"),
        }
    }
    let mut differing = Vec::new();
    for seed in 0..crate::times(80) {
        let (one, two) = (World::default(), World::default());
        let journal = MemoryJournal::new();
        let own = built(seed, &one);
        let mut chat = own.open(&journal, CHAT).await.expect("new");
        let ended = chat.send("Go.").await;
        let ended = ended.map_or_else(|stopped| stopped.outcome(), |_| Outcome::Answered);
        let agent = built(seed, &two);
        let mut steps = agent.steps(CHAT, Vec::new()).expect("new");
        let mut log: Vec<Vec<Envelope>> = Vec::new();
        let take = |steps: &mut Steps, facts: Vec<Envelope>, log: &mut Vec<Vec<Envelope>>| {
            // Kept as text, and applied to a conversation that was read again.
            let text = serde_json::to_string(&facts).expect("JSON");
            let facts: Vec<Envelope> = serde_json::from_str(&text).expect("facts");
            log.push(facts.clone());
            steps.apply(facts).expect("it follows");
        };
        let said = steps.say("Go.".into()).await.expect("new");
        take(&mut steps, said, &mut log);
        let finished = loop {
            // Other steps would find calls that have started, and own none of them.
            if seed % 2 == 0 && steps.next() != Action::AwaitResults {
                steps = agent.steps(CHAT, steps.facts().to_vec()).expect("it is read again");
            }
            if let Action::Finish(outcome) = steps.next() {
                break outcome;
            }
            let facts = steps.act().await.expect("facts");
            assert!(!facts.is_empty(), "{seed}: {:?}", steps.next());
            take(&mut steps, facts, &mut log);
        };
        assert_eq!(finished, ended, "{seed}");
        let mut first: Vec<String> = entries(&journal).iter().map(kind).collect();
        let mut second: Vec<String> =
            steps.facts().iter().map(|fact| kind(&fact.fact().expect("a fact"))).collect();
        first.sort();
        second.sort();
        if first != second {
            differing.push(seed);
        }
        let mut again = agent.steps(CHAT, Vec::new()).expect("new");
        for facts in log {
            again.apply(facts).expect("it follows");
        }
        assert_eq!(again.transcript(), steps.transcript(), "{seed}");
        let sorted = |world: &World| {
            let mut did = world.did.lock().expect("unpoisoned").clone();
            did.sort();
            did
        };
        assert_eq!(sorted(&one), sorted(&two), "{seed}");
    }
    assert!(differing.is_empty(), "{differing:?}");
}

fn started_in(facts: &[Envelope]) -> Vec<String> {
    let started = facts.iter().filter_map(|fact| match fact.fact().expect("a fact") {
        Fact::CallStarted { call } => Some(call),
        _ => None,
    });
    started.collect()
}

/// A process ends at each instant, and the one that goes on ends at each instant, too.
#[tokio::test]
async fn two_processes_end_one_after_the_other() {
    let (facts, _) = whole().await;
    for one in 2..facts.len() {
        let journal = with_facts(&facts[..one]).await;
        let world = World::default();
        let _ = agent(&world).open(&journal, CHAT).await.expect("it opens").resume().await;
        let second = facts_of(&journal);
        for two in one..=second.len() {
            let label = format!("{one} {two}");
            let journal = with_facts(&second[..two]).await;
            let world = World::default();
            for call in started_in(&second[..two]) {
                world.did.lock().expect("unpoisoned").push(call.replace('_', " "));
            }
            let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
            let _ = chat.resume().await;
            is_true(&label, chat.transcript(), &world);
            is_kept(&label, &journal, chat.transcript());
        }
    }
}

/// An approval, a form and a tool that asks wait in one answer; they are answered in any order, and the
/// process ends after each fact.
#[tokio::test]
async fn all_that_waits_over_restarts_in_any_order() {
    fn built(world: &World) -> Agent {
        let model = ScriptedProvider::answering(|request| {
            match request.messages().iter().any(|message| message.results().next().is_some()) {
                false => reply()
                    .call_with_id("mail_1", "mail", json!({"n": 1}))
                    .call_with_id("form_1", "form", json!({"n": 1}))
                    .call_with_id("book_1", "book", json!({"n": 1})),
                true => reply().text("Done."),
            }
        });
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let seen = world.clone();
        let book = Tool::new("book", "Books.", schema.clone(), WRITE, move |context, _| {
            let seen = seen.clone();
            Box::pin(async move {
                match context.answered() {
                    None => Err(ToolError::asks("Inside?", json!({"table": 7}))),
                    Some(answered) => {
                        assert_eq!(answered.token, json!({"table": 7}));
                        seen.did.lock().expect("unpoisoned").push("book 1".into());
                        Ok("booked".into())
                    }
                }
            })
        });
        let form = Tool::external("form", "Asks.", schema, READ);
        Agent::builder(model)
            .tools([tool("mail", NETWORK, world), form, book])
            .approver(|question: ApprovalRequest| async move { question.later(None) })
            .build()
            .expect("an agent")
    }
    /// Answers the call of this place among those that wait, by an inbox.
    async fn answer(agent: &Agent, journal: &MemoryJournal, place: usize) -> bool {
        let inbox = agent.inbox(journal);
        let mut waiting = inbox.waiting(CHAT).await.expect("it reads");
        if waiting.is_empty() {
            return false;
        }
        let open = waiting.remove(place % waiting.len());
        let answered = match (open.question(), open.call.name()) {
            (Some(question), _) => inbox.decide(CHAT, question.yes().by("ada")).await,
            (None, "form") => inbox.settle(CHAT, open.succeeded("Via Po 1")).await,
            (None, _) => inbox.settle(CHAT, open.answered("outside")).await,
        };
        answered.expect("it waits");
        true
    }
    async fn to_the_end(label: &str, journal: &MemoryJournal, world: &World, place: usize) {
        let agent = built(world);
        for round in 0.. {
            assert!(round < 20, "{label}: it has no end");
            let mut chat = agent.open(journal, CHAT).await.expect("it opens");
            match chat.resume().await {
                Ok(reply) => {
                    assert_eq!(reply.text(), "Done.", "{label}");
                    is_kept(label, journal, chat.transcript());
                    break;
                }
                Err(stopped) => {
                    assert_eq!(stopped.outcome(), Outcome::Waiting, "{label}: {stopped}")
                }
            }
            drop(chat);
            assert!(answer(&agent, journal, place + round).await, "{label}");
        }
    }
    for place in 0..6 {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let agent = built(&world);
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        drop(chat);
        to_the_end("first", &journal, &world, place).await;
        assert_eq!((world.count("mail 1"), world.count("book 1")), (1, 1), "{place}");
        let facts = facts_of(&journal);
        for kept in 1..facts.len() {
            let label = format!("{place} {kept}");
            let again = with_facts(&facts[..kept]).await;
            let world = World::default();
            to_the_end(&label, &again, &world, place).await;
            let all = facts_of(&again);
            let told =
                outcomes(built(&world).open(&again, CHAT).await.expect("opens").transcript());
            for (id, outcome) in told {
                let before = started_in(&facts[..kept]).contains(&id);
                let finished = facts[..kept].iter().any(|fact| matches!(fact.fact().expect("a fact"), Fact::CallFinished { result, .. } if result.call_id() == id));
                let ran = world.count(&id.replace('_', " "));
                match outcome {
                    CallOutcome::Succeeded => assert!(
                        id == "form_1" || ran == usize::from(!finished),
                        "{label}: {id} ran {ran}"
                    ),
                    CallOutcome::InDoubt => assert!(before && ran == 0, "{label}: {id} ran {ran}"),
                    other => panic!("{label}: {id} is {other:?}"),
                }
            }
            assert!(all.len() >= kept);
        }
    }
}

/// A wait is over by a cancellation, and the answer that comes after it counts no more.
#[tokio::test]
async fn cancelled_while_it_waits() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = mailing(&world, 2);
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let open = chat.waiting();
    let token = CancellationToken::new();
    token.cancel();
    let stopped =
        chat.resume().cancel_with(token.clone()).await.expect_err("it waits, or is cancelled");
    is_kept("cancelled", &journal, chat.transcript());
    let inbox = agent.inbox(&journal);
    if stopped.outcome() == Outcome::Waiting {
        chat.decide(open[0].question().expect("a question").yes()).await.expect("it waits");
        chat.decide(open[1].question().expect("a question").yes()).await.expect("it waits");
        chat.resume().cancel_with(token).await.expect_err("it is cancelled");
        is_kept("cancelled", &journal, chat.transcript());
        is_true("cancelled", chat.transcript(), &world);
        assert_eq!(world.count("mail 1"), 0);
    }
    for open in &open {
        inbox
            .decide(CHAT, open.question().expect("a question").yes())
            .await
            .expect_err("it is over");
    }
    drop(chat);
    let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
    chat.send("And now?").await.expect("an answer");
    assert_eq!((world.count("mail 1"), world.count("mail 2")), (0, 0));
}

/// Tokens of the conversation and time of the run go on over restarts; new limits begin anew and are kept.
#[tokio::test(start_paused = true)]
async fn limits_over_restarts() {
    use std::time::Duration;
    let (facts, _) = whole().await;
    let world = World::default();
    // The conversation has spent 11 100 tokens.
    let journal = with_facts(&facts).await;
    let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
    chat.limits(harness::Limits::new().input_tokens(11_100));
    let stopped = chat.send("And now?").await.expect_err("it is spent");
    assert_eq!(stopped.outcome(), Outcome::Limit(harness::journal::LimitKind::InputTokens));
    drop(chat);

    let sleeps = Tool::new("sleep", "Sleeps.", json!({"type": "object"}), WRITE, |_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Ok("slept".into())
        })
    })
    .idempotent();
    let model = ScriptedProvider::answering(|request| match request.messages().iter().len() {
        0..7 => reply().call("sleep", json!({})).tokens(1_000, 1),
        _ => reply().text("Done.").tokens(1_000, 1),
    });
    let rails = Guardrails::default().time(Duration::from_secs(120));
    let agent = Agent::builder(model).tools([sleeps]).guardrails(rails).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    let time = Outcome::Limit(harness::journal::LimitKind::Time);
    assert_eq!(chat.send("Go.").await.expect_err("it takes too long").outcome(), time);
    let whole = facts_of(&journal);
    // It ends in the third sleep, after 100 seconds: 20 are left.
    let started =
        |at: &usize| matches!(whole[*at].fact().expect("a fact"), Fact::CallStarted { .. });
    let at = (0..whole.len()).filter(started).nth(2).expect("it sleeps three times");
    let again = with_facts(&whole[..=at]).await;
    let mut chat = agent.open(&again, CHAT).await.expect("it opens");
    let begun = tokio::time::Instant::now();
    assert_eq!(chat.resume().await.expect_err("it takes too long").outcome(), time);
    let took = begun.elapsed().as_secs();
    assert!((18..=35).contains(&took), "{took} seconds");

    // New limits are kept: what was spent before them does not count in the next process.
    let model = ScriptedProvider::answering(|_| reply().call("look", json!({})).tokens(1_000, 1));
    let agent = Agent::builder(model.clone())
        .tools([tool("look", READ, &world)])
        .guardrails(Guardrails::default().repetitions(None).repeated_calls(None))
        .run_limits(harness::Limits::new().input_tokens(3_000))
        .build()
        .expect("an agent");
    let (journal, mut opened) = (MemoryJournal::new(), 0);
    let spent = Outcome::Limit(harness::journal::LimitKind::InputTokens);
    for (limits, asked) in [(None, 3), (None, 3), (Some(2_000), 5), (None, 5), (Some(1_000), 6)] {
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        opened += 1;
        let stopped = match limits {
            _ if opened == 1 => chat.send("Go.").await,
            Some(tokens) => chat.resume().limits(harness::Limits::new().input_tokens(tokens)).await,
            None => chat.resume().await,
        };
        assert_eq!(stopped.expect_err("it is spent").outcome(), spent, "{opened}");
        assert_eq!(model.requests().len(), asked, "{opened}");
    }
}

/// What was kept elsewhere is imported once, whenever that is dropped.
#[tokio::test]
async fn an_import_that_is_dropped() {
    let (facts, world) = whole().await;
    let journal = with_facts(&facts).await;
    let given = agent(&world).open(&journal, CHAT).await.expect("it opens").transcript().clone();
    for polls in 0..40 {
        let label = format!("{polls} polls");
        let inner = MemoryJournal::new();
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = agent(&world);
        let done =
            polled(Box::pin(agent.import(&journal, CHAT, given.clone())).as_mut(), polls).await;
        let is_done = done.is_some();
        drop(done);
        let written = facts_of(&inner).len();
        match agent.import(&journal, CHAT, given.clone()).await {
            Ok(chat) => assert_eq!((chat.transcript(), written), (&given, 0), "{label}"),
            Err(error) => assert!(error.is_conflict() && written == 1, "{label}: {error}"),
        }
        assert_eq!(facts_of(&inner).len(), 1, "{label}");
        is_kept(&label, &inner, &given);
        if is_done {
            break;
        }
    }
}
