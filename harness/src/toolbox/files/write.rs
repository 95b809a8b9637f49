//! Writes a whole file, or nothing of it.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::{
    off_loop::Stop,
    root::{Root, fault},
};
use crate::tool::ToolError;

/// Writes beside the file and renames, so that the path has the old text or the new one at any
/// instant, whoever is killed.
pub(super) fn write(
    root: &Root,
    given: &str,
    content: &str,
    stop: &Stop,
) -> Result<String, ToolError> {
    let failed = |err| fault(given, err);
    let path = real_path(root, given)?;
    let (Some(name), false) = (path.file_name(), given.ends_with('/')) else {
        return Err(ToolError::new(format!(
            "`{given}`: names a folder; give the path of the file in it"
        )));
    };
    let folder = match path.parent() {
        None => Path::new("."),
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
    };
    let old = match root.dir.symlink_metadata(&path) {
        Ok(_) => Some(root.writable(&path, given)?.metadata().map_err(failed)?),
        Err(err) if err.kind() == io::ErrorKind::NotFound => None,
        Err(err) => return Err(failed(err)),
    };
    root.dir.create_dir_all(folder).map_err(failed)?;
    let folder = root.dir.open_dir(folder).map_err(failed)?;

    let (beside, mut file) = Beside::create(&folder).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    if let Some(old) = &old {
        keep_owner_and_mode(&file, old).map_err(failed)?;
    }
    // Else the rename may survive a power cut that the text does not.
    file.sync_all().map_err(failed)?;
    drop(file);
    stop.check()?;
    beside.rename(Path::new(name)).map_err(failed)?;

    let bytes = content.len();
    Ok(match old {
        None => format!("wrote {bytes} bytes to the new file `{given}`"),
        Some(old) => format!("wrote {bytes} bytes to `{given}` in place of {} bytes", old.len()),
    })
}

/// Gives the file the mode of the old one, and its owner where the system allows it.
#[cfg(unix)]
fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    use cap_std::fs::{MetadataExt as _, Permissions, PermissionsExt as _};
    use rustix::fs::{Gid, Uid, fchown};

    let _ = fchown(file, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
    // A new text does not get what `setuid` gave to the old one.
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

#[cfg(not(unix))]
fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    file.set_permissions(old.permissions())
}

/// Where the file is, through links inside the root, so that a link stays a link.
fn real_path(root: &Root, given: &str) -> Result<PathBuf, ToolError> {
    let path = root.inside(given)?;
    let real = match root.real(&path) {
        Ok(real) => real,
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            if root.dir.symlink_metadata(&path).is_ok() {
                return Err(ToolError::new(format!(
                    "`{given}`: is a symbolic link to nothing; write to the file that it should \
                     lead to"
                ))
                .because(err));
            }
            new_path(root, &path).map_err(|err| fault(given, err))?
        }
        Err(err) => return Err(fault(given, err)),
    };
    // On some systems `.GIT` is the same folder.
    if real.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
        return Err(ToolError::new(format!(
            "`{given}`: is inside `.git`, where a hook or a setting runs commands; nothing is \
             written there: use git itself"
        )));
    }
    Ok(real)
}

/// Where a file will be that does not exist, below the part of its path that does.
fn new_path(root: &Root, path: &Path) -> io::Result<PathBuf> {
    for above in path.ancestors().skip(1) {
        let there = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match root.real(there) {
            Ok(real) => return Ok(real.join(path.strip_prefix(above).unwrap_or(path))),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(err),
        }
    }
    Ok(path.to_owned())
}

/// A file beside the one that is written; removed again unless it is renamed.
struct Beside<'d> {
    folder: &'d Dir,
    name: String,
    renamed: bool,
}

impl<'d> Beside<'d> {
    fn create(folder: &'d Dir) -> io::Result<(Self, File)> {
        let name = format!(".{:016x}.tmp", fastrand::u64(..));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = folder.open_with(&name, &options)?;
        Ok((Self { folder, name, renamed: false }, file))
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        self.folder.rename(&self.name, self.folder, to)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // The error that is on its way says more.
            let _ = self.folder.remove_file(&self.name);
        }
    }
}
