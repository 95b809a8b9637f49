//! Nothing outlives a stop of `bash`, as far as it can be found. With a supervisor, in
//! `tests/supervised.rs`, that is everything.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

use harness::{ToolContext, toolbox::Bash};
use serde_json::json;
use tempfile::TempDir;

use super::calls::{call, call_in, cases};

cases! {
    nothing_outlives_a_stop
    nothing_outlives_the_end
}

/// Tests with a supervisor are another program.
const IS_SUPERVISED: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"supervised");

/// How often is looked for what must come to be, and the breath between two looks.
pub(crate) const LOOKS: u32 = 1_500;
pub(crate) const BREATH: Duration = Duration::from_millis(20);

/// Those with the mark, which every way ends.
pub(crate) const MARKED: [&str; 6] = ["child", "deaf", "timeout", "job", "setsid", "daemon"];
/// Those without: a child in a session of its own, daemons that write to the command's output or
/// live in a session that another one has begun,
const FOUND_BY_A_STOP: [&str; 3] = ["bare", "writer", "session"];
/// and daemons that have broken with all, one of which has overwritten its environment with its
/// title.
const HIDDEN: [&str; 2] = ["bare-daemon", "title"];

/// A command that starts one process of each kind, each of which writes its kind and its id, and then
/// runs `last`.
pub(crate) fn all_kinds(list: &Path, last: &str) -> String {
    let list = list.display();
    let closed = "</dev/null >/dev/null 2>&1";
    let all = MARKED.len() + FOUND_BY_A_STOP.len() + HIDDEN.len();
    format!(
        r#"say='echo "$0 $$" >> {list}; exec sleep 1000'
        bash -c "$say" child &
        bash -c "trap '' TERM HUP INT; $say" deaf &
        timeout 1000 bash -c "$say" timeout &
        set -m; bash -c "$say" job & set +m
        setsid bash -c "$say" setsid &
        (setsid bash -c '(bash -c "$0" daemon &)' "$say" {closed} &)
        env -i setsid bash -c "$say" bare {closed} &
        (env -i setsid bash -c '(bash -c "$0" writer &)' "$say" &)
        setsid bash -c '(env -i bash -c "$0" session {closed} &); sleep 1000' "$say" &
        (env -i setsid bash -c '(bash -c "$0" bare-daemon &)' "$say" {closed} &)
        setsid perl -e 'exit if fork; $0 = "t" x 4000; system "echo title $$ >> {list}"; sleep 1000' {closed}
        until [ "$(wc -l < {list})" = {all} ]; do sleep 0.02; done
        {last}"#
    )
}

/// Looks until it is so.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        std::thread::sleep(BREATH);
    }
    panic!("waited for {what}");
}

/// Each kind with its id.
pub(crate) fn listed(list: &Path) -> BTreeMap<String, String> {
    let list = fs::read_to_string(list).unwrap_or_default();
    // The last line may be half there.
    let whole = list.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(a, b)| (a.into(), b.into()))
        .collect()
}

pub(crate) fn all_listed(list: &Path) -> BTreeMap<String, String> {
    let all = MARKED.len() + FOUND_BY_A_STOP.len() + HIDDEN.len();
    until("every kind", || listed(list).len() == all);
    listed(list)
}

pub(crate) fn lives(id: &str) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| {
        !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
    })
}

/// Which kinds live; asserts that those of `promised` do not. None lives after this.
pub(crate) fn left(kinds: &BTreeMap<String, String>, promised: &[&str]) -> Vec<String> {
    for _ in 0..LOOKS {
        if !promised.iter().any(|kind| lives(&kinds[*kind])) {
            break;
        }
        std::thread::sleep(BREATH);
    }
    let left: Vec<String> =
        kinds.iter().filter(|(_, id)| lives(id)).map(|(kind, _)| kind.clone()).collect();
    for kind in &left {
        // It fails for one that has just died.
        let _ = Command::new("kill").args(["-KILL", &kinds[kind]]).output().unwrap();
    }
    let broken: Vec<&String> =
        left.iter().filter(|kind| promised.contains(&kind.as_str())).collect();
    assert!(broken.is_empty(), "these live: {broken:?}");
    left
}

async fn nothing_outlives_a_stop() {
    let home = TempDir::new().unwrap();
    let tools = Bash::in_folder(home.path()).unwrap().tools();
    for way in ["cancel", "drop", "time"] {
        let list = home.path().join(way);
        let context = ToolContext::new("call_1");
        let seconds = if way == "time" { 5 } else { 300 };
        let command = all_kinds(&list, "wait; sleep 1000");
        let arguments = json!({"command": command, "timeout_seconds": seconds});
        let mut running = Box::pin(call_in(&context, &tools, "bash", arguments));
        let kinds = tokio::task::spawn_blocking(move || all_listed(&list));
        let kinds = tokio::select! {
            ended = &mut running => panic!("{way}: {ended:?}"),
            kinds = kinds => kinds.unwrap(),
        };
        match way {
            "cancel" => {
                context.cancellation().cancel();
                assert!(running.await.unwrap_err().contains("stopped before its end"));
            }
            "drop" => drop(running),
            _ => assert!(running.await.unwrap_err().contains("its time limit")),
        }
        let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
        let found = [&MARKED[..], &FOUND_BY_A_STOP].concat();
        let left = left(&kinds, if IS_SUPERVISED { &all } else { &found });
        println!("{way}, with a supervisor: {IS_SUPERVISED}: outlived by {left:?}");
    }
}

/// A command that ends by itself leaves nothing either.
async fn nothing_outlives_the_end() {
    let home = TempDir::new().unwrap();
    let tools = Bash::in_folder(home.path()).unwrap().tools();
    let list = home.path().join("list");
    let arguments = json!({"command": all_kinds(&list, "exit 3"), "timeout_seconds": 300});
    let said = call(&tools, "bash", arguments).await.unwrap();
    assert!(said.starts_with("exit status: 3\n"), "{said}");
    let kinds = listed(&list);
    let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
    // Whose parent has ended is nobody's child, and has no mark.
    let found = [&MARKED[..], &["writer", "session"]].concat();
    let left = left(&kinds, if IS_SUPERVISED { &all } else { &found });
    println!("the end, with a supervisor: {IS_SUPERVISED}: outlived by {left:?}");
}
