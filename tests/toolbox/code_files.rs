//! Files by which other programs run code when they meet them, and what a person sees of a write.

use std::{fs, path::Path};

use harness::{
    Tool, ToolContext,
    message::Arguments,
    tool::{Preview, Review},
    toolbox::{CodeFiles, Files},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, call_in};

fn reason<'l>(list: &'l CodeFiles, path: &str, around: &[&str]) -> Option<&'l str> {
    list.reason(Path::new(path), |path| around.iter().any(|there| path == Path::new(there)))
}

#[test]
fn what_runs_code_is_known_wherever_it_is_and_however_it_is_written() {
    let list = CodeFiles::default();
    let paths = [
        ".gitattributes",
        "a/b/.gitmodules",
        ".gitconfig",
        "docs/HEAD",
        "docs/head",
        ".husky/pre-commit",
        ".husky/_/husky.sh",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        ".lefthook-local.toml",
        ".hg/hgrc",
        ".cargo/config.toml",
        "crates/a/.cargo/config",
        "rust-toolchain",
        "rust-toolchain.toml",
        "crates/a/build.rs",
        ".envrc",
        "a/.env",
        ".env.production.local",
        "mise.toml",
        ".mise.local.toml",
        ".tool-versions",
        ".vscode/tasks.json",
        "a/.vscode/settings.json",
        "my.code-workspace",
        ".idea/workspace.xml",
        ".nvim.lua",
        ".exrc",
        ".vimrc",
        "_gvimrc",
        ".dir-locals.el",
        ".devcontainer/devcontainer.json",
        ".claude/settings.json",
        ".mcp.json",
        ".bashrc",
        ".zshenv",
        ".profile",
        "Profile.ps1",
        "Microsoft.PowerShell_profile.ps1",
        ".config/fish/config.fish",
        ".config/autostart/x.desktop",
        ".ssh/config",
        ".ssh/authorized_keys",
        ".gdbinit",
        ".npmrc",
        ".yarnrc.yml",
        ".yarn/releases/yarn.cjs",
        ".pnp.cjs",
        "binding.gyp",
        "node_modules/left-pad/index.js",
        "sitecustomize.py",
        "lib/x.pth",
        "venv/bin/python",
        ".mvn/jvm.config",
        "gradle/wrapper/gradle-wrapper.properties",
        ".bazelrc",
        "tools/bazel",
        "src/Directory.Build.props",
        ".htaccess",
        ".github/workflows/ci.yml",
        ".github/actions/x/action.yml",
        ".gitlab-ci.yml",
        ".semaphore/semaphore.yml",
        ".builds/alpine.yml",
        "Jenkinsfile",
        "Vagrantfile",
        "rust-analyzer.toml",
        ".rust-analyzer.toml",
        ".config/helix/languages.toml",
        ".config/zed/settings.json",
        ".emacs.el",
        ".opencode/plugin/x.ts",
        "opencode.json",
        ".bashrc.d/x",
        ".config/tmux/tmux.conf",
        ".config/sway/config",
        ".autoenv.zsh",
        ".git-hooks/pre-commit",
        "githooks/pre-commit",
        ".ghci",
        ".iex.exs",
        ".Renviron",
        ".docker/config.json",
        ".kube/config",
        ".gnupg/gpg-agent.conf",
        ".m2/settings.xml",
        ".bazelversion",
        ".terraform/providers/x",
        "ansible.cfg",
        "pip.conf",
    ];
    for path in paths {
        assert!(reason(&list, path, &[]).is_some(), "{path}");
    }
    let other_spellings = [
        ".ENVRC",
        ".envrc.",
        ".envrc . .",
        ".VSCode/Tasks.json",
        ".vscode./tasks.json",
        ".vscode /tasks.json",
        ".envrc:stream",
        ".envrc::$DATA",
        ".en\u{200c}vrc",
        "\u{feff}.envrc",
        ".vſcode/tasks.json",
        "venv/x/../.envrc",
    ];
    for path in other_spellings {
        assert!(reason(&list, path, &[]).is_some(), "{path:?}");
    }
    let ordinary = [
        "src/main.rs",
        "README.md",
        "docs/a.txt",
        "docs/head.md",
        "src/head.rs",
        "src/config.rs",
        "config",
        "src/config/mod.rs",
        "objects/cube.obj",
        "refs/a.txt",
        "hooks/use.ts",
        "info/a",
        "bin/tool.rs",
        "lib/a.py",
        "Cargo.toml",
        "package.json",
        "pyproject.toml",
        "Makefile",
        "justfile",
        "Dockerfile",
        "conftest.py",
        "tests/test_a.py",
        ".gitignore",
        ".gitkeep",
        ".editorconfig",
        ".env.example",
        "env",
        "environment.ts",
        ".github/CODEOWNERS",
        ".github/ISSUE_TEMPLATE/bug.md",
        "vscode/tasks.json",
        "profile.md",
        "mise.md",
        "tools/bazel.md",
        "settings.json",
        "rust-toolchain.md",
        "build.rs.md",
        "a/b.rs",
        ".",
        "...",
        "",
    ];
    for path in ordinary {
        assert_eq!(reason(&list, path, &[]), None, "{path}");
    }
}

