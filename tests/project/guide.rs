//! The guide is complete: each page is in the book and in the docs, links have a target, and the
//! files that are made from the pages are up to date.

#[path = "../guide/docs.rs"]
mod docs;
#[path = "../guide/pages.rs"]
mod pages;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use docs::Docs;
use harness::{AnthropicProvider, OpenAIProvider};
use pages::Page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("a file of the project")
}

fn book() -> Vec<(Page, String)> {
    let read = |page: Page| {
        let words = text(&format!("harness/guide/{}", page.file));
        (page, words)
    };
    pages::contents(&text("harness/guide/SUMMARY.md")).into_iter().map(read).collect()
}

/// Every Markdown file of the project, with its text.
fn markdown() -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if path.is_dir() {
                if !matches!(name, "target" | ".git" | "node_modules") {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("a text file");
                found.push((path, text));
            }
        }
    }
    found
}

/// The anchors of all headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = pages::lines(text).filter(|(is_code, line)| !is_code && line.starts_with('#'));
    headings.map(|(_, line)| anchor(&pages::plain(line.trim_start_matches('#')))).collect()
}

/// The anchor of a heading, as rustdoc and mdBook make it.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let kept = letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The labels that links of a prose name: `b` of `[a][b]`, and `` `a` `` of `` [`a`] ``.
fn labels(prose: &str) -> BTreeSet<String> {
    let (mut found, mut rest) = (BTreeSet::new(), prose);
    while let Some(at) = rest.find(['`', '[']) {
        let from = &rest[at..];
        let Some(end) = pages::label_ends(from).filter(|_| from.starts_with('[')) else {
            rest = &from[pages::code_ends(from).max(1)..];
            continue;
        };
        let (label, after) = (&from[1..end], &from[end + 1..]);
        rest = after;
        if let Some((label, after)) = after.strip_prefix('[').and_then(|it| it.split_once(']')) {
            found.insert(label.to_owned());
            rest = after;
        } else if label.starts_with('`') && !after.starts_with('(') {
            found.insert(label.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    found
}

/// Where the links of a text lead. At the end of a page, a label may also stand for an item.
fn targets(text: &str) -> Vec<&str> {
    let prose = || pages::lines(text).filter(|(is_code, _)| !is_code).map(|(_, line)| line);
    let inline = prose().flat_map(|line| line.split("](").skip(1));
    let inline = inline.filter_map(|rest| Some(rest.split_once(')')?.0));
    let defined = prose().filter_map(|line| Some(pages::definition(line)?.1));
    let all = inline.chain(defined.filter(|to| !pages::is_item(to)));
    all.filter(|to| !to.contains("://")).collect()
}

#[test]
fn each_page_is_in_the_book_and_in_the_docs() {
    let book: BTreeSet<String> = book().into_iter().map(|(page, _)| page.file).collect();
    let folder = fs::read_dir(root().join("harness/guide")).expect("the guide");
    let names =
        folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let files: BTreeSet<_> =
        names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    assert_eq!(book, files);
    let mut docs = String::new();
    let mut folders = vec![root().join("harness/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                docs += &fs::read_to_string(path).expect("a text file");
            }
        }
    }
    let own = text("harness/src/guide.rs");
    for file in &files {
        let name = file.strip_suffix(".md").expect("a page");
        let is_own = own.contains(&format!(" \"{name}\",\n"));
        assert!(is_own || docs.contains(&format!("guide/{file}\"")), "{file} is in no docs");
    }
}

#[test]
fn a_page_has_one_title_the_one_in_the_table_of_contents() {
    for (page, text) in book() {
        let headings =
            pages::lines(&text).filter(|(is_code, _)| !is_code).map(|(_, line)| line.trim_end());
        let titles: Vec<&str> = headings.filter_map(|line| line.strip_prefix("# ")).collect();
        assert_eq!(titles, [&*page.title], "{}", page.file);
        assert!(text.starts_with("# "), "{}", page.file);
    }
}

/// The names of variables between quotation marks.
fn variables(code: &str) -> BTreeSet<&str> {
    let is_name = |text: &&str| {
        text.contains('_') && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    code.split('"').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn the_guide_has_the_variables_that_the_providers_read() {
    let page = text("harness/guide/first-agent.md");
    for file in ["anthropic", "openai", "chat_completions", "vendors"] {
        let code = text(&format!("harness/providers/src/client/{file}.rs"));
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for name in variables(code) {
            assert!(page.contains(&format!("`{name}`")), "{file}.rs reads {name}");
        }
    }
    for model in [AnthropicProvider::DEFAULT_MODEL, OpenAIProvider::DEFAULT_MODEL] {
        assert!(page.contains(&format!("`{model}`")), "{model}");
    }
    assert!(text("README.md").contains(&format!("`{}`", AnthropicProvider::DEFAULT_MODEL)));
}

#[test]
fn no_link_of_the_repository_is_dead() {
    let mut dead = Vec::new();
    for (file, text) in markdown() {
        for target in targets(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = match path {
                "" => file.clone(),
                path => file.parent().expect("a folder").join(path),
            };
            let has_anchor =
                || fs::read_to_string(&to).is_ok_and(|text| anchors(&text).contains(anchor));
            if !to.exists() || !anchor.is_empty() && !has_anchor() {
                dead.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// A label that nothing defines would be shown with its brackets.
#[test]
fn each_label_of_a_page_has_its_definition() {
    let docs = text("harness/guide/links.txt");
    let in_docs: BTreeMap<_, _> = docs.lines().filter_map(pages::definition).collect();
    for (page, text) in book() {
        let lines = || pages::lines(&text).filter(|(is_code, _)| !is_code).map(|(_, line)| line);
        let defined: BTreeMap<_, _> = lines().filter_map(pages::definition).collect();
        let prose: String = lines().filter(|line| pages::definition(line).is_none()).collect();
        let mut named = labels(&prose);
        for (label, to) in &defined {
            assert!(named.remove(*label), "{}: nothing names [{label}]", page.file);
            // In the docs the page has another address.
            let is_elsewhere = pages::is_item(to) || in_docs.contains_key(label);
            assert!(is_elsewhere, "{}: links.txt lacks [{label}]", page.file);
        }
        assert!(named.is_empty(), "{}: nothing defines {named:?}", page.file);
    }
}

#[test]
fn a_page_of_the_book_leads_into_the_docs() {
    let page = "# Title\n\nWords on [a thing][context.md], [`Chat::send`], `tools![..]`, [x](https://example.org/a#b).\n\n\
                ```\nlet link = \"[`Chat`]\";\n```\n\n```text\n[`no`]: a::b\n```\n\n\
                [context.md]: context.md\n[`Chat::send`]: crate::Chat::send\n[tool]: macro@crate::tool\n";
    let files = [
        ("struct.Tool.html", ""),
        ("attr.tool.html", ""),
        ("agent/struct.Chat.html", "<section id=\"method.send\">"),
        ("agent/index.html", ""),
        (
            "journal/enum.Awaited.html",
            "<a id=\"variant.Agent\"><a id=\"variant.Agent.field.cut_off\">",
        ),
    ];
    let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let docs = Docs::new("../doc", files);
    let links = [
        ("crate::Tool", "struct.Tool.html"),
        ("crate::agent", "agent/index.html"),
        ("Chat::send", "agent/struct.Chat.html#method.send"),
        ("crate::journal::Awaited::Agent", "journal/enum.Awaited.html#variant.Agent"),
        (
            "crate::journal::Awaited::Agent::cut_off",
            "journal/enum.Awaited.html#variant.Agent.field.cut_off",
        ),
        ("Chat::gone", "index.html?search=Chat::gone"),
    ];
    for (path, wanted) in links {
        assert_eq!(docs.link(path, ""), format!("../doc/harness/{wanted}"));
    }
    assert_eq!(docs.link("agent", "steps"), "../doc/harness/agent/index.html#steps");
    let made = pages::for_book(page, &docs);
    let wanted = page
        .replace("crate::Chat::send", "../doc/harness/agent/struct.Chat.html#method.send")
        .replace("macro@crate::tool", "../doc/harness/attr.tool.html")
        .replace("```\nlet", "```rust\nlet");
    assert_eq!(made, wanted);
}

#[test]
fn what_is_made_of_the_guide_is_what_it_says() {
    let (readme, book) = (text("README.md"), book());
    let again = "run `cargo run -p harness-tests --features guide --bin guide -- write`";
    assert!(text("llms.txt") == pages::llms_txt(&readme, &book), "llms.txt is old: {again}");
    let skill = pages::skill(&book);
    assert!(text("harness/guide/skill/SKILL.md") == skill, "the skill is old: {again}");
    assert!(skill.contains("#[tool(side_effects = \"read\")]"), "it has a program");
    assert!(skill.contains("| any with `mutate` |"), "it has the table");
}

/// The names in the first column of a table of features.
fn features(text: &str) -> Vec<String> {
    let rows = text.lines().skip_while(|line| !line.contains("| feature | brings |")).skip(2);
    let rows = rows.map(|line| line.trim_start_matches("//! "));
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect()
}

#[test]
fn the_tables_of_features_are_those_of_the_package() {
    let manifest = text("harness/Cargo.toml");
    let (_, list) = manifest.split_once("[features]").expect("features");
    let (list, _) = list.split_once("\n[").expect("what follows");
    let mut named: Vec<_> = list
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != "default" && !name.starts_with('#'))
        .collect();
    let (readme, docs) = (features(&text("README.md")), features(&text("harness/src/lib.rs")));
    assert_eq!(readme, docs);
    let mut told = docs;
    told.sort();
    named.sort();
    assert_eq!(told, named);
}

#[test]
fn the_places_to_change_things_exist() {
    let architecture = text("ARCHITECTURE.md");
    let (_, table) = architecture.split_once("## Where do I change ..?").expect("the table");
    let (table, _) = table.split_once("\nSome names").expect("what follows");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let place = row.trim_end_matches(" |").rsplit_once(" | ").expect("two columns").1;
        let paths = place.split('`').skip(1).step_by(2).filter(|path| path.contains('/'));
        assert!(paths.clone().count() > 0, "no place: {row}");
        for path in paths {
            let is_there = root().join(path).exists() || root().join("harness").join(path).exists();
            assert!(is_there, "{path} is gone: {row}");
        }
    }
    // Functions that the pages name.
    for (file, name) in [
        ("agent/src/run/tool_calls.rs", "fn may_begin"),
        ("core/src/policy/guard/budget_limits.rs", "fn overspent"),
    ] {
        assert!(text(&format!("harness/{file}")).contains(name), "{file}: {name}");
    }
}
