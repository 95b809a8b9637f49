//! The examples in a real terminal: keys in, screen out.
//!
//! See `tmux` for the terminal. If tmux is not installed, or the examples are not built, these tests say
//! so and pass.

use std::{
    fs,
    process::{Command, Stdio},
};

use harness::{
    CallOutcome, Message, Role, Transcript,
    testing::{Answer, ClosedBy, LoopbackServer, Point, anthropic},
};

use crate::{
    process,
    tmux::{Terminal, built, done},
};

fn result_of<'t>(transcript: &'t Transcript, command: &str) -> &'t harness::ToolResult {
    let messages = transcript.messages();
    let mut calls = messages.iter().flat_map(Message::calls);
    let call = calls.find(|call| call.arguments().contains(command)).expect("the call");
    let mut results = messages.iter().flat_map(Message::results);
    results.find(|result| result.call_id() == call.id()).expect("its result")
}

#[test]
fn a_chat_answers_counts_saves_quits_and_goes_on() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    terminal.say("My favourite number is 42.");
    terminal.prompt_after("I will remember it: 42.", 1);
    terminal.say("What is it times 17, minus 100?");
    let screen = terminal.prompt_after("42 * 17 - 100 = 614", 1);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines.contains(&"⚙ calc({\"expression\":\"42 * 17 - 100\"})"), "{screen}");
    assert!(lines.contains(&"→ calc: 614"), "{screen}");
    let told = |line: &&&str| line.contains(" tokens in, ") && line.ends_with(" s)");
    assert_eq!(lines.iter().filter(told).count(), 2, "tokens and time after each turn: {screen}");

    terminal.say("/tools");
    let screen = terminal.prompt_after("bash (read, write, network, mutate, asks first): ", 1);
    for tool in ["calc (none): ", "read_file (read): ", "write_file (write): "] {
        assert!(screen.contains(tool), "{tool}: {screen}");
    }
    terminal.say("/usage");
    terminal.prompt_after("6 messages, ", 1);
    terminal.say("/sav x");
    terminal.prompt_after("`/sav x` is no command; `/help` lists them", 1);
    terminal.say("/save no/such/folder/x.json");
    terminal.prompt_after("`no/such/folder/x.json` was not written: ", 1);
    terminal.say("/save chat.json");
    terminal.prompt_after("saved 6 messages", 1);
    assert_eq!(terminal.saved("chat.json").messages().len(), 6);
    // A file that is there already is replaced when the person says so.
    fs::write(terminal.file("mine"), "mine").expect("a file");
    for (at, answer) in ["", "what?", "n"].into_iter().enumerate() {
        terminal.say("/save mine");
        terminal.prompt_after("`mine` is there already. Replace it? [y]es, [n]o", at + 1);
        terminal.say(answer);
        terminal.prompt_after("`mine` was left as it is", at + 1);
        assert_eq!(fs::read_to_string(terminal.file("mine")).expect("the file"), "mine");
    }
    terminal.say("/save mine");
    terminal.prompt_after("Replace it? [y]es, [n]o", 4);
    terminal.say("y");
    terminal.prompt_after("saved 6 messages", 2);
    assert_eq!(terminal.saved("mine").messages().len(), 6);
    // The history: the last thing said to the model, twelve lines up; what is empty or said twice in a
    // row is not kept.
    terminal.press(&["Up"; 12]);
    terminal.press(&["Enter"]);
    terminal.prompt_after("42 * 17 - 100 = 614", 2);
    terminal.press(&["C-d"]);
    terminal.wait_for("exit code 0");

    let Some(again) = Terminal::start("repl", &[], "--import chat.json; true") else { return };
    again.wait_for("exit code 0");
    assert!(again.screen().contains("`chat.json` is not read"), "{}", again.screen());
    let saved = terminal.file("chat.json");
    let resume = format!("--import {}", saved.display());
    let Some(again) = Terminal::start("repl", &[], &resume) else { return };
    again.prompt_after("goes on after 6 messages: My favourite number is 42.", 1);
    again.say("Which was my favourite number?");
    again.prompt_after("Your favourite number is 42.", 1);
    again.say("/quit");
    again.wait_for("exit code 0");
}

