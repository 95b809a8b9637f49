//! Reads doc comments: the description of a tool for the model, and the descriptions of its parameters.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Expr, ExprLit, ExprMacro, Lit, Meta, Token, parse::Parser as _,
    punctuated::Punctuated, spanned::Spanned as _,
};

use crate::values::ungroup;

/// The content of the doc comment of a function.
#[derive(Default)]
pub(crate) struct FunctionDocs {
    /// The description of the tool: the text before the first section that is only for readers of the code.
    pub(crate) description: Option<DocText>,
    /// The descriptions of the parameters.
    pub(crate) arguments: Vec<ArgumentDoc>,
    /// Whether the comment has a section about the parameters.
    pub(crate) has_arguments: bool,
    /// Whether the comment has a part whose text only rustc knows, such as `include_str!`. The macro cannot search this
    /// part.
    pub(crate) is_computed: bool,
    /// The lines of the sections about the parameters.
    about_parameters: Vec<(String, Span)>,
}

impl FunctionDocs {
    /// The span of a line that seems to describe the parameter but is no entry of the list.
    pub(crate) fn stray(&self, name: &str) -> Option<Span> {
        if self.arguments.iter().any(|entry| entry.name == name) {
            // The entry exists, but is empty.
            return None;
        }
        self.about_parameters.iter().find(|(line, _)| describes(line, name)).map(|(_, span)| *span)
    }
}

/// Whether a line has the name after a list mark, and some text after the name.
fn describes(line: &str, name: &str) -> bool {
    const QUOTES: [char; 3] = ['`', '*', ' '];
    line.match_indices(name).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.get(name.len()..).unwrap_or_default();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_word = !before.ends_with(is_part) && !after.starts_with(is_part);
        let before = before.trim_end_matches(QUOTES);
        let begins = before.is_empty() || before.ends_with(['-', '+', '•', '.', ')', ',', ';']);
        let after = after.trim_start_matches(QUOTES);
        is_word && begins && after.starts_with([':', '-', '–', '—', '=', '('])
    })
}

/// A text that the macro knows, or that only rustc can compute.
#[derive(Clone)]
pub(crate) enum DocText {
    Known(String),
    /// A constant expression, such as `include_str!(..)`.
    Constant(TokenStream),
}

impl ToTokens for DocText {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Known(text) => text.to_tokens(tokens),
            Self::Constant(expr) => expr.to_tokens(tokens),
        }
    }
}

/// An entry of the list of arguments.
pub(crate) struct ArgumentDoc {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Whether an attribute is a doc comment with text.
pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc") && matches!(attribute.meta, Meta::NameValue(_))
}

/// Reads the doc comment of a function.
pub(crate) fn read(attributes: &[Attribute]) -> FunctionDocs {
    sections(lines(attributes))
}

/// Reads the doc comment of a parameter. The whole comment is the description.
pub(crate) fn read_param(attributes: &[Attribute]) -> Option<DocText> {
    text(&lines(attributes))
}

/// Whether rustc refuses one of the comments. rustc accepts a literal, or a macro call that makes a literal.
pub(crate) fn has_refused(attributes: &[Attribute]) -> bool {
    let is_refused = |attribute: &&Attribute| match &attribute.meta {
        Meta::NameValue(doc) => match ungroup(&doc.value) {
            Expr::Lit(_) => false,
            Expr::Macro(call) => is_call_of(call, "format"),
            _ => true,
        },
        Meta::Path(_) | Meta::List(_) => false,
    };
    attributes.iter().filter(|attribute| is_doc(attribute)).any(|doc| is_refused(&doc))
}

fn is_call_of(call: &ExprMacro, name: &str) -> bool {
    call.mac.path.segments.last().is_some_and(|last| last.ident == name)
}

struct DocLine {
    text: String,
    /// An expression in place of the text, such as `include_str!(..)`, whose value only rustc knows.
    computed: Option<TokenStream>,
    span: Span,
}

/// The lines of all doc comments, without their common indentation.
fn lines(attributes: &[Attribute]) -> Vec<DocLine> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| is_doc(attribute)) {
        let Meta::NameValue(doc) = &attribute.meta else { continue };
        let span = attribute.pound_token.span();
        let Some(value) = known(&doc.value) else {
            let computed = Some(doc.value.to_token_stream());
            lines.push(DocLine { text: String::new(), computed, span });
            continue;
        };
        let is_made = matches!(ungroup(&doc.value), Expr::Macro(_));
        let stars = value.contains('\n')
            && value.lines().skip(1).all(|line| {
                let line = line.trim_start();
                line.is_empty() || line.starts_with('*')
            });
        if value.is_empty() {
            lines.push(DocLine { text: String::new(), computed: None, span });
        }
        lines.extend(value.lines().enumerate().map(|(number, line)| {
            let undecorated = line.trim_start().strip_prefix('*').filter(|_| stars && number > 0);
            let text = undecorated.unwrap_or(line).trim_end();
            // Lines of `///` comments begin with a space. Lines from a macro do not, so a space is added here.
            let space = if is_made && !text.is_empty() { " " } else { "" };
            DocLine { text: format!("{space}{text}"), computed: None, span }
        }));
    }
    let indent = |line: &&DocLine| line.text.len() - line.text.trim_start().len();
    let written = || lines.iter().filter(|line| !line.text.is_empty());
    let common = written().map(|line| indent(&line)).min().unwrap_or(0);
    for line in &mut lines {
        line.text = line.text.get(common..).unwrap_or_default().to_owned();
    }
    lines
}

