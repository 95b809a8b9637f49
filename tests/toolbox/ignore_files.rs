//! Ignore files: what they name, and what they cost when somebody means ill.

use std::{collections::BTreeSet, fs, process::Command};

use harness::{Tool, toolbox::Files};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::json;
use tempfile::TempDir;

use super::call;

/// Files of some names in some folders, and git to say which of them are ignored.
struct Tree {
    folder: TempDir,
    tools: Vec<Tool>,
}

impl Tree {
    /// Nothing where git is not installed.
    fn new() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let tools = Files::in_folder(folder.path()).unwrap().tools();
        for parent in ["", "a", "b", "a/a", "a/b", "b/a", "ab", "ab/a/b"] {
            fs::create_dir_all(folder.path().join(parent)).unwrap();
            for name in ["a.b", "ab.b", "b.a", "b!", "#b", "c", "c ", "é", "[b]", "b\\"] {
                fs::write(folder.path().join(parent).join(name), "").unwrap();
            }
        }
        let this = Self { folder, tools };
        let has_git = this.git(&["init", "-q"]).is_some();
        if !has_git {
            println!("not tried, since there is no git");
        }
        has_git.then_some(this)
    }

    fn git(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("git").current_dir(self.folder.path()).args(arguments).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// The files that are not ignored, as git lists them and as we do.
    async fn listed(&self, rules: &str) -> [BTreeSet<String>; 2] {
        fs::write(self.folder.path().join(".gitignore"), rules).unwrap();
        let theirs = self.git(&["ls-files", "-z", "--others", "--exclude-standard"]).unwrap();
        let ours = call(&self.tools, "list_files", json!({"glob": "**/*"})).await.unwrap();
        let (ours, _) = ours.rsplit_once('[').unwrap();
        [theirs.split('\0'), ours.split('\n')].map(|paths| {
            let paths = paths.filter(|path| !path.is_empty() && *path != ".gitignore");
            paths.map(str::to_owned).collect()
        })
    }
}

#[tokio::test]
async fn lines_are_read_as_git_reads_them() {
    let lines = [
        "a",
        "/a",
        "a/",
        "*.b",
        "!a.b",
        "a/*",
        "a/**",
        "**/b",
        "a/**/b",
        "**",
        "*",
        "/*",
        "/**",
        "?",
        "b?",
        "[ab].b",
        "[!a]*",
        "[]b]*",
        "[[]b]",
        "\\#b",
        "#b",
        "b\\!",
        "c\\ ",
        "c ",
        "c\\",
        "b\\\\",
        "é",
        "?.?",
        "[a",
        "[b-a]*",
        "a**b",
        "ab**",
        "**b",
        "a//b",
        "./a",
        "a/.",
        "**/a/**",
        "/b/a.b",
        "ab/**/b",
        "*/a",
        "*/*",
        "[a-c]",
        "[é]",
        "[!a-z]",
        "[[:alpha:]]",
        "[^[:alpha:]b]*",
        "[[:punct:]a]",
        "[[:nope:]]",
        "[[:space:]b]?",
        "[[:alpha]b",
        "{a,b}.b",
        "***",
        "a/***",
        "[^b.]",
        "*[/]*",
        "a?b",
        "a*b",
        "*/",
        "**/",
        "!",
        "/",
        "",
        "\\",
        "\\é",
    ];
    let Some(tree) = Tree::new() else { return };
    for line in lines {
        // What is ignored, and what is ignored and then not again.
        for text in [line.to_owned(), format!("*\n!*/\n!{line}"), format!("{line}\r\n!a.b\nc")] {
            let [theirs, ours] = tree.listed(&text).await;
            assert_eq!(ours, theirs, "{text:?}");
        }
    }
}

