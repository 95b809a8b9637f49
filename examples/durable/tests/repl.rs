//! The chat as processes that read their lines from a pipe: another process lists and continues the
//! conversations of the first. `tests/project/terminal_kept.rs` of the workspace tests answers at a terminal.

use std::{
    fs,
    future::pending,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use harness::{
    Agent, SideEffects, Tool,
    journal::{Envelope, Head, Journal as _, SqliteJournal, WriterId},
    policy::Permissions,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;
use tokio::sync::Notify;

/// The chat, whose data is in this folder and whose lines come from a pipe.
fn chat(folder: &Path, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_repl"));
    for variable in ["PROVIDER", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CHAT_COMPLETIONS_BASE_URL"]
    {
        program.env_remove(variable);
    }
    program.env("XDG_DATA_HOME", folder).current_dir(folder).args(arguments);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

/// What a chat says to these lines, and how it ends.
fn ended(folder: &Path, arguments: &[&str], lines: &str) -> Output {
    let mut running = chat(folder, arguments).spawn().expect("it starts");
    let mut said = running.stdin.take().expect("its lines");
    // A chat that is not set up ends before it reads them.
    let _ = said.write_all(lines.as_bytes());
    drop(said);
    running.wait_with_output().expect("it ends")
}

/// What a chat says to these lines before it quits.
fn says(folder: &Path, arguments: &[&str], lines: &str) -> String {
    let output = ended(folder, arguments, lines);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.as_ref()), (Some(0), ""), "{lines}");
    String::from_utf8(output.stdout).expect("text")
}

/// What a chat that goes on says until this text.
fn says_until(running: &mut Child, text: &str) -> String {
    let out = running.stdout.as_mut().expect("its output");
    let mut said = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&said).contains(text) {
        let read = out.read(&mut byte).expect("its output");
        assert_eq!(read, 1, "it ended before {text:?}: {}", String::from_utf8_lossy(&said));
        said.extend(byte);
    }
    String::from_utf8_lossy(&said).into_owned()
}

fn tell(running: &mut Child, line: &str) {
    let lines = running.stdin.as_mut().expect("its lines");
    lines.write_all(line.as_bytes()).expect("a line");
}

/// The rows of a list: the number, how it stands, and the title.
fn rows(said: &str) -> Vec<(String, String, String)> {
    let row = |line: &str| {
        let (left, right) = line.split_at_checked(30)?;
        let number = left.split_whitespace().next()?;
        let is_row = left.ends_with(" just now  ") || left.ends_with(" ago  ");
        let (stands, title) = right.split_at_checked(12).filter(|_| is_row)?;
        Some((number.to_owned(), stands.trim().to_owned(), title.to_owned()))
    };
    said.lines().filter_map(row).collect()
}

/// The name in what is said at the end.
fn name_of(said: &str) -> String {
    let end = said.lines().last().expect("an end");
    let name = end.strip_prefix("`--resume ").and_then(|rest| rest.split_once('`'));
    name.unwrap_or_else(|| panic!("no name: {said}")).0.to_owned()
}

fn journal_of(folder: &Path) -> PathBuf {
    folder.join("harness/chats.db")
}

#[test]
fn what_one_process_keeps_another_one_lists_and_goes_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let said = says(folder, &["--resume"], "/list\nMy favourite number\tis 42.\n/list\n");
    assert!(said.contains(&format!("are kept in {}.", journal_of(folder).display())), "{said}");
    assert!(said.contains("No conversation is kept yet, so a new one begins."), "{said}");
    assert!(said.contains("\nNo conversation is kept yet.\n"), "{said}");
    let only = |stands: &str| {
        vec![("1".to_owned(), stands.to_owned(), "My favourite number\tis 42.".to_owned())]
    };
    assert_eq!(rows(&said), only("this one"));
    let first = name_of(&said);

    // Of a conversation in which nothing is said, nothing is kept.
    let said =
        says(folder, &[], "/list\n/more\n/resume 2\n/resume 1\nWhat is my favourite number?\n");
    assert_eq!(rows(&said), only(""));
    assert!(
        said.contains("There are no more.") && said.contains("has shown no number 2"),
        "{said}"
    );
    let told = format!("{first} goes on after 2 messages: My favourite number");
    assert!(said.contains(&told) && said.contains("Your favourite number is 42."), "{said}");
    assert!(!said.contains("came to no answer"), "{said}");
    assert_eq!(name_of(&said), first);

    // By its name, and as the one that changed last.
    let said = says(folder, &["--resume", &first], "/resume 1\n/new\nWhat is 2 + 3?\n");
    assert!(said.contains(" goes on after 4 messages: "), "{said}");
    let second = name_of(&said);
    assert_ne!(first, second);
    let said =
        says(folder, &["--resume"], "/list\n/delete 1\n/delete 2\nno\n/delete 2\ny\n/list\n");
    assert!(said.contains(&format!("{second} goes on after 4 messages: What is 2 + 3?")), "{said}");
    for told in [
        format!("you are in {second}"),
        format!("{first} was kept"),
        format!("{first} was deleted"),
    ] {
        assert!(said.contains(&told), "{told}: {said}");
    }
    assert_eq!(rows(&said).len(), 3, "{said}");
    let output = ended(folder, &["--resume", &first], "");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(err.contains(&format!("nothing is kept of a conversation `{first}`")), "{err}");
}