/// Each kind of program that obeys a file which it finds.
#[test]
fn files_that_other_programs_and_agents_obey_are_known_by_kind() {
    let list = CodeFiles::default();
    let kinds: [(&str, &[&str]); 12] = [
        (
            "reads it as instructions",
            &[
                "AGENTS.md",
                "a/AGENTS.md",
                "agents.md",
                "AGENT.md",
                "AGENTS.override.md",
                "CLAUDE.md",
                "CLAUDE.local.md",
                "GEMINI.md",
                "QWEN.md",
                "WARP.md",
                ".cursorrules",
                ".windsurfrules",
                ".clinerules",
                ".clinerules/a.md",
                ".roorules",
                ".roorules-code/a.md",
                ".roomodes",
                ".goosehints",
                ".augment-guidelines",
                ".rules",
                ".airules",
                ".github/copilot-instructions.md",
                ".github/instructions/a.instructions.md",
                ".github/prompts/a.prompt.md",
                ".github/chatmodes/a.md",
                ".github/agents/a.md",
                "docs/a.instructions.md",
                "skills/a/SKILL.md",
                "AGENTS.MD.",
                "Claude.md ",
                "AGENTS.md::$DATA",
            ],
        ),
        (
            "a coding agent runs",
            &[
                ".cursor/rules/a.mdc",
                ".cursor/mcp.json",
                ".claude/commands/a.md",
                ".agents/skills/a/SKILL.md.txt",
                ".augment/rules/a",
                ".crush/init",
                ".qwen/settings.json",
                ".kilocode/mcp.json",
                ".goose/config.yaml",
                ".openhands/setup.sh",
                ".factory/mcp.json",
                ".mcp.json",
                "mcp.json",
                "crush.json",
                ".aider.conf.yml",
                ".aider.conf.yaml",
                "claude_desktop_config.json",
                ".config/goose/config.yaml",
            ],
        ),
        (
            "an editor",
            &[
                ".vscode/launch.json",
                ".run/a.run.xml",
                ".settings/x",
                ".project",
                "nbproject/project.xml",
                ".kateproject",
                ".clangd",
                ".merlin",
                ".luarc.json",
                "hie.yaml",
                "coc-settings.json",
                ".vimrc.local",
                ".nvim/init.lua",
                ".config/Code/User/settings.json",
                "x.csproj.user",
                "x.suo",
                "x.sublime-build",
                ".eslintrc.js",
                "eslint.config.mjs",
                ".prettierrc.cjs",
                ".pylintrc",
                ".rubocop.yml",
                ".luacheckrc",
                "config.nims",
                ".latexmkrc",
                ".nanorc",
                ".ideavimrc",
            ],
        ),
        (
            "it runs at the next commit",
            &[
                "simple-git-hooks.js",
                ".huskyrc.json",
                "captainhook.json",
                "grumphp.yml",
                "commitlint.config.js",
                "prek.toml",
            ],
        ),
        (
            "a server runs it",
            &[
                "a.gitlab-ci.yml",
                ".gitlab-ci/a.yml",
                "azure-pipelines-pr.yml",
                ".azuredevops/a.yml",
                "Jenkinsfile.release",
                ".zuul.d/a.yaml",
                ".readthedocs.yaml",
                "bitrise.yml",
                "codemagic.yaml",
                "netlify.toml",
                "vercel.json",
                "fly.toml",
                "render.yaml",
                "Procfile",
                ".goreleaser.yml",
                ".releaserc.json",
                ".ebextensions/a.config",
                "wrangler.jsonc",
            ],
        ),
        (
            "a machine for development",
            &[
                "devcontainer.json",
                ".gitpod/a.yml",
                ".replit",
                ".idx/dev.nix",
                "devfile.yaml",
                "devbox.json",
                "devenv.nix",
            ],
        ),
        (
            "when the folder is entered",
            &[".envrc.local", ".direnv/bin/x", ".config/direnv/direnvrc", ".shadowenv.d/a.lisp"],
        ),
        (
            "a shell or a session",
            &[
                ".bash_completion",
                ".oh-my-zsh/custom/a.zsh",
                ".zsh/a.zsh",
                ".p10k.zsh",
                ".xonshrc",
                ".config/zsh/.zshrc",
                "Documents/PowerShell/a.ps1",
                ".config/alacritty/alacritty.toml",
                ".shrc",
                ".lessfilter",
            ],
        ),
        (
            "the system runs it",
            &[
                "crontab",
                "etc/cron.d/a",
                "var/spool/cron/root",
                ".local/share/systemd/user/a.service",
                ".config/systemd/user/a.timer",
                ".local/share/applications/a.desktop",
                "Library/LaunchDaemons/a.plist",
                "etc/profile.d/a.sh",
                "etc/systemd/system/a.service",
                ".config/openbox/autostart",
            ],
        ),
        ("a file manager", &["desktop.ini", "a.lnk", "a.desktop", "a.scf"]),
        ("log in", &["keys/authorized_keys", "etc/ssh/sshd_config", ".rhosts"]),
        (
            "a package manager",
            &[
                "pip.ini",
                "pnpm-workspace.yaml",
                ".condarc",
                ".gemrc",
                ".composer/config.json",
                ".config/uv/uv.toml",
                "NuGet.Config",
                ".stack/config.yaml",
            ],
        ),
    ];
    for (kind, paths) in kinds {
        for path in paths {
            let why = reason(&list, path, &[]);
            assert!(why.is_some_and(|why| why.contains(kind)), "{path}: {why:?}");
        }
    }
    let ordinary = [
        "docs/agents.txt",
        "agents.rs",
        "src/claude.rs",
        "rules.md",
        "prompt.md",
        "docs/instructions.md",
        "skills.md",
        "project.rs",
        "settings/a.json",
        "run/a.sh",
        "src/crontab.rs",
        "cron.rs",
        "a.service",
        "nginx.conf",
        "mcp.rs",
        "eslint.md",
        "Procfile.md",
        "global.rs",
    ];
    for path in ordinary {
        assert_eq!(reason(&list, path, &[]), None, "{path}");
    }
}

