//! The regular expressions of a schema. JSON Schema uses ECMAScript's dialect. The engine here runs in time linear in
//! the text, so patterns that need backtracking are refused.

use regex_lite::{Regex, RegexBuilder};

/// The maximum size of a compiled pattern, in KiB.
const LARGEST: usize = 128;

/// The maximum size of all compiled patterns of one schema, in KiB.
const TOGETHER: usize = 4 * 1024;

/// The maximum length of a pattern in the engine's syntax, in bytes. Longer patterns could not be compiled within
/// [`LARGEST`].
const LONGEST: usize = 64 * 1024;

/// ECMAScript's `\s`, as the content of a character class.
const SPACE: &str = r"\t\n\x0B\x0C\r \u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}";

/// ECMAScript's `.`: any character except these line ends.
const LINE_ENDS: &str = r"[^\n\r\u{2028}\u{2029}]";

#[derive(Debug)]
pub(super) struct CompiledPattern {
    regex: Regex,
    /// The size limit within which the pattern was compiled, in KiB. The steps of a search per byte of text are
    /// proportional to this size.
    pub(super) size: usize,
}

impl CompiledPattern {
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Compiles the patterns of one schema.
#[derive(Debug, Default)]
pub(super) struct PatternCompiler {
    /// The total size of the patterns so far, in KiB, including patterns that were too large to compile.
    pub(super) size: usize,
}

impl PatternCompiler {
    /// Compiles a pattern of ECMAScript's dialect.
    ///
    /// # Errors
    /// Returns the reason if the pattern is invalid or too large, or needs a feature that this engine does not have
    /// (lookaround, backreferences, Unicode classes). Also fails if the earlier patterns used up the total size.
    pub(super) fn compile(&mut self, pattern: &str) -> Result<CompiledPattern, String> {
        if self.size >= TOGETHER {
            let why = "cannot be used: the patterns of the schema have together more than";
            return Err(format!("{why} {TOGETHER} KiB"));
        }
        let translated = translate(pattern)?;
        if translated.len() > LONGEST {
            return Err(format!("cannot be used: it has more than {LONGEST} bytes"));
        }
        // Parsing takes time as well, so the length of the pattern counts.
        let mut size = 1 + translated.len() / 1024;
        loop {
            match RegexBuilder::new(&translated).size_limit(size * 1024).build() {
                Ok(regex) => {
                    self.size += size;
                    return Ok(CompiledPattern { regex, size });
                }
                Err(err) if size >= LARGEST => {
                    self.size += size;
                    return Err(format!("cannot be used: {err}"));
                }
                Err(_) => size = (2 * size).min(LARGEST),
            }
        }
    }
}

/// Translates a pattern from ECMAScript's syntax to the syntax of the engine.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = after;
        match c {
            '\\' => rest = escape(after, in_class, &mut out)?,
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // `&`, `~` and `[` have a special meaning inside the engine's character classes.
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && after.starts_with('-') => {
                return Err("has `--` inside of a class".to_owned());
            }
            _ if in_class => out.push(c),
            '[' => {
                if after.starts_with(']') || after.starts_with("^]") {
                    return Err("has an empty class".to_owned());
                }
                in_class = true;
                out.push('[');
                if let Some(negated) = after.strip_prefix('^') {
                    out.push('^');
                    rest = negated;
                }
            }
            '.' => out.push_str(LINE_ENDS),
            '(' => rest = group(after, &mut out)?,
            '{' if !is_count(after) => out.push_str(r"\{"),
            '{' => {
                let (count, behind) = after.split_once('}').unwrap_or((after, ""));
                out.extend(["{", count, "}"]);
                rest = behind;
            }
            '}' | ']' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Translates the part after an opening parenthesis, up to the content of the group. Returns the rest.
fn group<'a>(after: &'a str, out: &mut String) -> Result<&'a str, String> {
    out.push('(');
    let Some(kind) = after.strip_prefix('?') else { return Ok(after) };
    if let Some(rest) = kind.strip_prefix(':') {
        out.push_str("?:");
        return Ok(rest);
    }
    let is_name = kind.starts_with('<') && !kind.starts_with("<=") && !kind.starts_with("<!");
    match kind.split_once('>').filter(|_| is_name) {
        // The name of a group has no effect, because backreferences are not supported.
        Some((_, rest)) => Ok(rest),
        None if kind.starts_with(['=', '!', '<']) => Err("looks around".to_owned()),
        None => Err("begins a group with `(?`, and what follows is not of the standard".to_owned()),
    }
}

/// Whether an opening brace begins a repetition count, such as `2,5}`.
fn is_count(after: &str) -> bool {
    after.split_once('}').is_some_and(|(count, _)| {
        count.starts_with(|c: char| c.is_ascii_digit())
            && count.chars().all(|c| c.is_ascii_digit() || c == ',')
            && count.matches(',').count() <= 1
    })
}

