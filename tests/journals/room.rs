//! Disks that are full, at any moment of a run: an error before the effect, nothing is lost, and the
//! conversation goes on when there is room. The disk is in memory, of a mount namespace of its own.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use harness::{
    Agent, CallOutcome, Chat, Error, ErrorKind, SideEffect, SideEffects, Tool,
    journal::SqliteJournal,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

/// Where the small disk is, in the child.
const DISK: &str = "HARNESS_TESTS_JOURNAL_DISK";

const PAGE: usize = 4096;

/// Pays once, and writes it where there is room.
fn agent(ledger: &Path) -> Agent {
    let ledger = ledger.to_owned();
    let schema = json!({"type": "object", "properties": {}});
    let effects = SideEffects::of(&[SideEffect::Write]);
    let pay = Tool::new("pay", "Pays.", schema, effects, move |_, _| {
        let ledger = ledger.clone();
        Box::pin(async move {
            let file = OpenOptions::new().create(true).append(true).open(ledger);
            file.and_then(|mut file| file.write_all(b"paid\n")).expect("it is paid");
            Ok("paid ".repeat(2000).into())
        })
    });
    let model = ScriptedProvider::answering(|request| {
        let mut messages = request.messages().iter();
        match messages.any(|message| message.results().next().is_some()) {
            false => reply().text("I pay. ".repeat(300)).call("pay", json!({})),
            true => reply().text("Done."),
        }
    });
    Agent::builder(model).tools([pay]).build().expect("an agent")
}

/// Takes all that is free, but so many pages, or room for so many files.
fn fill(disk: &Path, left: u64, files: bool) -> PathBuf {
    let folder = disk.join("filler");
    fs::create_dir(&folder).expect("a folder");
    if files {
        let mut there = 0;
        while File::create(folder.join(there.to_string())).is_ok() {
            there += 1;
        }
        for at in 0..left.min(there) {
            fs::remove_file(folder.join(at.to_string())).expect("removed");
        }
        return folder;
    }
    let mut file = File::create(folder.join("file")).expect("a file");
    let page = [1; PAGE];
    let mut there = 0_u64;
    while let Ok(written @ 1..) = file.write(&page) {
        there += written as u64;
    }
    file.set_len(there.saturating_sub(left * PAGE as u64)).expect("made shorter");
    folder
}

/// What went wrong, as often.
type Told = BTreeMap<String, u32>;

fn notes(told: &mut Told, error: &Error, disk: &Path) {
    assert_eq!(error.kind(), ErrorKind::Journal, "{error}");
    let words = error.to_string().replace(&disk.display().to_string(), "");
    let words: String = words.chars().filter(|it| !it.is_ascii_digit()).collect();
    *told.entry(words).or_default() += 1;
}

