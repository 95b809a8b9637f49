//! Reading, writing and listing files.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::FutureExt as _;
use harness::{Tool, ToolContext, toolbox::Files};
use serde_json::json;
use tempfile::TempDir;

use super::{SetWhenDropped, call};

fn folder() -> (TempDir, Vec<Tool>) {
    let folder = TempDir::new().unwrap();
    let tools = Files::in_folder(folder.path()).unwrap().tools();
    (folder, tools)
}

#[test]
fn each_tool_declares_what_it_does() {
    let (_folder, tools) = folder();
    let declared: Vec<String> =
        tools.iter().map(|tool| format!("{}: {}", tool.name(), tool.side_effects())).collect();
    assert_eq!(
        declared,
        ["read_file: read", "write_file: write", "list_files: read", "search_files: read"]
    );
}

#[test]
fn a_folder_that_does_not_exist_is_a_mistake_of_the_program() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for name in ["missing", "file"] {
        let err = Files::in_folder(folder.path().join(name)).unwrap_err();
        assert!(err.is_configuration());
        assert!(err.to_string().contains(name), "{err}");
        assert!(err.to_string().contains("give the path of a folder"), "{err}");
    }
}

#[tokio::test]
async fn a_file_is_read_whole_or_by_its_lines_and_the_total_is_said() {
    let (folder, tools) = folder();
    let lines: String = (1..=10).map(|line| format!("line {line}\r\n")).collect();
    fs::write(folder.path().join("ten.txt"), &lines).unwrap();
    fs::write(folder.path().join("open.txt"), "a\nb").unwrap();
    fs::write(folder.path().join("empty.txt"), "").unwrap();
    let read = |arguments| call(&tools, "read_file", arguments);

    let whole = read(json!({"path": "ten.txt"})).await.unwrap();
    assert_eq!(whole, lines, "a whole file is handed over as it is");
    let some = read(json!({"path": "./ten.txt", "first_line": 3, "lines": 2})).await.unwrap();
    assert_eq!(some, "[lines 3-4 of 10]\nline 3\r\nline 4\r\n");
    let rest = read(json!({"path": "ten.txt", "first_line": 9, "lines": 50})).await.unwrap();
    assert_eq!(rest, "[lines 9-10 of 10]\nline 9\r\nline 10\r\n");
    let open = read(json!({"path": "open.txt"})).await.unwrap();
    assert_eq!(open, "a\nb");
    let last = read(json!({"path": "open.txt", "first_line": 2})).await.unwrap();
    assert_eq!(last, "[lines 2-2 of 2, without a line break at the end]\nb");
    let first = read(json!({"path": "open.txt", "lines": 1})).await.unwrap();
    assert_eq!(first, "[lines 1-1 of 2]\na\n");
    let last = read(json!({"path": "open.txt", "first_line": 2})).await.unwrap();
    assert_eq!(last, "[lines 2-2 of 2, without a line break at the end]\nb");
    assert_eq!(read(json!({"path": "empty.txt"})).await.unwrap(), "the file is empty");
    let absolute = folder.path().canonicalize().unwrap().join("open.txt");
    assert_eq!(read(json!({"path": absolute})).await.unwrap(), open);

    let behind = read(json!({"path": "ten.txt", "first_line": 11})).await.unwrap_err();
    assert!(behind.contains("`ten.txt`: has 10 lines, so `first_line` 11"), "{behind}");
    for name in ["first_line", "lines"] {
        let zero = read(json!({"path": "ten.txt", name: 0})).await.unwrap_err();
        assert!(zero.contains(&format!("`{name}`")), "{zero}");
    }
}