/// The text of a comment if the macro can compute it: a literal, or `concat!` of literals.
fn known(value: &Expr) -> Option<String> {
    match ungroup(value) {
        Expr::Lit(ExprLit { lit, .. }) => match lit {
            Lit::Str(text) => Some(text.value()),
            Lit::Char(char) => Some(char.value().to_string()),
            Lit::Bool(flag) => Some(flag.value.to_string()),
            Lit::Int(number) => Some(number.base10_digits().to_owned()),
            _ => None,
        },
        Expr::Macro(call) if is_call_of(call, "concat") => {
            let parts = Punctuated::<Expr, Token![,]>::parse_terminated;
            let parts = parts.parse2(call.mac.tokens.clone()).ok()?;
            parts.iter().map(known).collect()
        }
        _ => None,
    }
}

/// The lines as one text, or as one constant expression if only rustc knows some of the lines. `None` if all lines are
/// blank.
fn text(lines: &[DocLine]) -> Option<DocText> {
    let is_blank = |line: &DocLine| line.text.is_empty() && line.computed.is_none();
    let first = lines.iter().position(|line| !is_blank(line))?;
    let last = lines.iter().rposition(|line| !is_blank(line))?;
    let lines = lines.get(first..=last)?;
    if lines.iter().all(|line| line.computed.is_none()) {
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        return Some(DocText::Known(texts.join("\n")));
    }
    let parts = lines.iter().map(|line| match &line.computed {
        Some(computed) => computed.clone(),
        None => line.text.to_token_stream(),
    });
    let parts: Vec<TokenStream> = parts.collect();
    Some(DocText::Constant(match parts.as_slice() {
        [one] => one.clone(),
        parts => quote!(::core::concat!(#(#parts, "\n"),*)),
    }))
}

/// Headings of sections that are only for readers of the code. They are not part of the description for the model.
const SECTIONS: [&str; 9] = [
    "arguments",
    "args",
    "parameters",
    "params",
    "returns",
    "errors",
    "panics",
    "safety",
    "examples",
];

/// Headings of sections about the parameters.
const ARGUMENTS: [&str; 4] = ["arguments", "args", "parameters", "params"];

fn sections(lines: Vec<DocLine>) -> FunctionDocs {
    let mut docs = FunctionDocs {
        is_computed: lines.iter().any(|line| line.computed.is_some()),
        ..FunctionDocs::default()
    };
    let mut description: Vec<DocLine> = Vec::new();
    let mut in_description = true;
    let mut in_arguments = false;
    let mut fence: Option<&str> = None;
    for line in lines {
        let trimmed = line.text.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        let was_fenced = fence.is_some();
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        let heading = if was_fenced || fence.is_some() { None } else { heading(&line.text) };
        if let Some(heading) = heading {
            let known = SECTIONS.contains(&heading.as_str()) || heading == "example";
            in_description &= !known;
            in_arguments = ARGUMENTS.contains(&heading.as_str());
            docs.has_arguments |= in_arguments;
            if !in_description {
                continue;
            }
        }
        if in_description {
            description.push(line);
        } else if in_arguments {
            read_bullet(&line, &mut docs.arguments);
            docs.about_parameters.push((line.text, line.span));
        }
    }
    docs.description = text(&description);
    docs
}

/// The text of a Markdown heading, in lower case. `None` for other lines.
fn heading(line: &str) -> Option<String> {
    let line = line.strip_prefix("   ").or(line.strip_prefix("  ")).unwrap_or(line).trim_start();
    let words = line.trim_start_matches('#');
    let depth = line.len() - words.len();
    ((1..=6).contains(&depth) && words.starts_with(' '))
        .then(|| words.trim().trim_end_matches(['#', ':']).trim().to_lowercase())
}

/// Reads a line of the list: a new entry, or the continuation of the last entry.
fn read_bullet(line: &DocLine, arguments: &mut Vec<ArgumentDoc>) {
    let trimmed = line.text.trim_start();
    let indent = line.text.len() - trimmed.len();
    let bullet = ["- ", "* ", "+ "].into_iter().find_map(|mark| trimmed.strip_prefix(mark));
    if let Some((name, text)) = bullet.filter(|_| indent < 2).and_then(name_and_text) {
        arguments.push(ArgumentDoc { name, text, span: line.span });
        return;
    }
    if let Some(last) = arguments.last_mut().filter(|_| !trimmed.is_empty()) {
        last.text.push(if bullet.is_some() { '\n' } else { ' ' });
        last.text.push_str(trimmed);
    }
}

/// Splits an entry such as `` `name`: text `` into name and text. The forms `name - text` and `**name**: text` are
/// accepted, too.
fn name_and_text(bullet: &str) -> Option<(String, String)> {
    let bullet = bullet.trim_start();
    let quotes = ["`", "**`", "**", ""];
    let ends = ["`", "`**", "**", ""];
    quotes.into_iter().zip(ends).find_map(|(quote, end)| {
        let rest = bullet.strip_prefix(quote)?;
        let until = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '#')?;
        let (name, rest) = rest.split_at(until);
        let rest = rest.strip_prefix(end)?.trim_start();
        let marks = [":", "--", "-", "–", "—"];
        let text = marks.into_iter().find_map(|mark| rest.strip_prefix(mark));
        let text = text.or_else(|| (!quote.is_empty()).then_some(rest))?;
        let name = name.strip_prefix("r#").unwrap_or(name);
        (!name.is_empty()).then(|| (name.to_owned(), text.trim().to_owned()))
    })
}

/// Changes the text so that rustdoc does not run it as a test: fences without a language are marked as text, and no
/// line is indented like code.
fn as_prose(text: &str) -> String {
    const TESTED: [&str; 6] =
        ["rust", "should_panic", "no_run", "ignore", "compile_fail", "edition"];
    let mut open: Option<&str> = None;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let words = line.trim_start();
        let indent = " ".repeat((line.len() - words.len()).min(3));
        let mark = if words.starts_with('~') { '~' } else { '`' };
        let (marks, rest) = words.split_at(words.len() - words.trim_start_matches(mark).len());
        match open {
            // Lines inside a fence stay unchanged.
            Some(of) => {
                if marks.starts_with(of) && rest.trim().is_empty() {
                    open = None;
                }
                lines.push(line.to_owned());
            }
            None if marks.len() >= 3 => {
                open = Some(marks);
                let mut kinds = rest.split([',', ' ', '{']);
                let is_tested = rest.trim().is_empty()
                    || kinds.any(|kind| TESTED.iter().any(|tested| kind.starts_with(tested)));
                let kind = if is_tested { "text" } else { rest.trim() };
                lines.push(format!("{indent}{marks}{kind}"));
            }
            None => lines.push(format!("{indent}{words}")),
        }
    }
    // Closes an open fence. Otherwise, the fence would include the text about the next parameters.
    lines.extend(open.map(str::to_owned));
    lines.join("\n")
}

