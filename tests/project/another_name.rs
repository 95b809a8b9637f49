//! `.ci/publish-as`: the packages get another name, and every command knows it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn ran(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let command = Command::new(program).args(arguments).current_dir(folder).output();
    command.unwrap_or_else(|err| panic!("{program}: {err}"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A copy of the repository, or `None` if this is no repository of git or has no GNU sed.
fn copy() -> Option<tempfile::TempDir> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if cfg!(not(target_os = "linux")) || !root.join(".git").exists() {
        println!("skipped: it needs Linux and a repository of git");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let from = root.display().to_string();
    let cloned = ran(folder.path(), "git", &["clone", "--quiet", &from, "copy"]);
    if !cloned.status.success() {
        println!("skipped: git does not copy the repository: {}", text(&cloned));
        return None;
    }
    let script = ".ci/publish-as";
    fs::copy(root.join(script), folder.path().join("copy").join(script))
        .expect("the script of now");
    Some(folder)
}

#[test]
fn another_name_is_known_to_cargo_and_to_each_command() {
    let Some(folder) = copy() else { return };
    let copy = folder.path().join("copy");
    for name in ["made-up", "made_up", "made_up"] {
        let renamed = ran(&copy, ".ci/publish-as", &[name]);
        assert!(renamed.status.success(), "{name}: {}", text(&renamed));
    }
    let told =
        ran(&copy, env!("CARGO"), &["metadata", "--offline", "--no-deps", "--format-version=1"]);
    assert!(told.status.success(), "{}", text(&told));
    let told = text(&told);
    for package in ["made_up", "made_up-macros", "made_up-core", "made_up-mcp", "harness-tests"] {
        assert!(told.contains(&format!("\"name\":\"{package}\"")), "{package}");
    }
    let old = "(-p |cargo add )harness(-macros|-schema|-core|-providers|-agent|-sqlite|-postgres|-terminal|-toolbox|-mcp|-testing|-conformance)?([^a-z0-9_-]|$)";
    let old = ran(&copy, "git", &["grep", "-nE", old, "--", ".", ":!CHANGELOG.md", ":!tests"]);
    assert_eq!(text(&old), "");
    let new = ran(&copy, "git", &["grep", "-cE", "-e", "-p made_up( |$)", "--", ".github"]);
    assert!(new.status.success(), "the workflow");
}

#[test]
fn a_name_that_is_none_changes_nothing() {
    let Some(folder) = copy() else { return };
    let copy = folder.path().join("copy");
    let before = text(&ran(&copy, "git", &["diff"]));
    for name in ["", "A", "-a", "a--b", "a-", "9a", "std", "a.b", "a/b", "a&b", "harness-tests"] {
        let refused = ran(&copy, ".ci/publish-as", &[name]);
        assert_eq!(refused.status.code(), Some(2), "{name}: {}", text(&refused));
    }
    fs::rename(copy.join(".git"), copy.join("git")).expect("no repository any more");
    let ceiling = folder.path().display().to_string();
    let without = Command::new(".ci/publish-as")
        .arg("made-up")
        .env("GIT_CEILING_DIRECTORIES", ceiling)
        .current_dir(&copy)
        .output()
        .expect("it runs");
    assert!(!without.status.success(), "{}", text(&without));
    fs::rename(copy.join("git"), copy.join(".git")).expect("a repository again");
    assert_eq!(text(&ran(&copy, "git", &["diff"])), before);
}
