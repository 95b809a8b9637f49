//! The values of keys: which values are accepted, and the errors for refused values.
//!
//! Each value type implements darling's `FromMeta`. darling reports an error at a single token, but a value may have
//! several tokens. So `Errors` decides where an error is reported.

use darling::{Error, FromMeta, Result};
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens as _;
use syn::{
    Expr, ExprLit, ExprPath, ExprRange, Lit, LitStr, Meta, Path, RangeLimits, parse::Parser,
};

use crate::{
    diagnostics::{Errors, did_you_mean, nearest},
    entries::EntryValue,
};

/// The allowed words of `side_effects`.
pub(crate) const SIDE_EFFECTS: [&str; 5] = ["none", "read", "write", "network", "mutate"];

const ALL_SIDE_EFFECTS: &str = r#""none", "read", "write", "network", "mutate""#;

/// Removes parentheses and the invisible groups that `macro_rules!` puts around an expression.
pub(crate) fn ungroup(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungroup(&group.expr),
        Expr::Paren(paren) => ungroup(&paren.expr),
        other => other,
    }
}

fn string(expr: &Expr) -> Option<&LitStr> {
    match ungroup(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}

/// The words of `side_effects` without repetitions. `"none"` is the empty list.
pub(crate) type SideEffectsValue = Vec<&'static str>;

/// Reads `side_effects`: one word or a list of words.
pub(crate) fn side_effects(meta: &Meta, errors: &mut Errors) -> Option<SideEffectsValue> {
    let list = match meta {
        Meta::NameValue(written) => match ungroup(&written.value) {
            Expr::Array(array) => array,
            _ => return errors.read(meta).map(|SideEffect(word)| no_none(vec![word])),
        },
        _ => return errors.read(meta).map(|SideEffect(word)| no_none(vec![word])),
    };
    if list.elems.is_empty() {
        let help = format!("help: the side effects are {ALL_SIDE_EFFECTS}");
        let empty = "`side_effects` is an empty list: say \"none\" if the tool does nothing to the \
                     world";
        errors.push(list, format!("{empty}\n{help}"));
        return None;
    }
    let mut words = Vec::new();
    let mut right = true;
    for elem in &list.elems {
        let Some(SideEffect(word)) = errors.value(elem) else {
            right = false;
            continue;
        };
        if words.contains(&word) {
            errors.push(elem, format!("side effect \"{word}\" is given twice"));
            right = false;
        } else if word == "none" && list.elems.len() > 1 {
            errors.push(
                elem,
                "\"none\" cannot stand beside other side effects\nhelp: remove it, or remove the \
                 others",
            );
            right = false;
        } else {
            words.push(word);
        }
    }
    right.then(|| no_none(words))
}

fn no_none(mut words: SideEffectsValue) -> SideEffectsValue {
    words.retain(|word| *word != "none");
    words
}

/// One word of `side_effects`.
struct SideEffect(&'static str);

impl FromMeta for SideEffect {
    fn from_expr(expr: &Expr) -> Result<Self> {
        side_effect(expr).map(Self).map_err(Error::custom)
    }
}

fn side_effect(expr: &Expr) -> std::result::Result<&'static str, String> {
    if let Some(text) = string(expr) {
        let word = text.value();
        if let Some(known) = SIDE_EFFECTS.iter().find(|known| **known == word) {
            return Ok(known);
        }
        let parts: Vec<&str> = word.split([',', '|', '+', ' ']).filter(|p| !p.is_empty()).collect();
        if parts.len() > 1 && parts.iter().all(|part| SIDE_EFFECTS.contains(part)) {
            // The suggestion must not contain another mistake, such as a repetition or "none" in a list.
            let meant = SIDE_EFFECTS.iter().filter(|word| **word != "none" && parts.contains(word));
            let meant: Vec<String> = meant.map(|word| format!("\"{word}\"")).collect();
            let way = match meant.as_slice() {
                [] => "write `side_effects = \"none\"`".to_owned(),
                [one] => format!("write `side_effects = {one}`"),
                list => format!("write a list: `side_effects = [{}]`", list.join(", ")),
            };
            return Err(format!("one string is one side effect\nhelp: {way}"));
        }
        let near = did_you_mean(nearest(&word, SIDE_EFFECTS), '"');
        return Err(format!(
            "unknown side effect \"{word}\"{near}\nhelp: the side effects are \
                 {ALL_SIDE_EFFECTS}"
        ));
    }
    match ungroup(expr) {
        Expr::Path(path) => {
            let word = path.path.segments.last().map(|last| last.ident.to_string());
            let word = word.unwrap_or_default();
            let meant = nearest(&word, SIDE_EFFECTS).unwrap_or("read");
            Err(format!("a side effect is a string\nhelp: quote it: `side_effects = \"{meant}\"`"))
        }
        _ => Err(format!("`side_effects` must be one of {ALL_SIDE_EFFECTS}, or a list of them")),
    }
}

/// A name as a string literal. `check` decides whether the name is valid.
pub(crate) struct WrittenName(pub(crate) LitStr);

impl FromMeta for WrittenName {
    fn from_meta(meta: &Meta) -> Result<Self> {
        let key = meta.path().to_token_stream();
        let text = match meta {
            Meta::NameValue(written) => string(&written.value).cloned().map(Self),
            Meta::Path(_) | Meta::List(_) => None,
        };
        text.ok_or_else(|| Error::custom(format!("`{key}` must be a string: `{key} = \"...\"`")))
    }
}

/// The maximum number of characters of a title, which must fit on one line.
const TITLE: usize = 100;

/// The title of the tool for people.
pub(crate) struct TitleValue(pub(crate) String);

impl FromMeta for TitleValue {
    fn from_meta(meta: &Meta) -> Result<Self> {
        let WrittenName(written) = WrittenName::from_meta(meta)?;
        let title = written.value();
        let fault = if title.trim().is_empty() {
            "the title is empty\nhelp: leave `title` out: people then read the name of the tool"
        } else if title.chars().any(char::is_control) {
            "a title is one line of text, without line breaks and control characters"
        } else if let Some(unseen) = title.chars().find(|letter| is_unseen(*letter)) {
            let fault = format!(
                "a title is read by people before they allow a call: `\\u{{{:x}}}` in it is not seen, or turns \
                 the order of the letters\nhelp: leave it out",
                u32::from(unseen)
            );
            return Err(Error::custom(fault).with_span(&written));
        } else if title.chars().count() > TITLE {
            "a title has at most 100 characters\nhelp: say the rest in the description"
        } else {
            return Ok(Self(title.trim().to_owned()));
        };
        Err(Error::custom(fault).with_span(&written))
    }
}

/// Whether a character ends a line, changes the writing direction or is invisible. `message/safe_text.rs` of the core
/// package has the same list for titles that are set at run time.
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{10ffff}'
    ) || u32::from(letter) & 0xfffe == 0xfffe
}

