//! The examples as programs: help, exit codes, faults, which provider answers, and a closed output.
//! If they are not built, these tests say so and pass.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use harness::{
    Agent,
    testing::{ScriptedProvider, reply},
};
use harness_test_support::refusing::RefusingPort;

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
        for option in ["--nonsense", "-nonsense"] {
            let Some(mut program) = example(name) else { return };
            let output = program.arg(option).output().expect("it runs");
            let err = String::from_utf8(output.stderr).expect("text");
            assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{name}: {err}");
        }
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

/// The body of a whole answer on Chat Completions.
const WHOLE: &str = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\
                     \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Runs an example to its end: its exit code and both outputs.
fn ended(name: &str, arguments: &[&str]) -> Option<(Option<i32>, String, String)> {
    let output = example(name)?.args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Some((output.status.code(), text(output.stdout), text(output.stderr)))
}

#[test]
fn a_herd_says_at_once_how_long_it_takes() {
    let Some(mut program) = example("herd") else { return };
    let mut running = program.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut first = String::new();
    let mut out = BufReader::new(running.stdout.take().expect("its output"));
    out.read_line(&mut first).expect("a line");
    assert!(running.try_wait().expect("a child").is_none(), "before its end");
    running.kill().expect("it ends");
    running.wait().expect("it has ended");
    assert!(first.contains("50 agents") && first.contains("about half a minute"), "{first}");
}

#[test]
fn an_example_with_a_typed_answer_says_who_answers() {
    let Some((code, out, err)) = ended("extract", &[]) else { return };
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("PROVIDER is not set, so a scripted model answers.\n"), "{out}");
    let Some((_, help, _)) = ended("extract", &["--help"]) else { return };
    assert!(help.contains("PROVIDER=anthropic"), "{help}");
}

#[test]
fn the_work_of_each_agent_is_shown() {
    let critic = "writer: Draft 1 about crabs.\ncritic: Too short.\nwriter: Draft 2 about crabs.\ncritic: Good.\n\
                  Draft 2 about crabs.\n6 turns in all\n";
    let reviewers = "safety: Safe.\nspeed: Line 3 is slow.\nstyle: Well written.\n\
                     They say: Safe. Line 3 is slow. Well written.\n6 turns in all\n";
    for (name, expected) in [("critic", critic), ("side_by_side", reviewers)] {
        let Some((code, out, _)) = ended(name, &[]) else { return };
        assert_eq!((code, out.as_str()), (Some(0), expected), "{name}");
    }
}

#[test]
fn what_is_wrong_with_a_recorded_answer_or_trace_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (empty, whole) = (file("empty", ""), file("whole", WHOLE));
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {";
    let (torn, half) = (file("torn", begun), file("half", "data: {"));
    let nosuch = folder.path().join("nosuch").display().to_string();
    for (name, arguments, code, says) in [
        ("decode", vec!["--wire", "chat", &whole], 0, ""),
        ("decode", vec![&*whole], 2, "`--wire` is missing; expected `decode --wire"),
        ("decode", vec!["--wire"], 2, "`--wire` needs a name"),
        ("decode", vec!["--wire", "chat"], 2, "the FILE is missing"),
        ("decode", vec!["--wire", "x", &whole], 2, "there is no wire `x`"),
        ("decode", vec!["--wire", "chat", "--x"], 2, "`--x` is unknown"),
        ("decode", vec!["--wire", "chat", &empty], 1, "empty: it is empty"),
        ("decode", vec!["--wire", "chat", &torn], 1, "torn: it ends in the middle of the answer"),
        ("decode", vec!["--wire", "chat", &half], 1, "half: it holds no whole event of this wire"),
        ("decode", vec!["--wire", "chat", &nosuch], 1, "nosuch: No such file"),
        ("trace", vec![&empty], 1, "empty holds no event"),
        ("trace", vec![&nosuch, "--html"], 1, "nosuch: No such file"),
        ("trace", vec!["--compare", &empty], 1, "empty holds no event"),
        ("trace", vec!["--compare"], 2, "`--compare` needs two FILEs"),
    ] {
        let Some((ended, out, err)) = ended(name, &arguments) else { return };
        assert_eq!(ended, Some(code), "{name} {arguments:?}: {err}");
        assert!(err.contains(says) && err.lines().count() == usize::from(code > 0), "{err}");
        assert!(!out.contains("connection"), "there is none: {out}");
    }
    for (name, says) in [("decode", "server-sent events"), ("trace", "JSON lines")] {
        let Some((_, help, _)) = ended(name, &["--help"]) else { return };
        assert!(help.contains(says) && help.lines().count() > 2, "{name}: {help}");
    }
}

/// The trace of a run with these words of the model.
fn traced(text: &str) -> String {
    let model = ScriptedProvider::new([reply().text(text)]);
    let agent = Agent::builder(model).build().expect("an agent");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reply = runtime.expect("a runtime").block_on(agent.run("Hello.").into_future());
    let reply = reply.expect("an answer");
    let lines = reply.trace().events().iter();
    lines.map(|event| serde_json::to_string(event).expect("JSON") + "\n").collect()
}

#[test]
fn two_traces_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [("one", "Hi."), ("same", "Hi."), ("other", "Ho.")].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, traced(text)).expect("a file");
        path.display().to_string()
    });
    let [one, same, other] = &files;
    let compare = |with, more: &[&str]| ended("trace", &[&["--compare", one, with], more].concat());
    let Some((code, out, err)) = compare(same, &[]) else { return };
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out, "The facts of both traces are the same.\n");
    let Some((code, out, _)) = compare(other, &[]) else { return };
    assert_eq!(code, Some(0));
    let sides = [(one, "Hi."), (other, "Ho.")];
    let expected =
        sides.map(|(file, text)| format!("{file}, event 4: model_replied\n  text: \"{text}\"\n"));
    assert_eq!(out, expected.concat());
    let Some((code, out, _)) = compare(other, &["--html"]) else { return };
    assert!(code == Some(0) && out.starts_with("<!doctype html>"), "{out}");
    assert!(out.contains("\"difference\":[{\"event\":3"), "{out}");
}

/// An error of a connection says its cause once, and how often it came.
#[test]
fn an_error_says_its_cause_once() {
    let refusing = RefusingPort::bind();
    let Some(mut program) = example("quickstart") else { return };
    program.env("PROVIDER", "anthropic").env("ANTHROPIC_API_KEY", "none");
    let output = program.env("ANTHROPIC_BASE_URL", refusing.url()).output().expect("it runs");
    let err = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(err.matches("Connection refused").count(), 1, "{err}");
    assert!(err.contains(" (3 times); gave up after 3 tries\n"), "{err}");
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
    fs::write(&answer, WHOLE).expect("a file");
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
