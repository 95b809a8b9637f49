//! What was acknowledged is there, and no batch is there by half, whatever becomes of the server.

use std::time::Duration;

use harness::{
    ErrorKind,
    journal::{Envelope, Head, Journal, PostgresJournal, WriterId},
};
use tokio::sync::mpsc;

use crate::server::{Server, fact, fresh, is_alive, server};

/// How many facts one append has.
const BATCH: usize = 3;

fn batch(writer: usize, number: usize) -> Vec<Envelope> {
    let life = WriterId::of_this_process();
    (0..BATCH)
        .map(|at| fact(life, &format!("{writer} {number} {at} {}", "x".repeat(300))))
        .collect()
}

/// Appends one batch after the other, as a program does: what is not known it reads back.
async fn write(journal: &PostgresJournal, writer: usize, batches: usize, told: &mpsc::Sender<()>) {
    let conversation = writer.to_string();
    let mut after = Head::default();
    for number in 0..batches {
        let facts = batch(writer, number);
        loop {
            let err = match journal.append(&conversation, after, &facts).await {
                Ok(head) => {
                    after = head;
                    break;
                }
                Err(err) => err,
            };
            assert_eq!(err.kind(), ErrorKind::Journal, "{err}");
            // The server is away for a moment.
            let there = loop {
                match journal.read(&conversation, 0).await {
                    Ok(there) => break there,
                    Err(err) => assert_eq!(err.kind(), ErrorKind::Journal, "{err}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            assert!(there.head.facts >= after.facts, "what was acknowledged is lost");
            match &there.facts[number * BATCH..] {
                [] => {}
                own if own == facts => {
                    after = there.head;
                    break;
                }
                half => panic!("a part of a batch: {half:?}"),
            }
        }
        told.send(()).await.expect("the test listens");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_it_writes_loses_nothing_that_it_has_acknowledged() {
    const WRITERS: usize = 4;
    const BATCHES: usize = 400;
    // A server that is told to be careless must not be.
    let mut own = server!(Server::start(&["synchronous_commit=off"], ""));
    let journal = own.journal("kills").await;
    let (told, mut heard) = mpsc::channel(1);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (journal, told) = (journal.clone(), told.clone());
        writers.spawn(async move { write(&journal, writer, BATCHES, &told).await });
    }
    drop(told);
    let mut random = fastrand::Rng::with_seed(7);
    let mut kills = 0;
    let mut next = 60;
    let mut acknowledged = 0;
    while heard.recv().await.is_some() {
        acknowledged += 1;
        if acknowledged >= next && kills < 12 {
            next += random.usize(60..120);
            kills += 1;
            // In the middle of what is on its way now.
            tokio::task::yield_now().await;
            own = tokio::task::spawn_blocking(move || {
                own.kill();
                own.run();
                own
            })
            .await
            .expect("it is there again");
        }
    }
    while let Some(done) = writers.join_next().await {
        done.expect("a writer");
    }
    assert_eq!(kills, 12);
    for writer in 0..WRITERS {
        let read = journal.read(&writer.to_string(), 0).await.expect("facts").facts;
        let expected: Vec<_> = (0..BATCHES).flat_map(|number| batch(writer, number)).collect();
        assert!(read == expected, "writer {writer} has {} facts", read.len());
    }
}

#[tokio::test]
async fn a_server_that_goes_away_is_named_and_used_again_when_it_is_back() {
    let mut own = server!(Server::start(&[], ""));
    let url = own.loopback("postgres");
    let builder = PostgresJournal::builder(&url).time_out(Duration::from_secs(10));
    let journal = builder.connect().await.expect("a journal");
    let last = journal.append("a", Head::default(), &batch(0, 0)).await.expect("appended");
    let hold = journal.hold("a").await.expect("held");

    own.stop();
    let told = [
        journal.append("a", last, &batch(0, 1)).await.unwrap_err(),
        journal.read("a", 0).await.unwrap_err(),
        journal.hold("b").await.unwrap_err(),
        PostgresJournal::connect(&url).await.unwrap_err(),
    ];
    for err in told {
        let (shown, debug) = (err.to_string(), format!("{err:?}"));
        assert_eq!(err.kind(), ErrorKind::Journal, "{shown}");
        assert!(shown.contains(&format!("127.0.0.1:{}", own.port)), "{shown}");
        assert!(!(shown + &debug).contains("hunter2"), "{debug}");
    }
    let refused = journal.read("a", 0).await.unwrap_err().to_string();
    assert!(refused.contains("Connection refused"), "{refused}");

    own.run();
    assert_eq!(journal.read("a", 0).await.expect("facts").facts, batch(0, 0));
    journal.append("a", last, &batch(0, 1)).await.expect("appended");
    drop(journal.hold("b").await.expect("held"));
    drop(hold);
    drop(journal.hold("a").await.expect("held again"));
}

#[tokio::test]
async fn a_frozen_server_is_not_waited_for() {
    let own = server!(Server::start(&[], ""));
    let patient = own.journal("frozen").await;
    let last = patient.append("a", Head::default(), &batch(0, 0)).await.expect("appended");
    let builder = own.builder("frozen").time_out(Duration::from_millis(400));
    let journal = builder.connect().await.expect("a journal");
    let hold = journal.hold("a").await.expect("held");

    own.freeze(true);
    let told = [
        journal.read("a", 0).await.unwrap_err(),
        // The connection from before was given up, and another one is not made.
        journal.append("a", last, &batch(0, 1)).await.unwrap_err(),
        journal.hold("b").await.unwrap_err(),
        journal.hold("b").await.unwrap_err(),
    ];
    own.freeze(false);
    for err in told {
        let shown = err.to_string();
        assert_eq!(err.kind(), ErrorKind::Journal, "{shown}");
        assert!(shown.contains("within 400ms") && shown.contains("database `postgres`"), "{shown}");
    }

    // It catches up, and the same journal is used again.
    let read = loop {
        match journal.read("a", 0).await {
            Ok(read) => break read.facts,
            Err(err) => assert_eq!(err.kind(), ErrorKind::Journal),
        }
    };
    assert!(read == batch(0, 0) || read.len() == 2 * BATCH, "{read:?}");
    drop(hold);
}

#[tokio::test]
async fn sessions_that_were_ended_while_nobody_used_them_are_replaced() {
    let server = server!();
    let schema = fresh("idle");
    let url = format!("{}?application_name={schema}", server.socket("harness", "postgres"));
    let journal = PostgresJournal::builder(url).schema(&schema).connect().await.expect("a journal");
    let sessions = format!("from pg_stat_activity where application_name = '{schema}'");
    let names: Vec<String> = (0..6).map(|at| at.to_string()).collect();
    let mut heads = vec![Head::default(); 6];
    for round in 0..5 {
        // Several at once need several sessions.
        let facts = batch(0, round);
        let appends = names.iter().zip(heads);
        let appends = appends.map(|(name, after)| journal.append(name, after, &facts));
        heads = futures_util::future::try_join_all(appends).await.expect("appended");
        let ended = server.sql(&format!("select pid, pg_terminate_backend(pid) {sessions}"));
        for line in ended.lines() {
            let (id, _) = line.split_once('|').expect("two columns");
            let id = id.parse().expect("a process");
            while is_alive(id) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        // Who hears of a new session has heard that the others are gone.
        server.journal(&schema).await;
    }
}

#[tokio::test]
async fn an_append_whose_session_is_ended_has_happened_or_not() {
    let server = server!();
    let schema = fresh("ended");
    let url = format!("{}?application_name={schema}", server.socket("harness", "postgres"));
    let journal = PostgresJournal::builder(url).schema(&schema).connect().await.expect("a journal");
    let last = journal.append("a", Head::default(), &batch(0, 0)).await.expect("appended");

    let waits = format!(
        "from pg_stat_activity where application_name = '{schema}' and wait_event_type = 'Lock'"
    );
    let facts = batch(0, 1);
    for ends in [true, false] {
        let locked = server.open(&format!("lock table {schema}.facts"));
        let mut append = journal.append("a", last, &facts);
        let waiting = format!("select count(*) {waits}");
        tokio::select! {
            done = &mut append => panic!("it should wait: {done:?}"),
            _ = server.until(&waiting) => {}
        }
        if ends {
            server.sql(&format!("select pg_terminate_backend(pid) {waits}"));
            let err = append.await.unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Journal);
            assert!(err.to_string().contains("57P01"), "{err}");
        } else {
            // Or the program has let go of it.
            drop(append);
        }
        drop(locked);
        server.until(&format!("select 1 {waits} having count(*) = 0")).await;
        let there = journal.read("a", 0).await.expect("facts").facts;
        assert!(there.len() == BATCH || there[BATCH..] == facts, "{there:?}");
    }
    let there = journal.read("a", 0).await.expect("facts").head;
    journal.append("a", there, &batch(0, 2)).await.expect("appended");
}

#[tokio::test]
async fn a_lock_of_somebody_else_is_not_waited_for_without_end() {
    let server = server!();
    let schema = fresh("locked");
    let builder = server.builder(&schema).time_out(Duration::from_millis(300));
    let journal = builder.connect().await.expect("a journal");
    let locked = server.open(&format!("lock table {schema}.conversations"));
    let err = journal.append("a", Head::default(), &batch(0, 0)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Journal, "{err}");
    // Nobody waits at the server either.
    let waits = format!(
        "select 1 from pg_locks where not granted and relation = '{schema}.conversations'::regclass \
         having count(*) = 0"
    );
    server.until(&waits).await;
    drop(locked);
    journal.append("a", Head::default(), &batch(0, 0)).await.expect("appended");
}

/// A program that keeps its thread for itself, such as one that waits for a line of its user, hears of
/// nothing meanwhile.
#[tokio::test]
async fn a_server_that_was_started_anew_while_nobody_listened_is_used_at_once() {
    let mut own = server!(Server::start(&[], ""));
    let journal = own.journal("anew").await;
    let facts = [fact(WriterId::random(), "said")];
    let mut heads = vec![Head::default(); 3];
    for _ in 0..5 {
        let appends = ["a", "b", "c"].into_iter().zip(heads);
        let appends = appends.map(|(name, after)| journal.append(name, after, &facts));
        heads = futures_util::future::try_join_all(appends).await.expect("appended");
        own.kill();
        own.run();
    }
    for name in ["a", "b", "c"] {
        assert_eq!(journal.read(name, 0).await.expect("facts").facts.len(), 5);
    }
}