/// Reads a description: a string, or an expression. rustc checks that the expression is a string.
pub(crate) fn description(meta: &Meta, errors: &mut Errors) -> Option<Expr> {
    let Meta::NameValue(written) = meta else { return None };
    match ungroup(&written.value) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            if text.value().trim().is_empty() {
                errors.push(
                    text,
                    "the description is empty\nhelp: say what the tool does and when to use it: \
                     the model chooses tools by their description",
                );
                return None;
            }
            Some(written.value.clone())
        }
        Expr::Macro(call) if call.mac.path.segments.last().is_some_and(|m| m.ident == "format") => {
            errors.push(
                &written.value,
                "`description` must be known while compiling, and `format!` runs later\nhelp: \
                 write `concat!(...)`, or a constant",
            );
            None
        }
        Expr::Lit(_) | Expr::Array(_) | Expr::Tuple(_) | Expr::Closure(_) | Expr::Unary(_) => {
            errors.push(
                &written.value,
                "`description` must be a string, or a constant expression that is one",
            );
            None
        }
        _ => Some(written.value.clone()),
    }
}

/// A key without a value. `= true` and `= false` are accepted, too.
pub(crate) struct FlagValue(pub(crate) bool);

impl FromMeta for FlagValue {
    fn from_word() -> Result<Self> {
        Ok(Self(true))
    }

    fn from_meta(meta: &Meta) -> Result<Self> {
        let flag = match meta {
            Meta::Path(_) => return Self::from_word(),
            Meta::NameValue(written) => match ungroup(&written.value) {
                Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) => Some(Self(flag.value)),
                _ => None,
            },
            Meta::List(_) => None,
        };
        flag.ok_or_else(|| {
            let key = meta.path().to_token_stream();
            Error::custom(format!("`{key}` takes no value\nhelp: write `{key}` alone"))
        })
    }
}

/// A time limit, in milliseconds.
pub(crate) struct TimeoutValue(pub(crate) u64);

impl FromMeta for TimeoutValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        if let Some(text) = string(expr) {
            return milliseconds(&text.value()).map(Self).map_err(Error::custom);
        }
        let written = match ungroup(expr) {
            Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
                format!("{}s", number.base10_digits())
            }
            _ => "30s".to_owned(),
        };
        Err(Error::custom(format!("`timeout` is a string with a unit: `timeout = \"{written}\"`")))
    }
}