/// With `HEAD`, `objects` and `refs` a folder is a repository, and its `config` names commands. The
/// last of them that is written makes it one, and each way to it has a question.
#[test]
fn a_folder_cannot_become_a_repository_without_a_question() {
    let list = CodeFiles::default();
    let parts = ["config", "objects/x", "refs/heads/main", "hooks/post-checkout", "commondir"];
    for folder in ["", "docs/", "a/b/"] {
        let head = format!("{folder}HEAD");
        assert!(reason(&list, &head, &[]).is_some());
        for part in parts {
            let path = format!("{folder}{part}");
            assert_eq!(reason(&list, &path, &[]), None, "{path} in a folder of something else");
            let asked = reason(&list, &path, &[&head]).unwrap_or_else(|| panic!("{path}"));
            assert!(asked.contains("git repository"), "{asked}");
            assert!(
                reason(
                    &list,
                    &path.to_uppercase().replace("DOCS", "docs").replace("A/B", "a/b"),
                    &[&head]
                )
                .is_some()
            );
        }
        assert_eq!(reason(&list, &format!("{folder}notes.md"), &[&head]), None);
        assert_eq!(reason(&list, &format!("{folder}src/config"), &[&head]), None);
    }
    assert!(reason(&list, "env/bin/python", &["env/pyvenv.cfg"]).is_some());
    let without = list.without("head").unwrap();
    assert_eq!(reason(&without, "docs/config", &["docs/HEAD"]), None);
}

