//! Writes a file completely, or not at all.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::{Component, Path, PathBuf},
};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::{
    blocking_work::StopCheck,
    code_files::{CodeFiles, is_in_git},
    difference::{self, OldContent, difference},
    list::shown,
    root::{RootFolder, fault},
};
use harness_core::tool::{Review, Scope, ToolContext, ToolError};

/// One write: the root folder, the list of code files, the path and the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileWrite<'w> {
    pub(super) root: &'w RootFolder,
    pub(super) code: &'w CodeFiles,
    pub(super) given: &'w str,
    pub(super) content: &'w str,
}

impl FileWrite<'_> {
    /// The preview for an approval request, and whether an approval is required. A write that will fail requires no
    /// approval.
    pub(super) fn review(&self) -> Review {
        match self.target() {
            Ok(target) => self.review_of(&target),
            Err(WriteRefusal::InGit(reason)) => Review::refuse(reason),
            Err(WriteRefusal::ByTheDisk(_)) => Review::pass(),
        }
    }

    fn review_of(&self, target: &WriteTarget) -> Review {
        let Self { root, code, content, .. } = self;
        let path = shown(&target.path);
        let is_there = |path: &Path| root.dir.symlink_metadata(path).is_ok();
        let review = match code.reason_below(&root.path, &target.path, is_there) {
            Some(reason) => Review::ask(format!("`{path}`: {reason}")),
            None => Review::pass().with_scope(Scope::new(
                format!("file:{}", target.path.display()),
                format!("every write to `{path}`"),
            )),
        };
        let review = review.in_folder(&root.path);
        match self.old_text(&target.path) {
            Some(old) => review.with_preview(difference(&path, &old, content)),
            None => review,
        }
    }

    /// The current content of the path; `None` if the path is no regular file. A write replaces only regular files.
    fn old_text(&self, path: &Path) -> Option<OldContent> {
        let dir = &self.root.dir;
        let Ok(found) = dir.symlink_metadata(path) else { return Some(OldContent::Nothing) };
        if !found.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let read = self.root.read(path, self.given).map_err(io::Error::other).and_then(|file| {
            let found = file.metadata()?;
            file.take(difference::MAX_FILE + 1).read_to_end(&mut bytes)?;
            Ok(found)
        });
        // A user who may write a file may not always read it.
        let (found, why) = match read {
            Ok(_) if bytes.len() as u64 <= difference::MAX_FILE => {
                return Some(OldContent::Bytes(bytes));
            }
            Ok(found) => (found, "too many to be compared"),
            Err(_) => (found, "which cannot be read"),
        };
        Some(OldContent::Unread { bytes: found.len(), changed: changed(&found), why })
    }

    /// The path of the file with links inside the root resolved, so that a write through a link keeps the link.
    fn target(&self) -> Result<WriteTarget, WriteRefusal> {
        let Self { root, given, .. } = *self;
        let path = root.inside(given)?;
        let path = match root.real(&path) {
            Ok(real) => real,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                if root.dir.symlink_metadata(&path).is_ok() {
                    let text = format!(
                        "`{given}`: is a symbolic link to nothing; write to the file that it \
                         should lead to"
                    );
                    return Err(ToolError::new(text).with_source(err).into());
                }
                new_path(root, &path).map_err(|err| fault(given, err))?
            }
            Err(err) => return Err(fault(given, err).into()),
        };
        if is_in_git(&root.path.join(&path)) {
            return Err(WriteRefusal::InGit(format!(
                "`{given}`: is inside `.git`, where a hook or a setting runs commands; nothing is \
                 written there: use git itself"
            )));
        }
        let (Some(name), false) = (path.file_name(), given.ends_with('/')) else {
            let text = format!("`{given}`: names a folder; give the path of the file in it");
            return Err(ToolError::new(text).into());
        };
        let name = name.to_owned();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            Some(_) | None => ".".into(),
        };
        Ok(WriteTarget { path, folder, name })
    }

    /// Writes a new file beside the target and renames it. So the path always has the complete old or new text, even if
    /// the process is killed. The write is reviewed again directly before the rename.
    pub(super) fn run(&self, context: &ToolContext, stop: &StopCheck) -> Result<String, ToolError> {
        let Self { root, given, content, .. } = *self;
        let failed = |err| fault(given, err);
        let target = self.target()?;
        let WriteTarget { path, folder, name } = &target;
        let old = match root.dir.symlink_metadata(path) {
            Ok(_) => Some(root.writable(path, given)?.metadata().map_err(failed)?),
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            Err(err) => return Err(failed(err)),
        };
        root.dir.create_dir_all(folder).map_err(failed)?;
        let opened = root.dir.open_dir(folder).map_err(failed)?;

        let (beside, mut file) = TemporaryFile::create(&opened, old.is_some()).map_err(failed)?;
        file.write_all(content.as_bytes()).map_err(failed)?;
        if let Some(old) = &old {
            keep_owner_and_mode(&file, old).map_err(failed)?;
        }
        // Without this call, the rename could survive a power failure and the text could be lost.
        file.sync_all().map_err(failed)?;
        drop(file);
        stop.check()?;
        if self.target()? != target || !is_same_folder(root, folder, &opened).map_err(failed)? {
            return Err(ToolError::new(format!(
                "`{given}`: leads elsewhere than when it was checked, since another program has moved a \
                 folder or a link on its way; nothing was written: look where it leads now"
            )));
        }
        context.recheck(&self.review_of(&target))?;
        beside.rename(Path::new(name)).map_err(failed)?;

        let bytes = content.len();
        Ok(match old {
            None => format!("wrote {bytes} bytes to the new file `{given}`"),
            Some(old) => {
                format!("wrote {bytes} bytes to `{given}` in place of {} bytes", old.len())
            }
        })
    }
}