/// The maximum number of concurrent calls: a number or a constant.
pub(crate) struct AtOnceValue(pub(crate) Expr);

impl FromMeta for AtOnceValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        const HELP: &str =
            "\nhelp: write how many calls run at the same time, such as `at_once = 2`";
        let wrong = |what: String| Err(Error::custom(format!("{what}{HELP}")));
        match ungroup(expr) {
            Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
                match number.base10_parse::<usize>() {
                    Ok(0) => wrong("`at_once` is 0, so no call could ever begin".to_owned()),
                    Ok(_) => Ok(Self(expr.clone())),
                    Err(err) => wrong(format!("`at_once` is no number of calls: {err}")),
                }
            }
            Expr::Lit(_) | Expr::Unary(_) => {
                wrong("`at_once` is a whole number, and at least 1".to_owned())
            }
            _ => Ok(Self(expr.clone())),
        }
    }
}

/// The time limit that was probably meant, in the accepted notation.
fn meant_time(text: &str) -> Option<String> {
    let (mut meant, mut total) = (String::new(), 0.0);
    let mut last = "";
    let lower = text.to_lowercase();
    let mut rest = lower.trim_start_matches('+').trim_end_matches('.');
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && !".,_".contains(c));
        let (number, after) = rest.split_at(number_end.unwrap_or(rest.len()));
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        last = match (unit, last) {
            ("ms" | "msec" | "millis", _) => "ms",
            ("s" | "sec" | "secs" | "second" | "seconds", _) => "s",
            ("m" | "min" | "mins" | "minute" | "minutes", _) => "m",
            ("h" | "hr" | "hrs" | "hour" | "hours", _) => "h",
            // A number without a unit means minutes if it follows hours. Otherwise, it means seconds.
            ("", "h") => "m",
            ("", "" | "m") => "s",
            _ => return None,
        };
        let number = number.replace('_', "");
        let number = match number.split_once(',') {
            // The comma separates thousands.
            Some((whole, part)) if part.len() == 3 && !whole.starts_with('0') => {
                whole.to_owned() + part
            }
            _ => number.replace(',', "."),
        };
        total += number.parse::<f64>().ok()? * factor(last)?;
        let zero = if number.starts_with('.') { "0" } else { "" };
        meant.push_str(&format!("{zero}{number}{last}"));
        rest = after.trim_start_matches([' ', ',']);
    }
    (1.0..=YEAR).contains(&total).then_some(meant)
}

/// The number of milliseconds in a unit.
fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    })
}

/// The maximum time limit, in milliseconds: longer than any call, and small enough to avoid overflows.
const YEAR: f64 = 31_536_000_000.0;

/// Reads a time limit such as `30s`, `500ms`, `2m`, `1h`, or several of these in a row, such as `1h30m`.
fn milliseconds(text: &str) -> std::result::Result<u64, String> {
    let help = "\nhelp: write a number with a unit, such as \"500ms\", \"30s\", \"2m\" or \"1h\"";
    let text = text.trim();
    let no_limit = || {
        let near = did_you_mean(meant_time(text).as_deref(), '"');
        format!("\"{text}\" is no time limit{near}{help}")
    };
    if text.is_empty() {
        return Err(format!("the time limit is empty{help}"));
    }
    if text.starts_with('-') {
        return Err(format!("the time limit \"{text}\" is negative{help}"));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(no_limit());
    }
    let mut total = 0.0_f64;
    let mut rest = text;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let Ok(number) = number.parse::<f64>() else { return Err(no_limit()) };
        let Some(factor) = factor(unit) else {
            let near = || did_you_mean(meant_time(text).as_deref(), '"');
            return Err(match unit {
                "" if after.is_empty() => {
                    format!("the time limit \"{text}\" has no unit{}{help}", near())
                }
                // The unit is missing, but another character follows the number.
                "" => no_limit(),
                other => {
                    let near = near();
                    format!("the time limit \"{text}\" has an unknown unit `{other}`{near}{help}")
                }
            });
        };
        total += number * factor;
        rest = after.trim_start();
    }
    if total < 1.0 {
        return Err(format!("the time limit \"{text}\" is zero, so no call could ever end{help}"));
    }
    if total > YEAR {
        return Err(format!("the time limit \"{text}\" is longer than a year"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within a year")]
    Ok(total as u64)
}

/// The value of the key `crate`: the path of `harness`, for a program that depends on `harness` only through another
/// crate.
pub(crate) struct CratePath(pub(crate) Path);

impl FromMeta for CratePath {
    fn from_expr(expr: &Expr) -> Result<Self> {
        if let Some(text) = string(expr) {
            let message = format!("a path is not quoted\nhelp: `crate = {}`", text.value());
            return Err(Error::custom(message));
        }
        match ungroup(expr) {
            Expr::Path(path) if path.qself.is_none() => Ok(Self(path.path.clone())),
            _ => Err(Error::custom("`crate` must be a path: `crate = path::to::harness`")),
        }
    }
}

/// The value of the key `review`: the path of the review function. rustc checks its signature.
pub(crate) struct ReviewValue(pub(crate) ExprPath);

impl FromMeta for ReviewValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        let key = FunctionKey {
            key: "review",
            example: "each_host",
            write: "`fn review(arguments: &Arguments) -> Review`",
            called: "for each call of the tool",
        };
        key.function(expr).map(Self)
    }
}

