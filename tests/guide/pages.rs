//! The pages of the guide, as the book and as files for coding agents have them.
//!
//! The pages are parts of the docs, so their links name items. Here these become links to other pages, or to
//! the docs.

use std::collections::BTreeMap;

use super::docs::Docs;

/// Modules, macros and types whose docs are a page.
const DOCS_OF: [(&str, &str); 9] = [
    ("context", "context.md"),
    ("guide", "front.md"),
    ("journal", "durable.md"),
    ("mcp", "mcp.md"),
    ("message", "content.md"),
    ("tool", "tool.md"),
    ("tool::ToolSchema", "schema.md"),
    ("tools", "tools.md"),
    ("toolset", "toolset.md"),
];

/// A page, as the table of contents has it.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) file: String,
}

/// The pages in reading order.
pub(super) fn contents(summary: &str) -> Vec<Page> {
    let entry = |line: &str| {
        let (title, file) = line.trim().strip_prefix("- [")?.split_once("](")?;
        Some(Page { title: title.to_owned(), file: file.strip_suffix(')')?.to_owned() })
    };
    summary.lines().filter_map(entry).collect()
}

/// The file of each heading, by its anchor. If several headings are equal, the first one counts.
pub(super) fn anchors<'a>(
    pages: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (file, text) in pages {
        for (is_code, line) in lines(text) {
            let heading = line.strip_prefix('#').filter(|_| !is_code);
            if let Some(heading) = heading.map(|rest| rest.trim_start_matches('#')) {
                found.entry(anchor(heading)).or_insert_with(|| file.to_owned());
            }
        }
    }
    found
}

/// The anchor of a heading, as rustdoc and mdBook make it.
pub(super) fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let kept = letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines of a page, and whether each is code or a fence of code.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut inside = false;
    text.split_inclusive('\n').map(move |line| {
        let is_edge = line.trim_start().starts_with("```");
        let was_inside = inside;
        inside ^= is_edge;
        (is_edge || was_inside, line)
    })
}

/// A page of the book: with its title, links that lead somewhere, and listings that are known to be Rust.
pub(super) fn for_book(
    title: &str,
    text: &str,
    anchors: &BTreeMap<String, String>,
    docs: &Docs,
) -> String {
    let mut page = String::new();
    if !text.trim_start().starts_with('#') {
        page += &format!("# {title}\n\n");
    }
    let (mut prose, mut is_open) = (String::new(), false);
    for (is_code, line) in lines(text) {
        if !is_code {
            prose += line;
            continue;
        }
        page += &linked(&std::mem::take(&mut prose), anchors, docs);
        match line.trim_end().strip_prefix("```") {
            Some(kind) if !is_open => {
                let is_rust = ["", "no_run", "compile_fail", "ignore", "should_panic"];
                let is_rust = is_rust.contains(&kind.split(',').next().unwrap_or_default());
                let kind = if is_rust { format!("rust,{kind}") } else { kind.to_owned() };
                page += &format!("```{}\n", kind.trim_end_matches(','));
                is_open = true;
            }
            Some(_) => {
                page += line;
                is_open = false;
            }
            None => page += line,
        }
    }
    page + &linked(&prose, anchors, docs)
}

/// Prose whose links lead to pages and into the docs.
fn linked(prose: &str, anchors: &BTreeMap<String, String>, docs: &Docs) -> String {
    let (mut written, mut rest) = (String::new(), prose);
    while let Some(at) = rest.find(['`', '[']) {
        let (before, from) = rest.split_at(at);
        written += before;
        rest = if from.starts_with('`') {
            let end = code_ends(from);
            written += &from[..end];
            &from[end..]
        } else if let Some(end) = label_ends(from) {
            let (label, after) = (&from[1..end], &from[end + 1..]);
            let given = after.strip_prefix('(').and_then(|target| target.split_once(')'));
            let shown = label.strip_prefix('`').and_then(|label| label.strip_suffix('`'));
            match (given, shown) {
                (Some((to, after)), _) => {
                    written += &format!("[{label}]({})", target(to, anchors, docs));
                    after
                }
                (None, Some(item)) => {
                    written += &format!("[{label}]({})", target(item, anchors, docs));
                    after
                }
                (None, None) => {
                    written += &from[..=end];
                    after
                }
            }
        } else {
            written.push('[');
            &from[1..]
        };
    }
    written + rest
}

/// Where a piece of code in a line ends that begins here.
fn code_ends(text: &str) -> usize {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    let fence = &text[..ticks];
    text[ticks..].find(fence).map_or(ticks, |at| at + 2 * ticks)
}

