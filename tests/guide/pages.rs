//! The pages of the guide, as the book and as files for coding agents have them.
//!
//! The pages are parts of the docs, so the definitions at their end name items. Here these become links into the docs.

use super::docs::Docs;

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

/// A page of the book: with links that lead to the docs of items, and listings that are known to be Rust.
pub(super) fn for_book(text: &str, docs: &Docs) -> String {
    let (mut page, mut is_open) = (String::new(), false);
    for (is_code, line) in lines(text) {
        match line.trim_end().strip_prefix("```").filter(|_| is_code) {
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
            None => match definition(line).filter(|(_, to)| !is_code && is_item(to)) {
                Some((label, item)) => page += &format!("[{label}]: {}\n", docs_of(item, docs)),
                None => page += line,
            },
        }
    }
    page
}

/// The label and the target of a line that says where a link leads: `[label]: target`.
pub(super) fn definition(line: &str) -> Option<(&str, &str)> {
    line.trim_end().strip_prefix('[')?.split_once("]: ")
}

/// Whether a link names an item of the crate, as links of the docs do. Where these links are unknown, its name is read.
pub(super) fn is_item(target: &str) -> bool {
    target.contains("::") && !target.contains("://")
}

/// Where a piece of code in a line ends that begins here.
pub(super) fn code_ends(text: &str) -> usize {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    let fence = &text[..ticks];
    text[ticks..].find(fence).map_or(ticks, |at| at + 2 * ticks)
}

/// Where the label of a link ends that begins here: its bracket.
pub(super) fn label_ends(text: &str) -> Option<usize> {
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

/// Where an item has its docs.
fn docs_of(item: &str, docs: &Docs) -> String {
    let bare = item.split_once('@').map_or(item, |(_, path)| path);
    let (path, anchor) = bare.split_once('#').unwrap_or((bare, ""));
    docs.link(path.trim_start_matches("crate::").trim_end_matches("()"), anchor)
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
pub(super) fn plain(text: &str) -> String {
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
        let ends = [('(', ')'), ('[', ']')].into_iter();
        let mut target = ends.filter_map(|(begin, end)| after.strip_prefix(begin)?.split_once(end));
        rest = target.next().map_or(after, |(_, after)| after);
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
