//! Processes that are killed, race, or may not write: each is this test binary, started again.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use harness::journal::{Envelope, FORMAT, Head, Journal, SqliteJournal, WriterId};

/// What a child does, and with which file.
const CHILD: &str = "HARNESS_TESTS_JOURNAL_CHILD";

/// How often processes are killed, in place of 200.
const KILLS: &str = "HARNESS_TESTS_JOURNAL_KILLS";

const BATCH: usize = 3;

pub(crate) fn child(what: &str, path: &Path, seed: u64) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "killed::as_a_child", "--nocapture", "--quiet"]);
    command.env(CHILD, format!("{what}|{seed}|{}", path.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Not a test: what a child does. Without being asked it does nothing.
#[tokio::test]
async fn as_a_child() {
    let Ok(asked) = env::var(CHILD) else { return };
    let mut asked = asked.splitn(3, '|');
    let mut next = || asked.next().unwrap();
    let (what, seed, path) = (next(), next().parse().unwrap(), next());
    match what {
        "append" => append_until_killed(Path::new(path), seed).await,
        "race" => race(Path::new(path), seed).await,
        "hold" => hold_until_killed(Path::new(path)).await,
        "read" => read_only(Path::new(path)).await,
        "fill" => fill(Path::new(path)).await,
        "continue" => continue_once(Path::new(path)).await,
        _ => unreachable!("{what}"),
    }
}

/// Tells the parent, past the capture of the tests.
fn tell(words: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {words}").unwrap();
    out.flush().unwrap();
}

/// What a child has told so far, until it ends.
fn told(out: ChildStdout) -> impl Iterator<Item = String> {
    let lines = BufReader::new(out).lines();
    let lines = lines.map_while(Result::ok);
    // The words `running 1 test` stand before the first one.
    lines.filter_map(|line| line.split_once("> ").map(|(_, words)| words.to_owned()))
}

fn batch(name: &str) -> Vec<Envelope> {
    let text = |part| format!("{name} {part} {}", "x".repeat(300));
    let fact = |part| Envelope::stored(FORMAT, "0", WriterId::of_this_process(), 0, 0, text(part));
    (0..BATCH).map(fact).collect()
}

/// The names of the batches that are there, each of which must be whole.
async fn batches(journal: &SqliteJournal) -> Vec<String> {
    let facts = journal.read("chat", 0).await.unwrap().facts;
    let word = |fact: &Envelope, at| fact.fact.split(' ').nth(at).unwrap().to_owned();
    let names = facts.chunks(BATCH).map(|chunk| {
        let parts: Vec<_> = chunk.iter().map(|fact| (word(fact, 0), word(fact, 1))).collect();
        let name = parts[0].0.clone();
        let whole: Vec<_> = (0..BATCH).map(|part| (name.clone(), part.to_string())).collect();
        assert_eq!(parts, whole, "half a batch");
        name
    });
    names.collect()
}

// -- killed

async fn append_until_killed(path: &Path, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let journal = SqliteJournal::open(path).await.unwrap();
    let mut there = journal.read("chat", 0).await.unwrap().head;
    // From inside: when it has asked, at some time after that, or not at all.
    let end = random.u32(0..8);
    let way = random.u32(0..3);
    for n in 0.. {
        let batch = batch(&format!("{seed}-{n}"));
        let mut append = journal.append("chat", there, &batch);
        if n == end && way < 2 {
            drop(futures_util::FutureExt::now_or_never(&mut append));
            if way == 1 {
                let time = Duration::from_micros(random.u64(0..3000));
                // Here the time is the point: it is when the process ends.
                std::thread::sleep(time);
            }
            std::process::abort();
        }
        there = append.await.unwrap();
        tell(&format!("{seed}-{n}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_has_all_that_was_acknowledged() {
    let kills = env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let mut random = fastrand::Rng::with_seed(17);
    let (mut acknowledged, mut from_inside) = (Vec::new(), 0);
    for seed in 0..kills {
        // Sometimes somebody else has the file open all the time.
        let other = match random.bool() {
            true => Some(SqliteJournal::open(&path).await.unwrap()),
            false => None,
        };
        let mut child = child("append", &path, seed).spawn().unwrap();
        let mut told = told(child.stdout.take().unwrap());
        let (wanted, wait) = (random.usize(0..6), Duration::from_micros(random.u64(0..4000)));
        acknowledged.extend(told.by_ref().take(wanted));
        std::thread::sleep(wait);
        from_inside += u32::from(child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(told);

        let journal = SqliteJournal::open(&path).await.unwrap();
        let there = batches(&journal).await;
        // In order, with at most one more of each process.
        let mut all = there.iter();
        for name in &acknowledged {
            assert!(all.any(|it| it == name), "{name} was acknowledged and is lost: {there:?}");
        }
        assert!(there.len() as u64 <= acknowledged.len() as u64 + seed + 1, "batches came twice");
        drop((journal, other));
    }
    eprintln!("{kills} kills, {from_inside} from inside, {} batches", acknowledged.len());
    assert!(acknowledged.len() as u64 > kills, "most were killed before they wrote anything");
}

// -- raced

async fn race(path: &Path, seed: u64) {
    let journal = SqliteJournal::open(path).await.unwrap();
    let mut conflicts = 0;
    for n in 0..100 {
        let batch = batch(&format!("{seed}-{n}"));
        loop {
            let there = journal.read("chat", 0).await.unwrap().head;
            match journal.append("chat", there, &batch).await {
                Ok(_) => break,
                Err(error) if error.is_conflict() => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    tell(&conflicts.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_race_each_write_all_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let children: Vec<Child> =
        (0..2).map(|seed| child("race", &path, seed).spawn().unwrap()).collect();
    let mut conflicts = 0;
    for mut child in children {
        conflicts +=
            told(child.stdout.take().unwrap()).map(|n| n.parse::<u32>().unwrap()).sum::<u32>();
        assert!(child.wait().unwrap().success());
    }
    let journal = SqliteJournal::open(&path).await.unwrap();
    let there = batches(&journal).await;
    for seed in 0..2 {
        let own: Vec<_> = there.iter().filter(|it| it.starts_with(&format!("{seed}-"))).collect();
        let wanted: Vec<_> = (0..100).map(|n| format!("{seed}-{n}")).collect();
        assert_eq!(own, wanted.iter().collect::<Vec<_>>());
    }
    eprintln!("{conflicts} conflicts");
}

// -- holds

async fn hold_until_killed(path: &Path) {
    let journal = SqliteJournal::open(path).await.unwrap();
    let mut held = Vec::new();
    for n in 0..3 {
        held.push(journal.hold(&format!("chat {n}")).await.unwrap());
    }
    tell("held");
    // Until the parent ends, too.
    assert_eq!(std::io::stdin().lines().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_held_is_free_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let journal = SqliteJournal::open(&path).await.unwrap();
    for round in 0..10 {
        let mut child = child("hold", &path, 0).spawn().unwrap();
        let mut told = told(child.stdout.take().unwrap());
        assert_eq!(told.next().as_deref(), Some("held"));
        assert!(journal.hold("chat 0").await.unwrap_err().is_busy());
        assert!(journal.delete("chat 1").await.unwrap_err().is_busy());
        child.kill().unwrap();
        child.wait().unwrap();
        // Whoever comes first removes what is left of it.
        match round % 2 {
            0 => drop(journal.hold("chat 0").await.unwrap()),
            _ => drop(journal.delete("chat 1").await.unwrap()),
        }
        drop(journal.hold("chat 2").await.unwrap());
    }
    let lives = PathBuf::from(format!("{}-lives", path.display()));
    assert_eq!(lives.read_dir().unwrap().count(), 1, "files of the dead are left");
}

// -- restored

async fn continue_once(path: &Path) {
    let journal = SqliteJournal::open(path).await.unwrap();
    let last = journal.read("chat", 0).await.unwrap().head;
    journal.append("chat", last, &batch("theirs")).await.unwrap();
    tell("continued");
    assert_eq!(std::io::stdin().lines().count(), 0);
}

/// The other process works with the file that was restored, and this one with a log that is gone.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_restored_in_place_takes_nothing_of_who_had_it_open() {
    use std::fs;

    let both = &["-wal", "-shm"][..];
    for (is_copied, gone) in [(true, both), (false, both), (false, &["-shm"])] {
        let folder = tempfile::tempdir().unwrap();
        let (path, backup) = (folder.path().join("chats.db"), folder.path().join("backup.db"));
        let journal = SqliteJournal::open(&path).await.unwrap();
        let first = journal.append("chat", Head::default(), &batch("first")).await.unwrap();
        drop(journal);
        fs::copy(&path, &backup).unwrap();
        let journal = SqliteJournal::open(&path).await.unwrap();
        let ours = journal.append("chat", first, &batch("ours")).await.unwrap();

        if is_copied {
            fs::copy(&backup, &path).unwrap();
        }
        for end in gone {
            fs::remove_file(format!("{}{end}", path.display())).unwrap();
        }
        let mut child = child("continue", &path, 0).spawn().unwrap();
        let mut told = told(child.stdout.take().unwrap());
        assert_eq!(told.next().as_deref(), Some("continued"));
        let was_deleted = |error: harness::Error| {
            assert!(error.to_string().contains("was deleted or moved"), "{gone:?}: {error}");
        };
        was_deleted(journal.append("chat", ours, &batch("lost")).await.unwrap_err());
        was_deleted(journal.hold("chat").await.unwrap_err());
        was_deleted(SqliteJournal::open(&path).await.unwrap_err());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        drop(journal);

        let journal = SqliteJournal::open(&path).await.unwrap();
        let there = batches(&journal).await;
        let is_ours = |name: &&String| *name == "ours";
        assert_eq!(there.iter().filter(is_ours).count(), usize::from(gone != both), "{there:?}");
        assert_eq!(there.first().map(String::as_str), Some("first"));
        assert_eq!(there.last().map(String::as_str), Some("theirs"));
    }
}

// -- rights and room

async fn read_only(path: &Path) {
    let said = match SqliteJournal::open(path).await {
        Err(error) => format!("open: {error}"),
        Ok(journal) => {
            let there = batches(&journal).await;
            let last = journal.read("chat", 0).await.unwrap().head;
            let error = journal.append("chat", last, &batch("more")).await.unwrap_err();
            let hold = journal.hold("chat").await.unwrap_err();
            format!("read {}: {error}; {hold}", there.len())
        }
    };
    tell(&said);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_without_the_right_to_write_is_read_or_says_why() {
    use std::{
        fs::{Permissions, set_permissions},
        os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    };
    for folder_mode in [0o777, 0o555] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chats.db");
        let journal = SqliteJournal::open(&path).await.unwrap();
        journal.append("chat", Head::default(), &batch("a")).await.unwrap();
        drop(journal);
        set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
        let mut command = child("read", &path, 0);
        if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
            // Whoever may do everything asks somebody who may not: `nobody`.
            command.uid(65534);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(err) => return eprintln!("skipped: {err}"),
        };
        let told: Vec<_> = told(child.stdout.take().unwrap()).collect();
        child.wait().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let told = told.join(" ");
        eprintln!("{folder_mode:o}: {told}");
        let wanted = match folder_mode {
            0o777 => ["read 1", "can only be read"],
            _ => ["cannot be opened", "the right to write its folder"],
        };
        for words in wanted {
            assert!(told.contains(words), "{folder_mode:o}: {told}");
        }
        let journal = SqliteJournal::open(&path).await.unwrap();
        assert_eq!(batches(&journal).await, ["a"]);
    }
}

async fn fill(path: &Path) {
    let journal = SqliteJournal::open(path).await.unwrap();
    let mut there = Head::default();
    let error = loop {
        match journal.append("chat", there, &batch(&format!("0-{}", there.facts))).await {
            Ok(head) => there = head,
            Err(error) => break error,
        }
    };
    assert_eq!(batches(&journal).await.len() as u64 * BATCH as u64, there.facts);
    tell(&format!("{} {error}", batches(&journal).await.len()));
}

/// The system refuses to make the file larger, in the middle of a write.
#[cfg(unix)]
#[tokio::test]
async fn a_disk_that_takes_no_more_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let limited = r#"trap '' XFSZ; ulimit -f 600; exec "$0" "$@""#;
    let inner = child("fill", &path, 0);
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let told: Vec<_> = told(child.stdout.take().unwrap()).collect();
    child.wait().unwrap();
    let told = told.join("\n");
    let (count, error) = told.split_once(' ').unwrap();
    assert!(error.contains("could not be read or written by the operating system"), "{error}");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let there = batches(&journal).await;
    assert_eq!(there.len().to_string(), count);
    assert!(there.len() > 10);
    let last = journal.read("chat", 0).await.unwrap().head;
    journal.append("chat", last, &batch("more")).await.unwrap();
}
