//! A chat that keeps its conversations, in a real terminal: killed, stopped, and continued by
//! another process.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    process,
    tmux::{Terminal, built, done},
};

/// Kills the program in the terminal: nothing of it runs any more.
fn kill(terminal: &Terminal) {
    let shell = terminal.command(&["display", "-p", "-t", "main", "#{pane_pid}"]).output();
    let shell = done(shell, "the shell's id");
    let program = process::children(shell.trim());
    let [program] = program.as_slice() else { panic!("children of the shell: {program:?}") };
    done(Command::new("kill").args(["-KILL", program]).output(), "the program is killed");
    terminal.wait_for("exit code 137");
}

/// Goes on, in another terminal, with the conversation that the first one has kept last.
fn resumed(first: &Terminal) -> Terminal {
    resumed_in(first, &first.file("."))
}

/// The same in another folder, which a person who has allowed a call did not see.
fn resumed_in(first: &Terminal, folder: &Path) -> Terminal {
    let data = first.file("data");
    let data = format!("env -C {} XDG_DATA_HOME={}", folder.display(), data.display());
    Terminal::start("repl", &[&data], "--resume").expect("it has started before")
}

const ASKS: &str = "[s]how again:";

#[test]
fn of_a_call_in_a_killed_process_the_person_says_what_became() {
    for (said, expected, times) in [
        ("/settle 1 ran It has begun.", "bash: It has begun.", 1),
        ("/settle 1 failed No such disk.", "went wrong, so I stop here: No such disk.", 1),
        ("/settle 1 not", "bash: exit status: 0", 2),
        // Nothing is said: the model is told that nobody knows.
        ("/usage", "went wrong, so I stop here: ", 1),
    ] {
        let Some(terminal) = Terminal::start("repl", &[], "") else { return };
        terminal.prompt_after("/help tells more.", 1);
        // The first time it waits to be killed.
        let ran = terminal.file("ran");
        let (mark, ran_there) = (process::mark(), ran.display());
        let waits = format!("if [ $(wc -l < {ran_there}) = 1 ]; then sleep {mark}; fi");
        terminal.say(&format!("Run `echo begun >> {ran_there}; {waits}`"));
        terminal.wait_for(ASKS);
        terminal.say("y");
        terminal.wait("the command runs", |_| {
            process::with(&mark).iter().any(|line| line.contains(": sleep "))
        });
        kill(&terminal);
        terminal.wait("its command is gone", |_| process::with(&mark).is_empty());

        let again = resumed(&terminal);
        let screen = again.prompt_after("/help tells more.", 1);
        for line in ["Its last run came to no answer.", "  1. in doubt: bash("] {
            assert!(screen.contains(line), "{line:?}: {screen}");
        }
        again.say("/list");
        again.prompt_after("this one    Run `echo begun", 1);
        again.say(said);
        again.wait("settled, and the prompt", |screen| {
            screen.contains(said) && screen.ends_with("\n>")
        });
        again.say("/go");
        again.wait(expected, |screen| {
            // What was cleared is a call that was allowed: it runs without another question.
            screen.contains(expected) && screen.ends_with("s)\n>")
        });
        let lines = fs::read_to_string(&ran).expect("the file").lines().count();
        assert_eq!(lines, times, "{said}: {}", again.screen());
        again.say("/go");
        again.prompt_after("There is nothing to go on with", 1);
    }
}

