//! Nothing leads out of the folder of the file tools, and nothing makes them wait for ever.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use harness::{Tool, toolbox::Files};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SetWhenDropped, call};

const SECRET: &str = "the secret outside";

/// `outside/secret.txt` and `inside/`, the folder of the tools.
struct Scene {
    folder: TempDir,
    tools: Vec<Tool>,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["inside/sub", "outside"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("outside/secret.txt"), SECRET).unwrap();
        fs::write(folder.path().join("inside/sub/own.txt"), "own").unwrap();
        let tools = Files::in_folder(folder.path().join("inside")).unwrap().tools();
        Self { folder, tools }
    }

    fn inside(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("inside").join(path)
    }

    fn outside(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("outside").join(path)
    }

    /// A call that hangs is a failure of the test, not of the machine.
    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let hangs = Duration::from_secs(60);
        tokio::time::timeout(hangs, call(&self.tools, name, arguments)).await.expect(name)
    }

    /// Every tool on this path and on what would be below it: refused, nothing told, nothing done.
    async fn assert_closed(&self, path: &str) {
        let below = format!("{path}/secret.txt");
        let new = format!("{path}/new/made.txt");
        let calls = [
            ("read_file", json!({"path": path})),
            ("read_file", json!({"path": below})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("write_file", json!({"path": below, "content": "x"})),
            ("write_file", json!({"path": new, "content": "x"})),
            ("list_files", json!({"path": path})),
            ("list_files", json!({"path": path, "glob": "**/*"})),
            ("search_files", json!({"pattern": "secret", "path": path})),
            ("search_files", json!({"pattern": "secret", "path": below})),
        ];
        for (name, arguments) in calls {
            let answer = self.call(name, arguments.clone()).await;
            let text = answer.expect_err(&format!("{name} {arguments}"));
            assert!(!text.contains(SECRET), "{name} {arguments}: {text}");
            assert!(!text.contains("os error"), "{name} {arguments}: {text}");
        }
        self.assert_untouched();
    }

    fn assert_untouched(&self) {
        assert_eq!(fs::read_to_string(self.outside("secret.txt")).unwrap(), SECRET);
        assert_eq!(names(&self.outside("")), ["secret.txt"]);
        assert_eq!(names(self.folder.path()), ["inside", "outside"]);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn no_path_leads_out() {
    let scene = Scene::new();
    let outside = scene.outside("");
    let outside = outside.to_str().unwrap().trim_end_matches('/');
    let paths = [
        "../outside",
        "..",
        "../",
        "sub/../../outside",
        "./sub/./../../outside",
        "sub/own.txt/../../../outside",
        "missing/../../outside",
        outside,
        "/",
        "/etc",
        "//etc",
        "/proc/self/root",
        "/dev",
        "..\u{2f}outside",
    ];
    for path in paths {
        scene.assert_closed(path).await;
    }
    // An absolute path that begins with the folder's own and leaves it.
    let own = scene.inside("").canonicalize().unwrap();
    scene.assert_closed(&format!("{}/../outside", own.display())).await;
    scene.assert_closed(&format!("{}-other", own.display())).await;
    let reason = scene.call("read_file", json!({"path": "../outside/secret.txt"})).await;
    let reason = reason.unwrap_err();
    assert!(reason.contains("`../outside/secret.txt`: leads out of the folder"), "{reason}");
    assert!(reason.contains("give a path inside it"), "{reason}");
}

#[tokio::test]
async fn no_link_leads_out() {
    let scene = Scene::new();
    symlink("../outside", scene.inside("relative")).unwrap();
    symlink(scene.outside(""), scene.inside("absolute")).unwrap();
    symlink("relative", scene.inside("chain")).unwrap();
    symlink("../../outside", scene.inside("sub/deep")).unwrap();
    symlink("/", scene.inside("top")).unwrap();
    symlink("/proc/self/cwd", scene.inside("process")).unwrap();
    symlink("..", scene.inside("up")).unwrap();
    symlink("sub/..", scene.inside("around")).unwrap();
    for path in
        ["relative", "absolute", "chain", "sub/deep", "up/outside", "sub/../relative", "process"]
    {
        scene.assert_closed(path).await;
    }
    let below_top = format!("top{}", scene.outside("").display());
    scene.assert_closed(&below_top).await;
    scene.assert_closed("around/../outside").await;

    // A link to one file outside.
    symlink("../outside/secret.txt", scene.inside("file")).unwrap();
    symlink("../outside/new.txt", scene.inside("new")).unwrap();
    scene.assert_closed("file").await;
    scene.assert_closed("new").await;

    // A walk through everything meets all of these and follows none.
    let found = scene.call("search_files", json!({"pattern": "secret|own"})).await.unwrap();
    assert_eq!(found, "sub/own.txt:1: own\n[1 hits in 1 files searched]");
    let listed = scene.call("list_files", json!({"glob": "**/*"})).await.unwrap();
    assert_eq!(listed, "sub/own.txt\n[1 files below `.` fit]");
    let direct = scene.call("list_files", json!({})).await.unwrap();
    assert!(direct.contains("absolute\n") && direct.contains("around/\n"), "{direct}");

    // A link that stays inside works, also as a way to a new file.
    symlink("sub", scene.inside("good")).unwrap();
    let read = scene.call("read_file", json!({"path": "good/own.txt"})).await.unwrap();
    assert_eq!(read, "own");
    scene.call("write_file", json!({"path": "good/new.txt", "content": "new"})).await.unwrap();
    assert_eq!(fs::read_to_string(scene.inside("sub/new.txt")).unwrap(), "new");
    scene.assert_untouched();
}

#[tokio::test]
async fn ignore_files_that_are_links_out_tell_nothing() {
    let scene = Scene::new();
    fs::write(scene.outside("secret.txt"), "own.txt").unwrap();
    symlink("../outside/secret.txt", scene.inside(".gitignore")).unwrap();
    Command::new("mkfifo").arg(scene.inside(".ignore")).status().unwrap();
    let listed = scene.call("list_files", json!({"glob": "*.txt"})).await.unwrap();
    assert_eq!(listed, "sub/own.txt\n[1 files below `.` fit]");
}

#[tokio::test]
async fn circles_end() {
    let scene = Scene::new();
    symlink("b", scene.inside("a")).unwrap();
    symlink("a", scene.inside("b")).unwrap();
    symlink("self", scene.inside("self")).unwrap();
    symlink(".", scene.inside("here")).unwrap();
    symlink("..", scene.inside("sub/parent")).unwrap();
    for path in ["a", "b", "self", "a/x"] {
        scene.assert_closed(path).await;
        let err = scene.call("read_file", json!({"path": path})).await.unwrap_err();
        assert!(err.contains("lead in a circle"), "{err}");
    }
    let found = scene.call("search_files", json!({"pattern": "own"})).await.unwrap();
    assert_eq!(found, "sub/own.txt:1: own\n[1 hits in 1 files searched]");
    let long = format!("{}sub/own.txt", "here/".repeat(30));
    assert!(scene.call("read_file", json!({"path": long})).await.unwrap().ends_with("own"));
}

#[tokio::test]
async fn folders_may_nest_deeper_than_a_walk_goes() {
    let scene = Scene::new();
    let deep = "d/".repeat(100);
    fs::create_dir_all(scene.inside(&deep)).unwrap();
    fs::write(scene.inside(&deep).join("deep.txt"), "own").unwrap();
    let found = scene.call("search_files", json!({"pattern": "own"})).await.unwrap();
    assert!(found.contains("sub/own.txt:1: own\n"), "{found}");
    assert!(found.contains("1 folders could not be read or lie too deep"), "{found}");
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_not_files() {
    let scene = Scene::new();
    let made = Command::new("mkfifo").arg(scene.inside("pipe")).status().unwrap();
    assert!(made.success());
    let _listener = UnixListener::bind(scene.inside("socket")).unwrap();
    symlink("pipe", scene.inside("to_pipe")).unwrap();
    for path in ["pipe", "socket", "to_pipe"] {
        let calls = [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("search_files", json!({"pattern": "x", "path": path})),
        ];
        for (name, arguments) in calls {
            let err = scene.call(name, arguments).await.unwrap_err();
            assert!(err.contains(&format!("`{path}`: is a pipe, socket or device")), "{err}");
        }
    }
    let found = scene.call("search_files", json!({"pattern": "own"})).await.unwrap();
    assert_eq!(found, "sub/own.txt:1: own\n[1 hits in 1 files searched]");

    // In a folder of devices; reading one of them would never end.
    let devices = Files::in_folder("/dev").unwrap().tools();
    for path in ["zero", "tty", "full"] {
        let err = call(&devices, "read_file", json!({"path": path})).await.unwrap_err();
        assert!(err.contains("is a pipe, socket or device"), "{err}");
    }
}

#[tokio::test]
async fn writing_does_not_change_a_file_outside_through_a_hard_link() {
    let scene = Scene::new();
    fs::hard_link(scene.outside("secret.txt"), scene.inside("hard.txt")).unwrap();
    scene.call("write_file", json!({"path": "hard.txt", "content": "new"})).await.unwrap();
    assert_eq!(fs::read_to_string(scene.inside("hard.txt")).unwrap(), "new");
    scene.assert_untouched();
}

/// A hook or a setting of git runs commands later, which a tool that only writes must not.
#[tokio::test]
async fn writing_into_git_is_refused_by_every_way_to_it() {
    let scene = Scene::new();
    fs::create_dir_all(scene.inside(".git/hooks")).unwrap();
    fs::write(scene.inside(".git/config"), "[core]").unwrap();
    symlink(".git", scene.inside("link")).unwrap();
    symlink(".git/config", scene.inside("settings")).unwrap();
    let paths = [
        ".git",
        ".git/config",
        "./.git/../.git/config",
        "sub/../.git/hooks/pre-commit",
        "link/config",
        "link/hooks/pre-commit",
        "link/new/folder/file",
        "settings",
        "sub/.git",
        "sub/.git/config",
        ".GIT/config",
    ];
    for path in paths {
        let arguments = json!({"path": path, "content": "x"});
        let err = scene.call("write_file", arguments).await.unwrap_err();
        assert!(err.contains("inside `.git`"), "{path}: {err}");
    }
    assert_eq!(fs::read_to_string(scene.inside(".git/config")).unwrap(), "[core]");
    assert_eq!(names(&scene.inside(".git")), ["config", "hooks"]);
    assert_eq!(names(&scene.inside("sub")), ["own.txt"]);
    assert!(names(&scene.inside(".git/hooks")).is_empty());
    // It may be read, and other names may begin like it.
    assert!(scene.call("read_file", json!({"path": ".git/config"})).await.is_ok());
    let arguments = json!({"path": ".gitignore", "content": "x"});
    assert!(scene.call("write_file", arguments).await.is_ok());
}

#[tokio::test]
async fn the_folder_stays_the_same_when_its_name_is_given_to_another() {
    let scene = Scene::new();
    fs::rename(scene.inside(""), scene.folder.path().join("moved")).unwrap();
    symlink("outside", scene.folder.path().join("inside")).unwrap();
    let read = scene.call("read_file", json!({"path": "sub/own.txt"})).await.unwrap();
    assert!(read.ends_with("own"));
    assert!(scene.call("read_file", json!({"path": "secret.txt"})).await.is_err());
}

/// Somebody turns a link from the inside to the outside and back while the tools look: there is no
/// instant between the check and the use.
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_at_any_instant_leads_nowhere() {
    let scene = Scene::new();
    fs::write(scene.inside("sub/secret.txt"), "mine").unwrap();
    symlink("sub", scene.inside("swap")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in ["../outside", "sub"].iter().cycle() {
                symlink(target, scene.inside("next")).unwrap();
                fs::rename(scene.inside("next"), scene.inside("swap")).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let _done = SetWhenDropped(&done);
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for round in 0..300 {
                    let path = "swap/secret.txt";
                    let calls = [
                        ("read_file", json!({"path": path})),
                        ("write_file", json!({"path": path, "content": format!("{round}")})),
                        ("write_file", json!({"path": format!("swap/{round}.txt"), "content": ""})),
                        ("search_files", json!({"pattern": "secret"})),
                    ];
                    for (name, arguments) in calls {
                        let (Ok(text) | Err(text)) = scene.call(name, arguments).await;
                        assert!(!text.contains(SECRET), "{name}: {text}");
                    }
                }
            });
        });
    });
    scene.assert_untouched();
}