/// The folder that a program gives may be one that the list names, or the way into one.
#[tokio::test]
async fn the_name_of_the_folder_counts_too() {
    let home = TempDir::new().unwrap();
    let tools = |folder: &str| {
        let folder = home.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        Files::in_folder(folder).unwrap().tools()
    };
    let asked = [
        (".github", "workflows/ci.yml"),
        (".GITHUB/Workflows", "ci.yml"),
        (".config", "fish/config.fish"),
        (".config/fish", "conf.d/x.fish"),
        (".ssh", "authorized_keys"),
        (".vscode", "tasks.json"),
        ("gradle", "wrapper/gradle-wrapper.properties"),
        ("node_modules", "left-pad/index.js"),
        // What is named by itself is named everywhere.
        ("node_modules/mine", ".envrc"),
        ("node_modules/mine", ".vscode/tasks.json"),
        (".vscode/extension", "node_modules/a.js"),
    ];
    for (folder, path) in asked {
        let asks = review(&tools(folder), &write(path, "x")).asks;
        assert!(
            asks.is_some_and(|asks| asks.starts_with(&format!("`{path}`: "))),
            "{folder} {path}"
        );
    }
    let ordinary = [
        (".github", "CODEOWNERS"),
        (".config", "other/settings.toml"),
        ("node_modules/mine", "index.js"),
        (".claude/worktrees/one", "src/main.rs"),
        ("venv/project", "main.py"),
        (".vscode/extension", "main.ts"),
    ];
    for (folder, path) in ordinary {
        assert_eq!(review(&tools(folder), &write(path, "x")).asks, None, "{folder} {path}");
    }
    for (folder, path) in [(".git", "hooks/x"), ("a/.git/hooks", "x"), (".Git./info", "x")] {
        let tools = tools(folder);
        let refused = review(&tools, &write(path, "x")).refuses;
        assert!(refused.is_some_and(|reason| reason.contains("inside `.git`")), "{folder}");
        let err = call(&tools, "write_file", write(path, "x")).await.unwrap_err();
        assert!(err.contains("nothing is written there"), "{err}");
        assert!(!home.path().join(folder).join(path).exists());
    }
}

#[test]
fn a_program_can_widen_and_narrow_the_list() {
    let list = CodeFiles::default().with("deploy/**/*.SH", "it is run at night").unwrap();
    assert_eq!(reason(&list, "x/Deploy/a/b.sh", &[]), Some("it is run at night"));
    let (glob, why) = list.iter().find(|(glob, _)| glob.contains("fish")).unwrap();
    assert!(why.contains("shell"), "{glob}: {why}");
    let list = list.without("build.rs").unwrap().without("deploy/**/*.SH").unwrap();
    assert_eq!(reason(&list, "build.rs", &[]), None);
    assert!(reason(&list, ".envrc", &[]).is_some());
    assert_eq!(reason(&CodeFiles::none(), ".envrc", &[]), None);
    let own = CodeFiles::none().with("a", "b").unwrap();
    assert_eq!(own.iter().collect::<Vec<_>>(), [("a", "b")]);

    let err = list.clone().without("build.rs").unwrap_err();
    assert!(err.is_configuration() && err.to_string().contains("`build.rs` is not on the list"));
    let err = list.with("[", "it").unwrap_err();
    assert!(err.is_configuration() && err.to_string().contains("`[` is not a glob"), "{err}");
}

