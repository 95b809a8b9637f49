//! The text of an HTML page, for a model: words, the beginnings of blocks as lines, and the targets of links. It reads
//! tags and does not build the page, since no program depends on its result.

/// Elements whose content is not text of the page.
const SKIPPED: [&str; 6] = ["script", "style", "noscript", "template", "svg", "iframe"];

/// Elements that begin a line.
const BLOCKS: [&str; 28] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "section",
    "table",
    "title",
    "tr",
];

/// The text of the page.
pub(super) fn text_of(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some((words, tag)) = rest.split_once('<') {
        page.words(words);
        rest = page.tag(tag);
    }
    page.words(rest);
    page.out.trim_end().to_owned()
}

#[derive(Default)]
struct Page {
    out: String,
    /// The targets of the links that are open.
    links: Vec<Option<String>>,
}

impl Page {
    /// Reads a tag without its `<`, and returns what follows it.
    fn tag<'h>(&mut self, tag: &'h str) -> &'h str {
        if let Some(comment) = tag.strip_prefix("!--") {
            return comment.split_once("-->").map_or("", |(_, rest)| rest);
        }
        let closes = tag.starts_with('/');
        let name = tag.trim_start_matches('/');
        let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        let name = name.get(..end).unwrap_or_default().to_ascii_lowercase();
        if name.is_empty() && !tag.starts_with(['!', '?']) {
            // No tag, but a `<` in the text.
            self.out.push('<');
            return tag;
        }
        let (inner, rest) = tag.split_at(end_of(tag));
        let rest = rest.strip_prefix('>').unwrap_or(rest);
        match (&*name, closes) {
            ("a", false) => {
                self.links.push(attribute(inner, "href"));
                self.out.push('[');
            }
            ("a", true) => match self.links.pop() {
                Some(Some(target)) => self.out.push_str(&format!("]({target})")),
                Some(None) => self.out.push(']'),
                None => {}
            },
            ("td" | "th", false) => self.out.push('\t'),
            (name, false) if SKIPPED.contains(&name) => return after_element(rest, name),
            (name, _) if BLOCKS.contains(&name) => self.line(),
            _ => {}
        }
        if name == "li" && !closes {
            self.out.push_str("- ");
        }
        rest
    }

    /// Adds text, in which any white space is one space.
    fn words(&mut self, words: &str) {
        let words = words.replace("&nbsp;", " ");
        let is_apart = |out: &str| out.is_empty() || out.ends_with([' ', '\n', '\t', '[']);
        for (at, word) in words.split(|c: char| c.is_whitespace()).enumerate() {
            if at > 0 && !is_apart(&self.out) {
                self.out.push(' ');
            }
            decode(word, &mut self.out);
        }
    }

    fn line(&mut self) {
        let end = self.out.trim_end_matches([' ', '\t']).len();
        self.out.truncate(end);
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }
}

/// Where the tag ends: at its `>` outside of quoted values.
fn end_of(tag: &str) -> usize {
    let mut quote = None;
    for (at, letter) in tag.char_indices() {
        match (quote, letter) {
            (None, '>') => return at,
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed is a mistake of the page.
    tag.find('>').unwrap_or(tag.len())
}

/// What follows the end of this element.
fn after_element<'h>(html: &'h str, name: &str) -> &'h str {
    let mut rest = html;
    while let Some((_, tag)) = rest.split_once("</") {
        let is_it = tag.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name));
        if is_it {
            return tag.split_once('>').map_or("", |(_, rest)| rest);
        }
        rest = tag;
    }
    ""
}

/// The value of an attribute in a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let lower = tag.to_ascii_lowercase();
    let at = lower.match_indices(name).find(|(at, _)| {
        let before = lower.get(..*at).unwrap_or_default();
        let after = lower.get(at + name.len()..).unwrap_or_default();
        before.ends_with(char::is_whitespace) && after.trim_start().starts_with('=')
    });
    let value = tag.get(at?.0 + name.len()..)?.trim_start().strip_prefix('=')?.trim_start();
    let value = match value.chars().next()? {
        quote @ ('"' | '\'') => value.get(1..)?.split(quote).next()?,
        _ => value.split(char::is_whitespace).next()?,
    };
    let mut decoded = String::new();
    decode(value, &mut decoded);
    Some(decoded)
}

/// Adds the text with its common character references replaced.
fn decode(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once('&') {
        out.push_str(before);
        let end = reference.bytes().take(10).position(|byte| byte == b';');
        let name = end.and_then(|end| reference.get(..end));
        match name.and_then(character) {
            Some(letter) => {
                out.push(letter);
                rest = reference.get(name.map_or(0, str::len) + 1..).unwrap_or_default();
            }
            None => {
                out.push('&');
                rest = reference;
            }
        }
    }
    out.push_str(rest);
}

fn character(name: &str) -> Option<char> {
    let number =
        |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        "copy" => '©',
        _ => match name.strip_prefix("#")? {
            hex if hex.starts_with(['x', 'X']) => number(hex.get(1..)?, 16)?,
            digits => number(digits, 10)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn a_page_is_its_words_with_lines_and_links() {
        let page = "<!doctype html><html><head><title>A &amp; B</title><style>p > a { }</style>\
                    <script>if (a < b) { document.write('</p>') }</script></head><body><!-- <p>no</p> -->\
                    <h1 class='x>y'>Head\n  line</h1><ul><li>one<li><a HREF=\"/two?a=1&amp;b=2\">two</a>, more</ul>\
                    <table><tr><td>1<td>2</table>1 < 2 &#65;&#x42; &unknown; &</body>";
        let text =
            "A & B\nHead line\n- one\n- [two](/two?a=1&b=2), more\n\t1\t2\n1 < 2 AB &unknown; &";
        assert_eq!(text_of(page), text);
    }

    #[test]
    fn broken_pages_end() {
        for page in [
            "<",
            "<a",
            "<a href",
            "<a href=",
            "<a href='",
            "</",
            "<!--",
            "<script>",
            "&#x",
            "<p",
            "&#xFFFFFFFF;",
        ] {
            let _ = text_of(page);
            for end in 0..page.len() {
                let _ = text_of(&page[..end]);
            }
        }
        assert_eq!(text_of(&"<a".repeat(100_000)).matches('[').count(), 100_000.min(1));
    }
}
