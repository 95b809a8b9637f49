//! Nothing that a command starts outlives the program or a stop, whatever it does to hide.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command},
    sync::mpsc,
    time::Duration,
};

use harness::{
    CallOutcome, ToolCall, ToolContext, ToolRegistry,
    toolbox::{Bash, bash},
    tools,
};
use serde_json::json;

use crate::{
    calls::{call, call_in, cases},
    process,
    stops::{BREATH, LOOKS, MARKED, all_kinds, all_listed, left, listed, lives, until},
    victim::{self, Home, WITH, WITHOUT},
};

cases! {
    nothing_outlives_a_program_that_is_killed
    nothing_outlives_a_program_that_is_killed_at_any_instant
    who_is_replaced_by_its_child_all_the_time_is_caught
    a_supervisor_that_has_much_to_kill_is_not_disturbed
    a_group_that_is_killed_does_not_take_its_supervisor_along
    who_kills_the_supervisor_dies_with_the_mark
    who_kills_the_supervisor_at_once_has_run
    who_kills_the_supervisor_is_dead_when_the_answer_is_there
    who_halts_the_supervisor_dies_with_it
    a_supervisor_that_is_asked_to_end_takes_all_along
    a_program_inside_of_a_command
}

/// What is said of a command whose supervisor was killed.
const LOST: &str = "how the command ended is not known: another process has killed its supervisor";
/// How often a program is killed for each way.
const KILLS: usize = 10;
/// What a command does that starts others and lets them work.
const WAIT: &str = "wait; sleep 1000";

fn kill_program(mut program: Child) {
    program.kill().unwrap();
    program.wait().unwrap();
}

async fn nothing_outlives_a_program_that_is_killed() {
    let home = Home::new();
    for user in victim::users() {
        let who = if user.is_some() { "an ordinary user" } else { "the user of the tests" };
        for way in [WITH, WITHOUT] {
            let mut lived: BTreeMap<String, usize> = BTreeMap::new();
            for round in 0..KILLS {
                let list = home.path(&format!("{way}-{}-{round}", user.unwrap_or_default()));
                let mut program = home.program(way, &all_kinds(&list, WAIT));
                victim::as_user(&mut program, user);
                let program = program.spawn().unwrap();
                let kinds = all_listed(&list);
                kill_program(program);
                let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
                let promised = if way == WITH { &all[..] } else { &MARKED };
                for kind in left(&kinds, promised) {
                    *lived.entry(kind).or_default() += 1;
                }
            }
            println!("{way}, {who}: of {KILLS} kills outlived by {lived:?}");
        }
    }
}

/// In the middle of what the program, the supervisor and bash do to start.
async fn nothing_outlives_a_program_that_is_killed_at_any_instant() {
    let home = Home::new();
    for way in [WITH, WITHOUT] {
        let mut begun = 0;
        for round in 0..50_u32 {
            let mark = process::mark();
            let begins = home.path(&mark);
            let command = format!(
                "touch {}; setsid sleep {mark} & timeout 1000 sleep {mark} & sleep {mark}",
                begins.display()
            );
            let program = home.program(way, &command).spawn().unwrap();
            // The instant is the matter: until 40 ms have gone, everything sleeps.
            std::thread::sleep(Duration::from_micros(800 * u64::from(round)));
            kill_program(program);
            begun += u32::from(begins.exists());
            until("the end of all", || process::with(&mark).is_empty());
        }
        println!("{way}: of 50 kills {begun} hit a command that had begun");
    }
}

/// Each lives shorter than a look through `/proc` takes. While one of them lives, the pipe is open.
async fn who_is_replaced_by_its_child_all_the_time_is_caught() {
    let home = Home::new();
    let comets = Comets::new(&home);
    for round in 0..KILLS {
        let program = home.program(WITH, &format!("{}; {WAIT}", comets.start())).spawn().unwrap();
        let flying = comets.fly();
        kill_program(program);
        assert_burnt_out(flying, &format!("round {round}"));
    }
}