/// Where the label of a link ends that begins here: its bracket.
fn label_ends(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'`' => at += code_ends(&text[at..]) - 1,
            b'[' => depth += 1,
            b']' if depth == 1 => return Some(at),
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where a link of the docs leads in the book.
fn target(to: &str, anchors: &BTreeMap<String, String>, docs: &Docs) -> String {
    if to.contains("://") {
        return to.to_owned();
    }
    let bare = to.split_once('@').map_or(to, |(_, path)| path);
    let (path, anchor) = bare.split_once('#').unwrap_or((bare, ""));
    if let Some(file) = anchors.get(anchor) {
        return format!("{file}#{anchor}");
    }
    let path = path.trim_start_matches("crate::").trim_end_matches("()");
    if let Some(page) = path.strip_prefix("guide::") {
        return format!("{}.md", page.replace('_', "-"));
    }
    if let Some((_, file)) = DOCS_OF.iter().find(|(module, _)| path == *module) {
        return (*file).to_owned();
    }
    let path: String =
        path.chars().filter(|c| c.is_alphanumeric() || matches!(c, ':' | '_')).collect();
    docs.link(&path, anchor)
}

/// The first sentence of a page.
pub(super) fn first_words(text: &str) -> String {
    let prose: String = lines(text).filter(|(is_code, _)| !is_code).map(|(_, line)| line).collect();
    let is_prose = |part: &&str| !part.is_empty() && !part.starts_with(['#', '|', '-']);
    let first = prose.split("\n\n").map(str::trim).find(is_prose).unwrap_or_default();
    let first = plain(&first.replace('\n', " ")).replace("**", "");
    let ends = [". ", ": ", "; "].iter().filter_map(|end| first.find(end)).min();
    let sentence = ends.map_or(&*first, |end| &first[..end]);
    sentence.trim_end_matches([':', '.']).to_owned()
}

/// Without links.
fn plain(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[']) {
        let (before, from) = rest.split_at(at);
        written += before;
        if from.starts_with('`') {
            let (code, after) = from.split_at(code_ends(from));
            written += code;
            rest = after;
            continue;
        }
        let Some(end) = label_ends(from) else {
            written += from;
            return written;
        };
        written += &from[1..end];
        let after = &from[end + 1..];
        rest = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, after)| after),
            None => after,
        };
    }
    written + rest
}

/// What is between this heading and the next one of its depth.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let depth = heading.split(' ').next().unwrap_or_default();
    let from = text.split_once(&format!("{heading}\n")).map_or("", |(_, from)| from);
    from.split_once(&format!("\n{depth} ")).map_or(from, |(section, _)| section).trim()
}

/// `llms.txt`: what there is, for those who read it with a model. Its form: <https://llmstxt.org>.
pub(super) fn llms_txt(readme: &str, pages: &[(Page, String)]) -> String {
    let what = readme.lines().skip_while(|line| line.is_empty() || line.starts_with('#'));
    let what: Vec<&str> = what.take_while(|line| !line.is_empty()).collect();
    let mut text = format!("# harness\n\n> {}\n\n## Guide\n\n", what.join(" "));
    for (page, words) in pages {
        let (title, file) = (&page.title, &page.file);
        text += &format!("- [{title}](harness/guide/{file}): {}\n", first_words(words));
    }
    text += "\n## More\n\n";
    text += "- [README](README.md): the five side effects, how to begin, features\n";
    text += "- [ARCHITECTURE](ARCHITECTURE.md): modules, the way of a message, and where to change what\n";
    text += "- [GLOSSARY](GLOSSARY.md): the words of the code, and where each thing is\n";
    text += "- [DESIGN](harness/DESIGN.md): the reasons for each decision\n";
    text += "- [WIRE](harness/WIRE.md): what servers really send\n";
    text + "- [CHANGELOG](CHANGELOG.md): what each release has\n"
}

/// The skill for coding agents: what they must know before they write a program with the library.
pub(super) fn skill(pages: &[(Page, String)]) -> String {
    let listing = |file: &str| {
        let (_, text) = pages.iter().find(|(page, _)| page.file == file)?;
        let code = text.split_once("```\n")?.1.split_once("```")?.0;
        let hidden = |line: &&str| !line.starts_with("# ") && *line != "#";
        Some(code.lines().filter(hidden).collect::<Vec<_>>().join("\n"))
    };
    let mut text = "---\nname: harness\ndescription: Write Rust agents with the crate `harness`: functions with #[tool], an \
                    Agent, approvals, journals, typed answers. Use it when a program depends on `harness`.\n---\n\n# Programs with \
                    `harness`\n\n## The shape of a program\n\nThe body is in an async function.\n\n```rust\n"
        .to_owned();
    text += &listing("first-agent.md").unwrap_or_default();
    text += "\n```\n\n## What follows from a side effect\n\n";
    let tools = pages.iter().find(|(page, _)| page.file == "tool.md").map_or("", |(_, text)| text);
    text += section(tools, "## What follows from a side effect");
    text += "\n\n## Where to read more\n\nEach page has listings that compile.\n\n";
    for (page, words) in pages {
        text += &format!("- `harness/guide/{}`: {}\n", page.file, first_words(words));
    }
    text
}