#[tokio::test]
async fn a_large_file_is_cut_between_lines_with_the_way_to_go_on() {
    let (folder, tools) = folder();
    let line = format!("{}\n", "é".repeat(100));
    fs::write(folder.path().join("large.txt"), line.repeat(5_000)).unwrap();
    let mut next = 1;
    let mut read = String::new();
    let mut calls = 0;
    while next <= 5_000 {
        let arguments = json!({"path": "large.txt", "first_line": next});
        let answer = call(&tools, "read_file", arguments).await.unwrap();
        let (head, text) = answer.split_once('\n').unwrap();
        assert!(text.len() <= 48 * 1024);
        assert!(head.starts_with(&format!("[lines {next}-")), "{head}");
        let last: usize = head.split(['-', ' ']).nth(2).unwrap().parse().unwrap();
        assert!(head.contains("of 5000"), "{head}");
        if last < 5_000 {
            assert!(head.ends_with(&format!("go on with `first_line` {}]", last + 1)), "{head}");
        }
        read.push_str(text);
        next = last + 1;
        calls += 1;
    }
    assert_eq!(read, line.repeat(5_000));
    assert_eq!(calls, 21);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_cut_between_characters() {
    let (folder, tools) = folder();
    fs::write(folder.path().join("one.txt"), format!("a{}\nlast\n", "é".repeat(100_000))).unwrap();
    let answer = call(&tools, "read_file", json!({"path": "one.txt"})).await.unwrap();
    let (head, text) = answer.split_once('\n').unwrap();
    assert_eq!(head, "[lines 1-1 of 2, cut after 49152 bytes, since line 1 is longer]");
    assert_eq!(text, format!("a{}", "é".repeat(24_575)));
    let last = call(&tools, "read_file", json!({"path": "one.txt", "first_line": 2})).await;
    assert_eq!(last.unwrap(), "[lines 2-2 of 2]\nlast\n");
}

#[tokio::test]
async fn what_is_no_text_is_named_by_its_line() {
    let (folder, tools) = folder();
    fs::write(folder.path().join("latin.txt"), b"good\nbad \xe9\n").unwrap();
    fs::write(folder.path().join("torn.txt"), b"good\nbad \xc3").unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for name in ["latin.txt", "torn.txt"] {
        let err = call(&tools, "read_file", json!({"path": name})).await.unwrap_err();
        assert!(err.contains(&format!("`{name}`: line 2 is not UTF-8")), "{err}");
        let good = call(&tools, "read_file", json!({"path": name, "lines": 1})).await.unwrap();
        assert_eq!(good, "[lines 1-1 of 2]\ngood\n");
    }
    let cases = [
        ("missing.txt", "there is no such file"),
        ("sub", "is a folder"),
        ("latin.txt/x", "should be a folder is a file"),
        ("", "is empty"),
        ("a\0b", "cannot be a path"),
    ];
    for (path, expected) in cases {
        let err = call(&tools, "read_file", json!({"path": path})).await.unwrap_err();
        assert!(err.contains(expected), "{path}: {err}");
    }
    let long = "x".repeat(5_000);
    let err = call(&tools, "read_file", json!({"path": long})).await.unwrap_err();
    assert!(err.contains("too long"), "{err}");
}

#[tokio::test]
async fn writing_makes_the_folders_and_replaces_the_whole_text() {
    let (folder, tools) = folder();
    let write = |path: &str, content: &str| {
        call(&tools, "write_file", json!({"path": path, "content": content}))
    };
    let said = write("a/b/new.txt", "héllo\n").await.unwrap();
    assert_eq!(said, "wrote 7 bytes to the new file `a/b/new.txt`");
    let said = write("a/b/new.txt", "x").await.unwrap();
    assert_eq!(said, "wrote 1 bytes to `a/b/new.txt` in place of 7 bytes");
    assert_eq!(fs::read_to_string(folder.path().join("a/b/new.txt")).unwrap(), "x");
    assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1, "nothing beside it");

    let cases = [
        ("a", "is a folder"),
        ("new/", "names a folder"),
        (".", "names a folder"),
        ("..", "leads out"),
        ("a/b/new.txt/c", "is a file"),
    ];
    for (path, expected) in cases {
        let err = write(path, "y").await.unwrap_err();
        assert!(err.contains(expected), "{path}: {err}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("a/b/new.txt")).unwrap(), "x");
}

#[cfg(unix)]
#[tokio::test]
async fn writing_keeps_the_mode_and_the_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let (folder, tools) = folder();
    let script = folder.path().join("script.sh");
    fs::write(&script, "old").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o4750)).unwrap();
    symlink("script.sh", folder.path().join("link")).unwrap();
    symlink("nothing", folder.path().join("dangling")).unwrap();

    call(&tools, "write_file", json!({"path": "link", "content": "new"})).await.unwrap();
    assert_eq!(fs::read_to_string(&script).unwrap(), "new");
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o7777, 0o750);
    assert!(fs::symlink_metadata(folder.path().join("link")).unwrap().is_symlink());

    let arguments = json!({"path": "dangling", "content": "new"});
    let err = call(&tools, "write_file", arguments).await.unwrap_err();
    assert!(err.contains("is a symbolic link to nothing"), "{err}");
    assert!(!folder.path().join("nothing").exists());
}

