//! Reads `.gitignore` and `.ignore` files with git's rules.
//!
//! An ignore file may be hostile, because other people may have written the searched folder. So each pattern is matched
//! state by state. Matching needs no extra memory, and takes time proportional to the length of the pattern times the
//! length of the path. The steps of a walk are limited, too. A compiled set of patterns would be faster for ordinary
//! patterns, but needs gigabytes for hostile patterns.

use std::path::{Path, PathBuf};

/// The maximum size of an ignore file, in bytes. The largest files in common use have about 10 KiB.
pub(super) const MAX_FILE: usize = 128 * 1024;
/// The maximum total size of all ignore files of one walk, in bytes.
const MAX_FILES: usize = 4 * 1024 * 1024;
/// The maximum number of matching steps in one walk. A thousand ordinary patterns and a hundred thousand paths need
/// about this many steps.
const MAX_STEPS: u64 = 100_000_000;
/// The maximum number of skipped ignore files that a result names.
const MAX_NAMED: usize = 5;

/// The ignore files from the root down to the current folder of a walk.
#[derive(Debug)]
pub(super) struct IgnoreFiles {
    folders: Vec<FolderIgnoreRules>,
    read: usize,
    steps: u64,
    /// The first ignore files that were skipped because they were too large or unreadable (`skipped`), and the number
    /// of all skipped ignore files (`all_skipped`).
    skipped: Vec<PathBuf>,
    all_skipped: usize,
    now: Vec<bool>,
    next: Vec<bool>,
}

/// The rules of the ignore files in one folder.
#[derive(Debug)]
struct FolderIgnoreRules {
    /// The number of parts in the folder's path.
    depth: usize,
    rules: Vec<IgnoreRule>,
}

impl IgnoreFiles {
    pub(super) fn new() -> Self {
        Self {
            folders: Vec::new(),
            read: 0,
            steps: MAX_STEPS,
            skipped: Vec::new(),
            all_skipped: 0,
            now: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.folders.len()
    }

    /// Removes the rules of all folders after the first `depth` folders.
    pub(super) fn leave(&mut self, depth: usize) {
        self.folders.truncate(depth);
    }

    /// Adds the ignore files of a folder. Later files override earlier files. The caller has read at most `MAX_FILE` +
    /// 1 bytes of each file.
    pub(super) fn enter(&mut self, folder: &Path, files: Vec<(PathBuf, Vec<u8>)>) {
        let mut rules = Vec::new();
        for (path, text) in files {
            self.read += text.len();
            if text.len() > MAX_FILE || self.read > MAX_FILES {
                self.pass_over(path);
                continue;
            }
            let text = String::from_utf8_lossy(&text);
            rules.extend(text.trim_start_matches('\u{feff}').lines().filter_map(IgnoreRule::new));
        }
        if !rules.is_empty() {
            self.folders.push(FolderIgnoreRules { depth: folder.components().count(), rules });
        }
    }

    /// Records an ignore file that is skipped.
    pub(super) fn pass_over(&mut self, file: PathBuf) {
        self.all_skipped += 1;
        if self.skipped.len() < MAX_NAMED {
            self.skipped.push(file);
        }
    }

    /// Whether the path is ignored. In the innermost folder with matching rules, the last matching rule decides.
    pub(super) fn has(&mut self, path: &Path, is_folder: bool) -> bool {
        let Self { folders, steps, now, next, .. } = self;
        let parts: Vec<&[u8]> =
            path.components().map(|part| part.as_os_str().as_encoded_bytes()).collect();
        for FolderIgnoreRules { depth, rules } in folders.iter().rev() {
            let whole = parts.get(*depth..).unwrap_or_default().join(&b'/');
            let name = parts.last().copied().unwrap_or_default();
            for rule in rules.iter().rev() {
                let text = if rule.only_name { name } else { &whole };
                if (is_folder || !rule.only_folders) && rule.is_match(text, steps, now, next) {
                    return rule.ignores;
                }
                if *steps == 0 {
                    return false;
                }
            }
        }
        false
    }

    /// Names the skipped ignore files, for the last line of a result.
    pub(super) fn gaps(&self) -> String {
        let mut gaps = String::new();
        if self.all_skipped > 0 {
            let named: Vec<String> =
                self.skipped.iter().map(|path| format!("`{}`", super::list::shown(path))).collect();
            let more = if self.all_skipped > named.len() { " and others" } else { "" };
            gaps += &format!(
                "; {} ignore files are too large or cannot be read and were not obeyed: {}{more}",
                self.all_skipped,
                named.join(", ")
            );
        }
        if self.steps == 0 {
            gaps += "; the ignore files take too long to obey, so not all paths were compared with \
                     them: name a folder";
        }
        gaps
    }
}

/// One line of an ignore file.
#[derive(Debug, PartialEq)]
struct IgnoreRule {
    pattern: Vec<GlobPiece>,
    /// Whether the pattern is compared only with the last part of a path.
    only_name: bool,
    only_folders: bool,
    ignores: bool,
}

#[derive(Debug, PartialEq)]
enum GlobPiece {
    Byte(u8),
    /// `?`
    AnyByte,
    /// `[a-z]`
    OneOf {
        ranges: Vec<ByteRange>,
        negated: bool,
    },
    /// `*`
    AnyName,
    /// `**/`: any number of folders.
    AnyFolders,
    /// The `**` of a `/**` at the end of a pattern.
    AllBelow,
}

impl IgnoreRule {
    /// Parses a line. Returns `None` for an empty line, a comment or an invalid pattern.
    fn new(line: &str) -> Option<Self> {
        let line = without_trailing_blanks(line);
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (line, ignores) = match line.strip_prefix('!') {
            Some(line) => (line, false),
            None => (line, true),
        };
        let (line, only_folders) = match line.strip_suffix('/') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let only_name = !line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        let pattern = pieces(line.as_bytes())?;
        (!pattern.is_empty()).then_some(Self { pattern, only_name, only_folders, ignores })
    }