/// The list of arguments for rustdoc, which shows no comments on parameters.
pub(crate) fn arguments_section<'a>(
    arguments: impl Iterator<Item = (&'a str, &'a DocText)>,
) -> Option<TokenStream> {
    let lines: Vec<String> = arguments
        .filter_map(|(name, text)| match text {
            DocText::Known(text) => {
                let text = as_prose(text).replace('\n', "\n   ");
                Some(format!(" - `{name}`: {text}"))
            }
            DocText::Constant(_) => None,
        })
        .collect();
    (!lines.is_empty()).then(|| {
        let text = format!("\n # Arguments\n\n{}", lines.join("\n"));
        quote!(#[doc = #text])
    })
}

#[cfg(test)]
mod tests {
    use super::as_prose;

    #[test]
    fn no_line_about_a_parameter_is_a_test_for_rustdoc() {
        let fence =
            |kind: &str| as_prose(&format!("Such as\n\n```{kind}\n    let x = 1;\n```\nor so"));
        for kind in
            ["", "rust", " rust,no_run", "should_panic", "ignore", "compile_fail", "edition2021"]
        {
            assert_eq!(fence(kind), "Such as\n\n```text\n    let x = 1;\n```\nor so", "{kind}");
        }
        assert_eq!(fence("json"), "Such as\n\n```json\n    let x = 1;\n```\nor so");
        assert_eq!(
            as_prose("Such as\n\n    let x = 1;\n\tlet y;"),
            "Such as\n\n   let x = 1;\n let y;"
        );
        assert_eq!(as_prose("Such as\n~~~~\n~~~\nopen"), "Such as\n~~~~text\n~~~\nopen\n~~~~");
        assert_eq!(as_prose("- one\n  - two"), "- one\n  - two");
    }
}