#[test]
fn ctrl_c_stops_the_turn_and_a_second_one_at_the_prompt_quits() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    terminal.say("What is 17 * 23 - 100? Then count to 1000.");
    terminal.wait_for(" 20 ");
    terminal.press(&["C-c"]);
    let screen = terminal.prompt_after("■ interrupted", 1);
    println!("{screen}");
    assert!(
        screen.contains("calc({\"expression\":\"17 * 23 - 100\"}): ran to its end"),
        "{screen}"
    );

    terminal.say("/save stopped.json");
    terminal.prompt_after("saved 4 messages", 1);
    let transcript = terminal.saved("stopped.json");
    let roles: Vec<Role> = transcript.messages().iter().map(Message::role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    let result = transcript.messages()[2].results().next().expect("a result");
    assert_eq!((result.outcome(), result.to_text().as_str()), (CallOutcome::Succeeded, "291"));
    let kept = transcript.messages()[3].text();
    let words = kept.strip_suffix("[interrupted]").expect("the mark").trim_end();
    assert!(words.starts_with("17 * 23 - 100 = 291\n1 2 3"), "{words}");
    let shown = screen.split("17 * 23 - 100 = 291\n").nth(1).expect("the words");
    let shown = shown.split("\n■").next().expect("the words before the stop");
    // At the key the system drops what is on its way to the screen, and echoes `^C`; a word may
    // still come behind it. So what is on the screen was kept, and perhaps a word more.
    let (before, behind) = shown.split_once("^C").expect("the echo of the key");
    let before = format!("17 * 23 - 100 = 291\n{}", before.trim_end());
    let rest = words.strip_prefix(&before).unwrap_or_else(|| panic!("{words:?}, {before:?}"));
    assert!(rest.trim_start().ends_with(behind.trim()), "{rest:?}, {behind:?}");

    // The conversation goes on.
    terminal.say("What is 2 + 3?");
    terminal.prompt_after("2 + 3 = 5", 1);
    terminal.press(&["C-c"]);
    terminal.prompt_after("(Ctrl-C again quits)", 1);
    terminal.press(&["C-c", "C-c"]);
    terminal.wait_for("exit code 0");
}

#[test]
fn a_command_runs_when_the_person_says_so() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    let question = "[s]how again:";
    let asked = |times: usize| {
        terminal.wait(format!("question {times}"), |screen| {
            screen.matches(question).count() == times && screen.ends_with(question)
        })
    };
    let ran = || fs::read_to_string(terminal.file("ran")).unwrap_or_default();

    // What was typed before the question is no answer to it.
    terminal.say("Count to 60 and run `echo typed-ahead >> ran`");
    terminal.wait_for(" 5 ");
    terminal.say("y");
    terminal.wait_for(" 50 ");
    asked(1);
    assert_eq!(ran(), "");
    terminal.say("n");
    terminal.prompt_after("✗ bash: the person at the terminal said no", 1);
    assert_eq!(ran(), "");

    terminal.say("Run `echo yes >> ran`");
    asked(2);
    terminal.say("what?");
    asked(3);
    terminal.say("y");
    terminal.prompt_after("exit status: 0", 2);
    assert_eq!(ran(), "yes\n");

    // A question that is taken back eats no key of what follows.
    terminal.say("Run `echo interrupted >> ran`");
    asked(4);
    terminal.press(&["C-c"]);
    terminal.wait_for("■ interrupted");
    terminal.say("What is 2 + 3?");
    let screen = terminal.prompt_after("2 + 3 = 5", 1);
    let truth = "bash({\"command\":\"echo interrupted >> ran\"}): did not start";
    assert!(screen.contains(truth), "{screen}");

    // *Always* is for exactly this command. A key that was meant for the question that was taken back
    // is not taken for an answer to this one.
    terminal.say("Run `echo always >> ran` and `echo too >> ran`");
    terminal.wait("Enter", |screen| screen.ends_with("Press Enter to see the next one:"));
    terminal.say("a");
    asked(5);
    assert_eq!(ran(), "yes\n");
    terminal.say("a");
    asked(6);
    terminal.say("y");
    terminal.prompt_after("s)\n>", 4);
    assert_eq!(ran(), "yes\nalways\ntoo\n");
    terminal.say("Run `echo always >> ran`");
    terminal.prompt_after("s)\n>", 5);
    assert_eq!(ran(), "yes\nalways\ntoo\nalways\n");
    assert_eq!(terminal.screen().matches(question).count(), 6, "it is not asked again");

    terminal.say("/save asked.json");
    terminal.prompt_after("saved ", 1);
    let transcript = terminal.saved("asked.json");
    for (command, outcome) in [
        ("typed-ahead", CallOutcome::Denied),
        ("yes", CallOutcome::Succeeded),
        ("interrupted", CallOutcome::NotStarted),
        ("always", CallOutcome::Succeeded),
        ("too", CallOutcome::Succeeded),
    ] {
        assert_eq!(result_of(&transcript, command).outcome(), outcome, "{command}");
    }
}

