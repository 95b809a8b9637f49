//! `bash`: what it answers, and that nothing which it starts outlives the call. Each case runs with
//! a supervisor too, in `tests/supervised.rs`.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    CallOutcome, SideEffects, Tool, ToolCall, ToolContext, ToolRegistry,
    toolbox::{Bash, bash},
    tools,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::calls::{call, call_in, cases};
use crate::process;

cases! {
    it_declares_everything
    it_says_how_a_command_ended_and_what_it_wrote
    all_that_was_written_before_the_end_is_there
    many_commands_at_once_all_end
    a_large_output_keeps_its_head_and_its_tail
    endless_output_fills_no_memory_and_ends_with_the_time
    the_time_limit_kills_every_child_and_tells_what_was_said
    a_time_limit_out_of_range_runs_nothing
    cancelling_kills_every_child_and_tells_what_was_said
    dropping_the_future_kills_every_child
    a_deadline_of_the_program_tells_what_was_said
    nothing_runs_before_the_first_poll_or_after_cancelling
    a_child_in_the_background_neither_delays_the_answer_nor_outlives_it
    who_leaves_the_group_dies_with_it
    who_writes_for_ever_does_not_delay_the_answer
    it_begins_in_the_folder_of_the_programs_choice
    a_command_has_the_variables_on_the_list_and_what_the_program_adds
    a_variable_that_cannot_be_one_is_a_mistake_of_the_program
    what_cannot_be_started_is_explained
    dropping_the_future_outside_of_a_runtime_kills_every_child
    a_command_that_was_stopped_is_in_doubt
    in_a_runtime_that_cannot_run_commands_nothing_runs
}

async fn run(command: &str) -> Result<String, String> {
    call(&tools![bash], "bash", json!({"command": command})).await
}

async fn run_for(seconds: u64, command: &str) -> Result<String, String> {
    let arguments = json!({"command": command, "timeout_seconds": seconds});
    call(&tools![bash], "bash", arguments).await
}

/// Gone, or dead and waiting for a parent that is not the program.
fn is_dead(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

/// A killed process dies a moment later, and nobody but its parent is told.
async fn assert_dies(pid: &str) {
    assert!(pid.parse::<u32>().is_ok(), "{pid:?} is no process id");
    for _ in 0..500 {
        if is_dead(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} lives");
}

/// The shell is a child of the program: it must be gone, not only dead.
fn assert_reaped(pid: &str) {
    assert!(!Path::new("/proc").join(pid).exists(), "process {pid} was not reaped");
}

/// Children of children that take no `SIGTERM`, a pipeline, and one without environment; all ids are
/// written, and the shell goes on.
const STUBBORN: &str = r#"
    trap '' TERM INT HUP
    (trap '' TERM INT HUP; (trap '' TERM INT HUP; sleep 1000 & echo $!; sleep 1000 & echo $!; wait) & echo $!; wait) &
    echo $!
    (sleep 1000 | sleep 1000) & echo $!
    env -i sleep 1000 & echo $!
"#;

/// A named pipe through which a command says that it has come somewhere.
struct Signpost {
    _folder: TempDir,
    path: PathBuf,
}

impl Signpost {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self { _folder: folder, path }
    }

    /// The first lines that the command writes into it; its children may keep it open for ever.
    async fn read(&self, lines: usize) -> Vec<String> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            BufReader::new(File::open(path).unwrap())
                .lines()
                .take(lines)
                .map(Result::unwrap)
                .collect()
        });
        read.await.unwrap()
    }

    /// A command that starts stubborn children, says who they are, and never ends.
    fn stubborn(&self) -> String {
        format!("echo ready; {{ echo $$; {STUBBORN} }} > '{}'; wait", self.path.display())
    }
}

async fn it_declares_everything() {
    let [tool] = tools![bash].try_into().unwrap();
    let tool: Tool = tool;
    assert_eq!(tool.side_effects(), SideEffects::ALL);
    assert!(!tool.is_idempotent());
    let folder = TempDir::new().unwrap();
    let there = Bash::in_folder(folder.path()).unwrap().tools();
    assert_eq!(there.len(), 1);
    assert_eq!(there[0].name(), "bash");
    assert_eq!(there[0].side_effects(), SideEffects::ALL);
    assert_eq!(there[0].input_schema(), tool.input_schema());
}