/// It takes its time. Who kills it meanwhile lets those go that it was about to find.
async fn a_supervisor_that_has_much_to_kill_is_not_disturbed() {
    let home = Home::new();
    let comets = Comets::new(&home);
    let tools = Bash::in_folder(home.path("")).unwrap().tools();
    let many = "for i in $(seq 1500); do sleep 1000 </dev/null >/dev/null 2>&1 & done";
    let command = format!("{many}; for i in 1 2 3; do {} & done; {WAIT}", comets.start());
    for way in ["cancel", "drop"] {
        let arguments = json!({"command": command, "timeout_seconds": 300});
        let context = ToolContext::new("call_1");
        let mut running = Box::pin(call_in(&context, &tools, "bash", arguments));
        let comets = comets.clone();
        let flying = tokio::select! {
            ended = &mut running => panic!("{way}: {ended:?}"),
            flying = tokio::task::spawn_blocking(move || comets.fly()) => flying.unwrap(),
        };
        if way == "cancel" {
            context.cancellation().cancel();
            assert!(running.await.unwrap_err().contains("stopped before its end"));
        } else {
            drop(running);
        }
        assert_burnt_out(flying, way);
    }
}

/// A process that is replaced by its child all the time. It holds a pipe open as long as it lives.
#[derive(Clone)]
struct Comets(PathBuf);

impl Comets {
    fn new(home: &Home) -> Self {
        let pipe = home.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        Self(pipe)
    }

    fn start(&self) -> String {
        const COMET: &str = r"use POSIX;
            for (my $n = 0; ; $n++) { exit if fork; POSIX::setsid(); syswrite STDOUT, qq(\n) if $n == 50 }";
        format!("env -i setsid perl -e '{COMET}' > '{}' 2>/dev/null", self.0.display())
    }

    /// Waits until the first one has been replaced often.
    fn fly(&self) -> BufReader<File> {
        let mut line = BufReader::new(File::open(&self.0).unwrap());
        line.read_line(&mut String::new()).unwrap();
        line
    }
}

/// Waits until nobody holds the pipe open.
fn assert_burnt_out(mut flying: BufReader<File>, what: &str) {
    let (told, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        told.send(flying.read_to_string(&mut text))
    });
    let ended = ended.recv_timeout(LOOKS * BREATH);
    assert!(matches!(ended, Ok(Ok(_))), "{what}: it lives: {ended:?}");
}

async fn a_group_that_is_killed_does_not_take_its_supervisor_along() {
    let home = Home::new();
    let said = home.output(&mut home.program(WITH, "echo before; kill -9 0; echo after"));
    assert_eq!(said, "signal: 9 (SIGKILL)\nstdout:\nbefore\nstderr: (nothing)\n");
    // What it prints names itself alone.
    let said =
        home.output(&mut home.program(WITH, "tr '\\0' ' ' < /proc/$PPID/cmdline; echo secret"));
    let line = said.lines().nth(2).unwrap();
    assert!(line.starts_with("harness-supervisor ") && !line.contains("cmdline"), "{said}");
}

async fn who_kills_the_supervisor_dies_with_the_mark() {
    let home = Home::new();
    let list = home.path("list");
    let command = all_kinds(&list, "kill -9 $PPID; sleep 1000");
    let said = home.output(&mut home.program(WITH, &command));
    assert!(said.starts_with(LOST), "{said}");
    let left = left(&listed(&list), &MARKED);
    println!("a command that killed its supervisor left {left:?}");
}

/// The first thing that a command does can be the last one that its supervisor sees. It has run all
/// the same, and the model is not told that it was not started.
async fn who_kills_the_supervisor_at_once_has_run() {
    let home = Home::new();
    let registry = ToolRegistry::new(Bash::in_folder(home.path("")).unwrap().tools()).unwrap();
    for round in 0..50 {
        let command = format!("kill -9 $PPID; echo $$ > {round}; sleep 1000");
        let arguments = json!({"command": command, "timeout_seconds": 300});
        let call = ToolCall::new("call_1", "bash", arguments.to_string());
        let result = registry.dispatch(&call, &ToolContext::new("call_1")).await;
        let text = result.to_text();
        assert_eq!(result.outcome(), CallOutcome::InDoubt, "{round}: {text}");
        assert!(text.starts_with(LOST), "{round}: {text}");
        assert!(text.contains("It may have partly run"), "{round}: {text}");
    }
}