/// The value of the key `reconcile`: the path of a function that finds out whether a call in doubt has happened. rustc
/// checks the signature of the function.
pub(crate) struct ReconcileValue(pub(crate) ExprPath);

impl FromMeta for ReconcileValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        let key = FunctionKey {
            key: "reconcile",
            example: "was_paid",
            write: "with the parameters of the tool that returns a `Reconciled`",
            called: "for each call in doubt",
        };
        key.function(expr).map(Self)
    }
}

/// A key whose value is the path of a function.
struct FunctionKey {
    key: &'static str,
    example: &'static str,
    /// What the user should write in place of a closure.
    write: &'static str,
    called: &'static str,
}

impl FunctionKey {
    fn function(&self, expr: &Expr) -> Result<ExprPath> {
        let Self { key, example, write, called } = self;
        let written = ungroup(expr);
        if let Expr::Path(path) = written {
            return Ok(path.clone());
        }
        let message = if let Some(text) = string(expr) {
            format!("a path is not quoted\nhelp: `{key} = {}`", text.value())
        } else if let Expr::Closure(_) = written {
            format!(
                "`{key}` names a function, and this is a closure\nhelp: write a function {write} and \
                 name it: `{key} = {key}`"
            )
        } else if let Expr::Call(call) = written
            && let Expr::Path(_) = ungroup(&call.func)
        {
            let path = call.func.to_token_stream().to_string().replace(' ', "");
            format!(
                "`{key}` names a function, which is called {called}\nhelp: write it without \
                 parentheses: `{key} = {path}`"
            )
        } else {
            format!("`{key}` must be the path of a function: `{key} = {example}`")
        };
        Err(Error::custom(message))
    }
}

/// The value of the key `handle`: the name of the type that the macro writes beside the function. The key is needed if
/// that type cannot have the name of the function.
pub(crate) struct HandleValue(pub(crate) Ident);

impl FromMeta for HandleValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        one_name(expr, "a type's", "handle", "ReadFile").map(Self)
    }
}

/// The value of the key `method`: the name of the method that returns the tools of a toolset.
pub(crate) struct MethodValue(pub(crate) Ident);

impl FromMeta for MethodValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        one_name(expr, "a method's", "method", "more_tools").map(Self)
    }
}

fn one_name(expr: &Expr, whose: &str, key: &str, example: &str) -> Result<Ident> {
    if let Some(text) = string(expr) {
        let message = format!("{whose} name is not quoted\nhelp: `{key} = {}`", text.value());
        return Err(Error::custom(message));
    }
    match ungroup(expr) {
        Expr::Path(path) => path.path.get_ident().cloned(),
        _ => None,
    }
    .filter(|name| !["Self", "self", "super", "crate"].iter().any(|word| *name == word))
    .ok_or_else(|| Error::custom(format!("`{key}` must be one name: `{key} = {example}`")))
}

/// A regular expression. Common mistakes, such as wrong brackets, backreferences and lookaround, are reported here. All
/// other errors are found when an agent is built.
pub(crate) struct PatternValue(pub(crate) LitStr);

impl FromMeta for PatternValue {
    fn from_expr(expr: &Expr) -> Result<Self> {
        let Some(text) = string(expr) else {
            let fault = "`pattern` must be a string: `pattern = \"^[a-z]+$\"`";
            return Err(Error::custom(fault));
        };
        match fault_of_pattern(&text.value()) {
            Some(fault) => Err(Error::custom(fault)),
            None => Ok(Self(text.clone())),
        }
    }
}

/// The error message for a pattern with a backreference, which cannot be matched in linear time.
fn refers_back() -> String {
    "the pattern refers back to what it has matched, which is not checked\nhelp: say it without `\\1`, \
     and check the rest in the function"
        .to_owned()
}

