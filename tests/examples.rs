//! The examples as programs: help, exit codes, what they say of keys, and an output that is closed.
//! Where they were not built, these tests say so and pass.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use crate::tmux::built;

const ALL: [&str; 11] = [
    "quickstart",
    "stream",
    "multi_turn",
    "repl",
    "trace",
    "herd",
    "decode",
    "side_by_side",
    "router",
    "critic",
    "extract",
];

/// An example with nothing set up.
fn example(name: &str) -> Option<Command> {
    let mut program = Command::new(built(name)?);
    // Where the chat keeps its conversations, in place of the user's own.
    program.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/data"));
    for variable in ["PROVIDER", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CHAT_COMPLETIONS_BASE_URL"]
    {
        program.env_remove(variable);
    }
    program.stdin(Stdio::null());
    Some(program)
}

#[test]
fn all_tell_how_they_are_used() {
    for name in ALL {
        for help in ["--help", "-h"] {
            let Some(mut program) = example(name) else { return };
            let output = program.arg(help).output().expect("it runs");
            let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
            let (out, err) = (out.expect("text"), err.expect("text"));
            assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{name}");
            assert!(out.contains(name), "{name}: {out}");
        }
        let Some(mut program) = example(name) else { return };
        let output = program.arg("--nonsense").output().expect("it runs");
        let err = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{name}: {err}");
    }
}

#[test]
fn what_they_say_of_keys_is_true() {
    for name in ["quickstart", "stream", "multi_turn", "repl"] {
        for (set, says) in [
            (None, "PROVIDER is not set, so a scripted model on this machine answers."),
            (Some("ANTHROPIC_API_KEY"), "ANTHROPIC_API_KEY is set, but PROVIDER is not, so"),
            (Some("OPENAI_API_KEY"), "PROVIDER=openai asks the real one."),
        ] {
            let Some(mut program) = example(name) else { return };
            program.envs(set.map(|key| (key, "sk-secret-of-a-person")));
            program.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut running = program.spawn().expect("it runs");
            let mut first = String::new();
            let mut out = BufReader::new(running.stdout.take().expect("its output"));
            out.read_line(&mut first).expect("a line");
            running.kill().expect("it ends");
            running.wait().expect("it has ended");
            assert!(first.contains(says), "{name}: {first}");
            assert!(!first.contains("claude") && !first.contains("sk-"), "{name}: {first}");
        }
    }
}

/// Runs a program whose reader takes so many lines and goes away; gives its exit code and what it said
/// to the other output.
fn read_in_part(mut program: Command, lines: usize) -> (Option<i32>, String) {
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = program.spawn().expect("it runs");
    let out = BufReader::new(running.stdout.take().expect("its output"));
    assert_eq!(out.lines().take(lines).count(), lines);
    let output = running.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn an_output_that_is_closed_ends_them_quietly() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer = folder.path().join("answer");
    fs::write(&answer, "data: [DONE]\n\n").expect("a file");
    let answers = vec![answer.display().to_string(); 5_000];
    for (name, arguments) in [
        ("quickstart", vec![]),
        ("stream", vec!["What is 2 + 3?"]),
        ("multi_turn", vec![]),
        ("trace", vec![]),
        ("trace", vec!["--html"]),
        ("decode", ["--wire", "chat"].into_iter().chain(answers.iter().map(|it| &**it)).collect()),
        ("herd", vec!["--help"]),
        ("router", vec![]),
        ("extract", vec![]),
    ] {
        for lines in [0, 1] {
            let Some(mut program) = example(name) else { return };
            program.args(&arguments).current_dir(folder.path());
            let (code, err) = read_in_part(program, lines);
            assert_eq!((code, err.as_str()), (Some(0), ""), "{name} after {lines} lines");
        }
    }
    // The chat has something to say after each line.
    for lines in [0, 1, 2] {
        let Some(mut program) = example("repl") else { return };
        let said = folder.path().join("said");
        fs::write(&said, "What is 2 + 3?\n/help\n/tools\n/usage\n").expect("a file");
        program.stdin(fs::File::open(said).expect("the file")).current_dir(folder.path());
        program.env("XDG_DATA_HOME", folder.path());
        let (code, err) = read_in_part(program, lines);
        assert_eq!((code, err.as_str()), (Some(0), ""), "repl after {lines} lines");
    }
}

/// Both outputs closed: nothing is left to be told on.
#[cfg(unix)]
#[test]
fn no_output_at_all_is_no_panic() {
    for name in ["quickstart", "decode", "multi_turn"] {
        let Some(program) = built(name) else { return };
        let line =
            format!("{} --nonsense 2>&1 | true; echo \"${{PIPESTATUS[0]}}\"", program.display());
        let output = Command::new("bash").args(["-c", &line]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n", "{name}");
    }
}
