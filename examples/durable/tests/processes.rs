//! The programs as processes: `durable` is killed at random instants and started again, `approve_later`
//! waits for a person between its processes.
//!
//! `HARNESS_KILLS` sets how often the first one is killed (default 20), and `HARNESS_SEED` the seed of the
//! random instants.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the program and kills it after this time, if it has not ended by then. Gives what it said, and
/// its exit code if it came to its end.
fn run_for(folder: &Path, time: Duration) -> (String, Option<i32>) {
    let mut running = Command::new(env!("CARGO_BIN_EXE_durable"))
        .arg("--journal")
        .arg(folder.join("chats.db"))
        .arg("--ledger")
        .arg(folder.join("ledger"))
        .args(["--call", "50"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    thread::sleep(time);
    // `SIGKILL`: nothing of the program runs any more.
    running.kill().expect("it is ours");
    let output = running.wait_with_output().expect("it has ended");
    let code = output.status.code();
    assert!(matches!(code, None | Some(0)), "{}", String::from_utf8_lossy(&output.stderr));
    (said(&output), code)
}

#[test]
fn a_payment_that_fails_is_not_said_to_be_made() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nobody can write lines into a folder.
    let output = Command::new(env!("CARGO_BIN_EXE_durable"))
        .arg("--journal")
        .arg(folder.path().join("chats.db"))
        .arg("--ledger")
        .arg(folder.path())
        .args(["--call", "50"])
        .output()
        .expect("it runs");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("pay 6: not paid") && !told.contains("All six bills"), "{told}");
}

#[test]
fn killed_at_any_instant_it_goes_on_and_pays_nothing_twice() {
    let kills = number("HARNESS_KILLS").unwrap_or(20);
    let seed = number("HARNESS_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("HARNESS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut killed, mut doubtful) = (0, 0);
    while killed < kills {
        let folder = tempfile::tempdir().expect("a folder");
        let mut all = String::new();
        let last = loop {
            // A run takes some 500 ms, so that each is killed several times.
            let patience = Duration::from_millis(random.u64(1..200 + 20 * killed.min(20)));
            let (told, code) = run_for(folder.path(), patience);
            all.push_str(&told);
            match code {
                Some(_) => break told,
                None => killed += 1,
            }
        };
        let ledger = fs::read_to_string(folder.path().join("ledger")).unwrap_or_default();
        assert!(last.contains("All six bills"), "{seed}: {last}");
        for bill in 1..=6 {
            let paid = ledger.lines().filter(|line| *line == format!("pay {bill}")).count();
            let in_doubt = last.contains(&format!("pay {bill}: in doubt"));
            assert_eq!(last.contains(&format!("pay {bill}: paid")), !in_doubt, "{seed}: {last}");
            match in_doubt {
                false => assert_eq!(paid, 1, "{seed}: {bill} in {ledger}"),
                true => {
                    assert!(paid <= 1, "{seed}: {bill} in {ledger}");
                    let open = format!("In doubt: pay {{\"bill\":{bill}}}");
                    assert!(all.contains(&open), "{seed}: nobody was told of {bill}: {all}");
                    doubtful += 1;
                }
            }
        }
        assert_eq!(ledger.lines().count(), ledger.matches("pay ").count(), "{seed}: {ledger}");
        // Given once more, the command says the same again and does nothing.
        let again = run_to_the_end(folder.path());
        assert!(last.ends_with(again.split_once('\n').expect("lines").1), "{again}");
        assert_eq!(fs::read_to_string(folder.path().join("ledger")).unwrap_or_default(), ledger);
    }
    println!("killed {killed} times, {doubtful} payments in doubt");
}

fn run_to_the_end(folder: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_durable"))
        .arg("--journal")
        .arg(folder.join("chats.db"))
        .arg("--ledger")
        .arg(folder.join("ledger"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    said(&output)
}

fn approve_later(folder: &Path, command: &[&str]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_approve_later"));
    program.arg("--journal").arg(folder.join("chats.db")).args(command);
    let output = program.output().expect("it runs");
    (output.status.code(), said(&output))
}

#[test]
fn one_process_asks_another_one_answers_and_a_third_one_goes_on() {
    for (answer, mailed) in [(&["allow"][..], true), (&["deny", "not on Monday"], false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (code, said) = approve_later(folder.path(), &["ask"]);
        assert_eq!(code, Some(3), "{said}");
        let (code, said) = approve_later(folder.path(), &["list"]);
        assert!(code == Some(0) && said.contains("send_mail") && said.contains("ada@"), "{said}");
        // Nobody has answered: it still waits, and nothing was sent.
        let (code, said) = approve_later(folder.path(), &["go"]);
        assert!(code == Some(3) && !said.contains("Mail to"), "{said}");
        let (code, said) = approve_later(folder.path(), answer);
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = approve_later(folder.path(), answer);
        assert_eq!(code, Some(1), "it was answered: {said}");
        let (code, said) = approve_later(folder.path(), &["go"]);
        assert!(code == Some(0) && said.contains("That is settled."), "{said}");
        assert_eq!(said.contains("Mail to ada@example.org"), mailed, "{said}");
        let (code, said) = approve_later(folder.path(), &["list"]);
        assert_eq!((code, said.as_str()), (Some(0), "No call waits.\n"));
        let (code, page) = approve_later(folder.path(), &["trace"]);
        assert!(code == Some(0) && page.starts_with("<!doctype html>"), "{page}");
        let reason = if mailed { "\"sent\"" } else { "not on Monday" };
        assert!(page.contains(reason) && page.contains("That is settled."), "{page}");
    }
}

#[test]
fn wrong_arguments_are_named_and_make_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chats.db").display().to_string();
    for (arguments, code, says) in [
        (vec![], 2, "`--journal FILE` is missing"),
        (vec!["--wrong"], 2, "`--wrong` is unknown"),
        (vec!["ask"], 2, "`--journal FILE` is missing before the command"),
        (vec!["--journal", &file], 2, "the command is missing"),
        (vec!["--journal", &file, "asks"], 2, "`asks` is unknown"),
        (vec!["--journal", &file, "deny"], 2, "`deny` needs a REASON"),
        (vec!["--journal", &file, "ask", "x"], 2, "`x` is too much"),
        (vec!["--journal", &file, "list"], 1, "there is no journal"),
        (vec!["--journal", &file, "allow"], 1, "there is no journal"),
        (vec!["--journal", &file, "go"], 1, "there is no journal"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_approve_later"))
            .args(&arguments)
            .output()
            .expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{arguments:?}: {err}");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0, "{arguments:?}");
    }
}

#[test]
fn both_tell_how_they_are_used() {
    for program in [env!("CARGO_BIN_EXE_durable"), env!("CARGO_BIN_EXE_approve_later")] {
        let output = Command::new(program).arg("--help").output().expect("it runs");
        assert_eq!(output.status.code(), Some(0));
        assert!(said(&output).contains("--journal FILE"));
        for wrong in [&["--nonsense"][..], &["--journal"], &[]] {
            let output = Command::new(program).args(wrong).output().expect("it runs");
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
        }
    }
}
