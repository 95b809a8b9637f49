//! Searches files for a regular expression, line by line.

use std::{
    io::{self, Read},
    ops::ControlFlow,
    path::Path,
};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use super::{
    blocking_work::StopCheck,
    list::{PathGlob, shown},
    pattern::LinePattern,
    root::{RootFolder, fault},
    tools::MAX_TEXT,
    walk::FolderWalk,
};
use harness_core::tool::ToolError;

/// The maximum number of hits in one result.
const MAX_HITS: usize = 200;
/// The maximum number of bytes that a result shows of a line.
const MAX_LINE: usize = 300;
/// The number of bytes that a result shows before a hit in a longer line.
const BEFORE_HIT: usize = 100;
/// The maximum length of a searched line, in bytes. A file with a longer line is skipped.
const MAX_BUFFER: usize = 8 * 1024 * 1024;
/// The maximum number of bytes that a search reads of one file.
const MAX_FILE: u64 = 1024 * 1024 * 1024;

/// Returns each hit on its own line as `path:line: text`, and a last line about the searched files.
pub(super) fn search(
    root: &RootFolder,
    pattern: &str,
    given: &str,
    glob: Option<&str>,
    stop: &StopCheck,
) -> Result<String, ToolError> {
    let pattern = LinePattern::new(pattern, stop)?;
    let glob = glob.map(PathGlob::new).transpose()?;
    let path = root.inside(given)?;
    let found = root.look_at(&path, given)?;
    let real = root.real(&path).map_err(|err| fault(given, err))?;

    let mut search = LineSearch::new(&pattern, stop);
    if !found.is_dir() {
        let file = root.read(&real, given)?;
        search.file(&real, file);
        stop.check()?;
        return Ok(search.to_text(""));
    }
    let mut walk = FolderWalk::new(root, stop);
    walk.files(&real, &mut |path| {
        let from_there = path.strip_prefix(&real).unwrap_or(path);
        if glob.as_ref().is_some_and(|glob| !glob.is_match(from_there)) {
            return ControlFlow::Continue(());
        }
        match root.read(path, "") {
            Ok(file) => search.file(path, file),
            Err(_) => search.unread += 1,
        }
        if search.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(search.to_text(&walk.gaps()))
}

struct LineSearch<'s> {
    pattern: &'s LinePattern<'s>,
    searcher: Searcher,
    stop: &'s StopCheck,
    hits: Vec<String>,
    searched: usize,
    binary: usize,
    unread: usize,
}

impl<'s> LineSearch<'s> {
    fn new(pattern: &'s LinePattern<'s>, stop: &'s StopCheck) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_BUFFER))
            .build();
        Self { pattern, searcher, stop, hits: Vec::new(), searched: 0, binary: 0, unread: 0 }
    }

    fn is_full(&self) -> bool {
        is_full(&self.hits)
    }

    fn file(&mut self, path: &Path, file: impl Read) {
        let before = self.hits.len();
        let path = shown(path);
        let mut hits =
            FileHits { path: &path, pattern: self.pattern, hits: &mut self.hits, is_binary: false };
        let reader = StoppableReader { reader: file.take(MAX_FILE), stop: self.stop };
        let done = self.searcher.search_reader(self.pattern, reader, &mut hits);
        let is_binary = hits.is_binary;
        if is_binary {
            self.hits.truncate(before);
        }
        match done {
            Ok(()) if is_binary => self.binary += 1,
            Ok(()) => self.searched += 1,
            Err(_) => self.unread += 1,
        }
    }

    fn to_text(&self, gaps: &str) -> String {
        let Self { hits, searched, binary, unread, .. } = self;
        let mut lines = hits.concat();
        if !self.is_full() {
            lines += &format!("[{} hits in {searched} files searched", hits.len());
        } else {
            lines += &format!(
                "[stopped after {} hits; name a folder, a glob or a narrower pattern",
                hits.len()
            );
        }
        for (count, what) in [(binary, "binary files"), (unread, "files that cannot be read")] {
            if *count > 0 {
                lines += &format!("; passed over {count} {what}");
            }
        }
        lines + gaps + "]"
    }
}

fn is_full(hits: &[String]) -> bool {
    hits.len() >= MAX_HITS || hits.iter().map(String::len).sum::<usize>() >= MAX_TEXT
}

/// Collects the hits in one file.
struct FileHits<'h> {
    path: &'h str,
    pattern: &'h LinePattern<'h>,
    hits: &'h mut Vec<String>,
    is_binary: bool,
}

impl Sink for FileHits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = found.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let hit = self.pattern.find(line)?.map_or(0, |hit| hit.start());
        let number = found.line_number().unwrap_or_default();
        self.hits.push(format!("{}:{number}: {}\n", self.path, around(line, hit)));
        Ok(!is_full(self.hits))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// The line, or a part of a long line around the hit.
fn around(line: &[u8], hit: usize) -> String {
    let text = String::from_utf8_lossy(line);
    if text.len() <= MAX_LINE {
        return text.into_owned();
    }
    let boundary = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    // Replacements of invalid bytes are longer, so the hit may be a little further on.
    let start = boundary(hit.saturating_sub(BEFORE_HIT));
    let end = boundary(start + MAX_LINE);
    let part = text.get(start..end).unwrap_or_default();
    let before = if start > 0 { format!("[{start} bytes] ") } else { String::new() };
    let after = text.len() - end;
    let after = if after > 0 { format!(" [{after} bytes]") } else { String::new() };
    format!("{before}{part}{after}")
}

/// A reader that fails once the work has to stop.
struct StoppableReader<'s, R> {
    reader: R,
    stop: &'s StopCheck,
}

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        self.reader.read(buffer)
    }
}
