//! What the compiler says of a mistake, and that what is no mistake runs. See README.md.

// In one program, so that cargo checks the packages of both at the same time.
mod pasted;
mod profile;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, panic,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Each mistake that the macros find themselves, with all that is said of it.
#[test]
fn mistakes() {
    let all = || trybuild::TestCases::new().compile_fail("fail/*/*.rs");
    if panic::catch_unwind(all).is_err() {
        // trybuild takes a fixture that cargo has said nothing of for one that compiles. So if cargo itself fails, for example
        // at a dependency, each of them seems to compile. A mistake of ours fails twice.
        println!("once more, since cargo said: {}", last_words_of_cargo());
        all();
    }
}

/// How cargo ends in the folder of trybuild.
fn last_words_of_cargo() -> String {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--bins", "--offline", "--keep-going", "--quiet", "--message-format=short"])
        .current_dir(target().join("ui-tests"))
        .env("CARGO_TARGET_DIR", target())
        .output();
    let Ok(output) = output else { return "it cannot be started".to_owned() };
    let said = String::from_utf8_lossy(&output.stderr);
    let of_cargo = said.lines().filter(|line| !line.contains(".rs:"));
    let last: Vec<&str> = of_cargo.rev().take(20).collect();
    format!("{}\n{}", output.status, last.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// Each mistake that rustc finds: its words change, so the number of errors, their places and
/// their main parts are checked.
#[test]
fn mistakes_that_rustc_finds() {
    let fixtures = fixtures("rustc");
    let found = errors(&package("ui-rustc", &fixtures, HARNESS));
    let mut wrong = String::new();
    for (name, file) in &fixtures {
        let expected = expectations(&fs::read_to_string(file).unwrap());
        assert!(!expected.is_empty(), "{name} expects nothing");
        let errors = found.get(name).map(Vec::as_slice).unwrap_or_default();
        let met = expected.len() == errors.len()
            && expected.iter().zip(errors).all(|((place, text), error)| {
                error.place == *place && error.text.contains(text.as_str())
            });
        if !met {
            let _ = writeln!(wrong, "{name}: expected {expected:#?}, found {errors:#?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Behind a facade and without `crate = ..` there is one error, at the attribute, with the way out.
#[test]
fn behind_a_facade() {
    let fixtures = fixtures("facade");
    let facade = r#"facade = { package = "ui-tests-facade", path = "@/packages/facade" }"#;
    let found = errors(&package("ui-facade", &fixtures, facade));
    let all: Vec<&Reported> = found.values().flatten().collect();
    let [error] = all.as_slice() else { panic!("{found:#?}") };
    assert_eq!(error.place, r#"#[tool(side_effects = "none")]"#);
    assert!(error.text.contains("`#[tool(crate = path::to::harness)]`"), "{}", error.text);
}

/// An error.
#[derive(Debug)]
struct Reported {
    /// The source text that it underlines.
    place: String,
    /// All of it.
    text: String,
}

/// The library, as a dependency of the fixtures.
const HARNESS: &str = r#"
harness = { path = "@/../harness", default-features = false }
"#;

/// What the fixtures use besides the library. It is the same list as in the manifest of this package, from which trybuild
/// makes its own, so cargo uses what trybuild has checked.
const OTHERS: &str = r#"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
schemars = { version = "1", features = ["chrono04", "uuid1"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
anyhow = "1"
thiserror = "2"
chrono = { version = "0.4", default-features = false, features = ["serde"] }
uuid = { version = "1", features = ["serde"] }
"#;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The target folder of trybuild.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tests/trybuild")
}

/// The options with which trybuild calls cargo for all fixtures, so that what they depend on is built once for all of us.
fn options() -> [String; 5] {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let rustc = String::from_utf8(rustc).unwrap();
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).expect("a system");
    let flags =
        r#"["--cfg", "trybuild", "--verbose", "-A", "dead_code", "--diagnostic-width=140"]"#;
    [
        "--offline".to_owned(),
        format!("--config=build.rustflags={flags}"),
        format!("--config=target.{host}.rustflags={flags}"),
        "--target".to_owned(),
        host.to_owned(),
    ]
}

/// The fixtures of a folder, by name.
fn fixtures(folder: &str) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(here().join(folder)).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let sources = files.filter(|file| file.extension().is_some_and(|ext| ext == "rs"));
    sources.map(|file| (file.file_stem().unwrap().to_str().unwrap().to_owned(), file)).collect()
}

/// Writes a package whose examples are the fixtures, and says where.
fn package(name: &str, fixtures: &BTreeMap<String, PathBuf>, library: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let kind = name.strip_prefix("ui-").unwrap();
    let mut manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [lints.rust]\nunexpected_cfgs = \"allow\"\n\n[dependencies]\n{}\n{OTHERS}",
        library.replace('@', here().to_str().unwrap())
    );
    for (name, file) in fixtures {
        let _ = write!(manifest, "\n[[example]]\nname = \"{kind}-{name}\"\npath = {file:?}\n");
    }
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(here().join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder
}

/// Checks a package and gives the errors in each fixture, in the order of the places.
fn errors(package: &Path) -> BTreeMap<String, Vec<Reported>> {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--examples", "--quiet", "--keep-going", "--message-format=json"])
        .args(options())
        .current_dir(package)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let mut found: BTreeMap<String, Vec<(u64, Reported)>> = BTreeMap::new();
    let mut messages = 0;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        messages += 1;
        let (message, target) = (&line["message"], &line["target"]);
        let spans = message["spans"].as_array();
        let primary = spans.into_iter().flatten().find(|span| span["is_primary"] == true);
        let level = message["level"].as_str().unwrap_or_default();
        if level != "error" {
            continue;
        }
        let (Some(primary), "example") = (primary, target["kind"][0].as_str().unwrap_or_default())
        else {
            continue;
        };
        let text = &outermost(primary)["text"][0];
        let [start, end] = ["highlight_start", "highlight_end"]
            .map(|end| usize::try_from(text[end].as_u64().unwrap_or(1)).unwrap() - 1);
        let source: Vec<char> = text["text"].as_str().unwrap_or_default().chars().collect();
        let name = target["name"].as_str().unwrap();
        let name = name.split_once('-').map_or(name, |(_, name)| name).to_owned();
        let reported = Reported {
            place: source.get(start..end).unwrap_or_default().iter().collect(),
            text: message["rendered"].as_str().unwrap_or_default().to_owned(),
        };
        let at = primary["byte_start"].as_u64().unwrap_or_default();
        let of_this = found.entry(name).or_default();
        // With incremental builds rustc repeats itself; cargo and editors show the same words once.
        if !of_this.iter().any(|(place, other)| *place == at && other.text == reported.text) {
            of_this.push((at, reported));
        }
    }
    assert!(messages > 0, "cargo said: {}", String::from_utf8_lossy(&output.stderr));
    let in_order = |mut all: Vec<(u64, Reported)>| {
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, reported)| reported).collect()
    };
    found.into_iter().map(|(name, all)| (name, in_order(all))).collect()
}

/// The place in the fixture: where a macro was called, if the place is inside of one.
fn outermost(span: &Value) -> &Value {
    let caller = &span["expansion"]["span"];
    if caller.is_object() && !span["file_name"].as_str().unwrap_or_default().contains("ui-tests") {
        outermost(caller)
    } else {
        span
    }
}

/// The lines ``- at `place`: text`` at the head of a fixture.
fn expectations(source: &str) -> Vec<(String, String)> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//! - at `"));
    lines
        .map(|line| {
            let (quote, line) = line.strip_prefix('`').map_or(("`", line), |line| ("``", line));
            let (place, text) = line.split_once(&format!("{quote}: ")).unwrap();
            (place.to_owned(), text.to_owned())
        })
        .collect()
}