#[tokio::test]
async fn any_lines_are_read_as_git_reads_them() {
    let pieces = vec![
        "a",
        "b",
        "ab",
        ".b",
        "/",
        "/",
        "*",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "[ab]",
        "[!a]",
        "[a-c]",
        "[^b.]",
        "\\a",
        "c",
        "é",
        "\\[",
        "[]b]",
        "[[:lower:]!]",
        "[a",
        "!",
        "#",
        " ",
        "\\ ",
        "\\",
    ];
    let piece = prop::sample::select(pieces);
    let first = prop::sample::select(vec!["", "", "!", "/", "#", "*\n!*/\n!"]);
    let line = (first, prop::collection::vec(piece, 1..6))
        .prop_map(|(first, pieces)| format!("{first}{}", pieces.concat()));
    let lines = prop::collection::vec(line, 1..5).prop_map(|lines| lines.join("\n"));
    let Some(tree) = Tree::new() else { return };
    let mut runner = TestRunner::deterministic();
    for _ in 0..300 {
        let text = lines.new_tree(&mut runner).unwrap().current();
        let [theirs, ours] = tree.listed(&text).await;
        assert_eq!(ours, theirs, "{text:?}");
    }
}

/// A search that passes over such a file shows what it hides, and says so.
#[cfg(unix)]
#[tokio::test]
async fn ignore_files_that_cannot_be_read_are_named() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = TempDir::new().unwrap();
    let tools = Files::in_folder(folder.path()).unwrap().tools();
    let ignore = folder.path().join(".gitignore");
    fs::write(&ignore, "secret.txt\n").unwrap();
    fs::write(folder.path().join("secret.txt"), "needle").unwrap();
    // What is no file is no ignore file, and nothing is said of it.
    symlink("/etc/passwd", folder.path().join(".ignore")).unwrap();
    let found = call(&tools, "list_files", json!({"glob": "*.txt"})).await.unwrap();
    assert_eq!(found, "[0 files below `.` fit]");
    fs::set_permissions(&ignore, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&ignore).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    let found = call(&tools, "list_files", json!({"glob": "*.txt"})).await.unwrap();
    let expected = "secret.txt\n[1 files below `.` fit; 1 ignore files are too large or cannot be \
                    read and were not obeyed: `.gitignore`]";
    assert_eq!(found, expected);
}

/// What a compiled set of such patterns takes is hours and gigabytes.
#[tokio::test]
async fn hostile_ignore_files_cost_little_and_are_named() {
    let folder = TempDir::new().unwrap();
    let tools = Files::in_folder(folder.path()).unwrap().tools();
    let bad = |number: usize| format!("*a*?[b-y]*{number}?*?[a-z]?x*\n");
    for number in 0..30 {
        let inside = folder.path().join(format!("{number:02}"));
        fs::create_dir(&inside).unwrap();
        let text: String = (0..).map(bad).take(40_000).collect();
        fs::write(inside.join(".gitignore"), text).unwrap();
        fs::write(inside.join("a.txt"), "needle").unwrap();
    }
    let listed = call(&tools, "list_files", json!({"glob": "*.txt"})).await.unwrap();
    assert!(listed.starts_with("00/a.txt\n01/a.txt\n"), "{listed}");
    let expected = "[30 files below `.` fit; 30 ignore files are too large or cannot be read and \
                    were not obeyed: `00/.gitignore`, `01/.gitignore`, `02/.gitignore`, `03/.gitignore`, \
                    `04/.gitignore` and others]";
    assert!(listed.ends_with(expected), "{listed}");

    // Small enough, and many names that nearly fit.
    let folder = TempDir::new().unwrap();
    let tools = Files::in_folder(folder.path()).unwrap().tools();
    let text: String = (0..4_000).map(bad).collect();
    fs::write(folder.path().join(".gitignore"), format!("{text}secret.txt\n")).unwrap();
    for number in 0..1_000 {
        let name = format!("{number:04}{}.txt", "abcx1".repeat(30));
        fs::write(folder.path().join(name), "needle").unwrap();
    }
    fs::write(folder.path().join("secret.txt"), "needle").unwrap();
    let found = call(&tools, "search_files", json!({"pattern": "nowhere"})).await.unwrap();
    assert!(found.contains("the ignore files take too long to obey"), "{found}");

    // One that is obeyed in full says nothing.
    fs::write(folder.path().join(".gitignore"), "*.txt\n".repeat(10_000)).unwrap();
    let found = call(&tools, "search_files", json!({"pattern": "needle"})).await.unwrap();
    assert_eq!(found, "[0 hits in 1 files searched]");
}
