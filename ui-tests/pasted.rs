//! What stands on the front pages compiles as pasted: the program, after the `cargo add` lines above
//! it, in a package that has nothing else.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::profile::profile;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace")
}

/// The name under which the library is published.
fn library() -> String {
    let manifest = fs::read_to_string(root().join("harness/Cargo.toml")).expect("its manifest");
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
    name.expect("a name").trim_matches('"').to_owned()
}

/// The blocks of code in a text, each with what stands behind its opening fence.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => open = Some((kind.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, code))) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The packages of `cargo add` lines, with their features.
fn added(shell: &str) -> BTreeMap<String, Vec<String>> {
    let lines = shell.lines().filter_map(|line| line.trim().strip_prefix("cargo add "));
    let package = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a package").to_owned();
        let mut features = Vec::new();
        while let Some(option) = words.next() {
            match (option, words.next()) {
                ("--features", Some(list)) => {
                    features.extend(list.split(',').map(str::to_owned));
                }
                // The library is not published: a person gives the place of their copy.
                ("--path", Some("REPOSITORY/harness")) if name == library() => {}
                other => panic!("`cargo add {line}`: {other:?} is not understood"),
            }
        }
        (name, features)
    };
    lines.map(package).collect()
}

/// The first program of a text, with the packages that the text adds before it.
fn first_program(text: &str) -> (BTreeMap<String, Vec<String>>, String) {
    let mut packages = BTreeMap::new();
    for (kind, code) in blocks(text) {
        match kind.split(',').next().unwrap_or_default() {
            "sh" => packages.extend(added(&code)),
            "" | "rust" if code.contains("fn main()") => return (packages, code),
            _ => {}
        }
    }
    panic!("there is no program");
}

/// The manifest of a package with these dependencies, at the versions that the workspace has.
fn manifest(name: &str, packages: &BTreeMap<String, Vec<String>>) -> String {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let version = |package: &str| {
        let start = format!("{package} = ");
        let line = workspace.lines().find(|line| line.starts_with(&start)).expect("its version");
        let quoted = line.split("version = ").last().unwrap_or(line);
        quoted.split('"').nth(1).expect("a version").to_owned()
    };
    let mut text = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\n");
    for (package, features) in packages {
        let place = match *package == library() {
            true => format!("path = {:?}", root().join("harness")),
            false => format!("version = {:?}", version(package)),
        };
        text.push_str(&format!("{package} = {{ {place}, features = {features:?} }}\n"));
    }
    text
}

/// Features of the library, each with the text by which a program that needs it can be told. Cargo checks both programs in
/// one run, which takes half the time, but it then gives the library the features of both. So cargo does not notice if one
/// page forgets a feature that the other page names, and this table does.
const SEEN: [(&str, &str); 3] =
    [("terminal", "Terminal"), ("testing", "testing::"), ("toolbox", "toolbox::")];

#[test]
fn the_programs_of_the_readme_and_of_the_docs_front_page() {
    let library_docs = fs::read_to_string(root().join("harness/src/lib.rs")).expect("the library");
    let comment = |line: &str| line.strip_prefix("//!").map(|text| text.trim_start().to_owned());
    let page: Vec<String> = library_docs.lines().map_while(comment).collect();
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pasted");
    let write = |file: &str, text: &str| {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("written");
    };
    let pages = [("readme", readme), ("front-page", page.join("\n"))];
    for (name, text) in &pages {
        let (packages, program) = first_program(text);
        let features = packages.get(&library()).expect("its `cargo add` stands above the program");
        for (feature, seen) in SEEN {
            let is_used = program.contains(seen);
            assert_eq!(features.iter().any(|it| it == feature), is_used, "{name}: {feature}");
        }
        let others = features.iter().filter(|it| SEEN.iter().all(|(feature, _)| it != feature));
        assert_eq!(others.count(), 0, "{name}: say in `SEEN` how {features:?} are seen");
        write(&format!("{name}/Cargo.toml"), &manifest(name, &packages));
        write(&format!("{name}/src/main.rs"), &program);
    }
    let members = pages.map(|(name, _)| name);
    let workspace =
        format!("[workspace]\nmembers = {members:?}\nresolver = \"3\"\n\n{}", profile());
    write("Cargo.toml", &workspace);
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the versions");
    // The folder of the workspace: most packages were checked there before.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--workspace"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(&folder)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "what is pasted does not compile:\n{said}");
    assert!(said.is_empty(), "what is pasted compiles with warnings:\n{said}");
}
