//! Files of the first version of the tables, which had no large results: they are brought up to date when they are
//! opened.

use std::{fs, io::BufRead as _, io::BufReader, path::Path, time::Duration};

use harness::journal::{Envelope, Journal, Life, Listing, SqliteJournal};
use rusqlite::Connection;

use crate::killed::child;

/// The tables of the first version, as it made them.
const FIRST: &str = "
    CREATE TABLE conversations (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        metadata TEXT NOT NULL,
        owner TEXT,
        parent TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        changed INTEGER NOT NULL UNIQUE,
        facts INTEGER NOT NULL,
        base INTEGER,
        base_facts INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX conversations_owner ON conversations (owner, changed) WHERE owner IS NOT NULL;
    CREATE INDEX conversations_parent ON conversations (parent, changed) WHERE parent IS NOT NULL;
    CREATE INDEX conversations_base ON conversations (base) WHERE base IS NOT NULL;
    CREATE TABLE facts (
        conversation INTEGER NOT NULL,
        number INTEGER NOT NULL,
        format INTEGER NOT NULL,
        version TEXT NOT NULL,
        life TEXT NOT NULL,
        at INTEGER NOT NULL,
        elapsed INTEGER NOT NULL,
        fact TEXT NOT NULL,
        PRIMARY KEY (conversation, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE holds (
        conversation TEXT PRIMARY KEY,
        life TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    PRAGMA application_id = 0x68726e73;
    PRAGMA user_version = 1;
";

fn facts() -> Vec<Envelope> {
    let life: Life = Life::parse("0123456789abcdef").unwrap();
    let fact =
        |number| Envelope::stored(1, "0.1.0", life, 7, number, format!("{{\"n\":{number}}}"));
    (0..5).map(fact).collect()
}

/// A conversation of five facts, and a fork of it that shares three and has one of its own.
fn first_version(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    db.execute_batch(FIRST).unwrap();
    db.execute_batch(
        r#"INSERT INTO conversations VALUES
            (1, 'old', '{"owner":"ann"}', 'ann', NULL, 10, 20, 1, 5, NULL, 0),
            (2, 'fork', '{}', NULL, NULL, 11, 21, 2, 4, 1, 3);"#,
    )
    .unwrap();
    let insert = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    for (number, fact) in facts().iter().enumerate() {
        let add = |conversation: i64, number: usize| {
            let (life, number) = (fact.life.to_string(), i64::try_from(number).unwrap());
            let (at, elapsed) = (fact.at.cast_signed(), fact.elapsed.cast_signed());
            let (version, json) = (&*fact.version, &*fact.fact);
            let row = (conversation, number, fact.format, version, life, at, elapsed, json);
            db.execute(insert, row).unwrap();
        };
        add(1, number);
        if number == 4 {
            add(2, 3);
        }
    }
}

fn version(path: &Path) -> (i64, i64) {
    let db = Connection::open(path).unwrap();
    let tables =
        "SELECT count(*) FROM sqlite_master WHERE name IN ('spills', 'chunks', 'spills_body')";
    let version = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    (version, db.query_row(tables, [], |row| row.get(0)).unwrap())
}

/// What was there is there, and what is new can be used.
async fn has_all(journal: &SqliteJournal) {
    let all = facts();
    assert_eq!(journal.read("old", 0).await.unwrap(), all);
    let of_fork = [&all[..3], &all[4..]].concat();
    assert_eq!(journal.read("fork", 0).await.unwrap(), of_fork);
    let page = journal.list(&Listing::new().owner("ann")).await.unwrap();
    assert_eq!(page.conversations.len(), 1);
    let old = &page.conversations[0];
    assert_eq!((&*old.id, old.facts, old.created_at, old.updated_at), ("old", 5, 10, 20));
}

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date_once_and_keeps_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    first_version(&path);
    assert_eq!(version(&path), (1, 0));
    // Who may only read leaves it as it is.
    let reads = SqliteJournal::builder().read_only().open(&path).await.unwrap();
    has_all(&reads).await;
    assert_eq!(reads.read_spill("old", "r-1", 0).await.unwrap(), None, "it has none");
    assert!(reads.write_spill("old", "r-1", 0, b"large").await.is_err());
    drop(reads);
    assert_eq!(version(&path), (1, 0));

    let journal = SqliteJournal::open(&path).await.unwrap();
    assert_eq!(version(&path), (2, 3));
    has_all(&journal).await;
    journal.write_spill("old", "r-1", 0, b"large").await.unwrap();
    journal.fork("old", 5, "second").await.unwrap();
    drop(journal);
    // Opened again, it stays as it is.
    let again = SqliteJournal::open(&path).await.unwrap();
    assert!(again.delete("old").await.unwrap());
    assert_eq!(again.read_spill("second", "r-1", 0).await.unwrap(), Some(b"large".to_vec()));
    assert_eq!(again.read("second", 0).await.unwrap(), facts());
    assert_eq!(version(&path), (2, 3));
}

/// Opens the file over and over, until the parent ends it.
pub(crate) async fn upgrade(path: &Path) {
    println!("\n> begins");
    let journal = SqliteJournal::open(path).await.unwrap();
    has_all(&journal).await;
    println!("\n> done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_bring_a_file_up_to_date_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.db"));
        first_version(&path);
        let children: Vec<_> =
            (0..2).map(|_| child("upgrade", &path, round).spawn().unwrap()).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("> done"), "{output:?}");
        }
        assert_eq!(version(&path), (2, 3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_while_it_brings_a_file_up_to_date_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = [0, 0];
    for round in 0..40_u64 {
        let path = folder.path().join(format!("{round}.db"));
        first_version(&path);
        let mut child = child("upgrade", &path, round).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("> begins")));
        // Here the time is the point: it is when the process ends.
        std::thread::sleep(Duration::from_micros(round * 150));
        child.kill().unwrap();
        child.wait().unwrap();
        // Before or after, and nothing between.
        let is = version(&path);
        assert!(is == (1, 0) || is == (2, 3), "{is:?}");
        seen[usize::from(is == (2, 3))] += 1;
        let journal = SqliteJournal::open(&path).await.unwrap();
        has_all(&journal).await;
        assert_eq!(version(&path), (2, 3));
    }
    println!("{} were killed before, {} after", seen[0], seen[1]);
}

/// What lies in the files of a process that ended between the new tables and the commit: all of it is there in the log,
/// and none of it counts.
#[tokio::test]
async fn half_of_an_update_that_stands_in_the_log_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let (path, left) = (folder.path().join("a.db"), folder.path().join("left.db"));
    first_version(&path);
    let db = Connection::open(&path).unwrap();
    let log = |path: &Path| path.with_extension("db-wal");
    let bytes = |path: &Path| fs::metadata(log(path)).map_or(0, |it| it.len());
    // With no room for pages in memory, they are written before the commit.
    db.execute_batch(
        "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE;
         CREATE TABLE spills (a); PRAGMA user_version = 2;
         INSERT INTO spills SELECT randomblob(3000) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8))",
    )
    .unwrap();
    assert!(bytes(&path) > 8_000, "{}", bytes(&path));
    fs::copy(&path, &left).unwrap();
    fs::copy(log(&path), log(&left)).unwrap();
    drop(db);
    let journal = SqliteJournal::open(&left).await.unwrap();
    has_all(&journal).await;
    journal.write_spill("old", "r-1", 0, b"large").await.unwrap();
    drop(journal);
    assert_eq!(version(&left), (2, 3));
}