#[test]
fn a_file_that_is_there_is_not_replaced_unasked() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    terminal.say("Write 'first' to notes.txt");
    terminal.prompt_after("I wrote notes.txt.", 1);
    let text = || fs::read_to_string(terminal.file("notes.txt")).expect("the file");
    let asked = |times: usize| {
        terminal.wait("a question", |screen| {
            screen.matches("[s]how again:").count() == times && screen.ends_with("[s]how again:")
        })
    };
    terminal.say("Write 'second' to notes.txt");
    let screen = asked(1);
    for row in [
        "    tool | write_file",
        "     why | the rule `a file is there already`: ",
        "     arg | path: notes.txt",
        "     arg | content: second",
    ] {
        assert!(screen.contains(row), "{row:?} is not in\n{screen}");
    }
    assert_eq!(text(), "first");
    terminal.say("n keep it");
    terminal.prompt_after("✗ write_file: the person at the terminal said no: keep it", 1);
    assert_eq!(text(), "first");
    terminal.say("Write 'third' to ./notes.txt");
    asked(2);
    terminal.say("y");
    terminal.prompt_after("I wrote notes.txt.", 1);
    terminal.wait("the file", |_| text() == "third");
}

#[test]
fn ctrl_c_kills_the_command_that_runs() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    let mark = process::mark();
    terminal.say(&format!("Run `echo begun; {}`", process::stubborn(&mark)));
    terminal.wait_for("[s]how again:");
    terminal.say("y");
    process::wait_for(&mark);
    terminal.press(&["C-c"]);
    let screen = terminal.prompt_after("was stopped and may have partly run", 1);
    assert!(screen.contains("■ interrupted"), "{screen}");
    assert_eq!(process::with(&mark), Vec::<String>::new(), "what is left");
    terminal.say("/save killed.json");
    terminal.prompt_after("saved ", 1);
    let transcript = terminal.saved("killed.json");
    let result = result_of(&transcript, &mark);
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    assert!(result.to_text().contains("begun"), "its output so far: {}", result.to_text());

    // And when the whole program is told to end while a command runs.
    terminal.say(&format!("Run `{}`", process::stubborn(&mark)));
    terminal.wait("the second question", |screen| screen.ends_with("[s]how again:"));
    terminal.say("y");
    process::wait_for(&mark);
    end(&terminal);
    terminal.wait_for("exit code 130");
    assert_eq!(process::with(&mark), Vec::<String>::new(), "what is left");
}

/// Tells the program in the terminal to end.
fn end(terminal: &Terminal) {
    let shell = terminal.command(&["display", "-p", "-t", "main", "#{pane_pid}"]).output();
    let shell = done(shell, "the shell's id");
    let program = process::children(shell.trim());
    let [program] = program.as_slice() else { panic!("children of the shell: {program:?}") };
    done(Command::new("kill").args(["-TERM", program]).output(), "the program is told to end");
}

