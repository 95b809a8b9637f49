//! Only their owner may read the files that the library creates.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use harness::{
    Agent,
    journal::{Envelope, Head, Journal as _, SqliteJournal, WriterId},
    testing::{ScriptedProvider, reply},
    trace::Trace,
};

/// The modes of all files and folders in this folder.
fn modes(folder: &Path) -> Vec<(String, bool, u32)> {
    let mut modes = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let about = entry.metadata().unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        modes.push((name, about.is_dir(), about.permissions().mode() & 0o777));
        if about.is_dir() {
            modes.extend(self::modes(&entry.path()));
        }
    }
    modes
}

/// A conversation in this file that is held.
async fn held(path: &Path) -> (SqliteJournal, Box<dyn std::any::Any>) {
    let journal = SqliteJournal::open(path).await.unwrap();
    let hold = journal.hold("chat").await.unwrap();
    let fact = Envelope::stored(1, "0.1.0", WriterId::random(), 1, 2, "{\"fact\":\"x\"}");
    journal.append("chat", Head::default(), &[fact]).await.unwrap();
    (journal, Box::new(hold))
}

#[tokio::test]
async fn a_journal_and_a_trace_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _held = held(&folder.path().join("chats.db")).await;
    let trace = Trace::default().to_file(folder.path().join("runs.jsonl")).unwrap();
    let agent = Agent::builder(ScriptedProvider::new([reply().text("Cold.")])).trace(trace);
    agent.build().unwrap().run("Oslo?").await.unwrap();
    let modes = modes(folder.path());
    let names: Vec<&str> = modes.iter().map(|(name, ..)| name.as_str()).collect();
    for name in ["chats.db", "chats.db-wal", "chats.db-shm", "chats.db-lives", "runs.jsonl"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(modes.len() > 5, "{modes:?}");
    for (name, is_folder, mode) in modes {
        assert_eq!(mode, if is_folder { 0o700 } else { 0o600 }, "{name}: {mode:o}");
    }
}

#[tokio::test]
async fn a_journal_that_a_group_shares_stays_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let _held = held(&path).await;
    for (name, is_folder, mode) in modes(folder.path()) {
        assert_eq!(mode, if is_folder { 0o750 } else { 0o640 }, "{name}: {mode:o}");
    }
}