/// Translates the part after a backslash. Returns the rest.
fn escape<'a>(after: &'a str, in_class: bool, out: &mut String) -> Result<&'a str, String> {
    let mut chars = after.chars();
    let Some(c) = chars.next() else { return Err("ends with a backslash".to_owned()) };
    let rest = chars.as_str();
    match c {
        'b' if in_class => out.push_str(r"\x08"),
        'B' if in_class => return Err(r"has `\B` inside of a class".to_owned()),
        'd' | 'D' | 'w' | 'W' | 'b' | 'B' | 't' | 'n' | 'r' | 'f' | 'v' => out.extend(['\\', c]),
        's' if in_class => out.push_str(SPACE),
        's' => out.extend(["[", SPACE, "]"]),
        'S' if !in_class => out.extend(["[^", SPACE, "]"]),
        'S' => return Err(r"has `\S` inside of a class".to_owned()),
        '0' if !rest.starts_with(|c: char| c.is_ascii_digit()) => out.push_str(r"\x00"),
        'x' => return hex(rest, 2, out),
        'u' => return unicode(rest, out),
        '1'..='9' | 'k' => return Err("refers back to a group".to_owned()),
        'p' | 'P' => return Err("names a class of Unicode".to_owned()),
        c if c.is_ascii_punctuation() => {
            if c == '/' || c == '_' {
                out.push(c);
            } else {
                out.extend(['\\', c]);
            }
        }
        c => return Err(format!(r"has the escape `\{c}`, which is not of the standard")),
    }
    Ok(rest)
}

/// Writes the character whose code is in the next `digits` hexadecimal digits. Returns the rest.
fn hex<'a>(rest: &'a str, digits: usize, out: &mut String) -> Result<&'a str, String> {
    let wrong = || "has an escape without its hexadecimal digits".to_owned();
    let (code, behind) = rest.split_at_checked(digits).ok_or_else(wrong)?;
    let code = u32::from_str_radix(code, 16).map_err(|_| wrong())?;
    let Some(c) = char::from_u32(code) else { return Err("has half a character".to_owned()) };
    out.push_str(&format!(r"\u{{{:X}}}", u32::from(c)));
    Ok(behind)
}

/// Writes the character of a `\u` escape: four digits, a surrogate pair of two escapes, or digits in braces. Returns
/// the rest.
fn unicode<'a>(rest: &'a str, out: &mut String) -> Result<&'a str, String> {
    if let Some(braced) = rest.strip_prefix('{') {
        let (code, behind) = braced.split_once('}').ok_or("has an open brace")?;
        hex(code, code.len(), out)?;
        return Ok(behind);
    }
    let half = |text: &str| u32::from_str_radix(text.get(..4)?, 16).ok();
    let high = half(rest).filter(|code| (0xD800..0xDC00).contains(code));
    let low = rest.get(4..).and_then(|rest| half(rest.strip_prefix(r"\u")?));
    match (high, low.filter(|code| (0xDC00..0xE000).contains(code))) {
        (Some(high), Some(low)) => {
            let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            out.push_str(&format!(r"\u{{{code:X}}}"));
            Ok(rest.get(10..).unwrap_or_default())
        }
        _ => hex(rest, 4, out),
    }
}

#[cfg(test)]
mod tests {
    use super::{CompiledPattern, LARGEST, LONGEST, PatternCompiler, TOGETHER};

    fn compile(pattern: &str) -> Result<CompiledPattern, String> {
        PatternCompiler::default().compile(pattern)
    }

    #[test]
    fn a_pattern_means_what_it_means_in_ecmascript() {
        let table = [
            (r"^\d{3}-\w+$", "123-ab_", "12-ab"),
            (r"a.c", "abc", "a\nc"),
            (r"^[\w.+-]+@\S+\.com$", "a.b+c@d.com", "a b@d.com"),
            (r"^a\/b$", "a/b", "ab"),
            (r"^{\d}$", "{1}", "{a}"),
            (r"^[[&&~~]$", "[", "a"),
            (r"\s", "a\u{a0}b", "ab"),
            (r"^\uD83D\uDE00$", "😀", "x"),
            (r"^\u0041\x42\u{43}$", "ABC", "abc"),
            (r"(?<year>\d{4})", "in 2026", "in 202"),
            (r"^(?:ab|cd){2,}$", "abcd", "ab"),
            (r"b$", "ab", "b\n"),
            (r"^[^\]]$", "x", "]"),
            (r"^\-\_\#$", "-_#", "x"),
        ];
        for (pattern, fits, fails) in table {
            let regex = compile(pattern).unwrap();
            assert!(regex.is_match(fits), "{pattern} {fits}");
            assert!(!regex.is_match(fails), "{pattern} {fails}");
        }
    }

    #[test]
    fn what_another_engine_is_needed_for_is_not_taken() {
        let table = [
            ("(?=a)b", "looks around"),
            ("(?<!a)b", "looks around"),
            (r"(a)\1", "refers back"),
            (r"\p{L}", "class of Unicode"),
            (r"\A", "not of the standard"),
            ("(?i)a", "not of the standard"),
            ("a{1000}{1000}", ""),
            ("(", ""),
            ("[", ""),
            ("\\", "backslash"),
            (r"\u12", "hexadecimal"),
            (r"\uD83D", "half a character"),
            ("[]", "empty class"),
        ];
        for (pattern, words) in table {
            let err = compile(pattern).unwrap_err();
            assert!(err.contains(words), "{pattern}: {err}");
        }
    }

    #[test]
    fn the_patterns_of_a_schema_have_one_limit_together() {
        let mut patterns = PatternCompiler::default();
        // Some of these patterns are just below the limit for one pattern. The other patterns are above this limit.
        for large in ["a{0,1200}", "a{0,4000}", "a{1000}{1000}"].iter().cycle().take(1_000) {
            let _ = patterns.compile(large);
        }
        assert!((TOGETHER..TOGETHER + LARGEST).contains(&patterns.size), "{}", patterns.size);
        assert!(patterns.compile("a").unwrap_err().contains("together"));
        assert!(compile(&"a".repeat(LONGEST + 1)).unwrap_err().contains("bytes"));
    }
}