/// One step towards the end. Says whether it is reached.
async fn goes_on(chat: &mut Chat) -> Result<bool, Error> {
    let ran = match chat.can_resume() {
        true => chat.resume().await,
        false if chat.transcript().messages().is_empty() => chat.send("Pay.").await,
        false => return Ok(true),
    };
    match ran {
        Ok(_) => Ok(true),
        Err(stopped) => {
            let error = stopped.error().expect("it failed");
            Err(Error::new(error.kind(), error.to_string()))
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    left: u64,
    files: bool,
    from: u32,
    reopens: bool,
}

/// The disk is full but for so many pages, or files, from here on: before the file is made, before the
/// conversation is opened, or before the message. Then there is room again, for the same chat or for
/// the next process.
async fn round(disk: &Path, ledger: &Path, plan: Plan, told: &mut Told) {
    let what = format!("{plan:?}");
    let Plan { left, files, from, reopens } = plan;
    let folder = disk.join("chats");
    fs::create_dir(&folder).expect("a folder");
    let path = folder.join("chats.db");
    let agent = agent(ledger);
    let paid = || fs::read_to_string(ledger).map_or(0, |ledger| ledger.lines().count());
    let mut filler = None;
    let mut filled = |at: u32| {
        if at == from {
            filler = Some(fill(disk, left, files));
        }
    };
    let mut chat = None;
    filled(0);
    match SqliteJournal::open(&path).await {
        Err(error) => notes(told, &error, disk),
        Ok(journal) => {
            filled(1);
            match agent.open(&journal, "chat").await {
                Err(error) => notes(told, &error, disk),
                Ok(mut open) => {
                    filled(2);
                    let before = paid();
                    if let Err(error) = goes_on(&mut open).await {
                        notes(told, &error, disk);
                        // Whether it was paid, the facts know.
                        assert!(before == 0 && paid() <= 1, "{what}");
                        assert!(goes_on(&mut open).await.is_ok_and(|done| done) || paid() <= 1);
                    }
                    chat = Some(open).filter(|_| !reopens);
                }
            }
        }
    }
    if let Some(filler) = filler {
        fs::remove_dir_all(filler).expect("there is room");
    }
    let said = match chat {
        // All of it is in memory, and is written now.
        Some(mut chat) => {
            while !goes_on(&mut chat).await.expect("there is room") {}
            chat.send("Thanks.").await.expect("there is room");
            2
        }
        None => 1,
    };
    let journal = SqliteJournal::open(&path).await.expect("there is room");
    let mut chat = agent.open(&journal, "chat").await.expect("there is room");
    while !goes_on(&mut chat).await.expect("there is room") {}
    let messages = chat.transcript().messages();
    let users = messages.iter().filter(|it| it.text().starts_with("Pay") || it.text() == "Thanks.");
    assert_eq!(users.count(), said, "{what}");
    let results = messages.iter().flat_map(|message| message.results());
    let outcomes: Vec<CallOutcome> = results.map(|result| result.outcome()).collect();
    match *outcomes {
        [CallOutcome::Succeeded] => assert_eq!(paid(), 1, "{what}"),
        [CallOutcome::InDoubt] => assert!(paid() <= 1, "{what}"),
        [CallOutcome::NotStarted] => assert_eq!(paid(), 0, "{what}"),
        _ => panic!("{what}: {outcomes:?}, paid {}", paid()),
    }
    drop((chat, journal));
    fs::remove_dir_all(&folder).expect("removed");
    // Without a payment there is none.
    let _ = fs::remove_file(ledger);
}

/// Not a test: what the child does.
#[tokio::test]
#[ignore = "a process of the test below"]
async fn with_a_small_disk() {
    let Some(disk) = env::var_os(DISK) else { return };
    let disk = PathBuf::from(disk);
    let ledger = tempfile::tempdir().expect("a folder");
    let mut told = Told::new();
    let mut rounds = 0;
    let plans = (0..3).flat_map(|from| {
        let pages = (0..40).map(move |left| (from, left, false));
        pages.chain((0..6).map(move |left| (from, left, true)))
    });
    for (from, left, files) in plans {
        for reopens in [false, true] {
            let plan = Plan { left, files, from, reopens };
            round(&disk, &ledger.path().join("ledger"), plan, &mut told).await;
            rounds += 1;
        }
    }
    println!("{rounds} rounds: {told:#?}");
    let failed: u32 = told.values().sum();
    assert!(failed > rounds / 4, "the disk was never full");
    for words in told.keys() {
        assert!(words.contains("room"), "{words}");
    }
    println!("> all is there");
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let disk = tempfile::tempdir().expect("a folder");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    unshare
        .arg(r#"mount -t tmpfs -o size=512k,nr_inodes=64 disk "$0" || exit 9; exec "$@""#)
        .arg(disk.path());
    unshare.arg(env::current_exe().expect("this binary"));
    unshare.args(["--exact", "room::with_a_small_disk", "--ignored", "--nocapture"]);
    let Ok(output) = unshare.env(DISK, disk.path()).output() else {
        return eprintln!("skipped: there is no `unshare`");
    };
    let (said, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !said.contains("running 1 test") {
        return eprintln!("skipped: no disk of its own is to be had: {err}");
    }
    println!("{said}");
    assert!(output.status.success() && said.contains("> all is there"), "{said}\n{err}");
}
