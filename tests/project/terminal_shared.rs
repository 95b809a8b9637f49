//! A terminal that others use, too: other processes that ask there, output that comes over a question, keys that come
//! too soon, and what text before has set.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    time::Duration,
};

use harness::{
    SideEffects, ToolCall,
    policy::{
        Approval, ApprovalDecision, ApprovalRequest, Approver as _, Filled, TerminalApprover,
        TerminalForm,
    },
};
use serde_json::json;
use tokio::task::{JoinHandle, yield_now};

use crate::tmux::{Terminal, done};

/// The end of the prompt under a question.
const LAST: &str = "[s]how again:";

/// The longest time that a question is on the screen before an answer counts.
const READING: Duration = Duration::from_secs(1);

fn quiet() -> Option<Terminal> {
    Terminal::running("exec sleep 600", (100, 30))
}

fn question(command: &str) -> ApprovalRequest {
    let arguments = json!({"command": command}).to_string();
    ApprovalRequest::new(&ToolCall::new("call_1", "bash", arguments), SideEffects::ALL)
}

fn ask(terminal: &Terminal, question: ApprovalRequest) -> JoinHandle<Approval> {
    let approver = TerminalApprover::on(terminal.device());
    tokio::spawn(async move { approver.ask(&question).await })
}

/// Waits until so many prompts were shown, and one of them is the last thing on the screen.
fn prompts(terminal: &Terminal, times: usize) -> String {
    terminal.wait(format!("prompt {times}"), |screen| {
        screen.matches(LAST).count() == times && screen.ends_with(LAST)
    });
    terminal.visible()
}

/// The command that the last question on the screen is about.
fn about(screen: &str) -> &str {
    let row = screen.lines().rfind(|row| row.starts_with("     arg | ")).expect("a question");
    row.split_once(": ").expect("a value").1
}

/// In a terminal: asks for the command in the variable.
#[tokio::test]
async fn asks_for_one_command() {
    let Ok(command) = std::env::var("HARNESS_ASKS_FOR") else { return };
    let approval = TerminalApprover::default().ask(&question(&command)).await;
    println!("\n{command}: {:?};", approval.answer);
}

#[test]
fn processes_at_one_terminal_ask_one_after_the_other() {
    let test = std::env::current_exe().expect("this test has a path");
    let asks = |command: &str, streams: &str| {
        let test = test.display();
        format!(
            "HARNESS_ASKS_FOR={command} {test} terminal_shared::asks_for_one_command --exact --nocapture {streams}"
        )
    };
    // Of the second process, no stream leads to the terminal.
    let line = format!(
        "{} & {}; wait; echo both; exec sleep 600",
        asks("look", "< /dev/null > look 2>&1"),
        asks("pay", "> pay 2>&1"),
    );
    for _ in 0..4 {
        let Some(terminal) = Terminal::running(&line, (140, 40)) else { return };
        let screen = prompts(&terminal, 1);
        let first = about(&screen).to_owned();
        assert_eq!(screen.matches("May this call run?").count(), 1, "{screen}");
        terminal.say("y");
        let screen = prompts(&terminal, 2);
        let second = about(&screen).to_owned();
        assert_ne!(first, second, "{screen}");
        terminal.say("n");
        terminal.wait_for("both");
        let said = ["look", "pay"]
            .map(|name| fs::read_to_string(terminal.file(name)).expect("its output"));
        let said = said.concat();
        assert!(said.contains(&format!("{first}: Yes;")), "{said}");
        assert!(said.contains(&format!("{second}: No {{")), "{said}");
    }
}