    /// Matches the pattern with a text. `now` marks the pieces of the pattern that a match may have reached.
    fn is_match(
        &self,
        text: &[u8],
        steps: &mut u64,
        now: &mut Vec<bool>,
        next: &mut Vec<bool>,
    ) -> bool {
        *steps = steps.saturating_sub(1);
        if !self.has_same_end(text) {
            return false;
        }
        let end = self.pattern.len();
        for states in [&mut *now, &mut *next] {
            states.clear();
            states.resize(end + 1, false);
        }
        if let Some(first) = now.first_mut() {
            *first = true;
        }
        let mut part_begins = true;
        for c in text.iter().copied() {
            let mut anywhere = false;
            next.fill(false);
            for (at, piece) in self.pattern.iter().enumerate() {
                if !is(now, at) {
                    continue;
                }
                *steps = steps.saturating_sub(1);
                anywhere = true;
                match piece {
                    GlobPiece::Byte(wanted) => set(next, at + 1, c == *wanted),
                    GlobPiece::AnyByte => set(next, at + 1, c != b'/'),
                    GlobPiece::OneOf { ranges, negated } => {
                        let is_one = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                        set(next, at + 1, c != b'/' && is_one != *negated);
                    }
                    GlobPiece::AnyName => {
                        set(now, at + 1, true);
                        set(next, at, c != b'/');
                    }
                    GlobPiece::AnyFolders => {
                        set(now, at + 1, part_begins);
                        set(next, at, true);
                    }
                    GlobPiece::AllBelow => {
                        set(next, at, true);
                        set(next, at + 1, true);
                    }
                }
            }
            if !anywhere || *steps == 0 {
                return false;
            }
            part_begins = c == b'/';
            std::mem::swap(now, next);
        }
        let rest_is_empty = |at: usize| {
            let rest = self.pattern.get(at..).unwrap_or_default();
            rest.iter().all(|piece| *piece == GlobPiece::AnyName)
        };
        (0..=end).any(|at| is(now, at) && rest_is_empty(at))
    }