/// The target of a write, without links.
#[derive(Debug, PartialEq)]
struct WriteTarget {
    path: PathBuf,
    folder: PathBuf,
    name: OsString,
}

/// Why a file cannot be written.
#[derive(Debug)]
enum WriteRefusal {
    InGit(String),
    ByTheDisk(ToolError),
}

impl From<ToolError> for WriteRefusal {
    fn from(err: ToolError) -> Self {
        Self::ByTheDisk(err)
    }
}

impl From<WriteRefusal> for ToolError {
    fn from(refused: WriteRefusal) -> Self {
        match refused {
            WriteRefusal::InGit(reason) => Self::new(reason),
            WriteRefusal::ByTheDisk(err) => err,
        }
    }
}

/// Whether the path still leads to the opened folder, and contains no links.
#[cfg(unix)]
fn is_same_folder(root: &RootFolder, folder: &Path, opened: &Dir) -> io::Result<bool> {
    use cap_std::fs::MetadataExt as _;

    let real = root.real(folder)?;
    let here = if real.as_os_str().is_empty() { Path::new(".") } else { &real };
    let (there, opened) = (root.dir.symlink_metadata(here)?, opened.dir_metadata()?);
    Ok(here == folder && (there.dev(), there.ino()) == (opened.dev(), opened.ino()))
}

#[cfg(not(unix))]
fn is_same_folder(root: &RootFolder, folder: &Path, _: &Dir) -> io::Result<bool> {
    let real = root.real(folder)?;
    Ok(real == folder || real.as_os_str().is_empty() && folder == Path::new("."))
}

/// The time of the last change, which identifies one state of a file without reading it. The system updates this time
/// at each change, and programs cannot set it.
#[cfg(unix)]
fn changed(found: &Metadata) -> String {
    use cap_std::fs::MetadataExt as _;

    format!("{}.{:09} s after 1970", found.ctime(), found.ctime_nsec())
}

#[cfg(not(unix))]
fn changed(found: &Metadata) -> String {
    let changed = found.modified().ok().map(cap_std::time::SystemTime::into_std);
    let since = changed.and_then(|changed| changed.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} ns after 1970", since.unwrap_or_default().as_nanos())
}

#[cfg(unix)]
fn for_owner_alone(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn for_owner_alone(_: &mut OpenOptions) {}

/// Gives the new file the mode of the old file, and also its owner if the system allows this.
#[cfg(unix)]
fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    use cap_std::fs::{MetadataExt as _, Permissions, PermissionsExt as _};
    use rustix::fs::{Gid, Uid, fchown};

    let _ = fchown(file, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
    // The new text must not get the `setuid` bit of the old file.
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

#[cfg(not(unix))]
fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    file.set_permissions(old.permissions())
}

/// The path that a missing file will have. Links in the existing part of the path are resolved. The missing part of the
/// path follows unchanged.
fn new_path(root: &RootFolder, path: &Path) -> io::Result<PathBuf> {
    for above in path.ancestors().skip(1) {
        let there = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let real = match root.real(there) {
            Ok(real) => real,
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            Err(err) => return Err(err),
        };
        let rest = path.strip_prefix(above).unwrap_or(path);
        // `..` below a folder that does not exist cannot be resolved.
        if rest.components().any(|part| part == Component::ParentDir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        return Ok(rest
            .components()
            .filter(|part| *part != Component::CurDir)
            .fold(real, |p, part| p.join(part)));
    }
    Err(io::ErrorKind::NotFound.into())
}

/// A temporary file beside the target. Dropping this value removes the file, unless the file was renamed.
struct TemporaryFile<'d> {
    folder: &'d Dir,
    name: String,
    renamed: bool,
}

impl<'d> TemporaryFile<'d> {
    /// Creates the temporary file. If `replaces` is true, only the owner can read the file until it gets the mode of
    /// the old file. So a user who may not read the old text cannot read the new text.
    fn create(folder: &'d Dir, replaces: bool) -> io::Result<(Self, File)> {
        let name = format!(".{:016x}.tmp", fastrand::u64(..));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if replaces {
            for_owner_alone(&mut options);
        }
        let file = folder.open_with(&name, &options)?;
        Ok((Self { folder, name, renamed: false }, file))
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        self.folder.rename(&self.name, self.folder, to)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // A failure is ignored here, because the error that is being returned is more useful.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}