/// Who may not read the old text finds the new one nowhere, not even while it is being written.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_private_file_is_private_at_any_instant() {
    use std::{
        os::unix::fs::PermissionsExt as _,
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
    };

    let (folder, tools) = folder();
    let path = folder.path().join("secret.txt");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let (done, seen, open) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for entry in fs::read_dir(folder.path()).unwrap().flatten() {
                    let Ok(found) = entry.metadata() else { continue };
                    let is_beside = entry.file_name().to_string_lossy().ends_with(".tmp");
                    seen.fetch_add(u32::from(is_beside), Ordering::Relaxed);
                    open.fetch_or(found.permissions().mode() & 0o077, Ordering::Relaxed);
                }
            }
        });
        let _done = SetWhenDropped(&done);
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                while seen.load(Ordering::Relaxed) < 20 {
                    let content = "k".repeat(1_000_000);
                    let arguments = json!({"path": "secret.txt", "content": content});
                    call(&tools, "write_file", arguments).await.unwrap();
                }
            });
        });
    });
    assert_eq!(open.load(Ordering::Relaxed), 0, "somebody else could read it");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A program that runs as root does not take a file from its owner.
#[cfg(unix)]
#[tokio::test]
async fn writing_keeps_the_owner() {
    use std::os::unix::fs::{MetadataExt as _, chown};

    let (folder, tools) = folder();
    let path = folder.path().join("theirs.txt");
    fs::write(&path, "old").unwrap();
    // Only root can give a file away.
    let owner = if chown(&path, Some(1234), Some(1234)).is_ok() {
        1234
    } else {
        fs::metadata(&path).unwrap().uid()
    };
    call(&tools, "write_file", json!({"path": "theirs.txt", "content": "new"})).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::metadata(&path).unwrap().uid(), owner);
}

/// Whoever looks, and whenever a writer dies, the file is whole.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_ever_sees_a_half_written_file() {
    let (folder, tools) = folder();
    let path = folder.path().join("file.txt");
    let texts = ["a".repeat(300_000), "b".repeat(200_000)];
    fs::write(&path, &texts[0]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let seen = fs::read_to_string(&path).unwrap();
                assert!(texts.contains(&seen), "{} bytes", seen.len());
            }
        });
        let _done = SetWhenDropped(&done);
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for text in texts.iter().cycle().take(40) {
                    let arguments = json!({"path": "file.txt", "content": text});
                    call(&tools, "write_file", arguments).await.unwrap();
                }
            });
        });
    });
}