#[test]
fn a_copy_goes_on_by_itself_and_what_was_saved_begins_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let said = says(
        folder,
        &[],
        "/fork\nMy favourite number is 42.\n/save saved.json\n/fork\nMy favourite number is 7.\n",
    );
    assert!(said.contains("Nothing was said yet that could be copied."), "{said}");
    let saved = folder.join("saved.json").display().to_string();
    let asked = "What is my favourite number?\n/list\n";
    let said = says(folder, &["--import", &saved], asked);
    assert!(said.contains(" goes on after 2 messages: My favourite number is 42."), "{said}");
    assert!(said.contains("Your favourite number is 42."), "{said}");
    let titles: Vec<String> = rows(&said).into_iter().map(|(.., title)| title).collect();
    assert_eq!(titles, ["My favourite number is 42."; 3]);
    // The list has the one that was imported, the copy, and the one that was copied.
    for (number, favourite) in [("2", "7"), ("3", "42")] {
        let said = says(
            folder,
            &["--journal", &copied(folder)],
            &format!("/list\n/resume {number}\n{asked}"),
        );
        assert!(said.contains(&format!("Your favourite number is {favourite}.")), "{said}");
    }
}

/// A copy of the journal, so that what is said to it changes no order.
fn copied(folder: &Path) -> String {
    let copy = folder.join("copy.db");
    fs::copy(journal_of(folder), &copy).expect("a journal that nobody has open");
    copy.display().to_string()
}

#[test]
fn the_list_has_pages_and_its_numbers_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let lines: String = (1..=23).map(|number| format!("Sum {number} + 1?\n/new\n")).collect();
    let said = says(folder, &[], &format!("{lines}/list\n/more\n/more\n/more\n/resume 21\n"));
    let listed = rows(&said);
    let expected: Vec<_> = (1..=23)
        .map(|number| (number.to_string(), String::new(), format!("Sum {} + 1?", 24 - number)))
        .collect();
    assert_eq!(listed, expected);
    assert_eq!(said.matches("`/more` shows those before.").count(), 2, "{said}");
    assert_eq!(said.matches("There are no more.").count(), 1, "{said}");
    assert!(said.contains("goes on after 4 messages: Sum 3 + 1?"), "{said}");
}

#[test]
fn killed_in_the_middle_of_an_answer_it_goes_on_in_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut running = chat(folder, &[]).spawn().expect("it starts");
    tell(&mut running, "What is 17 * 23 - 100? Then count to 100.\n");
    says_until(&mut running, " 20 ");
    // `SIGKILL`: nothing of the program runs any more.
    running.kill().expect("it is ours");
    running.wait().expect("it has ended");

    let said = says(folder, &[], "/list\n");
    let [(_, stands, title)] = rows(&said).try_into().expect("one conversation");
    assert_eq!(
        (stands.as_str(), title.as_str()),
        ("unfinished", "What is 17 * 23 - 100? Then count to 100.")
    );
    let said = says(folder, &["--resume"], "/go\n/go\n/list\n");
    assert!(said.contains("Its last run came to no answer.\n`/go` goes on with it"), "{said}");
    assert!(said.contains("\n17 * 23 - 100 = 291\n1 2 3") && said.contains(" 99 100\n"), "{said}");
    assert!(!said.contains("⚙ calc"), "the sum was done before: {said}");
    assert!(said.contains("There is nothing to go on with"), "{said}");
    // Something else is said in place of going on.
    let mut running = chat(folder, &[]).spawn().expect("it starts");
    tell(&mut running, "Count to 300.\n");
    says_until(&mut running, " 20 ");
    running.kill().expect("it is ours");
    running.wait().expect("it has ended");
    let said = says(folder, &["--resume"], "What is 2 + 3?\n/go\n");
    assert!(said.contains("2 + 3 = 5\n") && said.contains("There is nothing to go on"), "{said}");
}

