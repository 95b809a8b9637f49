//! The program: the cases as tests, and the programs that some of them start.

use std::{path::Path, process::ExitCode};

use harness::toolbox::supervise;

use crate::{calls::Case, ends, line, shell, stops, victim};

pub(crate) fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    let file = std::fs::read_link("/proc/self/exe").unwrap_or_else(|_| called.into());
    // Under another name it is a program that does it otherwise.
    match file.file_name().and_then(|name| name.to_str()) {
        Some(victim::WITHOUT) => return victim::main(),
        Some(victim::LATE) => return victim::late(),
        Some(victim::ARGUMENTS_FIRST) => return victim::arguments_first(),
        _ => assert!(supervise(), "Linux with /proc"),
    }
    if Path::new(&file).ends_with(victim::WITH) {
        return victim::main();
    }
    let groups = [
        ("shell", shell::CASES),
        ("stops", stops::CASES),
        ("ends", ends::CASES),
        ("line", line::CASES),
    ];
    run(groups.iter().flat_map(|(group, cases)| {
        cases.iter().map(move |(name, case)| (format!("{group}::{name}"), *case))
    }))
}

/// Runs the cases that the arguments name, as the other tests of this package are run.
fn run(cases: impl Iterator<Item = Case<String>>) -> ExitCode {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let list_only = std::env::args().any(|word| word == "--list");
    let exact = std::env::args().any(|word| word == "--exact");
    let is_wanted = |name: &str| {
        words.is_empty()
            || words.iter().any(|word| if exact { name == word } else { name.contains(word) })
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, case) in cases.filter(|(name, _)| is_wanted(name)) {
        if list_only {
            println!("{name}: test");
            continue;
        }
        // A thread of the case's own name, for the message of its panic.
        let thread = std::thread::Builder::new().name(name.clone()).spawn(case);
        let ended = thread.expect("a thread").join();
        println!("test {name} ... {}", if ended.is_ok() { "ok" } else { "FAILED" });
        match ended {
            Ok(()) => passed += 1,
            Err(_) => failed.push(name),
        }
    }
    if list_only {
        return ExitCode::SUCCESS;
    }
    println!("\ntest result: {passed} passed; {} failed {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