#[test]
fn what_waits_for_an_approval_is_asked_again() {
    let Some(program) = built("repl") else { return };
    // Killed while the question stands on the screen.
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    let ran = terminal.file("ran");
    terminal.say(&format!("Run `echo one >> {}`", ran.display()));
    terminal.wait_for(ASKS);
    kill(&terminal);
    let again = resumed(&terminal);
    again.prompt_after("Its last run came to no answer.", 1);
    again.say("/go");
    again.wait_for(ASKS);
    again.press(&["C-c"]);
    again.prompt_after("did not start", 1);
    assert!(!ran.exists(), "{}", again.screen());
    again.press(&["C-d"]);
    again.wait_for("exit code 0");

    // Asked for where there was no terminal.
    let lines = terminal.file("lines");
    fs::write(&lines, format!("Run `echo two >> {}`\n", ran.display())).expect("a file");
    // A session of its own has no terminal.
    let mut alone = Command::new("setsid");
    alone.arg(program).env_remove("PROVIDER").env("XDG_DATA_HOME", terminal.file("data"));
    alone.current_dir(terminal.file("."));
    alone.stdin(fs::File::open(lines).expect("the file")).stderr(Stdio::null());
    let said = done(alone.output(), "the chat runs");
    assert!(said.contains("): waits for your approval"), "{said}");

    let again = resumed(&terminal);
    again.prompt_after("): waits for your approval", 1);
    again.say("/go");
    again.wait_for(ASKS);
    // To take the question back leaves it open.
    again.press(&["C-c"]);
    again.prompt_after("): waits for your approval", 2);
    assert!(!ran.exists(), "{}", again.screen());
    again.say("/go");
    again.wait("Enter", |screen| screen.ends_with("Press Enter to see the next one:"));
    again.press(&["Enter"]);
    again.wait("the question", |screen| screen.ends_with(ASKS));
    again.say("y");
    again.prompt_after("bash: exit status: 0", 1);
    assert_eq!(fs::read_to_string(&ran).expect("the file"), "two\n");
}

#[test]
fn what_was_allowed_in_one_folder_is_asked_about_again_in_another_one() {
    let Some(program) = built("repl") else { return };
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    terminal.press(&["C-d"]);
    terminal.wait_for("exit code 0");
    let (lines, ran) = (terminal.file("lines"), terminal.file("ran"));
    fs::write(&lines, format!("Run `pwd >> {}`\n", ran.display())).expect("a file");
    let mut alone = Command::new("setsid");
    alone.arg(program).env_remove("PROVIDER").env("XDG_DATA_HOME", terminal.file("data"));
    alone.current_dir(terminal.file("."));
    alone.stdin(fs::File::open(lines).expect("the file")).stderr(Stdio::null());
    done(alone.output(), "the chat runs");

    let elsewhere = tempfile::tempdir().expect("a folder");
    let again = resumed_in(&terminal, elsewhere.path());
    again.prompt_after("): waits for your approval", 1);
    again.say("/go");
    again.wait_for(ASKS);
    again.say("y");
    again.wait("the second question", |screen| {
        screen.contains("changed | the folder was") && screen.ends_with(ASKS)
    });
    assert!(!ran.exists(), "{}", again.screen());
    again.say("y");
    again.prompt_after("bash: exit status: 0", 1);
    let there = fs::read_to_string(&ran).expect("the file");
    assert_eq!(Path::new(there.trim()), elsewhere.path().canonicalize().expect("a folder"));
}

#[test]
fn an_answer_that_was_stopped_goes_on_in_another_process() {
    let Some(terminal) = Terminal::start("repl", &[], "") else { return };
    terminal.prompt_after("/help tells more.", 1);
    terminal.say("Count to 400.");
    terminal.wait_for(" 20 ");
    terminal.press(&["C-c"]);
    terminal.prompt_after("`/go` goes on with it", 1);
    terminal.press(&["C-d"]);
    terminal.wait_for("exit code 0");
    let again = resumed(&terminal);
    again.prompt_after("Its last run came to no answer.", 1);
    again.say("/go");
    again.prompt_after(" 399 400", 1);
    again.say("/save whole.json");
    again.prompt_after("saved 4 messages", 1);
    // Both programs have run in the same folder.
    let transcript = terminal.saved("whole.json");
    let kept = transcript.messages()[1].text();
    assert!(kept.contains(" 20 ") && kept.ends_with("[interrupted]"), "{kept}");
}
