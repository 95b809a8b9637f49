//! The guide is complete: each page is in the book and in the docs, links have a target, and the
//! files that are made from the pages are up to date.

#[path = "guide/docs.rs"]
mod docs;
#[path = "guide/pages.rs"]
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

/// All anchors that links of a page name.
fn named_anchors(text: &str) -> Vec<String> {
    let prose: String =
        pages::lines(text).filter(|(is_code, _)| !is_code).map(|(_, line)| line).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let named =
        targets.filter(|(to, _)| !to.contains("://")).filter_map(|(to, _)| to.split_once('#'));
    named.map(|(_, anchor)| anchor.to_owned()).collect()
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
        // The docs of a macro or a type have their name as the title.
        assert!(titles.is_empty() || titles == [page.title], "{}: {titles:?}", page.file);
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
fn links_to_headings_lead_to_one() {
    let book = book();
    let pages = || book.iter().map(|(page, text)| (&*page.file, &**text));
    let anchors = pages::anchors(pages());
    // What docs outside of the guide have.
    let docs = [("trace", text("harness/core/src/trace/mod.rs"))];
    let docs: BTreeMap<_, _> =
        docs.iter().map(|(file, text)| (*file, text.replace("//! ", ""))).collect();
    let others = pages::anchors(docs.iter().map(|(file, text)| (*file, &**text)));
    let front = text("harness/src/lib.rs");
    let others =
        others.into_iter().chain(pages::anchors([("lib.rs", &*front.replace("//! ", ""))]));
    let others: BTreeMap<_, _> = others.collect();
    for (file, text) in pages() {
        for anchor in named_anchors(text) {
            let is_there = anchors.contains_key(&anchor) || others.contains_key(&anchor);
            assert!(is_there, "{file}: no heading is called #{anchor}");
        }
    }
}

#[test]
fn a_page_of_the_book_leads_to_pages_and_into_the_docs() {
    let anchors = BTreeMap::from([("large-results".to_owned(), "large.md".to_owned())]);
    let page = "Words on [a thing](crate::context), [`Chat::send`], [large ones](crate::agent#large-results), \
                [how](crate::guide::own_journal), `tools![..]`, [x](https://example.org/a#b), [`Tool`](crate::Tool).\n\n\
                ```\nlet link = \"[`Chat`]\";\n```\n\n```text\n[`no`]\n```\n";
    let files = [
        ("struct.Tool.html", ""),
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
    let made = pages::for_book("Title", page, &anchors, &docs);
    let wanted = "# Title\n\nWords on [a thing](context.md), [`Chat::send`](../doc/harness/agent/struct.Chat.html#method.send), \
                  [large ones](large.md#large-results), [how](own-journal.md), `tools![..]`, \
                  [x](https://example.org/a#b), [`Tool`](../doc/harness/struct.Tool.html).\n\n\
                  ```rust\nlet link = \"[`Chat`]\";\n```\n\n```text\n[`no`]\n```\n";
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
