//! The rules of the code base as tests: which module may import which, the size of files, and how a
//! file begins.

use harness::wire::WIRES;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The folders with the code of the packages that are published.
const LIBRARIES: &[&str] = &[
    "harness/src",
    "harness/schema/src",
    "harness/core/src",
    "harness/providers/src",
    "harness/agent/src",
    "harness/sqlite/src",
    "harness/postgres/src",
    "harness/terminal/src",
    "harness/toolbox/src",
    "harness/mcp/src",
    "harness/web/src",
    "harness/otel/src",
    "harness/testing/src",
    "harness/conformance/src",
    "harness-macros/src",
];

/// The packages of which the table knows each module. Of the others it knows the package.
const BY_MODULE: &[&str] = &["core", "providers"];

/// What each module of `harness-core` and `harness-providers`, and each other package, may import of the library.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("secret", &[]),
    ("error", &["secret"]),
    ("sse", &["error"]),
    ("unwind", &[]),
    ("watchdog", &[]),
    ("stop", &[]),
    ("tls", &["error"]),
    ("http_client", &[]),
    ("message", &["error"]),
    ("tool", &["error", "message", "secret", "unwind"]),
    ("sqlite", &["error", "journal"]),
    ("postgres", &["error", "journal", "secret", "tls", "unwind"]),
    ("terminal", &["error", "journal", "message", "policy", "secret", "tool", "unwind"]),
    ("toolbox", &["error", "message", "secret", "tool", "watchdog"]),
    (
        "mcp",
        &[
            "error",
            "http_client",
            "message",
            "secret",
            "sse",
            "terminal",
            "tls",
            "tool",
            "unwind",
            "watchdog",
        ],
    ),
    ("otel", &["journal", "message", "provider", "tool", "trace"]),
    ("web", &["agent", "error", "journal", "message", "policy", "provider"]),
    ("provider", &["error", "message", "secret"]),
    ("models", &["provider"]),
    ("wire", &["error", "message", "models", "provider", "secret", "sse"]),
    (
        "client",
        &[
            "error",
            "http_client",
            "message",
            "models",
            "provider",
            "secret",
            "tls",
            "wire",
            "policy",
            "stop",
        ],
    ),
    ("policy", &["error", "message", "models", "provider", "secret", "tool", "journal", "unwind"]),
    ("journal", &["error", "message", "provider", "secret", "tool", "unwind"]),
    ("context", &["error", "journal", "message", "provider", "tool"]),
    (
        "trace",
        &[
            "error", "message", "models", "secret", "tool", "provider", "policy", "journal",
            "unwind",
        ],
    ),
    (
        "agent",
        &[
            "context", "error", "message", "models", "secret", "tool", "provider", "policy",
            "journal", "trace", "unwind", "stop", "otel",
        ],
    ),
    (
        "testing",
        &[
            "error", "message", "models", "secret", "tool", "provider", "wire", "client", "policy",
            "journal", "context", "agent", "trace", "unwind",
        ],
    ),
    (
        "conformance",
        &[
            "agent", "error", "journal", "message", "policy", "provider", "secret", "testing",
            "tool",
        ],
    ),
    ("__private", &["tool"]),
];

/// Lines of one file, at most; and of the median file.
const LONGEST: usize = 800;
const MEDIAN: usize = 250;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust file below a folder, with its path from there.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(folder).expect("below").display().to_string();
                found.insert(name, fs::read_to_string(&path).expect("a text file"));
            }
        }
    }
    found
}

/// The module of the library that a file belongs to.
fn module(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// What a file imports of the library: each module after `crate::` and after the names of packages with a table for modules,
/// up to a brace list's members, and the other packages.
fn library_imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for package in text.split("harness_").skip(1) {
        let name: String = package.chars().take_while(|c| c.is_ascii_lowercase()).collect();
        let follows = package[name.len()..].starts_with("::");
        if follows && !BY_MODULE.contains(&&*name) && !["schema", "macros"].contains(&&*name) {
            found.insert(name);
        }
    }
    for package in BY_MODULE {
        found.extend(imports(text, &format!("harness_{package}::")));
    }
    found
}