#[tokio::test]
async fn a_folder_is_listed_in_order() {
    let (folder, tools) = folder();
    for path in ["b.rs", "a/z.rs", "a/deep/x.txt", "a/deep/y.rs", "a.rs", ".hidden", ".git/config"]
    {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let list = |arguments| call(&tools, "list_files", arguments);
    assert_eq!(
        list(json!({})).await.unwrap(),
        ".git/\n.hidden\na/\na.rs\nb.rs\n[5 files and folders]"
    );
    assert_eq!(list(json!({"path": "a"})).await.unwrap(), "a/deep/\na/z.rs\n[2 files and folders]");
    let everywhere = "a/deep/y.rs\na/z.rs\na.rs\nb.rs\n[4 files below `.` fit]";
    assert_eq!(list(json!({"glob": "*.rs"})).await.unwrap(), everywhere);
    assert_eq!(list(json!({"glob": "**/*.rs"})).await.unwrap(), everywhere);
    assert_eq!(
        list(json!({"glob": "./*/*.{rs,txt}"})).await.unwrap(),
        "a/z.rs\n[1 files below `.` fit]"
    );
    assert_eq!(
        list(json!({"path": "a/../a/deep", "glob": "*.rs"})).await.unwrap(),
        "a/deep/y.rs\n[1 files below `a/../a/deep` fit]"
    );
    assert_eq!(list(json!({"glob": "*.py"})).await.unwrap(), "[0 files below `.` fit]");
    for glob in ["[", "{a", "a{b,{c}"] {
        let err = list(json!({"glob": glob})).await.unwrap_err();
        assert!(err.contains("`glob`") && err.contains("write one such as"), "{err}");
    }
    let err = list(json!({"path": "a.rs"})).await.unwrap_err();
    assert!(err.contains("`a.rs`: is not a folder"), "{err}");
    let err = list(json!({"glob": "*?".repeat(1_000)})).await.unwrap_err();
    assert!(err.contains("`glob`: is longer than 1000 bytes"), "{err}");
}

#[tokio::test]
async fn a_long_list_is_cut_and_counted() {
    let (folder, tools) = folder();
    for number in 0..1_005 {
        fs::write(folder.path().join(format!("{number:04}.txt")), "").unwrap();
    }
    for arguments in [json!({}), json!({"glob": "*.txt"})] {
        let listed = call(&tools, "list_files", arguments).await.unwrap();
        assert_eq!(listed.lines().count(), 1_001);
        assert!(listed.contains("0999.txt\n[the first 1000 of 1005 files"), "{listed}");
    }
    // Long names fill an answer sooner.
    fs::create_dir(folder.path().join("long")).unwrap();
    for number in 0..400 {
        fs::write(folder.path().join(format!("long/{number:03}{}", "x".repeat(200))), "").unwrap();
    }
    let listed = call(&tools, "list_files", json!({"path": "long"})).await.unwrap();
    let shown = listed.lines().count() - 1;
    assert!(listed.len() < 50 * 1024 && shown < 400, "{shown}");
    assert!(listed.contains(&format!("[the first {shown} of 400 files")), "{shown}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_name_cannot_pretend_to_be_two() {
    let (folder, tools) = folder();
    fs::write(folder.path().join("a\nb"), "needle").unwrap();
    let listed = call(&tools, "list_files", json!({})).await.unwrap();
    assert_eq!(listed, "\"a\\nb\"\n[1 files and folders]");
    let found = call(&tools, "search_files", json!({"pattern": "needle"})).await.unwrap();
    assert_eq!(found, "\"a\\nb\":1: needle\n[1 hits in 1 files searched]");
}

/// A tool that read the disk in its own poll would be ready at its first poll each time. A thread that does it is faster than
/// the rest of that poll only now and then.
#[tokio::test]
async fn the_async_loop_is_never_blocked() {
    let (folder, tools) = folder();
    fs::write(folder.path().join("a.txt"), "a").unwrap();
    let calls = [
        ("read_file", json!({"path": "a.txt"})),
        ("write_file", json!({"path": "new/b.txt", "content": "b"})),
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "a"})),
    ];
    for (name, arguments) in calls {
        let waits = || call(&tools, name, arguments.clone()).now_or_never().is_none();
        assert!((0..100).any(|_| waits()), "{name}");
    }
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let (folder, tools) = folder();
    let context = ToolContext::new("call_1");
    context.cancellation().cancel();
    let arguments = json!({"path": "b.txt", "content": "b"});
    let err = super::call_in(&context, &tools, "write_file", arguments).await.unwrap_err();
    assert!(err.contains("stopped"), "{err}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
