//! What a process holds, others cannot, until it lets go or ends.

use std::{
    io::{BufRead as _, BufReader},
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    ErrorKind,
    journal::{Head, Journal, Lease, PostgresJournal, WriterId},
};

use crate::server::{Server, fact, fresh, process, server, signal};

/// Holds as soon as the one who let go has told the server.
async fn soon(journal: &PostgresJournal, conversation: &str) -> Lease {
    for _ in 0..500 {
        match journal.hold(conversation).await {
            Ok(hold) => return hold,
            Err(err) => assert!(err.is_busy(), "{err}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("`{conversation}` is busy for ever");
}

#[tokio::test]
#[ignore = "a process of the test below"]
async fn a_process_that_holds() {
    let Ok(url) = std::env::var("HARNESS_HOLD") else { return };
    let schema = std::env::var("HARNESS_SCHEMA").expect("a schema");
    let journal = PostgresJournal::builder(url).schema(schema).connect().await.expect("a journal");
    let _hold = soon(&journal, "held").await;
    println!("it holds");
    // Nothing ends this process but a signal.
    std::future::pending::<()>().await;
}

// The tests below wait for processes, and meanwhile the journal must be able to let go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_held_is_free() {
    let server = server!();
    let schema = fresh("killed");
    let journal = server.journal(&schema).await;
    for _ in 0..5 {
        let url = server.socket("harness", "postgres");
        let variables = [("HARNESS_HOLD", url.as_str()), ("HARNESS_SCHEMA", &schema)];
        let mut holder = process("holds::a_process_that_holds", &variables);
        let output = BufReader::new(holder.stdout.take().expect("its output"));
        let holds = output.lines().map_while(Result::ok).any(|line| line.ends_with("it holds"));
        assert!(holds, "it does not hold");
        assert_eq!(journal.hold("held").await.unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(journal.delete("held").await.unwrap_err().kind(), ErrorKind::Busy);
        signal("KILL", &[holder.id()]);
        holder.wait().expect("it ends");
        drop(soon(&journal, "held").await);
    }
}

/// The sessions of these tables' journals that hold locks of conversations.
fn holders(name: &str) -> String {
    format!(
        "from pg_stat_activity a where application_name = '{name}' and exists \
         (select from pg_locks l where l.pid = a.pid and locktype = 'advisory')"
    )
}

#[tokio::test]
async fn a_lost_session_loses_its_holds_and_the_next_hold_makes_another() {
    let server = server!();
    let schema = fresh("lost");
    let url = format!("{}?application_name={schema}", server.socket("harness", "postgres"));
    let journal = PostgresJournal::builder(url).schema(&schema).connect().await.expect("a journal");
    let other = server.journal(&schema).await;
    let first = journal.hold("first").await.expect("held");
    let second = journal.hold("second").await.expect("held");
    assert!(other.hold("first").await.unwrap_err().is_busy());
    server.sql(&format!("select pg_terminate_backend(pid) {}", holders(&schema)));

    // Others may have it; this process still believes that it is open here.
    let theirs = soon(&other, "first").await;
    assert!(journal.hold("first").await.unwrap_err().is_busy());
    assert!(journal.delete("second").await.unwrap_err().is_busy());
    let third = journal.hold("third").await.expect("held");
    assert_eq!(server.sql(&format!("select count(*) {}", holders(&schema))), "1");
    // What nobody has taken meanwhile is held again, once.
    assert!(other.hold("second").await.unwrap_err().is_busy());

    // What was lost is let go of in silence, and takes nothing from those who have it now.
    drop((first, second));
    drop(soon(&other, "second").await);
    assert!(journal.hold("first").await.unwrap_err().is_busy());
    drop(theirs);
    drop(soon(&journal, "first").await);
    assert!(other.hold("third").await.unwrap_err().is_busy());
    drop(third);
    drop(soon(&other, "third").await);
}

/// The settings are those of a role; a database or a server has them in the same way.
#[tokio::test]
async fn who_waits_for_long_keeps_what_it_holds() {
    let server = server!();
    let (role, schema) = (fresh("waits"), fresh("waits"));
    server.sql(&format!(
        "create role {role} login superuser; alter role {role} set lock_timeout = 1"
    ));
    // Older servers do not know it.
    let known = server.sql("select current_setting('idle_session_timeout', true) is not null");
    if known == "t" {
        server.sql(&format!("alter role {role} set idle_session_timeout = 300"));
    }
    let url = format!("{}?application_name={schema}", server.socket(&role, "postgres"));
    let journal = PostgresJournal::builder(url).schema(&schema).connect().await.expect("a journal");
    let other = server.journal(&schema).await;
    let _hold = journal.hold("held").await.expect("held");
    let idle = "and state = 'idle' and clock_timestamp() > state_change + interval '1100 ms'";
    server.until(&format!("select count(*) {} {idle}", holders(&schema))).await;
    assert!(other.hold("held").await.unwrap_err().is_busy());

    // An append waits for a lock for as long as a statement may take.
    let last = journal
        .append("held", Head::default(), &[fact(WriterId::random(), "said")])
        .await
        .expect("appended");
    let locked = server.open(&format!("lock table {schema}.facts"));
    let facts = [fact(WriterId::random(), "said")];
    let waits = format!(
        "select count(*) from pg_stat_activity where application_name = '{schema}' and \
         wait_event_type = 'Lock' and clock_timestamp() > query_start + interval '50 ms'"
    );
    let unlock = async {
        server.until(&waits).await;
        drop(locked);
    };
    let (appended, ()) = tokio::join!(journal.append("held", last, &facts), unlock);
    appended.expect("appended");
}

#[tokio::test]
async fn a_server_without_room_for_one_more_lock_keeps_the_others() {
    let few = ["max_connections=10", "max_locks_per_transaction=10"];
    let own = server!(Server::start(&few, ""));
    let (journal, other) = (own.journal("many").await, own.journal("many").await);
    let mut held = Vec::new();
    let err = loop {
        match journal.hold(&held.len().to_string()).await {
            Ok(hold) => held.push(hold),
            Err(err) => break err,
        }
        assert!(held.len() < 100_000, "there is room for all");
    };
    assert_eq!(err.kind(), ErrorKind::Journal);
    assert!(err.to_string().contains("max_locks_per_transaction"), "{err}");
    let last = held.len() - 1;
    held.truncate(last / 2);
    // There is room again, so the other one can look, and finds the rest held.
    drop(soon(&journal, "one more").await);
    for at in [0, last / 4, last / 2 - 1] {
        assert!(other.hold(&at.to_string()).await.unwrap_err().is_busy(), "{at} is lost");
    }
    drop(soon(&other, &last.to_string()).await);
}

#[tokio::test]
async fn a_hold_that_nobody_waited_for_is_let_go() {
    let server = server!();
    let schema = fresh("unwaited");
    let journal = server.journal(&schema).await;
    let other = server.journal(&schema).await;
    for polls in 1..30 {
        let conversation = format!("dropped {polls}");
        let mut hold = journal.hold(&conversation);
        for _ in 0..polls {
            if (&mut hold).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(hold);
        // It is free here at once, and soon for others.
        drop(journal.hold(&conversation).await.expect("held"));
        drop(soon(&other, &conversation).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_let_go_of_can_be_deleted_at_once() {
    let server = server!();
    let journal = server.journal(&fresh("deleted")).await;
    for _ in 0..50 {
        let others = ["1", "2", "3"].map(|name| journal.hold(name));
        let others = futures_util::future::try_join_all(others).await.expect("held");
        drop(others);
        for name in ["3", "2", "1"] {
            journal.delete(name).await.expect("deleted");
        }
    }
}

#[tokio::test]
async fn a_hold_outlives_the_journal_and_then_nothing_is_left() {
    let server = server!();
    let schema = fresh("outlives");
    let url = format!("{}?application_name={schema}", server.socket("harness", "postgres"));
    let journal = PostgresJournal::builder(url).schema(&schema).connect().await.expect("a journal");
    let other = server.journal(&schema).await;
    let hold = journal.hold("held").await.expect("held");
    drop(journal);
    // Of the journal only the session with the lock is left.
    let sessions = |number: u32| {
        format!(
            "select 1 from pg_stat_activity where application_name = '{schema}' \
             having count(*) = {number}"
        )
    };
    server.until(&sessions(1)).await;
    assert!(other.hold("held").await.unwrap_err().is_busy());
    drop(hold);
    server.until(&sessions(0)).await;
    drop(soon(&other, "held").await);
}

/// A runtime ends with all of its tasks; the journal makes new ones in the next.
#[test]
fn a_journal_goes_from_runtime_to_runtime() {
    let server = server!();
    let schema = fresh("runtimes");
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let journal = runtime().block_on(server.journal(&schema));
    let (mut holds, mut last) = (Vec::new(), Head::default());
    for round in 0..3 {
        let conversation = format!("round {round}");
        holds.push(runtime().block_on(journal.hold(&conversation)).expect("held"));
        let facts = [fact(WriterId::random(), "said")];
        last = runtime().block_on(journal.append("said", last, &facts)).expect("appended");
    }
    drop(holds);
    assert_eq!(runtime().block_on(journal.read("said", 0)).expect("facts").facts.len(), 3);
}

#[test]
fn without_a_timer_there_is_an_error() {
    let server = server!();
    let url = server.socket("harness", "postgres");
    let bare = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let err = bare.block_on(PostgresJournal::connect(&url)).unwrap_err();
    assert!(err.is_configuration() && err.to_string().contains("enable_all"), "{err}");
    let err = futures_executor(PostgresJournal::connect(&url)).unwrap_err();
    assert!(err.is_configuration() && err.to_string().contains("enable_all"), "{err}");
}

/// Polls without any runtime.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits for something that is not there"),
    }
}