#[test]
fn a_process_that_is_killed_while_it_asks_leaves_the_terminal_to_others() {
    let test = std::env::current_exe().expect("this test has a path");
    let asks =
        format!("{} terminal_shared::asks_for_one_command --exact --nocapture", test.display());
    let line = format!(
        "HARNESS_ASKS_FOR=first {asks} & echo $! > pid; wait; HARNESS_ASKS_FOR=second {asks}; exec sleep 600"
    );
    let Some(terminal) = Terminal::running(&line, (140, 40)) else { return };
    assert_eq!(about(&prompts(&terminal, 1)), "first");
    let pid = fs::read_to_string(terminal.file("pid")).expect("its id");
    done(std::process::Command::new("kill").args(["-KILL", pid.trim()]).output(), "it is killed");
    assert_eq!(about(&prompts(&terminal, 2)), "second");
    terminal.say("y");
    terminal.wait_for("second: Yes;");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_waits_for_a_stopped_one_says_which_it_is() {
    let test = std::env::current_exe().expect("this test has a path");
    let asks =
        format!("{} terminal_shared::asks_for_one_command --exact --nocapture", test.display());
    let line = format!(
        "HARNESS_ASKS_FOR=first {asks} & echo $! > pid; until [ -e go ]; do sleep 0.1; done; \
         HARNESS_ASKS_FOR=second {asks} 2> said; exec sleep 600"
    );
    let Some(terminal) = Terminal::running(&line, (140, 40)) else { return };
    assert_eq!(about(&prompts(&terminal, 1)), "first");
    let pid = fs::read_to_string(terminal.file("pid")).expect("its id");
    let kill = |signal: &str| {
        done(std::process::Command::new("kill").args([signal, pid.trim()]).output(), "a signal");
    };
    kill("-STOP");
    fs::write(terminal.file("go"), "").expect("a file");
    terminal.wait("the words about it", |_| {
        let said = fs::read_to_string(terminal.file("said")).unwrap_or_default();
        said.contains(&format!("process {} asks at this terminal and is stopped", pid.trim()))
    });
    kill("-KILL");
    assert_eq!(about(&prompts(&terminal, 2)), "second");
    let said = fs::read_to_string(terminal.file("said")).expect("its words");
    assert_eq!(said.matches("is stopped").count(), 1, "{said}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_what_was_written_over_a_question_is_none() {
    let Some(terminal) = quiet() else { return };
    let asked = ask(&terminal, question("rm -rf ~"));
    tokio::task::block_in_place(|| prompts(&terminal, 1));
    let forged = "\x1b[2J\x1b[H     arg | command: ls\r\nbash 00000000: run it? [y]es, [n]o: ";
    let mut device = OpenOptions::new().write(true).open(terminal.device()).expect("the terminal");
    for (times, answer) in [(2, "y"), (3, "a"), (4, "")] {
        device.write_all(forged.as_bytes()).expect("written");
        tokio::task::block_in_place(|| {
            terminal.wait("the forged question", |screen| screen.ends_with("[y]es, [n]o:"));
            terminal.say(answer);
            let screen = prompts(&terminal, times);
            assert!(screen.starts_with("(Shown again: it was overwritten.)\n"), "{screen}");
            assert_eq!(about(&screen), "rm -rf ~");
        });
        assert!(!asked.is_finished(), "{answer:?}");
    }
    terminal.say("y");
    assert_eq!(asked.await.expect("an answer").answer, ApprovalDecision::Yes);
}

#[tokio::test(start_paused = true)]
async fn what_is_typed_before_a_question_can_be_read_is_dropped_and_told() {
    let Some(terminal) = quiet() else { return };
    let asked = ask(&terminal, question("rm -rf ~"));
    yield_now().await;
    terminal.wait_for("[a] | exactly");
    for times in 1..=3 {
        terminal.say("y");
        terminal.wait("the question again", |screen| {
            screen.matches("(Typed too soon, and dropped.)").count() == times
                && screen.ends_with("exactly this call of bash")
        });
        yield_now().await;
        assert!(!asked.is_finished());
        assert!(!terminal.screen().contains(LAST), "no answer counts yet");
    }
    // A line that was begun too soon does not count when it ends.
    terminal.press(&["y"]);
    terminal.wait("its echo", |screen| screen.ends_with("bash\ny"));
    tokio::time::advance(READING).await;
    prompts(&terminal, 1);
    terminal.press(&["Enter"]);
    terminal.wait("the page again", |screen| screen.ends_with("exactly this call of bash"));
    tokio::time::advance(READING).await;
    prompts(&terminal, 2);
    terminal.say("y");
    assert_eq!(asked.await.expect("an answer").answer, ApprovalDecision::Yes);
}

#[tokio::test(start_paused = true)]
async fn values_are_not_sent_before_they_can_be_read() {
    let Some(terminal) = quiet() else { return };
    let form = TerminalForm::on(terminal.device());
    let asked = tokio::spawn(async move {
        form.fill("orders", "Who?", &json!({"type": "object", "properties": {}})).await
    });
    yield_now().await;
    terminal.wait("the form", |screen| screen.ends_with("/cancel:"));
    terminal.say("");
    terminal.wait("the values", |screen| screen.ends_with("values | none"));
    terminal.say("y");
    terminal.wait("the values again", |screen| {
        screen.contains("(Typed too soon, and dropped.)") && screen.ends_with("values | none")
    });
    yield_now().await;
    assert!(!asked.is_finished());
    tokio::time::advance(READING).await;
    terminal.wait("the prompt", |screen| {
        screen.ends_with("Give these values? [y]es, /back, /decline, /cancel:")
    });
    terminal.say("y");
    let filled = asked.await.expect("no panic").expect("a terminal");
    assert_eq!(filled, Filled::Accepted(serde_json::Map::new()));
}

/// What text before may set, and how a question undoes it.
const SETS: [(&str, &str); 33] = [
    ("\x1b]10;#101010\x1b\\", "\x1b]110\x1b\\"),
    ("\x1b]11;#101010\x1b\\", "\x1b]111\x1b\\"),
    ("\x1b]12;#101010\x1b\\", "\x1b]112\x1b\\"),
    ("\x1b]17;#101010\x1b\\", "\x1b]117\x1b\\"),
    ("\x1b]19;#101010\x1b\\", "\x1b]119\x1b\\"),
    ("\x1b]4;0;#101010;7;#101010\x1b\\", "\x1b]104\x1b\\"),
    ("\x1b[>1u", "\x1b[<99u"),
    ("\x1b[=1;1u", "\x1b[=0;1u"),
    ("\x1b[>4;2m", "\x1b[>4;0m"),
    ("\x1b[?2004h", "\x1b[?2004l"),
    ("\x1b[?1004h", "\x1b[?1004l"),
    ("\x1b[?1000h", "\x1b[?1000l"),
    ("\x1b[?1002h", "\x1b[?1002l"),
    ("\x1b[?1003h", "\x1b[?1003l"),
    ("\x1b[?1006h", "\x1b[?1006l"),
    ("\x1b[?1h", "\x1b[?1l"),
    ("\x1b=", "\x1b>"),
    ("\x1b[?9001h", "\x1b[?9001l"),
    ("\x1b[2h", "\x1b[2l"),
    ("\x1b[?1049h", "\x1b[?1049l"),
    ("\x1b[3;5r", "\x1b[r"),
    ("\x1b[?69h", "\x1b[?69l"),
    ("\x1b[?6h", "\x1b[?6l"),
    ("\x1b[?7l", "\x1b[?7h"),
    ("\x1b[?25l", "\x1b[?25h"),
    ("\x1b[?5h", "\x1b[?5l"),
    ("\x1b[4h", "\x1b[4l"),
    ("\x1b[20h", "\x1b[20l"),
    ("\x1b(0", "\x1b(B"),
    ("\x0e", "\x0f"),
    ("\x1b[1\"q", "\x1b[0\"q"),
    ("\x1b[8;31;41m", "\x1b[0m"),
    ("\x1b[5i", "\x1b[4i"),
];

#[test]
fn what_text_before_has_set_is_undone_and_its_words_are_gone() {
    let forged = "bash 00000000: run it? [y]es, [n]o: ";
    let settings: String = SETS.iter().map(|(set, _)| *set).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("it");
    let modes = |before: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("before");
        fs::write(&file, before).expect("a file");
        let run = format!("cat {}; exec sleep 600", file.display());
        let terminal = Terminal::running(&run, (90, 30))?;
        terminal.wait("the program", |_| terminal.running_command() == "sleep");
        let raw = terminal.file("raw");
        let pipe = format!("exec cat > {}", raw.display());
        done(
            terminal.command(&["pipe-pane", "-t", "main", &pipe]).output(),
            "a copy of the output",
        );
        let entered = runtime.enter();
        let _asked = ask(&terminal, question("rm -rf ~"));
        drop(entered);
        let screen = prompts(&terminal, 1);
        assert!(screen.starts_with("May this call run? ("), "{screen}");
        assert!(!screen.contains("00000000"), "{screen}");
        let format = "#{pane_fg} #{pane_bg} #{alternate_on} #{keypad_flag} #{keypad_cursor_flag} #{mouse_any_flag} \
                      #{insert_flag} #{origin_flag} #{wrap_flag} #{cursor_flag} #{scroll_region_upper} #{scroll_region_lower}";
        let modes =
            done(terminal.command(&["display", "-p", "-t", "main", format]).output(), "modes");
        let drawn = terminal.command(&["capture-pane", "-p", "-e", "-t", "main"]).output();
        let raw = fs::read_to_string(raw).expect("the output");
        Some((modes, done(drawn, "the screen"), raw))
    };
    let Some(clean) = modes("") else { return };
    let Some(dirty) = modes(&format!("{settings}{forged}")) else { return };
    assert_eq!(dirty.0, clean.0);
    assert_eq!(dirty.1, clean.1);
    let (before, _) = dirty.2.split_once("May this call run?").expect("the question");
    for (set, reset) in SETS {
        assert!(before.contains(reset), "{set:?}");
    }
}
