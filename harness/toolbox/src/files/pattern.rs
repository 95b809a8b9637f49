//! A regular expression from the model, for a part of one line. A search with this expression has limited memory, and
//! can be stopped in the middle of a long line.

use std::io;

use grep_matcher::{Match, Matcher, NoCaptures};
use regex_automata::{
    Input,
    meta::Regex,
    nfa::thompson::WhichCaptures,
    util::syntax::{self, parse_with},
};
use regex_syntax::{
    ast::{self, Ast, ClassSetBinaryOp, ClassSetItem},
    hir::{Hir, HirKind},
};

use super::blocking_work::StopCheck;
use harness_core::tool::ToolError;

/// The maximum length of an expression, in bytes. Even before compilation, two bytes of an expression may need several
/// thousand bytes of memory.
const LONGEST: usize = 4_000;
/// The maximum number of character classes, such as `\w`, `\p{L}` and `[a-z]` (`MAX_CLASSES`), and of parts inside
/// brackets (`MAX_PARTS`). Each class may contain all characters of all scripts, so a thousand classes need seconds
/// even before compilation.
const MAX_CLASSES: usize = 100;
const MAX_PARTS: usize = 500;
/// The maximum size of the compiled program, in bytes: enough for a word of 64 letters in any script, `\w{64}`.
const MAX_PROGRAM: usize = 4 << 20;
/// The maximum size of the state table of a search, in bytes. Each search direction has one table.
const MAX_TABLE: usize = 2 << 20;
/// The work between two stop checks of a search, in bytes of the line times bytes of the program. This work takes a
/// second or less.
const WORK: usize = 1 << 31;
/// The minimum and the maximum number of bytes of a line that a search reads between two stop checks.
const PART: (usize, usize) = (4 << 10, 256 << 10);

/// A compiled expression, and the stop check of the search that uses it.
pub(super) struct LinePattern<'s> {
    regex: Regex,
    stop: &'s StopCheck,
    /// The number of bytes of a line that a search reads between two stop checks.
    part: usize,
}

impl<'s> LinePattern<'s> {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Fails if `pattern` is not an expression for one line, or is too large.
    pub(super) fn new(pattern: &str, stop: &'s StopCheck) -> Result<Self, ToolError> {
        let wrong = |why: &dyn std::fmt::Display| {
            ToolError::BadArguments(vec![format!(
                "`pattern`: is not a regular expression for one line: {why}; write a backslash before \
                 a character that is meant as itself, such as `\\(`"
            )])
        };
        if pattern.len() > LONGEST {
            return Err(ToolError::BadArguments(vec![format!(
                "`pattern`: is longer than {LONGEST} bytes; search for a shorter one"
            )]));
        }
        let counted = ast::parse::Parser::new().parse(pattern).ok();
        let counted = counted.and_then(|it| ast::visit(&it, ClassCount::default()).ok());
        let ClassCount { classes, parts } = counted.unwrap_or_default();
        if classes > MAX_CLASSES || parts > MAX_PARTS {
            return Err(ToolError::BadArguments(vec![format!(
                "`pattern`: has {classes} character classes with {parts} parts, and at most {MAX_CLASSES} with {MAX_PARTS} are \
                 read; search for a part of it, or repeat a class, such as `\\w{{3}}` for `\\w\\w\\w`"
            )]));
        }
        let config = syntax::Config::new().utf8(false).multi_line(true).crlf(true);
        let parsed = parse_with(pattern, &config).map_err(|err| wrong(&err))?;
        if needs_break(&parsed) {
            return Err(wrong(&"it has a line break"));
        }
        let config = Regex::config()
            .nfa_size_limit(Some(MAX_PROGRAM))
            .hybrid_cache_capacity(MAX_TABLE)
            // Tables for the groups would have the size of the program times the number of groups.
            .which_captures(WhichCaptures::Implicit)
            .utf8_empty(false);
        let regex = Regex::builder().configure(config).build_from_hir(&parsed);
        let regex = regex.map_err(|err| match err.size_limit() {
            Some(_) => ToolError::BadArguments(vec![format!(
                "`pattern`: is not a regular expression for one line: compiled, it has more than {MAX_PROGRAM} bytes; \
                 repeat less, and write a backslash before a character that is meant as itself"
            )]),
            None => wrong(&err),
        })?;
        let part = (WORK / regex.memory_usage().max(1)).clamp(PART.0, PART.1);
        Ok(Self { regex, stop, part })
    }

    /// Runs `search` on the parts of the line, one after the other, and returns the first result. Each part begins in
    /// the middle of the previous part. So if a line has several parts, a search may miss a hit that is longer than
    /// half a part.
    fn in_parts<T>(
        &self,
        line: &[u8],
        at: usize,
        search: impl Fn(Input<'_>) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let mut start = at;
        loop {
            self.stop.check().map_err(io::Error::other)?;
            let end = start.saturating_add(self.part).min(line.len());
            // `^`, `$` and `\b` also see the bytes around the part.
            let found = search(Input::new(line).range(start..end));
            if found.is_some() || end == line.len() {
                return Ok(found);
            }
            start = start.saturating_add(self.part / 2);
        }
    }
}

/// Counts the character classes in an expression, and the parts inside their brackets.
#[derive(Default)]
struct ClassCount {
    classes: usize,
    parts: usize,
}

impl ast::Visitor for ClassCount {
    type Output = Self;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        let is_class =
            matches!(ast, Ast::ClassPerl(_) | Ast::ClassUnicode(_) | Ast::ClassBracketed(_));
        self.classes += usize::from(is_class);
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        let is_class = matches!(
            item,
            ClassSetItem::Perl(_) | ClassSetItem::Unicode(_) | ClassSetItem::Bracketed(_)
        );
        self.classes += usize::from(is_class);
        self.parts += 1;
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Self::Err> {
        self.classes += 1;
        Ok(())
    }
}

/// Whether the expression can match only across the end of a line.
fn needs_break(pattern: &Hir) -> bool {
    match pattern.kind() {
        HirKind::Literal(text) => text.0.contains(&b'\n'),
        HirKind::Repetition(repetition) => needs_break(&repetition.sub),
        HirKind::Capture(group) => needs_break(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(needs_break),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// The matcher declares no line terminator, so that the searcher passes one line at a time.
impl Matcher for LinePattern<'_> {
    type Captures = NoCaptures;
    type Error = io::Error;

    fn find_at(&self, line: &[u8], at: usize) -> io::Result<Option<Match>> {
        let found = self.in_parts(line, at, |part| self.regex.find(part))?;
        Ok(found.map(|found| Match::new(found.start(), found.end())))
    }

    fn shortest_match_at(&self, line: &[u8], at: usize) -> io::Result<Option<usize>> {
        let find = |part: Input<'_>| self.regex.search_half(&part.earliest(true));
        Ok(self.in_parts(line, at, find)?.map(|found| found.offset()))
    }

    fn new_captures(&self) -> io::Result<NoCaptures> {
        Ok(NoCaptures::new())
    }
}