fn lookaround_fault() -> String {
    "the pattern looks around, which is not checked\nhelp: say it without `(?=` and `(?!`, and check \
     the rest in the function"
        .to_owned()
}

fn fault_of_pattern(pattern: &str) -> Option<String> {
    if pattern.is_empty() {
        let help = "help: write a regular expression, such as `pattern = \"^[a-z]+$\"`";
        return Some(format!("the pattern is empty, so it says nothing\n{help}"));
    }
    let mut open: Vec<char> = Vec::new();
    let mut repeatable = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let in_class = open.last() == Some(&'[');
        match c {
            '\\' => {
                let escaped = chars.next();
                if !in_class && matches!(escaped, Some('1'..='9' | 'k')) {
                    return Some(refers_back());
                }
                if escaped.is_none() {
                    let help = "help: write `\\\\` for a backslash itself";
                    return Some(format!(
                        "the pattern ends with a `\\` that escapes nothing\n{help}"
                    ));
                }
                repeatable = true;
            }
            ']' if in_class => {
                open.pop();
                repeatable = true;
            }
            _ if in_class => {}
            '[' => {
                open.push('[');
                chars.next_if(|c| *c == '^');
                if chars.peek() == Some(&']') {
                    let help = "help: write `\\]` for the character itself";
                    return Some(format!("the pattern has a class with nothing in it\n{help}"));
                }
            }
            '(' => {
                open.push('(');
                repeatable = false;
                if chars.next_if(|c| *c == '?').is_some() {
                    let behind = chars.next_if(|c| *c == '<').is_some();
                    if matches!((behind, chars.peek()), (_, Some('=' | '!'))) {
                        return Some(lookaround_fault());
                    }
                    chars.next_if(|c| !behind && *c == ':');
                }
            }
            ')' if open.pop().is_none() => {
                return Some(
                    "the pattern has a `)` without its `(`\nhelp: write `\\)` for the \
                             character itself"
                        .to_owned(),
                );
            }
            '*' | '+' | '?' if !repeatable => {
                return Some(format!(
                    "the `{c}` in the pattern repeats nothing\nhelp: write `\\{c}` for the \
                     character itself"
                ));
            }
            '|' => repeatable = false,
            _ => repeatable = true,
        }
    }
    let open = open.last()?;
    let close = if *open == '[' { ']' } else { ')' };
    Some(format!(
        "the pattern has a `{open}` without its `{close}`\nhelp: write `\\{open}` for the \
         character itself"
    ))
}

/// The limits of a range or a length, as written.
pub(crate) struct RangeValue {
    pub(crate) low: Option<Expr>,
    pub(crate) high: Option<Expr>,
    pub(crate) inclusive: bool,
    /// The whole range as tokens, for messages.
    pub(crate) written: TokenStream,
}

/// Reads `range(1..=100)` or `length(1..=64)`.
pub(crate) fn range(
    key: &Ident,
    known: &str,
    value: &EntryValue,
    errors: &mut Errors,
) -> Option<RangeValue> {
    let example = if known == "length" { "length(1..=64)" } else { "range(1..=100)" };
    let help = format!("\nhelp: write the ends in parentheses: `{example}`");
    let tokens = match value {
        EntryValue::List(list) => list.stream(),
        EntryValue::Value(_, value) => {
            errors.push(value, format!("expected `{known}(...)`{help}"));
            return None;
        }
        EntryValue::Word => {
            errors.push(key, format!("expected `{known}(...)`{help}"));
            return None;
        }
        EntryValue::Wrong => return None,
    };
    if tokens.is_empty() {
        errors.push(key, format!("the {known} is empty{help}"));
        return None;
    }
    let parsed =
        Parser::parse2(|input: syn::parse::ParseStream<'_>| input.parse::<Expr>(), tokens.clone());
    let parsed = parsed.as_ref().map(ungroup);
    let Ok(Expr::Range(ExprRange { start, end, limits, .. })) = parsed else {
        let help = match parsed {
            Ok(Expr::Lit(one)) => {
                let one = one.to_token_stream();
                format!("\nhelp: for exactly {one} write `{known}({one}..={one})`")
            }
            Ok(_) | Err(_) => help,
        };
        errors.push(&tokens, format!("expected a range{help}"));
        return None;
    };
    if start.is_none() && end.is_none() {
        errors.push(&tokens, format!("the {known} has no end, so it says nothing{help}"));
        return None;
    }
    Some(RangeValue {
        low: start.as_deref().cloned(),
        high: end.as_deref().cloned(),
        inclusive: matches!(limits, RangeLimits::Closed(_)),
        written: tokens,
    })
}