async fn it_says_how_a_command_ended_and_what_it_wrote() {
    let cases = [
        ("echo out; echo err >&2", "exit status: 0\nstdout:\nout\nstderr:\nerr"),
        ("exit 3", "exit status: 3\nstdout: (nothing)\nstderr: (nothing)"),
        ("kill -9 $$", "signal: 9 (SIGKILL)\nstdout: (nothing)\nstderr: (nothing)"),
        ("echo $((6 * 7)); false", "exit status: 1\nstdout:\n42\nstderr: (nothing)"),
        (r"printf 'a\xffb\0c'", "exit status: 0\nstdout:\na\u{fffd}b\0c\nstderr: (nothing)"),
        ("exec >&- 2>&-; exit 4", "exit status: 4\nstdout: (nothing)\nstderr: (nothing)"),
        // There is nobody to type.
        ("cat; read -r line || echo closed", "exit status: 0\nstdout:\nclosed\nstderr: (nothing)"),
    ];
    for (command, expected) in cases {
        assert_eq!(run(command).await.as_deref(), Ok(expected), "{command}");
    }
}

async fn all_that_was_written_before_the_end_is_there() {
    for _ in 0..20 {
        let said = run("seq 5000; seq 5000 >&2").await.unwrap();
        assert!(said.starts_with("exit status: 0\nstdout:\n1\n2\n"), "{said}");
        assert!(said.contains("\n5000\nstderr:\n1\n"), "{said}");
        assert!(said.ends_with("\n5000"), "{said}");
    }
}

async fn many_commands_at_once_all_end() {
    let runs = (0..30).map(|number| async move {
        assert!(run(&format!("echo {number}")).await.unwrap().contains(&format!("\n{number}\n")));
    });
    futures_util::future::join_all(runs).await;
}

async fn a_large_output_keeps_its_head_and_its_tail() {
    let said =
        run("printf start; head -c 1000000 /dev/zero | tr '\\0' a; printf end").await.unwrap();
    assert!(said.contains("stdout:\nstartaaa") && said.contains("aaaend\nstderr"), "{said}");
    assert!(said.contains(&format!("[... {} bytes cut here ...]", 1_000_008 - 24 * 1024)));
    assert!(said.len() < 25 * 1024);

    let whole = run("head -c 24576 /dev/zero | tr '\\0' a").await.unwrap();
    assert!(!whole.contains("cut"), "24 KiB fit");

    // Two bytes a character, and an odd beginning: both cuts would go through one.
    for odd in ["", "x"] {
        let command = format!("printf '{odd}'; yes é | head -n 100000 | tr -d '\\n'");
        let said = run(&command).await.unwrap();
        assert!(!said.contains('\u{fffd}') && said.contains("bytes cut here"));
        let kept = said.matches('é').count() * 2 + odd.len();
        let cut = 200_000 + odd.len() - kept;
        assert!(said.contains(&format!("[... {cut} bytes cut here ...]")), "{kept} {cut}");
    }
    // Bytes that are no characters anywhere are replaced, not lost.
    let said = run("head -c 100000 /dev/zero | tr '\\0' '\\377'").await.unwrap();
    assert_eq!(said.matches('\u{fffd}').count(), 24 * 1024);
}

async fn endless_output_fills_no_memory_and_ends_with_the_time() {
    let said = run_for(1, "yes").await.unwrap_err();
    assert!(said.contains("stopped after 1 s, its time limit"), "{said}");
    assert!(said.contains("bytes cut here"));
    assert!(said.len() < 25 * 1024, "{}", said.len());
}

async fn the_time_limit_kills_every_child_and_tells_what_was_said() {
    let said =
        run_for(1, &format!("echo $$; {STUBBORN} echo trouble >&2; wait")).await.unwrap_err();
    assert!(said.starts_with("the command was stopped after 1 s, its time limit"), "{said}");
    assert!(said.contains("`timeout_seconds`, up to 300\n"), "{said}");
    assert!(said.ends_with("stderr so far:\ntrouble"), "{said}");
    let (_, rest) = said.split_once("stdout so far:\n").unwrap();
    let (stdout, _) = rest.split_once("\nstderr").unwrap();
    let pids: Vec<&str> = stdout.lines().collect();
    assert_eq!(pids.len(), 7, "{said}");
    assert_reaped(pids[0]);
    for pid in pids {
        assert_dies(pid).await;
    }
}