    /// Whether the text ends with the literal bytes at the end of the pattern. This check rules out most patterns for
    /// most paths.
    fn has_same_end(&self, text: &[u8]) -> bool {
        let mut text = text.iter().rev();
        for piece in self.pattern.iter().rev() {
            match piece {
                GlobPiece::Byte(wanted) if text.next() == Some(wanted) => {}
                GlobPiece::Byte(_) => return false,
                _ => return true,
            }
        }
        true
    }
}

fn is(states: &[bool], at: usize) -> bool {
    states.get(at).copied().unwrap_or_default()
}

fn set(states: &mut [bool], at: usize, can_be: bool) {
    if let Some(state) = states.get_mut(at) {
        *state |= can_be;
    }
}

/// Removes spaces at the end of a line. A space after a backslash stays.
fn without_trailing_blanks(line: &str) -> &str {
    let trimmed = line.trim_end();
    let backslashes = trimmed.chars().rev().take_while(|c| *c == '\\').count();
    match line.get(trimmed.len()..).and_then(|blanks| blanks.chars().next()) {
        Some(blank) if backslashes % 2 == 1 => {
            line.get(..trimmed.len() + blank.len_utf8()).unwrap_or(trimmed)
        }
        Some(_) | None => trimmed,
    }
}

/// Parses a pattern; `None` if the line is no pattern.
fn pieces(line: &[u8]) -> Option<Vec<GlobPiece>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    loop {
        let part_begins =
            matches!(pieces.last(), None | Some(GlobPiece::Byte(b'/') | GlobPiece::AnyFolders));
        let stars = rest.iter().take_while(|byte| **byte == b'*').count();
        let behind = rest.get(stars..).unwrap_or_default();
        rest = match (stars, behind) {
            (0, []) => return Some(pieces),
            (2.., []) if part_begins => {
                pieces.push(GlobPiece::AllBelow);
                behind
            }
            (2.., [b'/', rest @ ..]) if part_begins => {
                pieces.push(GlobPiece::AnyFolders);
                rest
            }
            (1.., _) => {
                pieces.push(GlobPiece::AnyName);
                behind
            }
            (0, [b'?', rest @ ..]) => {
                pieces.push(GlobPiece::AnyByte);
                rest
            }
            (0, [b'[', rest @ ..]) => {
                let (one_of, rest) = one_of(rest)?;
                pieces.push(one_of);
                rest
            }
            (0, [b'\\']) => return None,
            (0, [b'\\', c, rest @ ..] | [c, rest @ ..]) => {
                pieces.push(GlobPiece::Byte(*c));
                rest
            }
        };
    }
}

/// The first and the last byte of a range.
type ByteRange = (u8, u8);

/// The bytes of the class `[:name:]` inside brackets.
const CLASSES: [(&[u8], &[ByteRange]); 12] = [
    (b"alnum", &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')]),
    (b"alpha", &[(b'A', b'Z'), (b'a', b'z')]),
    (b"blank", &[(b'\t', b'\t'), (b' ', b' ')]),
    (b"cntrl", &[(0, 31), (127, 127)]),
    (b"digit", &[(b'0', b'9')]),
    (b"graph", &[(b'!', b'~')]),
    (b"lower", &[(b'a', b'z')]),
    (b"print", &[(b' ', b'~')]),
    (b"punct", &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')]),
    (b"space", &[(b'\t', b'\r'), (b' ', b' ')]),
    (b"upper", &[(b'A', b'Z')]),
    (b"xdigit", &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')]),
];

/// Parses the set after a `[`, and returns the rest after its `]`. `None` if the set is not closed, or if it contains a
/// class with an unknown name.
fn one_of(line: &[u8]) -> Option<(GlobPiece, &[u8])> {
    let (negated, mut rest) = match line {
        [b'!' | b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut ranges = Vec::new();
    loop {
        if let [b'[', b':', named @ ..] = rest
            && let Some(end) = memchr::memmem::find(named, b":]")
        {
            let name = named.get(..end)?;
            let (_, class) = CLASSES.iter().find(|(known, _)| *known == name)?;
            ranges.extend_from_slice(class);
            rest = named.get(end + 2..)?;
            continue;
        }
        let (from, after) = match rest {
            [b']', after @ ..] if !ranges.is_empty() => {
                return Some((GlobPiece::OneOf { ranges, negated }, after));
            }
            [b'\\', c, after @ ..] | [c, after @ ..] => (*c, after),
            [] => return None,
        };
        let (to, after) = match after {
            [b'-', b']', ..] => (from, after),
            [b'-', b'\\', to, after @ ..] | [b'-', to, after @ ..] => (*to, after),
            after => (from, after),
        };
        // A range whose end is before its beginning contains only the beginning.
        ranges.push((from, to.max(from)));
        rest = after;
    }
}
