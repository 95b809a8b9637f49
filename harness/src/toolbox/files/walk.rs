//! Goes through a folder and all below it, in the order of the paths. It follows no links, and
//! leaves out `.git` and what ignore files name.

use std::{io::Read as _, ops::ControlFlow, path::Path};

use cap_std::fs::FileType;
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::{off_loop::Stop, root::Root};
use crate::tool::ToolError;

/// How deep folders may nest; deeper ones are left out and counted.
const MAX_DEPTH: usize = 64;
/// How many files and folders are looked at.
pub(super) const MAX_ENTRIES: usize = 100_000;
/// How much of an ignore file is read.
const MAX_IGNORE_FILE: u64 = 1024 * 1024;

/// One thing in a folder.
pub(super) struct Entry {
    pub(super) name: std::ffi::OsString,
    pub(super) kind: FileType,
}

/// What is in a folder, by name. Entries that cannot be looked at are left out.
pub(super) fn entries(root: &Root, folder: &Path, stop: &Stop) -> std::io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in root.dir.read_dir(folder)?.take(MAX_ENTRIES + 1) {
        if stop.check().is_err() {
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        entries.push(Entry { name: entry.file_name(), kind });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// A walk through the files below a folder.
pub(super) struct Walk<'w> {
    root: &'w Root,
    stop: &'w Stop,
    /// The ignore files from the root down to where the walk is.
    ignored: Vec<Ignored>,
    seen: usize,
    /// Folders that could not be read or lie too deep.
    unread: usize,
    /// Whether there is more than is looked at.
    gave_up: bool,
}

/// What the ignore files of one folder say. It is asked with paths relative to that folder.
struct Ignored {
    depth: usize,
    rules: Gitignore,
}

impl<'w> Walk<'w> {
    pub(super) fn new(root: &'w Root, stop: &'w Stop) -> Self {
        Self { root, stop, ignored: Vec::new(), seen: 0, unread: 0, gave_up: false }
    }

    /// Hands each regular file below `folder` to `visit`, its path relative to the root. The
    /// folder is a real path, without links, `.` and `..`.
    pub(super) fn files(
        &mut self,
        folder: &Path,
        visit: &mut dyn FnMut(&Path) -> ControlFlow<()>,
    ) -> Result<(), ToolError> {
        let mut above: Vec<&Path> = folder.ancestors().skip(1).collect();
        above.reverse();
        for folder in above {
            self.enter(folder);
        }
        let _ = self.below(folder, 0, visit)?;
        self.stop.check()
    }

    /// What was left out, for the last line of an answer.
    pub(super) fn gaps(&self) -> String {
        let mut gaps = String::new();
        if self.unread > 0 {
            gaps += &format!("; {} folders could not be read or lie too deep", self.unread);
        }
        if self.gave_up {
            gaps += &format!("; gave up after {MAX_ENTRIES} files and folders: name a folder");
        }
        gaps
    }

    fn below(
        &mut self,
        folder: &Path,
        depth: usize,
        visit: &mut dyn FnMut(&Path) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ToolError> {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (Ok(entries), true) = (entries(self.root, here, self.stop), depth < MAX_DEPTH) else {
            self.unread += 1;
            return Ok(ControlFlow::Continue(()));
        };
        let rules_before = self.ignored.len();
        self.enter(folder);
        for Entry { name, kind } in entries {
            self.stop.check()?;
            self.seen += 1;
            if self.seen > MAX_ENTRIES {
                self.gave_up = true;
                return Ok(ControlFlow::Break(()));
            }
            let path = folder.join(&name);
            if name == ".git" || self.is_ignored(&path, kind.is_dir()) {
                continue;
            }
            let flow = if kind.is_dir() {
                self.below(&path, depth + 1, visit)?
            } else if kind.is_file() {
                visit(&path)
            } else {
                ControlFlow::Continue(())
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        self.ignored.truncate(rules_before);
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the ignore files of a folder. Lines that are no patterns are left out, as git does.
    fn enter(&mut self, folder: &Path) {
        let mut rules = GitignoreBuilder::new("");
        // Later lines win, so that `.ignore` overrules.
        for name in [".gitignore", ".ignore"] {
            let path = folder.join(name);
            let mut text = Vec::new();
            let Ok(file) = self.root.read(&path, name) else { continue };
            if file.take(MAX_IGNORE_FILE).read_to_end(&mut text).is_err() {
                continue;
            }
            for line in String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').lines() {
                let _ = rules.add_line(None, line);
            }
        }
        if let Ok(rules) = rules.build()
            && !rules.is_empty()
        {
            self.ignored.push(Ignored { depth: folder.components().count(), rules });
        }
    }

    /// The innermost ignore file that says something of it decides.
    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        for Ignored { depth, rules } in self.ignored.iter().rev() {
            let from_there: &Path = &path.components().skip(*depth).collect::<std::path::PathBuf>();
            match rules.matched(from_there, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}