async fn a_time_limit_out_of_range_runs_nothing() {
    let folder = TempDir::new().unwrap();
    let tools = Bash::in_folder(folder.path()).unwrap().tools();
    for seconds in [json!(0), json!(301), json!(-1), json!("long"), json!(1e99)] {
        let arguments = json!({"command": "touch ran", "timeout_seconds": seconds});
        let err = call(&tools, "bash", arguments).await.unwrap_err();
        assert!(err.contains("`timeout_seconds`"), "{err}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

async fn cancelling_kills_every_child_and_tells_what_was_said() {
    let signpost = Signpost::new();
    let context = ToolContext::new("call_1");
    let arguments = json!({"command": signpost.stubborn()});
    let tools = tools![bash];
    let stopped = async {
        let pids = signpost.read(7).await;
        context.cancellation().cancel();
        pids
    };
    let (said, pids) = tokio::join!(call_in(&context, &tools, "bash", arguments), stopped);
    let said = said.unwrap_err();
    assert!(said.starts_with("the command was stopped before its end"), "{said}");
    assert_eq!(pids.len(), 7);
    assert_reaped(&pids[0]);
    for pid in &pids {
        assert_dies(pid).await;
    }
}

/// By its own time limit or by the program: what it did until then is done. The truth about it stands
/// before the output, which stays as it was written.
async fn a_command_that_was_stopped_is_in_doubt() {
    let folder = TempDir::new().unwrap();
    let registry = ToolRegistry::new(Bash::in_folder(folder.path()).unwrap().tools()).unwrap();
    let command = "echo done > half; echo part; echo trouble >&2; touch ready; sleep 1000";
    for (way, seconds) in [("time", 2), ("cancel", 300)] {
        let arguments = json!({"command": command, "timeout_seconds": seconds});
        let context = ToolContext::new("call_1");
        let call = ToolCall::new("call_1", "bash", arguments.to_string());
        let ready = folder.path().join("ready");
        let stop = async {
            while way == "cancel" && !ready.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            if way == "cancel" {
                context.cancellation().cancel();
            }
        };
        let (result, ()) = tokio::join!(registry.dispatch(&call, &context), stop);
        assert_eq!(result.outcome(), CallOutcome::InDoubt, "{way}: {result:?}");
        let text = result.to_text();
        let (first, output) = text.split_once('\n').unwrap();
        assert!(first.starts_with("the command was stopped "), "{way}: {first}");
        let truth = ". It may have partly run: check what it did before you repeat it.";
        assert!(first.ends_with(truth), "{way}: {first}");
        assert_eq!(text.matches("partly run").count(), 1, "{way}: {text}");
        assert_eq!(output, "stdout so far:\npart\nstderr so far:\ntrouble", "{way}");
        assert_eq!(fs::read_to_string(folder.path().join("half")).unwrap(), "done\n");
        fs::remove_file(ready).unwrap();
    }
}

/// Such a runtime is a mistake of the program, and it panics; a command that had been started by then
/// would be nobody's.
async fn in_a_runtime_that_cannot_run_commands_nothing_runs() {
    let mark = process::mark();
    let command = format!("sleep {mark}");
    let ended = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(&command))
    });
    assert!(ended.join().is_err(), "it panics");
    assert_eq!(process::with(&mark), Vec::<String>::new());
}

async fn dropping_the_future_kills_every_child() {
    let signpost = Signpost::new();
    let arguments = json!({"command": signpost.stubborn()});
    let tools = tools![bash];
    let context = ToolContext::new("call_1");
    let mut running = Box::pin(call_in(&context, &tools, "bash", arguments));
    let pids = tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        pids = signpost.read(7) => pids,
    };
    drop(running);
    // The model can still be told what it said.
    assert_eq!(context.output_so_far().unwrap(), "stdout so far:\nready\nstderr so far: (nothing)");
    assert_eq!(pids.len(), 7);
    assert_reaped(&pids[0]);
    for pid in &pids {
        assert_dies(pid).await;
    }
}

/// A deadline that the program sets: the answer is that of the run, and has what was said once.
async fn a_deadline_of_the_program_tells_what_was_said() {
    let registry = ToolRegistry::new(tools![bash]).unwrap();
    let arguments = json!({"command": "echo early; sleep 1000", "timeout_seconds": 300});
    let deadline = Instant::now() + Duration::from_secs(1);
    let context = ToolContext::new("call_1").with_deadline(Some(deadline));
    let call = ToolCall::new("call_1", "bash", arguments.to_string());
    let result = registry.dispatch(&call, &context).await;
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    assert_eq!(result.to_text().matches("stdout so far:\nearly").count(), 1, "{result:?}");
}

/// Also when the runtime is gone by then.
async fn dropping_the_future_outside_of_a_runtime_kills_every_child() {
    tokio::task::spawn_blocking(|| {
        std::thread::spawn(drop_outside_of_a_runtime).join().unwrap();
    })
    .await
    .unwrap();
}

