//! Lists the entries of a folder, or the files below the folder that match a glob.

use std::{ops::ControlFlow, path::Path};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{
    blocking_work::StopCheck,
    root::{RootFolder, fault},
    tools::MAX_TEXT,
    walk::{FolderEntry, FolderWalk, MAX_ENTRIES, entries},
};
use harness_core::tool::ToolError;

/// The maximum number of paths in one result.
const MAX_PATHS: usize = 1_000;
/// The maximum length of a glob, in bytes. Long globs take long to compile.
const MAX_GLOB: usize = 1_000;

/// Returns the sorted paths, one on each line, and a last line with the number of paths.
pub(super) fn list(
    root: &RootFolder,
    given: &str,
    glob: Option<&str>,
    stop: &StopCheck,
) -> Result<String, ToolError> {
    let glob = glob.map(PathGlob::new).transpose()?;
    let path = root.inside(given)?;
    if !root.look_at(&path, given)?.is_dir() {
        return Err(ToolError::new(format!(
            "`{given}`: is not a folder; `read_file` reads a file"
        )));
    }
    let folder = root.real(&path).map_err(|err| fault(given, err))?;
    match glob {
        None => direct(root, given, &folder, stop),
        Some(glob) => below(root, given, &folder, &glob, stop),
    }
}

fn direct(
    root: &RootFolder,
    given: &str,
    folder: &Path,
    stop: &StopCheck,
) -> Result<String, ToolError> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = entries(root, here, stop).map_err(|err| fault(given, err))?;
    stop.check()?;
    let gaps = if entries.len() > MAX_ENTRIES { "; there are more" } else { "" };
    let mut listing = PathListing::default();
    for FolderEntry { name, kind } in entries {
        let path = folder.join(name);
        let leads_to_folder =
            || kind.is_symlink() && root.dir.metadata(&path).is_ok_and(|found| found.is_dir());
        let is_folder = kind.is_dir() || leads_to_folder();
        listing.push(&path, if is_folder { "/" } else { "" });
    }
    Ok(listing.to_text("files and folders", gaps))
}

fn below(
    root: &RootFolder,
    given: &str,
    folder: &Path,
    glob: &PathGlob,
    stop: &StopCheck,
) -> Result<String, ToolError> {
    let mut listing = PathListing::default();
    let mut walk = FolderWalk::new(root, stop);
    walk.files(folder, &mut |path| {
        if glob.is_match(path.strip_prefix(folder).unwrap_or(path)) {
            listing.push(path, "");
        }
        ControlFlow::Continue(())
    })?;
    Ok(listing.to_text(&format!("files below `{given}` fit"), &walk.gaps()))
}

/// The first paths, and the total number of paths.
#[derive(Default)]
struct PathListing {
    lines: String,
    shown: usize,
    total: usize,
}

impl PathListing {
    fn push(&mut self, path: &Path, mark: &str) {
        let is_whole = self.shown == self.total;
        self.total += 1;
        if is_whole && self.shown < MAX_PATHS && self.lines.len() < MAX_TEXT {
            self.shown += 1;
            self.lines.push_str(&shown(path));
            self.lines.push_str(mark);
            self.lines.push('\n');
        }
    }

    fn to_text(&self, what: &str, gaps: &str) -> String {
        let Self { lines, shown, total } = self;
        if shown == total {
            return format!("{lines}[{total} {what}{gaps}]");
        }
        format!(
            "{lines}[the first {shown} of {total} {what}{gaps}; name a folder or a narrower \
             glob to see others]"
        )
    }
}

/// A glob for paths below a folder.
pub(super) struct PathGlob(GlobSet);

impl PathGlob {
    pub(super) fn new(glob: &str) -> Result<Self, ToolError> {
        if glob.len() > MAX_GLOB {
            return Err(ToolError::BadArguments(vec![format!(
                "`glob`: is longer than {MAX_GLOB} bytes; write a shorter one, such as `*.rs`"
            )]));
        }
        let path = glob.strip_prefix("./").unwrap_or(glob);
        let anywhere = if path.contains('/') { path.to_owned() } else { format!("**/{path}") };
        GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .and_then(|glob| GlobSetBuilder::new().add(glob).build())
            .map(Self)
            .map_err(|err| {
                ToolError::BadArguments(vec![format!(
                    "`glob`: {:?} is not a glob: {}; write one such as `*.rs` or `src/**/*.{{c,h}}`",
                    glob,
                    err.kind()
                )])
            })
    }

    pub(super) fn is_match(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }
}

/// A path in the form that the model reads: always on one line.
pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains(char::is_control) { format!("{text:?}") } else { text.into_owned() }
}
