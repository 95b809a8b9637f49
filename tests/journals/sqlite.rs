//! Conversations in a file: what `Journal` promises, and files that are none.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Error, ErrorKind, Message,
    journal::{
        ConversationQuery, Envelope, Fact, Head, Journal, Metadata, SqliteJournal,
        SqliteSynchronous,
    },
    testing::journal_conformance,
};
use rusqlite::Connection;
use tempfile::TempDir;

fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    (folder, path)
}

fn fact(text: &str) -> Envelope {
    Envelope::of(&Fact::UserSaid { message: Message::user(text), limits: None }, 0).unwrap()
}

/// Checks the kind, and that the text names the file and has these words.
#[track_caller]
fn says<T>(result: Result<T, Error>, path: &Path, words: &str) {
    let error = result.err().expect("a failure");
    assert_eq!(error.kind(), ErrorKind::Journal, "{error}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains(words), "{text}");
}

async fn head(journal: &SqliteJournal) -> Head {
    journal.read("chat", 0).await.unwrap().head
}

async fn count(journal: &SqliteJournal) -> usize {
    journal.read("chat", 0).await.unwrap().facts.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_all_promises_when_opened_twice() {
    let (_folder, path) = file();
    journal_conformance(async || SqliteJournal::open(&path).await).await.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_all_promises_as_a_clone_that_waits_for_the_system_alone() {
    let (_folder, path) = file();
    let builder = SqliteJournal::builder().synchronous(SqliteSynchronous::Normal);
    let journal = builder.open(&path).await.unwrap();
    journal_conformance(async || Ok(journal.clone())).await.assert_kept();
}

#[tokio::test]
async fn many_openings_of_a_new_file_make_it_once() {
    let (_folder, path) = file();
    let all = (0..16).map(|_| SqliteJournal::open(&path));
    for journal in futures_util::future::join_all(all).await {
        let journal = journal.unwrap();
        let there = head(&journal).await;
        journal.append("chat", there, &[fact("here")]).await.unwrap();
    }
    let journal = SqliteJournal::open(&path).await.unwrap();
    assert_eq!((count(&journal).await, journal.system()), (16, "sqlite"));
}

#[tokio::test]
async fn nothing_is_left_when_the_last_one_lets_go() {
    let (folder, path) = file();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let clone = journal.clone();
    journal.append("chat", Head::default(), &[fact("a")]).await.unwrap();
    let held = clone.hold("chat").await.unwrap();
    drop((journal, clone));
    // A hold goes on without the journal that gave it.
    let other = SqliteJournal::open(&path).await.unwrap();
    assert!(other.hold("chat").await.unwrap_err().is_busy());
    drop(held);
    drop(other.hold("chat").await.unwrap());
    drop(other);
    let left = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|it| left(it.unwrap())).collect();
    assert_eq!(left, ["chats.db"], "the log, or the folder of the lives");
}

#[tokio::test]
async fn what_was_begun_is_done_before_the_file_is_closed() {
    let (_folder, path) = file();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let first: Vec<_> = (0..1000).map(|n| fact(&n.to_string())).collect();
    let last = journal.append("chat", Head::default(), &first).await.unwrap();
    // One more, which nobody waits for.
    let all = [fact("x"), fact("y")];
    let mut append = Box::pin(journal.append("chat", last, &all));
    assert!((&mut append).now_or_never().is_none());
    drop(append);
    drop(journal);
    let there = count(&SqliteJournal::open(&path).await.unwrap()).await;
    assert!(there == 1000 || there == 1002, "{there}");
}

#[tokio::test]
async fn a_thousand_holds_need_one_file() {
    let (_folder, path) = file();
    let builder = SqliteJournal::builder().synchronous(SqliteSynchronous::Normal);
    let journal = builder.open(&path).await.unwrap();
    let open = || fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
    let mut held = vec![journal.hold("first").await.unwrap()];
    let before = open();
    for n in 0..1000 {
        held.push(journal.hold(&format!("chat {n}")).await.unwrap());
    }
    match (before, open()) {
        // Other tests open files, too.
        (Some(before), Some(after)) => assert!(after < before + 500, "{before} and {after}"),
        _ => eprintln!("skipped: the system does not say how many files are open"),
    }
    let lives = fs::read_dir(format!("{}-lives", path.display())).unwrap();
    assert_eq!(lives.count(), 1);
}

// -- files that are none

#[tokio::test]
async fn a_file_that_is_no_database_is_left_as_it_is() {
    let (_folder, path) = file();
    let text = "These are notes, and no database at all. ".repeat(100);
    fs::write(&path, &text).unwrap();
    says(SqliteJournal::open(&path).await, &path, "is no database of SQLite");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_database_of_another_application_is_left_as_it_is() {
    let makers = [
        "CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 3",
        "CREATE TABLE facts (a); PRAGMA application_id = 1752329843",
    ];
    for sql in makers {
        let (folder, path) = file();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&path).unwrap();
        says(SqliteJournal::open(&path).await, &path, "of another application");
        assert_eq!(fs::read(&path).unwrap(), before, "{sql}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn a_schema_of_another_version_is_left_as_it_is() {
    let (_folder, path) = file();
    drop(SqliteJournal::open(&path).await.unwrap());
    let versions = [
        (4, "made by a later version of the library"),
        (2, "before its first release"),
        (1, "before its first release"),
    ];
    for (version, words) in versions {
        let change = format!("PRAGMA user_version = {version}");
        Connection::open(&path).unwrap().execute_batch(&change).unwrap();
        let before = fs::read(&path).unwrap();
        says(SqliteJournal::open(&path).await, &path, words);
        let reads = SqliteJournal::builder().read_only();
        says(reads.open(&path).await, &path, words);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[tokio::test]
async fn a_path_that_is_no_file_is_refused() {
    let (folder, _) = file();
    says(SqliteJournal::open(folder.path()).await, folder.path(), "it is a folder");
    let nowhere = folder.path().join("missing/chats.db");
    says(SqliteJournal::open(&nowhere).await, &nowhere, "Its folder must exist");
    let error = SqliteJournal::open("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}

#[tokio::test]
async fn a_name_that_means_something_to_sqlite_is_a_file() {
    let (folder, _) = file();
    for name in [":memory:", "file:chats.db?mode=memory", "ä '\";-- %41?x=y#z"] {
        let path = folder.path().join(name);
        let journal = SqliteJournal::open(&path).await.unwrap();
        journal.append("chat", Head::default(), &[fact("kept")]).await.unwrap();
        assert_eq!(journal.path(), path);
        drop(journal);
        assert!(path.is_file(), "{name}");
        assert_eq!(count(&SqliteJournal::open(&path).await.unwrap()).await, 1, "{name}");
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_journal() {
    let (_folder, path) = file();
    fs::write(&path, "").unwrap();
    says(SqliteJournal::builder().read_only().open(&path).await, &path, "nothing was ever written");
    let journal = SqliteJournal::open(&path).await.unwrap();
    journal.append("chat", Head::default(), &[fact("a")]).await.unwrap();
    assert_eq!(count(&journal).await, 1);
}

#[tokio::test]
async fn what_may_only_be_read_is_read() {
    let (_folder, path) = file();
    let missing = SqliteJournal::builder().read_only().open(&path).await;
    says(missing, &path, "cannot be opened");
    assert!(!path.exists());
    let journal = SqliteJournal::open(&path).await.unwrap();
    journal.append("chat", Head::default(), &[fact("a"), fact("b")]).await.unwrap();
    // While somebody writes, and when nobody has it open.
    for writer in [Some(journal), None] {
        let reader = SqliteJournal::builder().read_only().open(&path).await.unwrap();
        assert_eq!(count(&reader).await, 2);
        assert_eq!(reader.list(&ConversationQuery::new()).await.unwrap().conversations.len(), 1);
        let last = head(&reader).await;
        says(reader.append("chat", last, &[fact("c")]).await, &path, "can only be read");
        says(reader.describe("chat", &Metadata::new()).await, &path, "can only be read");
        says(reader.delete("chat").await, &path, "can only be read");
        says(reader.fork("chat", last, "fork").await, &path, "can only be read");
        says(reader.hold("chat").await.map(drop), &path, "can only be read");
        assert_eq!(count(&reader).await, 2);
        drop(writer);
    }
}

// -- trouble while it is open

#[tokio::test]
async fn a_full_database_keeps_what_it_has_and_goes_on_when_there_is_room() {
    let (_folder, path) = file();
    let small = SqliteJournal::builder().max_size(200_000);
    let journal = small.clone().open(&path).await.unwrap();
    let batch: Vec<_> = (0..3).map(|_| fact(&"x".repeat(5000))).collect();
    let mut last = Head::default();
    let full = loop {
        match journal.append("chat", last, &batch).await {
            Ok(head) => last = head,
            Err(error) => break error,
        }
        assert!(last.facts < 100, "it is never full");
    };
    let there = last.facts;
    assert!(there > 0);
    says(Err::<(), _>(full), &path, "`max_size` is reached");
    for _ in 0..3 {
        says(journal.append("chat", last, &batch).await, &path, "`max_size`");
        assert_eq!(count(&journal).await as u64, there);
    }
    drop(journal);
    let journal = small.max_size(1 << 30).open(&path).await.unwrap();
    assert_eq!(count(&journal).await as u64, there);
    journal.append("chat", last, &batch).await.unwrap();
    assert_eq!(count(&journal).await as u64, there + 3);
}

#[tokio::test]
async fn a_lock_that_is_held_for_too_long_is_told() {
    let (_folder, path) = file();
    let journal = SqliteJournal::builder().busy_timeout(Duration::from_millis(50));
    let journal = journal.open(&path).await.unwrap();
    let last = journal.append("chat", Head::default(), &[fact("a")]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    says(journal.append("chat", last, &[fact("b")]).await, &path, "longer than 50ms");
    assert_eq!(count(&journal).await, 1, "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    journal.append("chat", last, &[fact("b")]).await.unwrap();
}

#[tokio::test]
async fn a_hold_that_could_not_be_ended_ends_with_the_next_one() {
    let (_folder, path) = file();
    let journal = SqliteJournal::builder().busy_timeout(Duration::ZERO);
    let journal = journal.open(&path).await.unwrap();
    let held = journal.hold("chat").await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(held);
    // Has the thread try.
    count(&journal).await;
    other.execute_batch("ROLLBACK").unwrap();
    let second = SqliteJournal::open(&path).await.unwrap();
    assert!(second.hold("chat").await.unwrap_err().is_busy());
    drop(journal.hold("another").await.unwrap());
    drop(second.hold("chat").await.unwrap());
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_deleted_takes_nothing_more() {
    for gone in ["", "-wal", "-shm"] {
        let (_folder, path) = file();
        let journal = SqliteJournal::open(&path).await.unwrap();
        let last = journal.append("chat", Head::default(), &[fact("a")]).await.unwrap();
        let kept = journal.clone();
        fs::remove_file(format!("{}{gone}", path.display())).unwrap();
        says(journal.append("chat", last, &[fact("b")]).await, &path, "was deleted or moved");
        says(journal.read("chat", 0).await, &path, "was deleted or moved");
        drop((journal, kept));
    }
    let (_folder, path) = file();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let last = journal.append("chat", Head::default(), &[fact("a")]).await.unwrap();
    fs::rename(&path, path.with_extension("old")).unwrap();
    says(journal.append("chat", last, &[fact("b")]).await, &path, "was deleted or moved");
}

#[tokio::test]
async fn damage_is_told() {
    let (_folder, path) = file();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let facts: Vec<_> = (0..200).map(|n| fact(&format!("{n} {}", "x".repeat(500)))).collect();
    journal.append("chat", Head::default(), &facts).await.unwrap();
    journal.append("other", Head::default(), &[fact("a")]).await.unwrap();
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let mut told = 0;
    // Each page of the file in turn, but the first, which says what the file is.
    for page in 1..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&path, &bytes).unwrap();
        let journal = match SqliteJournal::open(&path).await {
            Ok(journal) => journal,
            Err(error) => {
                told += 1;
                assert!(error.to_string().contains("is damaged"), "page {page}: {error}");
                continue;
            }
        };
        match journal.read("chat", 0).await {
            Ok(read) => assert_eq!(read.facts, facts, "page {page}"),
            Err(error) => {
                told += 1;
                says(Err::<(), _>(error), &path, "is damaged");
            }
        }
    }
    assert!(told > 20, "{told}");
}

#[tokio::test]
async fn rows_that_the_library_did_not_write_are_errors() {
    let changes = [
        "UPDATE facts SET life = 'nobody'",
        "DELETE FROM facts WHERE number = 1",
        "UPDATE facts SET number = number + 10",
        "UPDATE facts SET format = -1",
        "UPDATE conversations SET facts = -1",
        "UPDATE conversations SET facts = 9",
        "UPDATE conversations SET base = key, base_facts = 2",
        "UPDATE conversations SET base = key, base_facts = 9",
        "UPDATE conversations SET base = 77, base_facts = 1",
        "UPDATE conversations SET base_facts = 3",
        "DROP TABLE facts",
    ];
    for sql in changes {
        let (_folder, path) = file();
        let journal = SqliteJournal::open(&path).await.unwrap();
        let facts = [fact("a"), fact("b"), fact("c")];
        let first = journal.append("chat", Head::default(), &facts[..1]).await.unwrap();
        let last = journal.append("chat", first, &facts[1..]).await.unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        says(journal.read("chat", 0).await, &path, "");
        // Whatever it comes to, it comes to an end.
        drop(journal.fork("chat", first, "fork").await);
        drop(journal.append("chat", last, &[fact("d")]).await);
        drop(journal.delete("chat").await);
    }
    let (_folder, path) = file();
    let journal = SqliteJournal::open(&path).await.unwrap();
    journal.append("chat", Head::default(), &[]).await.unwrap();
    let sql = "UPDATE conversations SET metadata = '{'";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    says(
        journal.list(&ConversationQuery::new()).await,
        &path,
        "the metadata of the conversation `chat`",
    );
}

#[tokio::test]
async fn a_fork_takes_one_row_and_a_chain_of_forks_is_short() {
    let (_folder, path) = file();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let facts: Vec<_> = (0..500).map(|n| fact(&n.to_string())).collect();
    journal.append("chat", Head::default(), &facts).await.unwrap();
    for n in 0..20 {
        let from = if n == 0 { "chat".to_owned() } else { format!("fork {}", n - 1) };
        let at = journal.read(&from, 0).await.unwrap().head_at(400).unwrap();
        journal.fork(&from, at, &format!("fork {n}")).await.unwrap();
    }
    let db = Connection::open(&path).unwrap();
    let number = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM facts"), 500);
    assert_eq!(number("SELECT count(DISTINCT base) FROM conversations"), 1);
    // With the base its forks get what they share, once each.
    journal.delete("chat").await.unwrap();
    assert_eq!(number("SELECT count(*) FROM facts"), 20 * 400);
    for n in 0..20 {
        journal.delete(&format!("fork {n}")).await.unwrap();
    }
    assert_eq!(number("SELECT count(*) FROM facts"), 0);
    assert_eq!(number("SELECT count(*) FROM conversations"), 0);
}