fn drop_outside_of_a_runtime() {
    let signpost = Signpost::new();
    let arguments = json!({"command": signpost.stubborn()});
    let tools = tools![bash];
    let mut running = Box::pin(call(&tools, "bash", arguments));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let pids = runtime.block_on(async {
        tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            pids = signpost.read(7) => pids,
        }
    });
    drop(runtime);
    drop(running);
    assert_reaped(&pids[0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for pid in &pids {
            assert_dies(pid).await;
        }
    });
}

async fn nothing_runs_before_the_first_poll_or_after_cancelling() {
    let folder = TempDir::new().unwrap();
    let tools = Bash::in_folder(folder.path()).unwrap().tools();
    let arguments = json!({"command": "touch ran"});
    drop(call(&tools, "bash", arguments.clone()));
    let context = ToolContext::new("call_1");
    context.cancellation().cancel();
    let err = call_in(&context, &tools, "bash", arguments).now_or_never().unwrap().unwrap_err();
    assert!(err.contains("nothing was run"), "{err}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

async fn a_child_in_the_background_neither_delays_the_answer_nor_outlives_it() {
    let said =
        run_for(300, "sleep 1000 & echo $!; trap '' TERM; sleep 1000 & echo $!").await.unwrap();
    assert!(said.starts_with("exit status: 0\n"), "{said}");
    let pids: Vec<&str> = said.lines().skip(2).take(2).collect();
    for pid in pids {
        assert_dies(pid).await;
    }
}

/// Ways out of a process group: `timeout` makes one of its own, so do the jobs of `set -m`, and a
/// daemon leaves the session and closes what it has.
async fn who_leaves_the_group_dies_with_it() {
    let signpost = Signpost::new();
    let pipe = signpost.path.display();
    let command = format!(
        "exec 3> '{pipe}'
        timeout 1000 bash -c 'echo $$ >&3; sleep 1000' &
        set -m; sleep 1000 & echo $! >&3; set +m
        setsid bash -c 'echo $$ >&3; exec yes' &
        (setsid bash -c '(trap \"\" TERM HUP; echo $BASHPID >&3; exec 3>&-; sleep 1000) &' </dev/null >/dev/null 2>&1 &)
        wait; sleep 1000"
    );
    let arguments = json!({"command": command, "timeout_seconds": 300});
    let tools = tools![bash];
    for way in ["cancel", "drop"] {
        let context = ToolContext::new("call_1");
        let mut running = Box::pin(call_in(&context, &tools, "bash", arguments.clone()));
        let pids = tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            pids = signpost.read(4) => pids,
        };
        if way == "cancel" {
            context.cancellation().cancel();
            assert!(running.await.unwrap_err().contains("stopped before its end"));
        } else {
            drop(running);
        }
        for pid in &pids {
            assert_dies(pid).await;
        }
    }
}

/// Though it holds the outputs open and writes for ever.
async fn who_writes_for_ever_does_not_delay_the_answer() {
    let signpost = Signpost::new();
    let pipe = signpost.path.display();
    let escape = "setsid env -i bash -c 'echo $$ > \"$0\"; exec yes'";
    let command = format!("{escape} '{pipe}' & read -r pid < '{pipe}'; echo $pid >&2");
    let said = run_for(300, &command).await.unwrap();
    let pid = said.rsplit('\n').next().unwrap().to_owned();
    assert_dies(&pid).await;
}

async fn it_begins_in_the_folder_of_the_programs_choice() {
    let folder = TempDir::new().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let tools = Bash::in_folder(folder.path()).unwrap().tools();
    let said = call(&tools, "bash", json!({"command": "pwd; cd /; pwd"})).await.unwrap();
    assert!(said.contains(&format!("stdout:\n{}\n/\n", real.display())), "{said}");
    let again = call(&tools, "bash", json!({"command": "pwd"})).await.unwrap();
    assert!(again.contains(real.to_str().unwrap()), "each call begins anew: {again}");
    let here = std::env::current_dir().unwrap();
    assert!(run("pwd").await.unwrap().contains(here.to_str().unwrap()));

    for name in ["missing", "file"] {
        fs::write(folder.path().join("file"), "").unwrap();
        let err = Bash::in_folder(folder.path().join(name)).unwrap_err();
        assert!(err.is_configuration() && err.to_string().contains(name), "{err}");
    }
    drop(folder);
    let err = call(&tools, "bash", json!({"command": "pwd"})).await.unwrap_err();
    assert!(err.contains("was not started: its working folder is gone"), "{err}");
}

/// What a command has, but for what bash adds by itself.
async fn environment(tools: &[Tool]) -> Vec<String> {
    let said = call(tools, "bash", json!({"command": "env -0"})).await.unwrap();
    let (_, stdout) = said.split_once("stdout:\n").unwrap();
    let (stdout, _) = stdout.split_once("\nstderr").unwrap();
    let bash = ["PWD=", "OLDPWD=", "SHLVL=", "_=", "HARNESS_COMMAND="];
    let mut variables: Vec<String> = stdout
        .split('\0')
        .filter(|variable| {
            !variable.is_empty() && !bash.iter().any(|own| variable.starts_with(own))
        })
        .map(str::to_owned)
        .collect();
    variables.sort();
    variables
}

/// The environment of a program cannot be changed safely, so the test runs itself with another.
async fn a_command_has_the_variables_on_the_list_and_what_the_program_adds() {
    const INSIDE: &str = "HARNESS_TEST_INSIDE";
    const KEYS: [(&str, &str); 8] = [
        ("ANTHROPIC_API_KEY", "sesame"),
        ("ANTHROPIC_AUTH_TOKEN", "sesame"),
        ("AWS_SECRET_ACCESS_KEY", "sesame"),
        ("AZURE_OPENAI_KEY", "sesame"),
        ("GITHUB_TOKEN", "sesame"),
        ("LCX", "sesame"),
        ("path", "sesame"),
        ("LD_LIBRARY_PATH", "/sesame"),
    ];
    const LISTED: [(&str, &str); 8] = [
        ("HOME", "/tmp"),
        ("LANG", "C"),
        ("LC_ALL", "C"),
        ("LC_TIME", "C.UTF-8"),
        ("SHELL", "/bin/false"),
        ("TERM", "dumb"),
        ("TMPDIR", "/tmp"),
        ("USER", "somebody"),
    ];
    if std::env::var_os(INSIDE).is_none() {
        let again = Command::new(std::env::current_exe().unwrap())
            .arg("a_command_has_the_variables_on_the_list_and_what_the_program_adds")
            .env_clear()
            .envs(KEYS)
            .envs(LISTED)
            .envs([("PATH", std::env::var("PATH").unwrap()), (INSIDE, "yes".to_owned())])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    let mut listed: Vec<String> =
        LISTED.iter().map(|(name, value)| format!("{name}={value}")).chain([path]).collect();
    listed.sort();
    assert_eq!(environment(&tools![bash]).await, listed);
    let there = Bash::in_folder("/").unwrap();
    assert_eq!(environment(&there.tools()).await, listed);

    let there = there
        .with_variables([("CI", "a b\nc=d"), ("HOME", "/")])
        .and_then(|there| there.with_variables([("EMPTY", "")]))
        .and_then(|there| there.with_inherited_variables(["GITHUB_TOKEN", "MISSING"]))
        .unwrap();
    let mut more = listed.clone();
    more.retain(|variable| !variable.starts_with("HOME="));
    let added = ["CI=a b\nc=d", "HOME=/", "EMPTY=", "GITHUB_TOKEN=sesame"];
    more.extend(added.map(str::to_owned));
    more.sort();
    assert_eq!(environment(&there.tools()).await, more);
}

async fn a_variable_that_cannot_be_one_is_a_mistake_of_the_program() {
    let there = || Bash::in_folder("/").unwrap();
    for name in ["", "A=B", "A\0", "HARNESS_COMMAND"] {
        let errors = [
            there().with_variables([(name, "x")]).unwrap_err(),
            there().with_inherited_variables([name]).unwrap_err(),
        ];
        for (err, method) in errors.iter().zip(["with_variables", "with_inherited_variables"]) {
            assert!(err.is_configuration());
            let text = err.to_string();
            assert!(text.starts_with(&format!("`Bash::{method}`: {name:?}")), "{text}");
        }
    }
    let err = there().with_variables([("A", "x\0y")]).unwrap_err().to_string();
    assert!(err.contains("the value of \"A\" contains the character 0"), "{err}");
}

async fn what_cannot_be_started_is_explained() {
    let long = format!("true {}", "x".repeat(3_000_000));
    let cases: [(&str, &str); 2] = [
        (&long, "bytes are too long for a command"),
        ("echo a\0b", "cannot contain the character 0"),
    ];
    for (command, expected) in cases {
        let err = run(command).await.unwrap_err();
        assert!(err.contains("the command was not started: ") && err.contains(expected), "{err}");
    }
    let mistakes = run_with(json!({"cmd": "ls"})).await.unwrap_err();
    assert!(mistakes.contains("`command`") && mistakes.contains("`cmd`"), "{mistakes}");
}

async fn run_with(arguments: Value) -> Result<String, String> {
    call(&tools![bash], "bash", arguments).await
}