#[test]
fn told_to_end_in_the_middle_of_an_answer_it_keeps_the_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut running = chat(folder, &[]).spawn().expect("it starts");
    tell(&mut running, "Count to 300.\n");
    says_until(&mut running, " 20 ");
    let id = running.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status().expect("a command");
    assert!(told.success());
    assert_eq!(running.wait().expect("it ends").code(), Some(130));
    let said = says(folder, &[], "/list\n/resume 1\n/save words.json\n");
    assert_eq!(rows(&said)[0].1, "stopped", "{said}");
    let words = fs::read_to_string(folder.join("words.json")).expect("the words");
    assert!(words.contains(" 20 ") && words.contains("[interrupted]"), "{words}");
}

#[test]
fn a_conversation_that_another_process_has_open_is_left_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut first = chat(folder, &[]).spawn().expect("it starts");
    tell(&mut first, "My favourite number is 42.\n");
    says_until(&mut first, "I will remember it: 42.");
    says_until(&mut first, " s)");

    let said =
        says(folder, &["--resume"], "What is 2 + 3?\n/list\n/resume 2\n/delete 2\ny\n/list\n");
    let busy = "is open here or in another process";
    assert_eq!(said.matches(busy).count(), 3, "{said}");
    assert!(said.contains("say something here or choose another") && said.contains("2 + 3 = 5"));
    let own = name_of(&said);
    assert_eq!(rows(&said).len(), 4, "{said}");

    // The first one goes on as before, and takes the other one's conversation when that has ended.
    tell(&mut first, &format!("Count to 3.\n/resume {own}\nCount to 4.\n"));
    let said = says_until(&mut first, "1 2 3 4\n");
    assert!(said.contains("goes on after 4 messages: What is 2 + 3?"), "{said}");
    drop(first.stdin.take());
    assert_eq!(first.wait().expect("it ends").code(), Some(0));
}

/// Leaves a conversation as a process does that is killed while `bash` runs: nothing is written any more.
async fn cut_off_while_a_call_runs(file: &Path) {
    let begun = Arc::new(Notify::new());
    let tells = Arc::clone(&begun);
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let bash = Tool::new("bash", "..", schema, SideEffects::ALL, move |_, _| {
        tells.notify_one();
        Box::pin(pending())
    });
    let model = ScriptedProvider::new([reply().call("bash", json!({"command": "echo one"}))]);
    let agent = Agent::builder(model).tools([bash]).permissions(Permissions::allow_all());
    let agent = agent.build().expect("an agent");
    let journal = SqliteJournal::open(file).await.expect("a journal");
    let mut chat = agent.open(&journal, "one-call").await.expect("a conversation");
    tokio::select! {
        ended = chat.send("Run it.") => panic!("{ended:?}"),
        () = begun.notified() => {}
    }
}

#[test]
fn the_person_says_what_became_of_a_call_in_doubt() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let file = folder.join("chats.db");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(cut_off_while_a_call_runs(&file));
    let file = file.display().to_string();
    let arguments = ["--journal", &file, "--resume"];
    let doubt = "  1. in doubt: bash({\"command\":\"echo one\"})";
    let said = says(folder, &arguments, "/settle\n/settle 2 ran\n/settle 1 perhaps\n");
    assert!(said.contains(doubt), "{said}");
    assert_eq!(said.matches("needs the number of a call in doubt, 1 to 1").count(), 2, "{said}");
    assert!(said.contains("say `ran`, `failed` or `not`"), "{said}");
    // It is kept also where the process ends before it goes on.
    let lines = "/settle 1 ran  The words that I saw. \n/settle 1 ran\n";
    let said = says(folder, &arguments, lines);
    assert!(said.contains(doubt) && said.contains("no call is in doubt"), "{said}");
    let said = says(folder, &arguments, "/go\n");
    assert!(!said.contains("in doubt"), "{said}");
    assert!(said.contains("bash: The words that I saw.\n"), "{said}");
}