#[test]
fn each_glob_is_one_and_has_words() {
    let list = CodeFiles::default();
    // Those that are no globs would be left out.
    assert!(list.iter().count() > 100, "{}", list.iter().count());
    for (glob, why) in list.iter() {
        assert_eq!(glob, glob.to_lowercase());
        assert!(why.len() > 15 && !why.ends_with('.'), "{glob}: {why}");
    }
}

fn folder() -> (TempDir, Vec<Tool>) {
    let folder = TempDir::new().unwrap();
    let tools = Files::in_folder(folder.path()).unwrap().tools();
    (folder, tools)
}

fn review(tools: &[Tool], arguments: &Value) -> Review {
    let tool = tools.iter().find(|tool| tool.name() == "write_file").unwrap();
    tool.review(&Arguments::from(arguments.as_object().unwrap().clone())).unwrap()
}

fn write(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

#[test]
fn a_write_is_shown_as_a_difference_and_asks_only_where_it_must() {
    let (folder, tools) = folder();
    fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    let ordinary = review(&tools, &write("./a.txt", "one\n2\n"));
    assert_eq!((&ordinary.asks, &ordinary.refuses), (&None, &None));
    let Some(Preview::Diff(shown)) = &ordinary.preview else { panic!("{ordinary:?}") };
    assert!(shown.ends_with("--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"), "{shown}");
    assert_eq!(ordinary.scopes[0].to_string(), "every write to `a.txt`");
    assert_eq!(ordinary.folder, Some(folder.path().canonicalize().unwrap()));

    let code = review(&tools, &write("new/.envrc", "date\n"));
    assert_eq!(
        code.asks.as_deref(),
        Some("`new/.envrc`: direnv runs it when the folder is entered")
    );
    assert!(code.scopes.is_empty(), "no wider always for what runs code");
    let shown = code.preview.unwrap();
    assert_eq!(shown.text(), "a new file\n--- /dev/null\n+++ new/.envrc\n@@ -0,0 +1 @@\n+date\n");

    for path in [".git/config", "a/.GIT/hooks/x", ".git./config", "git~1/config", ".g\u{200d}it/x"]
    {
        let refused = review(&tools, &write(path, "x"));
        assert!(refused.refuses.as_ref().unwrap().contains("inside `.git`"), "{path}: {refused:?}");
    }
    // What fails by itself is no question.
    for arguments in [
        json!({}),
        json!({"path": 1, "content": "x"}),
        write("../x", "x"),
        write("/etc/profile", "x"),
        write("a.txt/x", "x"),
        write(".", "x"),
        write("new/", "x"),
        write("", "x"),
        write("a\0b", "x"),
        write("missing/../.envrc", "x"),
    ] {
        assert_eq!(review(&tools, &arguments), Review::pass(), "{arguments}");
    }
    assert!(review(&tools, &write(&"x/".repeat(5_000), "x")).asks.is_none());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a review changes nothing");

    let own = CodeFiles::none().with("*.txt", "it is read by a machine").unwrap();
    let tools = Files::in_folder(folder.path()).unwrap().with_code_files(own).tools();
    let asked = review(&tools, &write("a.txt", "x")).asks.unwrap();
    assert_eq!(asked, "`a.txt`: it is read by a machine");
    assert!(review(&tools, &write(".envrc", "x")).asks.is_none());
}

#[cfg(unix)]
#[tokio::test]
async fn what_counts_is_where_a_path_leads() {
    use std::os::unix::fs::symlink;

    let (folder, tools) = folder();
    for name in [".vscode", "notes", "bare"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join(".envrc"), "").unwrap();
    fs::write(folder.path().join("bare/HEAD"), "ref: refs/heads/main").unwrap();
    symlink(".vscode", folder.path().join("docs")).unwrap();
    symlink("../.envrc", folder.path().join("notes/a.txt")).unwrap();
    symlink("bare", folder.path().join("pages")).unwrap();
    let cases = [
        ("docs/tasks.json", "`.vscode/tasks.json`"),
        ("docs/new/x.json", "`.vscode/new/x.json`"),
        ("notes/a.txt", "`.envrc`"),
        ("notes/../docs/./x", "`.vscode/x`"),
        ("pages/config", "`bare/config`"),
        ("pages/objects/x", "`bare/objects/x`"),
    ];
    for (path, expected) in cases {
        let asks = review(&tools, &write(path, "x")).asks.unwrap_or_else(|| panic!("{path}"));
        assert!(asks.starts_with(expected), "{path}: {asks}");
    }
}

/// What was approved is what is written, or nothing is.
#[cfg(unix)]
#[tokio::test]
async fn what_has_changed_since_it_was_approved_is_not_written() {
    use std::os::unix::fs::symlink;

    let (folder, tools) = folder();
    let path = |name: &str| folder.path().join(name);
    for name in [".vscode", "notes"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("notes/a.txt"), "one\n").unwrap();
    fs::write(path(".vscode/a.txt"), "one\n").unwrap();
    symlink("notes", path("docs")).unwrap();
    let arguments = write("docs/a.txt", "two\n");
    let approved = |review| ToolContext::new("call_1").with_review(Some(review));

    // The link leads elsewhere.
    let context = approved(review(&tools, &arguments));
    fs::remove_file(path("docs")).unwrap();
    symlink(".vscode", path("docs")).unwrap();
    let err = call_in(&context, &tools, "write_file", arguments.clone()).await.unwrap_err();
    assert!(err.contains("did not run: since the call was decided, this has come up"), "{err}");
    assert!(err.contains("`.vscode/a.txt`"), "{err}");
    assert_eq!(fs::read_to_string(path(".vscode/a.txt")).unwrap(), "one\n");

    // Another text would be lost than the one that was shown.
    let context = approved(review(&tools, &arguments));
    fs::write(path(".vscode/a.txt"), "three\n").unwrap();
    let err = call_in(&context, &tools, "write_file", arguments.clone()).await.unwrap_err();
    assert!(err.contains("it would now do something else"), "{err}");
    assert_eq!(fs::read_to_string(path(".vscode/a.txt")).unwrap(), "three\n");

    // A file that is too large to be compared, of the same length and the same time.
    let large = |letter: &str| letter.repeat(2 * 1024 * 1024);
    fs::write(path("notes/large"), large("a")).unwrap();
    let arguments_of_large = write("notes/large", "x");
    let time = fs::metadata(path("notes/large")).unwrap().modified().unwrap();
    let context = approved(review(&tools, &arguments_of_large));
    fs::write(path("notes/large"), large("b")).unwrap();
    let file = fs::File::options().write(true).open(path("notes/large")).unwrap();
    file.set_modified(time).unwrap();
    let err = call_in(&context, &tools, "write_file", arguments_of_large).await.unwrap_err();
    assert!(err.contains("it would now do something else"), "{err}");
    assert_eq!(fs::read_to_string(path("notes/large")).unwrap(), large("b"));

    // The folder has become a repository.
    let arguments = write("notes/config", "[core]");
    let context = approved(review(&tools, &arguments));
    fs::write(path("notes/HEAD"), "").unwrap();
    let err = call_in(&context, &tools, "write_file", arguments).await.unwrap_err();
    assert!(err.contains("`notes/config`: its folder is a git repository"), "{err}");
    assert!(!path("notes/config").exists());

    // What is as it was is written, and a direct call of the program is nobody's question.
    let arguments = write("docs/a.txt", "two\n");
    let context = approved(review(&tools, &arguments));
    call_in(&context, &tools, "write_file", arguments).await.unwrap();
    assert_eq!(fs::read_to_string(path(".vscode/a.txt")).unwrap(), "two\n");
    call(&tools, "write_file", write(".envrc", "x")).await.unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left beside");
}

/// Whoever approves sees that something is lost, though nobody can see what.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_cannot_be_read_is_not_replaced_unseen() {
    use std::os::unix::fs::PermissionsExt as _;

    let (folder, tools) = folder();
    let path = folder.path().join("a.txt");
    fs::write(&path, "one\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o200)).unwrap();
    if fs::read(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    let arguments = write("a.txt", "two\n");
    let approved = review(&tools, &arguments);
    let shown = approved.preview.clone().unwrap();
    assert!(shown.text().starts_with("replaces 4 bytes, which cannot be read, "), "{shown:?}");
    let context = ToolContext::new("call_1").with_review(Some(approved));
    fs::write(&path, "new\n").unwrap();
    let err = call_in(&context, &tools, "write_file", arguments).await.unwrap_err();
    assert!(err.contains("it would now do something else"), "{err}");
}

/// Somebody turns links and folders on the way to and fro while approved writes are done.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_at_any_instant_writes_nothing_that_was_not_approved() {
    use std::{
        os::unix::fs::symlink,
        sync::atomic::{AtomicBool, Ordering},
    };

    fn swap_link(folder: &Path) {
        let path = |name: &str| folder.join(name);
        for target in [".vscode", "notes"] {
            symlink(target, path("next")).unwrap();
            fs::rename(path("next"), path("docs")).unwrap();
        }
    }
    fn swap_folder(folder: &Path) {
        let path = |name: &str| folder.join(name);
        // A write that looked where the folder led in this instant may have made one of this name.
        while fs::rename(path("notes"), path("kept")).is_err() {
            let _ = fs::remove_dir_all(path("kept"));
        }
        let _ = symlink(".vscode", path("notes"));
        let _ = fs::remove_file(path("notes"));
        // A write may have made the folder anew when it was gone.
        while fs::rename(path("kept"), path("notes")).is_err() {
            let _ = fs::remove_dir_all(path("notes"));
        }
    }
    for (way, swap) in [("docs", swap_link as fn(&Path)), ("notes", swap_folder)] {
        let (folder, tools) = folder();
        let path = |name: &str| folder.path().join(name);
        for name in [".vscode", "notes"] {
            fs::create_dir(path(name)).unwrap();
        }
        symlink("notes", path("docs")).unwrap();
        let reviews: Vec<_> = (0..500)
            .map(|round| write(&format!("{way}/{round}.json"), "x"))
            .map(|arguments| (review(&tools, &arguments), arguments))
            .collect();
        assert!(
            reviews.iter().all(|(review, _)| review.asks.is_none() && review.preview.is_some())
        );
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    swap(folder.path());
                }
            });
            let _done = super::SetWhenDropped(&done);
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    for (review, arguments) in reviews {
                        let context = ToolContext::new("call_1").with_review(Some(review));
                        let _ = call_in(&context, &tools, "write_file", arguments).await;
                    }
                });
            });
        });
        let count = |name: &str| fs::read_dir(path(name)).unwrap().count();
        println!("{way}: {} of 500 writes went where they were approved to", count("notes"));
        assert_eq!(count(".vscode"), 0, "{way}");
        // How many arrive is up to the scheduler; with nobody in its way, one does.
        let arguments = write(&format!("{way}/last.json"), "x");
        let context = ToolContext::new("call_1").with_review(Some(review(&tools, &arguments)));
        call_in(&context, &tools, "write_file", arguments).await.unwrap();
        assert!(path("notes/last.json").exists(), "{way}");
    }
}
