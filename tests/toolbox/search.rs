//! Searching files.

use std::fs;

use harness::{Tool, toolbox::Files};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::call;
#[cfg(target_os = "linux")]
use super::stops::{BREATH, LOOKS};
#[cfg(target_os = "linux")]
use crate::measured::needs_at_most;

fn folder(files: &[(&str, &str)]) -> (TempDir, Vec<Tool>) {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tools = Files::in_folder(folder.path()).unwrap().tools();
    (folder, tools)
}

async fn search(tools: &[Tool], arguments: Value) -> String {
    call(tools, "search_files", arguments).await.unwrap()
}

#[tokio::test]
async fn hits_are_path_line_and_text_in_the_order_of_the_paths() {
    let (_folder, tools) = folder(&[
        ("b.txt", "one\ntwo needle\r\nthree\nneedle again"),
        ("a/x.rs", "fn needle() {}\n"),
        ("a/y.txt", "hay\n"),
    ]);
    assert_eq!(
        search(&tools, json!({"pattern": "needle"})).await,
        "a/x.rs:1: fn needle() {}\nb.txt:2: two needle\nb.txt:4: needle again\n\
         [3 hits in 3 files searched]"
    );
    assert_eq!(
        search(&tools, json!({"pattern": r"(?i)^FN \w+\(", "glob": "*.rs"})).await,
        "a/x.rs:1: fn needle() {}\n[1 hits in 1 files searched]"
    );
    assert_eq!(
        search(&tools, json!({"pattern": "needle", "path": "b.txt"})).await,
        "b.txt:2: two needle\nb.txt:4: needle again\n[2 hits in 1 files searched]"
    );
    // A line is a line, however it ends.
    assert_eq!(
        search(&tools, json!({"pattern": "^t.*needle$"})).await,
        "b.txt:2: two needle\n[1 hits in 3 files searched]"
    );
    assert_eq!(
        search(&tools, json!({"pattern": "^needle"})).await,
        "b.txt:4: needle again\n[1 hits in 3 files searched]"
    );
    assert_eq!(
        search(&tools, json!({"pattern": "nowhere", "path": "a"})).await,
        "[0 hits in 2 files searched]"
    );
}

#[tokio::test]
async fn a_pattern_that_is_none_is_explained() {
    let (_folder, tools) = folder(&[("a.txt", "a")]);
    for pattern in ["fn (", "a\\nb", "[z-a]", "x{1,100000}{1,100000}", "(?<", "\\p{Nope}"] {
        let err = call(&tools, "search_files", json!({"pattern": pattern})).await.unwrap_err();
        assert!(err.contains("`pattern`: is not a regular expression for one line"), "{err}");
        assert!(err.contains("write a backslash"), "{err}");
    }
    let nested = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
    let err = call(&tools, "search_files", json!({"pattern": nested})).await.unwrap_err();
    assert!(err.contains("`pattern`"));
}

#[tokio::test]
async fn ignore_files_are_obeyed_from_the_root_down() {
    let (folder, tools) = folder(&[
        (".gitignore", "# made by tools\n*.log\n/target\nbuild/\n!keep.log\n"),
        (".ignore", "vendored/\n"),
        ("a.txt", "needle"),
        ("a.log", "needle"),
        ("keep.log", "needle"),
        ("target/x.txt", "needle"),
        ("sub/target/x.txt", "needle"),
        ("sub/build/x.txt", "needle"),
        ("sub/.gitignore", "/secret.txt\n!special.log\n[bad\n"),
        ("sub/secret.txt", "needle"),
        ("sub/special.log", "needle"),
        ("sub/other.log", "needle"),
        ("sub/deep/secret.txt", "needle"),
        ("sub/deep/.ignore", "special.log\n"),
        ("sub/deep/special.log", "needle"),
        ("vendored/x.txt", "needle"),
        ("zoo/secret.txt", "needle"),
        (".git/config", "needle"),
        ("sub/.git", "needle"),
        (".github/ci.yml", "needle"),
    ]);
    let paths = |found: String| -> Vec<String> {
        found.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    };
    let all = [
        ".github/ci.yml",
        "a.txt",
        "keep.log",
        "sub/deep/secret.txt",
        "sub/special.log",
        "sub/target/x.txt",
        "zoo/secret.txt",
    ];
    assert_eq!(paths(search(&tools, json!({"pattern": "needle"})).await), all);
    let below = search(&tools, json!({"pattern": "needle", "path": "./sub"})).await;
    assert_eq!(paths(below), all[3..6]);
    // What is named is searched, ignored or not.
    let named = search(&tools, json!({"pattern": "needle", "path": "a.log"})).await;
    assert_eq!(paths(named), ["a.log"]);
    let named = search(&tools, json!({"pattern": "needle", "path": "target"})).await;
    assert_eq!(paths(named), ["target/x.txt"]);

    // The list of files agrees.
    let listed = call(&tools, "list_files", json!({"glob": "**/*"})).await.unwrap();
    assert!(listed.contains("sub/special.log") && !listed.contains("other.log"), "{listed}");
    drop(folder);
}

#[tokio::test]
async fn binary_files_and_endless_lines_are_passed_over_and_counted() {
    let (folder, tools) = folder(&[("a.txt", "needle")]);
    fs::write(folder.path().join("b.bin"), b"needle\n\0needle\n").unwrap();
    let mut late = b"needle\n".to_vec();
    late.extend(b"hay\n".repeat(100_000));
    late.push(0);
    fs::write(folder.path().join("late.bin"), late).unwrap();
    fs::write(folder.path().join("latin.txt"), b"needle \xe9\n").unwrap();
    fs::write(folder.path().join("long.txt"), "x".repeat(9 * 1024 * 1024)).unwrap();
    assert_eq!(
        search(&tools, json!({"pattern": "needle"})).await,
        "a.txt:1: needle\nlatin.txt:1: needle \u{fffd}\n[2 hits in 2 files searched; passed over \
         2 binary files; passed over 1 files that cannot be read]"
    );
}