/// They are nobody's children then: the answer waits until they have obeyed.
async fn who_kills_the_supervisor_is_dead_when_the_answer_is_there() {
    let tools = tools![bash];
    for round in 0..50 {
        let command = "for i in 1 2 3 4; do setsid sleep 1000 & echo $!; done; kill -9 $PPID; wait";
        let said = call(&tools, "bash", json!({"command": command})).await.unwrap_err();
        let ids: Vec<&str> = said.lines().skip(2).take(4).collect();
        let left = ids.iter().filter(|id| lives(id)).count();
        assert!(ids.iter().all(|id| id.parse::<u32>().is_ok()), "{said}");
        assert_eq!(left, 0, "round {round}");
    }
}

async fn who_halts_the_supervisor_dies_with_it() {
    let home = Home::new();
    let list = home.path("list");
    let tools = Bash::in_folder(home.path("")).unwrap().tools();
    let halted = home.path("halted");
    let last = format!("kill -STOP $PPID; touch '{}'; sleep 1000", halted.display());
    let command = all_kinds(&list, &last);
    let arguments = json!({"command": command, "timeout_seconds": 300});
    let context = ToolContext::new("call_1");
    let kinds = tokio::task::spawn_blocking(move || {
        let kinds = all_listed(&list);
        until("the supervisor halts", || halted.exists());
        kinds
    });
    let stopped = async {
        let kinds = kinds.await.unwrap();
        context.cancellation().cancel();
        kinds
    };
    let call = call_in(&context, &tools, "bash", arguments);
    let (said, kinds) = tokio::join!(call, stopped);
    assert!(said.unwrap_err().contains("stopped before its end"));
    assert_none_left(&kinds);
}

async fn a_supervisor_that_is_asked_to_end_takes_all_along() {
    let home = Home::new();
    for signal in ["TERM", "HUP", "INT", "QUIT"] {
        let list = home.path(signal);
        let command = all_kinds(&list, &format!("kill -{signal} $PPID; sleep 1000"));
        let said = home.output(&mut home.program(WITH, &command));
        assert!(said.starts_with(LOST), "{said}");
        assert_none_left(&listed(&list));
    }
}

fn assert_none_left(kinds: &BTreeMap<String, String>) {
    let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(left(kinds, &all), Vec::<String>::new());
}

/// The inner program dies with the outer command, and a death of the inner one is its own.
async fn a_program_inside_of_a_command() {
    let home = Home::new();
    for name in [WITH, WITHOUT] {
        let list = home.path(&format!("list-{name}"));
        let inner = home.program(name, "").get_program().to_owned();
        let kinds = all_kinds(&list, WAIT).replace('\'', r"'\''");
        let inner = format!("{} '{kinds}'", inner.display());
        let outer = home.program(WITH, &inner).spawn().unwrap();
        let kinds = all_listed(&list);
        kill_program(outer);
        assert_none_left(&kinds);

        fs::remove_file(&list).unwrap();
        let list = list.display();
        let command = format!(
            "{inner} & until [ \"$(wc -l < {list})\" = {} ]; do sleep 0.02; done 2>/dev/null
            child=$(sed -n 's/^child //p' {list}); kill -0 $child && kill -9 $!
            while kill -0 $child; do sleep 0.02; done; echo goes on",
            kinds.len()
        );
        let said = home.output(&mut home.program(WITH, &command));
        assert!(said.contains("goes on"), "{said}");
        assert_none_left(&listed(&home.path(&format!("list-{name}"))));
    }
}