#[test]
fn a_terminal_is_left_as_it_was() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    end(&terminal);
    let screen = terminal.wait_for("exit code 130");
    let modes = |screen: &str| screen.contains(" icanon ") && screen.contains(" echo ");
    terminal.wait("the modes of the terminal", modes);
    assert!(!screen.contains("panicked"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spinner_turns_until_the_first_word_and_the_connection_is_closed() {
    let stalled = Answer::empty(200).stall_at(Point::BeforeHead);
    let whole = anthropic::body().text("Here I am.").answer();
    let server = LoopbackServer::start([stalled, whole]).await.expect("a port");
    let address = format!("ANTHROPIC_BASE_URL={}", server.url());
    let environment = ["PROVIDER=anthropic", "ANTHROPIC_API_KEY=none", &address];
    let Some(terminal) = Terminal::start("repl", &environment, "") else { return };
    terminal.prompt_after("anthropic · ", 1);
    terminal.say("Hello?");
    let turns = |screen: &str| {
        let last = screen.lines().last().unwrap_or_default();
        last.starts_with(|c| ('⠀'..='⣿').contains(&c)) && last.ends_with(" s")
    };
    terminal.wait("a spinner", turns);
    server.received(0).await;
    terminal.press(&["C-c"]);
    assert_eq!(server.closed(0).await, ClosedBy::Client);
    let screen = terminal.prompt_after("■ interrupted", 1);
    assert!(!screen.contains(" 0 s"), "the spinner is gone: {screen}");
    terminal.say("Hello again?");
    terminal.prompt_after("Here I am.\n(25 tokens in, 15 out, ", 1);
    terminal.press(&["C-d"]);
    terminal.wait_for("exit code 0");
    server.assert_finished();
}

#[test]
fn one_task_is_stopped_and_says_what_it_leaves() {
    let Some(terminal) = Terminal::start("stream", &[], "") else { return };
    terminal.wait_for(" 20 ");
    terminal.press(&["C-c"]);
    let screen = terminal.wait_for("exit code 130");
    println!("{screen}");
    for line in [
        "■ interrupted",
        "[interrupted]",
        "  calc({\"expression\":\"17 * 23 - 100\"}): ran to its end",
        " out at least",
    ] {
        assert!(screen.contains(line), "{line:?}: {screen}");
    }
}

#[test]
fn three_prompts_are_one_conversation_also_without_a_terminal() {
    let Some(program) = built("multi_turn") else { return };
    let said = done(Command::new(program).env_remove("PROVIDER").output(), "the example runs");
    for line in ["42 * 17 - 100 = 614\n", "Your favourite number is 42.\n", "\n8 messages, "] {
        assert!(said.contains(line), "{line:?}: {said}");
    }
}

#[test]
fn what_is_not_set_up_is_said_with_code_2() {
    for example in ["stream", "multi_turn", "repl"] {
        let Some(program) = built(example) else { return };
        for (key, value, expected) in
            [("PROVIDER", "nobody", "`nobody`"), ("PROVIDER", "anthropic", "ANTHROPIC_API_KEY")]
        {
            let mut program = Command::new(&program);
            program.env_remove("ANTHROPIC_API_KEY").env(key, value).stdin(Stdio::null());
            let output = program.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{example}: {said}");
            assert!(said.contains(expected), "{example}: {said}");
        }
    }
}

#[test]
fn a_chat_reads_its_lines_from_a_file_too() {
    let Some(program) = built("repl") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let lines = folder.path().join("lines");
    fs::write(&lines, "What is 2 + 3?\n/usage\n").expect("a file");
    let mut program = Command::new(program);
    program.env_remove("PROVIDER").env("XDG_DATA_HOME", folder.path());
    program.stdin(fs::File::open(lines).expect("the file"));
    let said = done(program.output(), "the example runs");
    assert!(said.contains("2 + 3 = 5\n") && said.contains("\n4 messages, "), "{said}");
}
