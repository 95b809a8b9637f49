//! Of those who append after the same fact, one goes on and the others are refused.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
};

use harness::{
    ErrorKind,
    journal::{Head, Journal, PostgresJournal, WriterId},
};

use crate::server::{fact, fresh, process, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_eight_journals_one_goes_on_each_time() {
    const ROUNDS: u64 = 1500;
    let server = server!();
    let schema = fresh("races");
    let journals = futures_util::future::join_all((0..8).map(|_| server.journal(&schema))).await;
    let (mut winners, mut after) = (Vec::new(), Head::default());
    for round in 0..ROUNDS {
        let appended = journals.iter().enumerate().map(|(own, journal)| async move {
            let facts =
                [fact(WriterId::random(), &own.to_string()), fact(WriterId::random(), "second")];
            (own, journal.append("raced", after, &facts).await)
        });
        let appended = futures_util::future::join_all(appended).await;
        let (won, lost): (Vec<_>, Vec<_>) =
            appended.into_iter().partition(|(_, done)| done.is_ok());
        assert_eq!(won.len(), 1, "round {round}: {lost:?}");
        for (_, done) in lost {
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Conflict);
        }
        winners.push(won[0].0.to_string());
        after = *won[0].1.as_ref().expect("it was appended");
    }
    let read = journals[0].read("raced", 0).await.expect("the facts").facts;
    let first: Vec<String> = winners.iter().map(|own| format!("{{\"fact\":\"{own}\"}}")).collect();
    let there: Vec<&str> = read.iter().step_by(2).map(|it| &*it.fact).collect();
    assert_eq!(there, first);
    assert!(read.iter().skip(1).step_by(2).all(|it| &*it.fact == "{\"fact\":\"second\"}"));
}

/// Appends as fast as it can, until there are enough facts, and prints those that were taken.
#[tokio::test]
#[ignore = "a process of the test below"]
async fn a_process_that_races() {
    let Ok(url) = std::env::var("HARNESS_RACE") else { return };
    let schema = std::env::var("HARNESS_SCHEMA").expect("a schema");
    let journal = PostgresJournal::builder(url).schema(schema).connect().await.expect("a journal");
    let mut own = 0;
    loop {
        let mut head = journal.read("raced", 0).await.expect("the facts").head;
        // Several a look, so that the processes meet.
        for _ in 0..8 {
            let after = head.facts;
            if after >= 1200 {
                return;
            }
            let text = format!("{} {own}", std::process::id());
            match journal.append("raced", head, &[fact(WriterId::of_this_process(), &text)]).await {
                Ok(next) => {
                    head = next;
                    println!("taken {after} {text}");
                    own += 1;
                }
                Err(err) => {
                    assert!(err.is_conflict(), "{err}");
                    println!("refused");
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn processes_never_both_go_on() {
    let server = server!();
    let schema = fresh("processes");
    let url = server.socket("harness", "postgres");
    let variables = [("HARNESS_RACE", url.as_str()), ("HARNESS_SCHEMA", schema.as_str())];
    // They all make the tables, too.
    let processes: Vec<_> =
        (0..8).map(|_| process("races::a_process_that_races", &variables)).collect();
    let mut taken = BTreeMap::new();
    let mut refused = 0;
    for mut process in processes {
        let output = BufReader::new(process.stdout.take().expect("its output"));
        for line in output.lines() {
            let line = line.expect("a line");
            // The first line begins with what the harness says.
            if let Some((_, told)) = line.split_once("taken ") {
                let (number, text) = told.split_once(' ').expect("number and text");
                let number: usize = number.parse().expect("a number");
                assert_eq!(taken.insert(number, format!("{{\"fact\":{text:?}}}")), None);
            }
            refused += usize::from(line.ends_with("refused"));
        }
        assert!(process.wait().expect("it ends").success());
    }
    assert!(refused > 0, "they have not met");
    let read = server.journal(&schema).await.read("raced", 0).await.expect("the facts").facts;
    let there: Vec<&str> = read.iter().map(|it| &*it.fact).collect();
    assert_eq!(there, taken.values().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(there.len(), 1200);
}