#[test]
fn a_file_that_is_no_journal_is_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let file = folder.join("notes.txt");
    fs::write(&file, "These are notes and no conversations. ".repeat(50)).expect("a file");
    let newer = folder.join("newer.db");
    says(folder, &["--journal", &newer.display().to_string()], "Hello.\n");
    let mut bytes = fs::read(&newer).expect("the journal");
    // The `user_version` in the header of a file of SQLite, by which the library numbers its schema.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&newer, bytes).expect("the journal");
    let folder_itself = folder.display().to_string();
    let nowhere = folder.join("no/such/folder/chats.db");
    for (path, expected) in [
        (&file, "is no database of SQLite. It was not changed"),
        (&newer, "it has schema 99, and this version of the library knows only schema"),
        (&folder.to_path_buf(), "it is a folder"),
        (&nowhere, "Its folder must exist"),
    ] {
        let before = fs::read(path).ok();
        let output = ended(folder, &["--journal", &path.display().to_string()], "Hello.\n");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
        assert!(err.contains(expected) && err.contains(&folder_itself), "{err}");
        assert_eq!(output.stdout, b"", "{path:?}");
        assert_eq!(fs::read(path).ok(), before, "{path:?}");
    }
}

#[test]
fn a_journal_that_is_taken_away_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut running = chat(folder, &[]).spawn().expect("it starts");
    tell(&mut running, "What is 2 + 3?\n");
    says_until(&mut running, " s)");
    fs::remove_file(journal_of(folder)).expect("it is there");
    tell(&mut running, "What is 4 + 5?\n/new\n/save saved.json\n");
    let said = says_until(&mut running, "saved 5 messages");
    assert_eq!(said.matches("was deleted or moved while it was open").count(), 2, "{said}");
    drop(running.stdin.take());
    let output = running.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.starts_with("the end of this conversation is not kept: the journal"), "{err}");
}

#[test]
fn to_look_at_what_is_unfinished_does_not_count_as_going_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chats.db");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(cut_off_while_a_call_runs(&file));
    let facts = || {
        runtime.block_on(async {
            let journal = SqliteJournal::open(&file).await.expect("the journal");
            journal.read("one-call", 0).await.expect("it can be read").facts.len()
        })
    };
    let before = facts();
    let said =
        says(folder.path(), &["--journal", &file.display().to_string(), "--resume"], "/new\n");
    assert!(said.contains("in doubt"), "{said}");
    assert_eq!(facts(), before);
}

/// Whatever the instant: the file is written, and nothing waits or is in doubt, since to write it again has
/// no further effect.
#[test]
fn killed_at_any_instant_it_comes_to_the_end_of_its_task() {
    let number = |variable: &str| std::env::var(variable).ok()?.parse().ok();
    let kills = number("HARNESS_KILLS").unwrap_or(10);
    let seed = number("HARNESS_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("HARNESS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut killed = 0;
    while killed < kills {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let mut lines = "Write 'hello world' to a file, read it back, and work out 6 * 7.\n";
        // A killed run has used a turn, and turns are limited. So after each kill the next run gets more time.
        for most in (500..).step_by(250) {
            let mut running = chat(folder, &["--resume"]).spawn().expect("it starts");
            tell(&mut running, lines);
            drop(running.stdin.take());
            thread::sleep(Duration::from_millis(random.u64(1..most)));
            running.kill().expect("it is ours");
            let output = running.wait_with_output().expect("it has ended");
            if output.status.code() == Some(0) {
                break;
            }
            killed += 1;
            // It may have ended before anything was said.
            let said = says(folder, &["--resume"], "");
            assert!(!said.contains("in doubt") && !said.contains("waits"), "{seed}: {said}");
            if said.contains(" goes on after ") {
                lines = "/go\n";
            }
        }
        let said = says(folder, &["--resume"], "/go\n/list\n/save saved.json\n");
        assert!(said.contains("There is nothing to go on with"), "{seed}: {said}");
        let saved = fs::read_to_string(folder.join("saved.json")).expect("what was saved");
        assert!(saved.contains("6 * 7 = 42"), "{seed}: {saved}");
        let file = fs::read_to_string(folder.join("hello.txt")).expect("the file");
        assert_eq!(file, "hello world", "{seed}");
    }
}

#[test]
fn what_a_later_version_wrote_is_not_opened_and_the_chat_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    says(folder, &[], "Hello.\n");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let journal = SqliteJournal::open(journal_of(folder)).await.expect("the journal");
        let newer = Envelope::stored(99, "7.0.0", WriterId::random(), 0, 0, "{}");
        journal.append("newer", Head::default(), &[newer]).await.expect("it is written");
    });
    let said = says(folder, &[], "/list\n/resume 1\nWhat is 2 + 3?\n");
    assert!(said.contains("newer") && said.contains("  unreadable  (no title)"), "{said}");
    assert!(said.contains("was written by version 7.0.0"), "{said}");
    assert!(said.contains("2 + 3 = 5"), "{said}");
    let output = ended(folder, &["--resume", "newer"], "");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("Use version 7.0.0, or a later one"), "{err}");
}