/// What a file imports after this beginning of a path.
fn imports(text: &str, root: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let word = |text: &str| {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let mut found = BTreeSet::new();
    for rest in code.split(root).skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        // The first word of each member at the list's own depth.
        let (mut depth, mut member) = (0_i32, true);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => member = true,
                c if member && !c.is_whitespace() => {
                    found.insert(word(&list[at..]));
                    member = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let table: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in LIBRARIES {
        let Some(package) = folder.strip_prefix("harness/").and_then(|it| it.strip_suffix("/src"))
        else {
            continue;
        };
        if package == "schema" {
            continue;
        }
        let is_by_module = BY_MODULE.contains(&package);
        for (file, text) in &files(&root().join(folder)) {
            let from = if is_by_module { module(file) } else { package };
            if from == "lib" {
                continue;
            }
            let Some(allowed) = table.get(from) else {
                wrong.push(format!("{package}: module `{from}` is not in the table"));
                continue;
            };
            let mut all = library_imports(text);
            if is_by_module {
                all.extend(imports(text, "crate::"));
            }
            count += all.len();
            for to in all {
                if to == from || allowed.contains(&to.as_str()) {
                    continue;
                }
                if table.contains_key(to.as_str()) {
                    wrong.push(format!("{package}/{file}: `{from}` may not import `{to}`"));
                } else {
                    wrong.push(format!("{package}/{file}: write the module of `{to}` before it"));
                }
            }
            if from == "wire" {
                wrong.extend(wires_apart(file, text));
            }
        }
    }
    assert!(count > 500, "only {count} imports were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Programs alone depend on the front door. Of the library, tests and examples in the docs may, without a version: a package
/// that is published first cannot name one that is published later.
#[test]
fn no_package_of_the_library_depends_on_the_front_door() {
    let mut read = 0;
    for folder in LIBRARIES.iter().filter(|folder| **folder != "harness/src") {
        let manifest = root().join(folder).join("../Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        let (dependencies, tests) =
            manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
        read += usize::from(tests.contains("\nharness = "));
        let names = |text: &str| {
            text.lines().any(|line| line.starts_with("harness ") || line.starts_with("harness."))
        };
        assert!(!names(dependencies), "{folder}");
        for line in tests.lines().filter(|line| line.starts_with("harness")) {
            assert!(line.contains("path = ") && !line.contains("version"), "{folder}: {line}");
        }
    }
    assert!(read > 5, "{read} manifests name the front door");
}

/// Enums that users may match on without a wildcard. All others can grow without breaking anybody.
const COMPLETE: &[&str] = &[
    // The law of the transcript is about these three.
    "Role",
    // Whoever decides by them, or does them, must hear of a new one while compiling.
    "SideEffect",
    "Action",
    "CallOutcome",
    "Decider",
    "Decision",
    "ApprovalDecision",
    "PolicyDecision",
    "RuleDecision",
    "Repeat",
    "Fact",
    "FactKind",
    "InterruptCause",
    "Awaited",
    "AnswerCheck",
    "StopReason",
    // Who writes a provider sends all of these, or says why not.
    "Block",
    "ToolContent",
    "ToolChoice",
    "Effort",
    "PromptCache",
    "OutputMode",
    "SchemaAnswers",
    "CacheLife",
    "Thinking",
    // Who asks a person shows all of these.
    "Preview",
    "Filled",
    // For the packages of the library.
    "TooMuch",
    "MediaSource",
    "MediaKind",
    "ProgramValue",
    "ModelMaker",
    "LimitWarning",
    "RequestPurpose",
    "DispatchOutcome",
    "ReconcileOutcome",
    // Two halves of a whole.
    "RetryVerdict",
    "RetryScope",
    "Number",
    "ClosedBy",
    // Seen by expansions of the macros alone, or by nobody outside.
    "Edge",
    "ParamOrigin",
    "Unit",
];

#[test]
fn enums_that_can_grow_are_non_exhaustive() {
    let mut wrong = Vec::new();
    let all = LIBRARIES.iter().flat_map(|folder| files(&root().join(folder)));
    for (file, text) in all {
        let mut can_grow = false;
        for line in text.lines().map(str::trim_start) {
            if let Some(rest) = line.strip_prefix("pub enum ") {
                let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(rest);
                if can_grow == COMPLETE.contains(&name) {
                    wrong.push(format!(
                        "{file}: mark `{name}` with `#[non_exhaustive]`, or name it in `COMPLETE`"
                    ));
                }
            }
            can_grow = match line {
                "#[non_exhaustive]" => true,
                line => can_grow && (line.starts_with("//") || line.starts_with("#[")),
            };
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Wires never import each other, and `sse` knows only errors.
fn wires_apart(file: &str, text: &str) -> Vec<String> {
    let own = file.split('/').nth(1).unwrap_or_default().trim_end_matches(".rs");
    let mut wrong = Vec::new();
    for other in WIRES.iter().filter(|wire| **wire != own && own != "mod") {
        if text.contains(&format!("wire::{other}")) || text.contains(&format!("super::{other}")) {
            wrong.push(format!("{file}: the wire `{own}` may not know the wire `{other}`"));
        }
    }
    if own == "sse" {
        for to in imports(text, "crate::").iter().filter(|to| *to != "error" && *to != "wire") {
            wrong.push(format!("{file}: `sse` may not import `{to}`"));
        }
    }
    wrong
}

/// There is one list of the wires. Each has a module, a target of the fuzzer, and a folder of the corpus.
#[test]
fn the_list_of_wires_is_that_of_the_folders() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries =
            fs::read_dir(root().join(folder)).expect("a folder").map(|it| it.expect("an entry"));
        entries
            .map(|it| it.file_name().to_string_lossy().trim_end_matches(".rs").to_owned())
            .collect()
    };
    let wires: BTreeSet<String> = WIRES.iter().map(|&wire| wire.to_owned()).collect();
    let folders = fs::read_dir(root().join("harness/providers/src/wire"))
        .expect("a folder")
        .map(|it| it.expect("an entry"));
    let folders = folders.filter(|it| it.path().is_dir());
    let folders: BTreeSet<String> =
        folders.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(folders, wires, "`harness::wire::WIRES` is the list");
    for folder in ["harness/fuzz/fuzz_targets", "tests/corpus"] {
        assert!(names(folder).is_superset(&wires), "{folder}: {:?}", names(folder));
    }
    let fuzz = fs::read_to_string(root().join("harness/fuzz/Cargo.toml")).expect("a text file");
    for wire in WIRES {
        assert!(fuzz.contains(&format!("path = \"fuzz_targets/{wire}.rs\"")), "{wire}");
    }
}

#[test]
fn the_table_has_no_cycle() {
    let table: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let stuck = stuck(&table);
    assert!(stuck.is_empty(), "these import each other: {stuck:?}");
}

/// The files of the macros are small modules beside each other: none needs a table, but a file that
/// imports another is not imported by it, by whatever way.
#[test]
fn no_files_of_the_macros_import_each_other() {
    let files = files(&root().join("harness-macros/src"));
    let imports: BTreeMap<&str, BTreeSet<String>> =
        files.iter().map(|(file, text)| (module(file), imports(text, "crate::"))).collect();
    let needs = |all: &BTreeSet<String>| -> Vec<&str> {
        imports.keys().copied().filter(|name| all.contains(*name)).collect()
    };
    let graph: BTreeMap<&str, Vec<&str>> =
        imports.iter().map(|(name, all)| (*name, needs(all))).collect();
    let links: usize = graph.values().map(Vec::len).sum();
    assert!(links > graph.len(), "the imports were not read");
    let stuck = stuck(&graph);
    assert!(stuck.is_empty(), "these import each other, or something that does: {stuck:?}");
}

/// What cannot be ordered so that each comes after all that it needs.
fn stuck<'a, N: AsRef<[&'a str]>>(graph: &BTreeMap<&'a str, N>) -> Vec<&'a str> {
    // A module is done when all that it may import is done.
    let mut done: BTreeSet<&str> = BTreeSet::new();
    loop {
        let ready: Vec<&str> = graph
            .iter()
            .filter(|(name, all)| {
                !done.contains(*name) && all.as_ref().iter().all(|need| done.contains(need))
            })
            .map(|(name, _)| *name)
            .collect();
        if ready.is_empty() {
            break;
        }
        done.extend(ready);
    }
    graph.keys().copied().filter(|name| !done.contains(name)).collect()
}

#[test]
fn every_file_says_what_it_is_for_and_none_is_too_long() {
    let mut wrong = Vec::new();
    for folder in LIBRARIES {
        let files = files(&root().join(folder));
        let mut sizes: Vec<usize> = files.values().map(|text| text.lines().count()).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        // Of a few files the median says nothing.
        if sizes.len() > 5 && median > MEDIAN {
            wrong.push(format!("{folder}: the median file has {median} lines, over {MEDIAN}"));
        }
        for (file, text) in &files {
            if !text.starts_with("//!") {
                wrong.push(format!("{folder}/{file}: begin with `//!` and what the file is for"));
            }
            let lines = text.lines().count();
            if lines > LONGEST {
                wrong.push(format!("{folder}/{file}: {lines} lines, over {LONGEST}"));
            }
        }
    }
    for folder in ["examples", "tests", "ui-tests"] {
        for (file, text) in files(&root().join(folder)) {
            let lines = text.lines().count();
            if lines > LONGEST {
                wrong.push(format!("{folder}/{file}: {lines} lines, over {LONGEST}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The macros cannot import the library, so each has the list of letters that are refused in titles.
#[test]
fn macros_and_library_refuse_the_same_letters() {
    let list = |file: &str| {
        let text = fs::read_to_string(root().join(file)).expect("a file");
        let (_, from) = text.split_once("fn is_unseen(letter: char) -> bool {").expect("the list");
        from.split_once("\n}").expect("its end").0.to_owned()
    };
    assert_eq!(list("harness-macros/src/values.rs"), list("harness/core/src/message/safe_text.rs"));
}

#[test]
fn the_reader_of_imports_finds_them() {
    let text = "use crate::error::Error;\n// crate::comment\nuse crate::{message::{a, b}, tool};\n";
    let found: Vec<String> = imports(text, "crate::").into_iter().collect();
    assert_eq!(found, ["error", "message", "tool"]);
    let text = "use harness_core::{error::Error, journal};\nuse harness_agent::Chat;\n";
    let found: Vec<String> = library_imports(text).into_iter().collect();
    assert_eq!(found, ["agent", "error", "journal"]);
}

/// What the architecture says of the modules is what holds.
#[test]
fn the_architecture_has_the_table_of_imports() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a text file");
    let rows: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.trim_end_matches('`');
            Some((name, cells.nth(1)?.split([';', '|']).next()?.trim()))
        })
        .collect();
    let named = MAY_IMPORT.iter().filter(|(name, _)| !name.starts_with('_'));
    let mut differ = Vec::new();
    for (name, may) in named {
        let Some(row) = rows.get(name) else {
            differ.push(format!("`{name}` is not there"));
            continue;
        };
        let words = row.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let said: BTreeSet<&str> =
            words.filter(|word| MAY_IMPORT.iter().any(|(known, _)| known == word)).collect();
        let all = row.starts_with("all above") || row.starts_with("anything");
        if !all && said != may.iter().copied().collect() {
            differ.push(format!("`{name}`: {row}"));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

/// A test that is named after a fact of a protocol leads to the fact.
#[test]
fn each_fact_that_a_test_is_named_after_is_told() {
    let facts = fs::read_to_string(root().join("harness/WIRE.md")).expect("a text file");
    let mut named = 0;
    let mut missing = Vec::new();
    for (file, text) in files(&root().join("tests")) {
        for name in text.lines().filter_map(|line| line.split("fn ").nth(1)) {
            let parts: Vec<&str> = name.split('_').collect();
            let number = |text: &str| text.parse::<u32>().ok();
            let fact = match parts.as_slice() {
                [chapter, section, ..] if chapter.starts_with('f') => {
                    let chapter = chapter.strip_prefix('f').and_then(number);
                    let both = chapter.zip(number(section));
                    both.map(|(chapter, section)| format!("**{chapter}.{section} "))
                }
                [row, ..] if row.len() == 3 => {
                    row.strip_prefix('d').and_then(number).map(|row| format!("| D{row} |"))
                }
                _ => None,
            };
            let Some(fact) = fact else { continue };
            named += 1;
            if !facts.contains(&fact) {
                missing.push(format!("{file}: {name} ({fact})"));
            }
        }
    }
    assert!(named > 90, "{named}");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Names of types that stand in more than one file of a package: each wire has its options, and public nouns of two modules.
const TWICE: &[&str] = &["Answer", "Answered", "Options"];

/// Words with which no function begins: a function is called like what it does (`request_summary`), like what it returns, or
/// like a question (`is_open`).
const STORYTELLING: &[&str] = &[
    "hears", "goes", "brings", "begins", "stands", "keeps", "knows", "gives", "enters", "admits",
    "listens", "waits", "looks", "speaks", "opens", "closes", "meets", "drops", "shows", "starts",
    "sees", "comes", "makes", "puts", "sends", "leads", "acts", "draws", "rings", "belongs",
    "lies", "forgets", "learns", "doubts",
];

/// What a file defines at its outermost level: the names of its types, and the names of its functions.
fn definitions(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut types, mut functions) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        // Tests of a module have names of their own.
        if line == "#[cfg(test)]" {
            break;
        }
        let name = |rest: &'_ str| -> usize {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let keyword = words
            .iter()
            .position(|word| matches!(*word, "struct" | "enum" | "trait" | "type" | "fn"));
        let Some((at, defined)) = keyword.and_then(|at| Some((at, *words.get(at + 1)?))) else {
            continue;
        };
        let is_definition = words[..at].iter().all(|word| {
            word.starts_with("pub")
                || matches!(*word, "in" | "const" | "async")
                || word.ends_with(')')
        });
        let defined = &defined[..name(defined)];
        match words[at] {
            "fn" if is_definition => {
                functions.insert(defined);
            }
            "fn" => {}
            _ if is_definition && !line.starts_with(' ') => {
                types.insert(defined);
            }
            _ => {}
        }
    }
    (types, functions)
}

#[test]
fn a_name_says_what_a_thing_is_and_stands_once() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in LIBRARIES {
        let files = files(&root().join(folder));
        let mut known: BTreeMap<&str, &str> = BTreeMap::new();
        for (file, text) in files.iter().filter(|(file, _)| !file.ends_with("tests.rs")) {
            let (types, functions) = definitions(text);
            count += types.len();
            for name in types {
                if let Some(other) = known.insert(name, file).filter(|_| !TWICE.contains(&name)) {
                    wrong.push(format!("{folder}: `{name}` stands in {other} and in {file}"));
                }
            }
            for name in functions {
                if STORYTELLING.contains(&name.split('_').next().unwrap_or(name)) {
                    wrong.push(format!("{folder}/{file}: call `{name}` like what it does"));
                }
            }
        }
    }
    assert!(count > 1_000, "only {count} types were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A builder sets a property by its bare name: `name(..)`, not `with_name(..)` or `named(..)`.
#[test]
fn builders_set_properties_by_their_bare_names() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in LIBRARIES {
        for (file, text) in &files(&root().join(folder)) {
            let blocks = text.split("\nimpl").skip(1).filter_map(|block| {
                let (head, rest) = block.split_once(" {\n")?;
                head.contains("Builder").then(|| rest.split("\n}").next().unwrap_or(rest))
            });
            let names =
                blocks.flat_map(|block| block.split("    pub fn ").skip(1)).filter_map(|it| {
                    let (name, rest) = it.split_once(['(', '<'])?;
                    rest.contains("mut self").then_some(name)
                });
            for name in names {
                count += 1;
                let is_participle = !name.contains('_') && name.ends_with("ed");
                if name.starts_with("with_") || is_participle {
                    wrong.push(format!("{folder}/{file}: `{name}`"));
                }
            }
        }
    }
    assert!(count > 40, "only {count} methods were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