#[tokio::test]
async fn hits_are_bounded_in_number_and_length() {
    let text = format!("{}\n", "needle\n".repeat(500));
    let (folder, tools) = folder(&[("many.txt", &text), ("z.txt", "needle")]);
    let found = search(&tools, json!({"pattern": "needle"})).await;
    assert_eq!(found.lines().count(), 201);
    assert!(found.ends_with("narrower pattern]"), "{found}");
    assert!(found.contains("[stopped after 200 hits"), "{found}");

    fs::write(folder.path().join("wide.txt"), format!("needle{}\n", "x".repeat(290)).repeat(300))
        .unwrap();
    let found = search(&tools, json!({"pattern": "needle", "path": "wide.txt"})).await;
    assert!(found.len() < 50 * 1024, "{}", found.len());
    let shown = found.lines().count() - 1;
    assert!(shown < 200 && found.contains(&format!("[stopped after {shown} hits")), "{shown}");

    let long = format!("{}needle{}", "é".repeat(50_000), "ü".repeat(50_000));
    fs::write(folder.path().join("long.min.js"), &long).unwrap();
    let found = search(&tools, json!({"pattern": "needle", "path": "long.min.js"})).await;
    let (hit, _) = found.split_once('\n').unwrap();
    assert!(hit.len() < 400, "{}", hit.len());
    let expected =
        format!("[99900 bytes] {}needle{} [99806 bytes]", "é".repeat(50), "ü".repeat(97));
    assert_eq!(hit, format!("long.min.js:1: {expected}"));
}

#[tokio::test]
async fn a_long_line_is_searched_part_by_part_as_if_it_were_searched_at_once() {
    let filler = "ab cd ".repeat(300_000);
    let (_folder, tools) = folder(&[("long.txt", &format!("x{filler}needle1{filler}needle2\n"))]);
    for (pattern, hits) in [
        ("needle1", 1),
        ("needle2$", 1),
        (r"\bneedle\d\b", 1),
        (r"ab cd needle2\b", 1),
        ("^xab", 1),
        // No part of the line is taken for its beginning or its end.
        ("^ab", 0),
        ("^cd", 0),
        (r"ab$", 0),
        ("cd $", 0),
        (r"(?i)NEEDLE1.{0,1000}ab", 1),
        ("needle3", 0),
    ] {
        let found = search(&tools, json!({"pattern": pattern})).await;
        assert!(found.ends_with(&format!("[{hits} hits in 1 files searched]")), "{pattern}");
    }
}

#[tokio::test]
async fn a_pattern_that_would_need_much_memory_is_explained() {
    let (_folder, tools) = folder(&[("a.txt", "a")]);
    for (pattern, said) in [
        (r"\w{1000}".to_owned(), "more than 4194304 bytes"),
        (r"\w".repeat(3_000), "longer than 4000 bytes"),
    ] {
        let err = call(&tools, "search_files", json!({"pattern": pattern})).await.unwrap_err();
        assert!(err.contains("`pattern`") && err.contains(said), "{err}");
    }
}

/// The threads of this process that work for the file tools.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "harness-files").count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_search_ends_inside_of_a_line_and_keeps_no_process() {
    let name = "search::a_search_ends_inside_of_a_line_and_keeps_no_process";
    needs_at_most(250, name, async {
        let line: String = (0..4 << 20).map(|at: u32| if at % 7 < 3 { 'a' } else { 'b' }).collect();
        let (folder, tools) = folder(&[("long.txt", &line)]);
        let searches: Vec<_> = (0..9)
            .map(|_| {
                let tools = tools.clone();
                // It would take a quarter of an hour.
                let pattern = json!({"pattern": "(a|b)*a.{200}Z"});
                tokio::spawn(async move { call(&tools, "search_files", pattern).await })
            })
            .collect();
        // The ninth waits for a place.
        let eight = || threads() == 8;
        for _ in 0..LOOKS {
            if eight() {
                break;
            }
            tokio::time::sleep(BREATH).await;
        }
        assert!(eight(), "{}", threads());
        searches.iter().for_each(tokio::task::JoinHandle::abort);
        for search in searches {
            assert!(search.await.is_err_and(|err| err.is_cancelled()));
        }
        for _ in 0..LOOKS {
            if threads() == 0 {
                break;
            }
            tokio::time::sleep(BREATH).await;
        }
        assert_eq!(threads(), 0);
        // The process ends while this one works.
        let last = tokio::spawn(async move {
            call(&tools, "search_files", json!({"pattern": "(a|b)*a.{200}Z"})).await
        });
        while threads() == 0 {
            tokio::time::sleep(BREATH).await;
        }
        drop((last, folder));
    });
}

#[cfg(target_os = "linux")]
#[test]
fn many_groups_of_a_pattern_need_no_memory() {
    let name = "search::many_groups_of_a_pattern_need_no_memory";
    needs_at_most(100, name, async {
        let (_folder, tools) = folder(&[("a.txt", "a needle")]);
        let pattern = format!("{}needle.{{0,1000}}{}", "(".repeat(120), ")".repeat(120));
        let found = search(&tools, json!({"pattern": pattern})).await;
        assert!(found.starts_with("a.txt:1: a needle"), "{found}");
    });
}