#[test]
fn the_file_is_the_users_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    for (data, expected) in [
        (Some(folder.path().join("data")), folder.path().join("data/harness")),
        (None, home.join(".local/share/harness")),
        // A relative path does not count.
        (Some("data".into()), home.join(".local/share/harness")),
    ] {
        let mut program = chat(folder.path(), &[]);
        program.env("HOME", &home).env_remove("XDG_DATA_HOME").stdin(Stdio::null());
        let output = program.envs(data.map(|data| ("XDG_DATA_HOME", data))).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let file = expected.join("chats.db");
        assert!(said.contains(&format!("are kept in {}.", file.display())), "{said}");
        assert_eq!((mode(&expected), mode(&file)), (0o700, 0o600));
        fs::remove_dir_all(&expected).expect("it is there");
    }
    // A file in its place.
    fs::write(folder.path().join("taken"), "").expect("a file");
    let mut program = chat(folder.path(), &[]);
    let output = program.env("XDG_DATA_HOME", folder.path().join("taken")).output();
    let output = output.expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("cannot be made; give `--journal FILE`"), "{err}");
}

#[test]
fn what_is_given_wrong_is_said_with_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, expected) in [
        (&["--journal"][..], "`--journal` needs a FILE"),
        (&["--import", "--resume"], "`--import` needs a FILE"),
        (&["chats.db"], "`chats.db` is unknown"),
        (&["--journal", "a.db", "b.db"], "`b.db` is unknown"),
        (&["--resume", "nobody"], "nothing is kept of a conversation `nobody`"),
        (&["--resume", "1"], "nothing is kept of a conversation `1`"),
    ] {
        let output = ended(folder.path(), arguments, "");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

/// What another program has written into the journal: names that are numbers or begin lines of their own,
/// and a title that is long.
#[test]
fn what_others_have_written_deceives_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let file = folder.join("chats.db").display().to_string();
    let arguments = ["--journal", &file];
    let name = name_of(&says(folder, &arguments, "My favourite number is 42.\n"));
    let database = rusqlite::Connection::open(&file).expect("a database");
    let rename = |from: &str, to: &str| {
        let sql = "UPDATE conversations SET id = ?2 WHERE id = ?1";
        assert_eq!(database.execute(sql, [from, to]).expect("a name"), 1);
    };
    let title = format!("A\u{1b}[2J title{}", " that is long".repeat(50));
    let sql = "UPDATE conversations SET metadata = json_set(metadata, '$.title', ?1)";
    assert_eq!(database.execute(sql, [title]).expect("a title"), 1);

    rename(&name, "17");
    for arguments in
        [&["--journal", &file, "--resume"][..], &["--journal", &file, "--resume", "17"]]
    {
        let said = says(folder, arguments, "/list\n");
        assert!(said.contains("17 goes on after 2 messages: My favourite number"), "{said}");
        assert!(said.contains("A\\u{1b}[2J title that") && !said.contains('\u{1b}'), "{said}");
        let row = said.lines().find(|line| line.starts_with("  1  17 ")).expect("a row");
        assert!(row.chars().count() < 120, "{row}");
    }

    let deceives = "no\nIt was kept. Quit? [y]es";
    rename("17", deceives);
    let said = says(folder, &arguments, "/list\n/delete 1\nno\n/delete 1\ny\n");
    assert!(said.contains("\nDelete no ⏎ It was kept. Quit? [y]es for ever?"), "{said}");
    assert!(!said.contains("\nIt was kept."), "{said}");
}

#[test]
fn a_file_behind_a_link_is_its_owners_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (link, file) = (folder.join("link.db"), folder.join("chats.db"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    says(folder, &["--journal", &link.display().to_string()], "Hello.\n");
    let mode = fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
