//! The processes of this machine that a test has marked.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// A number that no other process has as an argument: `sleep` takes it, and waits for hours.
pub fn mark() -> String {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    let number = MARKS.fetch_add(1, Ordering::Relaxed);
    format!("54321.{}{number:03}", std::process::id())
}

/// A command of three processes that have the mark: a shell, its child in the background that
/// ignores every polite request to end, and a grandchild that does the same. It ends only if it
/// is killed.
pub fn stubborn(mark: &str) -> String {
    let deaf = "trap \"\" TERM INT HUP";
    format!("({deaf}; bash -c '{deaf}; sleep {mark} & wait' deaf-{mark}) & sleep {mark}; wait")
}

/// The processes that have the mark among their arguments, each with its command line. The program
/// that was only given the mark in a prompt is none of them.
pub fn with(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| {
            let name = process.file_name().into_string().ok()?;
            let id: u32 = name.parse().ok()?;
            let line = fs::read(process.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (line.contains(mark) && !line.contains("send-keys")).then(|| format!("{id}: {line}"))
        })
        .collect()
}

/// Looks until the command of [`stubborn`] is fully there: both of its sleepers sleep.
pub fn wait_for(mark: &str) {
    for _ in 0..600 {
        let sleepers = with(mark).iter().filter(|line| line.contains(": sleep ")).count();
        if sleepers == 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("two sleepers were waited for, but there are: {:?}", with(mark));
}

/// The ids of a process's children.
pub fn children(parent: &str) -> Vec<String> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let listed = fs::read_to_string(path).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}
