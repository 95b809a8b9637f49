//! Walks through a folder and everything below it, in the order of the paths. A walk follows no links. It skips `.git`
//! and all paths that are listed in `.gitignore` and `.ignore` files.

use std::{io::Read as _, ops::ControlFlow, path::Path};

use cap_std::fs::FileType;

use super::{
    blocking_work::StopCheck,
    ignore_files::{self, IgnoreFiles},
    root::RootFolder,
};
use harness_core::tool::ToolError;

/// The maximum nesting depth of folders. Deeper folders are left out and counted.
const MAX_DEPTH: usize = 64;
/// The maximum number of files and folders that a walk visits.
pub(super) const MAX_ENTRIES: usize = 100_000;

/// An entry of a folder.
pub(super) struct FolderEntry {
    pub(super) name: std::ffi::OsString,
    pub(super) kind: FileType,
}

/// The entries of a folder, sorted by name. Unreadable entries are left out.
pub(super) fn entries(
    root: &RootFolder,
    folder: &Path,
    stop: &StopCheck,
) -> std::io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in root.dir.read_dir(folder)?.take(MAX_ENTRIES + 1) {
        if stop.check().is_err() {
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        entries.push(FolderEntry { name: entry.file_name(), kind });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// A walk through the files below a folder.
pub(super) struct FolderWalk<'w> {
    root: &'w RootFolder,
    stop: &'w StopCheck,
    ignored: IgnoreFiles,
    seen: usize,
    /// The number of folders that could not be read or are nested too deep.
    unread: usize,
    /// Whether the walk has reached its maximum number of entries.
    gave_up: bool,
}

impl<'w> FolderWalk<'w> {
    pub(super) fn new(root: &'w RootFolder, stop: &'w StopCheck) -> Self {
        Self { root, stop, ignored: IgnoreFiles::new(), seen: 0, unread: 0, gave_up: false }
    }

    /// Calls `visit` for each regular file below `folder`, with its path relative to the root. `folder` must not
    /// contain links, `.` or `..`.
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

    /// Describes the parts that the walk has left out, for the last line of a result.
    pub(super) fn gaps(&self) -> String {
        let mut gaps = String::new();
        if self.unread > 0 {
            gaps += &format!("; {} folders could not be read or lie too deep", self.unread);
        }
        if self.gave_up {
            gaps += &format!("; gave up after {MAX_ENTRIES} files and folders: name a folder");
        }
        gaps + &self.ignored.gaps()
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
        let depth_before = self.ignored.depth();
        self.enter(folder);
        for FolderEntry { name, kind } in entries {
            self.stop.check()?;
            self.seen += 1;
            if self.seen > MAX_ENTRIES {
                self.gave_up = true;
                return Ok(ControlFlow::Break(()));
            }
            let path = folder.join(&name);
            if name == ".git" || self.ignored.has(&path, kind.is_dir()) {
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
        self.ignored.leave(depth_before);
        Ok(ControlFlow::Continue(()))
    }

    fn is_file(&self, path: &Path) -> bool {
        self.root.dir.symlink_metadata(path).is_ok_and(|found| found.is_file())
    }

    /// Reads the ignore files of a folder.
    fn enter(&mut self, folder: &Path) {
        let mut files = Vec::new();
        // Later files override earlier files, so `.ignore` overrides `.gitignore`.
        for name in [".gitignore", ".ignore"] {
            let path = folder.join(name);
            let mut text = Vec::new();
            let most = ignore_files::MAX_FILE as u64 + 1;
            match self.root.read(&path, name).map(|file| file.take(most).read_to_end(&mut text)) {
                Ok(Ok(_)) => files.push((path, text)),
                // A folder, a pipe or a link to the outside with this name is no ignore file.
                Err(_) if !self.is_file(&path) => {}
                Ok(Err(_)) | Err(_) => self.ignored.pass_over(path),
            }
        }
        self.ignored.enter(folder, files);
    }
}
