//! The files from which other programs run code when they find them, each with its reason.
//!
//! The list has files that run although nobody means to run the project: because a folder is opened or entered,
//! because an everyday program such as `git status` or `cargo metadata` looks there, or because somebody commits,
//! pushes or installs. The project itself is not on the list: sources, tests, manifests (`Cargo.toml`,
//! `package.json`, `pyproject.toml`), `Makefile` and `justfile`. Building or testing a project runs its code, and
//! an agent that may not write this code cannot work on the project.

/// Globs below any folder, in lower case, with a reason for each group.
pub(super) const LIST: &[(&[&str], &str)] = &[
    // Version control.
    (
        &["head"],
        "with it a folder can become a git repository, whose settings run commands at the next \
         `git status` inside of it",
    ),
    (&[".gitattributes"], "git runs the filters, diff and merge drivers that it names"),
    (&[".gitmodules"], "git fetches other repositories from where it says"),
    (
        &[".gitconfig", ".config/git/**"],
        "git runs what it sets as editor, pager, alias or file system monitor",
    ),
    (&[".lfsconfig"], "git-lfs sends files and credentials to where it says"),
    (&[".hg/**", ".hgrc", ".jj/**"], "a version control system runs hooks and programs from it"),
    (
        &[
            "{.,}githooks/**",
            ".git-hooks/**",
            ".husky/**",
            ".pre-commit-config.yaml",
            ".pre-commit-config.yml",
            "{.,}lefthook{-local,}.{yml,yaml,toml,json}",
            ".overcommit.yml",
            ".lintstagedrc*",
            "lint-staged.config.*",
        ],
        "it runs at the next commit",
    ),
    // Servers that build what is pushed.
    (
        &[
            ".github/{workflows,actions}/**",
            ".{gitea,forgejo}/workflows/**",
            ".semaphore/**",
            ".tekton/**",
            ".builds/**",
            ".build.yml",
            "cloudbuild.{yml,yaml}",
            "buildspec.{yml,yaml}",
            ".gitlab-ci.yml",
            ".circleci/**",
            ".buildkite/**",
            ".teamcity/**",
            ".woodpecker/**",
            ".{woodpecker,drone,travis,cirrus,appveyor}.{yml,yaml}",
            "appveyor.yml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            "jenkinsfile",
        ],
        "a server runs it when it is pushed, with the secrets of the project",
    ),
    // Editors and the programs that they start.
    (
        &[
            ".vscode/**",
            "*.code-workspace",
            ".idea/**",
            ".vs/**",
            ".zed/**",
            ".fleet/**",
            ".nova/**",
            ".theia/**",
            ".helix/**",
            ".config/{helix,zed,kak}/**",
            "{.,}rust-analyzer.toml",
        ],
        "an editor that opens the folder takes tasks and programs to start from it",
    ),
    (&["*.sublime-project"], "an editor takes build commands from it"),
    (
        &[
            "{.,_}{,g,l}vimrc",
            ".exrc",
            ".nvimrc",
            ".nvim.lua",
            ".vim/**",
            ".config/nvim/**",
            ".dir-locals{,-2}.el",
            ".emacs{,.el}",
            ".emacs.d/**",
            ".spacemacs",
            ".doom.d/**",
            ".kakrc",
            ".config/emacs/**",
        ],
        "an editor runs it when it starts or opens a file beside it",
    ),
    (
        &[
            ".devcontainer/**",
            ".devcontainer.json",
            ".gitpod.yml",
            ".gitpod.dockerfile",
            "vagrantfile",
        ],
        "a machine for development is made by its commands",
    ),
    (
        &[
            ".{claude,codex,cursor,gemini,continue,windsurf}/**",
            ".{opencode,roo,cline,kiro,trae,junie,amazonq}/**",
            "opencode.json{,c}",
            ".mcp.json",
            ".aider.conf.yml",
        ],
        "a coding agent runs hooks and servers from it",
    ),
    // Shells, and programs that change them when a folder is entered.
    (&[".envrc"], "direnv runs it when the folder is entered"),
    (&[".autoenv{,.zsh}", ".rvmrc"], "a shell runs it when the folder is entered"),
    (
        &[".env", ".env.local", ".env.*.local", ".env.{development,production,staging,test}"],
        "programs take their environment from it, and with it what they load and start",
    ),
    (
        &[
            "{.,}mise.toml",
            "{.,}mise.*.toml",
            "{.,}mise/config*.toml",
            ".config/mise/**",
            ".config/mise.toml",
            ".rtx.toml",
            ".tool-versions",
        ],
        "it says which programs run under their usual names, and can run commands when the folder is \
         entered",
    ),
    (
        &[
            ".bash{rc,_profile,_login,_logout,_aliases}",
            ".profile",
            ".z{shrc,shenv,profile,login,logout}",
            ".{k,mk,c,tc}shrc",
            ".login",
            ".logout",
            ".{bashrc,profile,zshrc}.d/**",
            ".config/{fish,nushell,tmux,wezterm,kitty}/**",
            ".config/starship.toml",
            ".wezterm.lua",
            ".x{initrc,profile,session,sessionrc}",
            ".inputrc",
            ".pam_environment",
            "{,*_}profile.ps1",
            ".tmux.conf",
            ".screenrc",
        ],
        "a shell or a session runs it when it begins",
    ),
    (
        &[
            ".config/{autostart,systemd,environment.d}/**",
            ".config/{i3,sway,hypr}/**",
            ".xmonad/**",
            ".crontab",
            "library/launchagents/**",
            "start menu/programs/startup/**",
            "autorun.inf",
        ],
        "the system runs it when somebody logs in",
    ),
    (&[".local/bin/**"], "its programs are found under their usual names"),
    (
        &[".docker/config.json", ".kube/**", ".aws/**", ".gnupg/**", ".config/gh/**"],
        "a program runs the helpers that it names, or sends credentials to where it says",
    ),
    (&[".ssh/**"], "ssh runs commands from its settings, and lets in whom it lists"),
    (
        &[
            ".gdbinit",
            ".lldbinit*",
            ".pdbrc{,.py}",
            ".pythonrc{,.py}",
            ".irbrc",
            ".pryrc",
            ".rprofile{,.site}",
            ".renviron",
            ".ghci",
            ".ocamlinit",
            ".iex.exs",
            ".erlang",
            ".sbclrc",
            ".octaverc",
            ".psysh.php",
            ".mongo{,sh}rc.js",
            ".duckdbrc",
            ".juliarc.jl",
            ".julia/config/**",
            ".perldb",
            ".psqlrc",
            ".sqliterc",
            ".ipython/**",
            ".jupyter/**",
        ],
        "a debugger or an interpreter runs it when it starts",
    ),
    // Languages and builds.
    (&[".cargo/**"], "cargo takes runner, linker, wrappers and aliases from it, for every command"),
    (
        &["rust-toolchain", "rust-toolchain.toml"],
        "the next `cargo` or `rustc` is the one that it names, also by a path",
    ),
    (&["build.rs"], "cargo runs it at every check, and so does an editor that opens the folder"),
    (
        &[
            ".npmrc",
            ".yarnrc{,.yml}",
            ".yarn/**",
            ".pnp.{cjs,loader.mjs}",
            ".pnpmfile.{cjs,mjs}",
            "bunfig.toml",
            "pip.conf",
            ".config/go/env",
        ],
        "a package manager takes programs to run from it, for every command",
    ),
    (&["binding.gyp"], "npm runs it when packages are installed"),
    (
        &["node_modules/**", "{.,}venv/**", "site-packages/**"],
        "it is installed, and programs load it under the name of a dependency",
    ),
    (
        &["sitecustomize.py", "usercustomize.py", "*.pth", "pyvenv.cfg"],
        "every start of Python runs or obeys it",
    ),
    (
        &[
            ".mvn/**",
            ".m2/**",
            ".sbtopts",
            ".jvmopts",
            ".gradle/**",
            "gradle/wrapper/**",
            "init.gradle{,.kts}",
        ],
        "a build of Java takes the programs from it that build",
    ),
    (
        &[".bazelrc", ".bazeliskrc", ".bazelversion", "tools/bazel"],
        "bazel obeys or runs it at every command",
    ),
    (&["ansible.cfg"], "ansible loads the plug-ins that it names, for every command"),
    (&[".terraform/**", ".terraformrc"], "terraform starts the providers that it has or names"),
    (
        &["directory.{build,solution}.{props,targets,rsp}"],
        "a build of .NET obeys it for every project below, and so does an editor that opens one",
    ),
    (&[".bundle/**"], "bundler takes from it where programs come from"),
    (&[".user.ini", ".htaccess"], "a web server obeys it for the folder"),
];

/// Files that are on the list only beside another name in the same folder: that name, the globs, and the reason.
pub(super) const BESIDE: &[(&str, &[&str], &str)] = &[
    (
        "HEAD",
        &[
            "config",
            "config.worktree",
            "commondir",
            "{hooks,info,objects,refs,reftable,modules,worktrees}/**",
        ],
        "its folder is a git repository or becomes one, and git runs hooks and settings from it",
    ),
    (
        "pyvenv.cfg",
        &["{bin,lib,lib64,scripts}/**"],
        "it is installed for Python, and its programs are found under their usual names",
    ),
];
