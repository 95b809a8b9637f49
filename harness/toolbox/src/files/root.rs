//! The only access to the disk. Every path is opened inside the root folder, by the operating system or one component
//! at a time, so neither `..` nor an absolute path nor a symbolic link leads outside.

use std::{
    io,
    path::{Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, File, Metadata, OpenOptions},
};

use harness_core::{
    error::{Error, ErrorKind},
    tool::ToolError,
};

/// The root folder. No tool can leave it.
#[derive(Debug)]
pub(super) struct RootFolder {
    pub(super) dir: Dir,
    /// The path of the folder, for absolute paths and for messages. Files are never opened by this path.
    pub(super) path: PathBuf,
}

impl RootFolder {
    pub(super) fn open(given: &Path) -> Result<Self, Error> {
        let open = || {
            let path = given.canonicalize()?;
            Ok(Self { dir: Dir::open_ambient_dir(&path, ambient_authority())?, path })
        };
        open().map_err(|err: io::Error| {
            let text = format!(
                "`Files::in_folder`: `{}` cannot be opened; give the path of a folder that exists",
                given.display()
            );
            Error::new(ErrorKind::Configuration, text).with_source(err)
        })
    }

    /// The path relative to the root. Opening the path checks that it stays inside the root.
    pub(super) fn inside(&self, given: &str) -> Result<PathBuf, ToolError> {
        let path = Path::new(given);
        if given.is_empty() {
            return Err(ToolError::BadArguments(vec![
                "`path`: is empty; the folder itself is `.`".to_owned(),
            ]));
        }
        let relative = match path.strip_prefix(&self.path) {
            Ok(relative) => relative,
            Err(_) if path.has_root() || path.is_absolute() => return Err(outside(given)),
            Err(_) => path,
        };
        Ok(if relative.as_os_str().is_empty() { ".".into() } else { relative.to_owned() })
    }

    /// The path of an existing file relative to the root, without links, `.` and `..`. Empty for the root itself.
    pub(super) fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let real = self.dir.canonicalize(path)?;
        Ok(real.strip_prefix(".").map(Path::to_owned).unwrap_or(real))
    }

    /// The metadata of this path. Links inside the root are followed.
    pub(super) fn look_at(&self, path: &Path, given: &str) -> Result<Metadata, ToolError> {
        self.dir.metadata(path).map_err(|err| fault(given, err))
    }

    /// Opens a regular file for reading. A FIFO or a device is refused without opening it.
    pub(super) fn read(&self, path: &Path, given: &str) -> Result<File, ToolError> {
        let mut options = OpenOptions::new();
        options.read(true);
        self.regular(path, given, options)
    }

    /// Opens an existing regular file without changing it, to check that it can be written.
    pub(super) fn writable(&self, path: &Path, given: &str) -> Result<File, ToolError> {
        let mut options = OpenOptions::new();
        options.write(true);
        self.regular(path, given, options)
    }

    fn regular(
        &self,
        path: &Path,
        given: &str,
        mut options: OpenOptions,
    ) -> Result<File, ToolError> {
        // The type is checked before opening, because opening a device may have an effect. After opening, the type is
        // checked again, because the path may name another file by then. Opening must not block if the other file is a
        // FIFO.
        regular(&self.look_at(path, given)?, given)?;
        never_block(&mut options);
        let file = self.dir.open_with(path, &options).map_err(|err| fault(given, err))?;
        regular(&file.metadata().map_err(|err| fault(given, err))?, given)?;
        Ok(file)
    }
}

#[cfg(unix)]
fn never_block(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt as _;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
}

#[cfg(not(unix))]
fn never_block(_: &mut OpenOptions) {}

fn regular(found: &Metadata, given: &str) -> Result<(), ToolError> {
    if found.is_file() {
        return Ok(());
    }
    Err(ToolError::new(if found.is_dir() {
        format!("`{given}`: is a folder, not a file; `list_files` shows what is in it")
    } else {
        format!("`{given}`: is a pipe, socket or device, not a file; only files are touched")
    }))
}

fn outside(given: &str) -> ToolError {
    ToolError::new(format!(
        "`{given}`: leads out of the folder of these tools; give a path inside it, relative to it, \
         such as `src/main.rs`; a symbolic link must have a relative target inside it"
    ))
}

/// The error for the model, made from an error of the operating system.
pub(super) fn fault(given: &str, err: io::Error) -> ToolError {
    use io::ErrorKind::{
        InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        StorageFull,
    };

    let reason = match err.kind() {
        // A refusal by the system has an error number. An error without a number means that the path leads outside.
        PermissionDenied if err.raw_os_error().is_none() => return outside(given).with_source(err),
        PermissionDenied => "the system does not allow it; choose another path".to_owned(),
        NotFound => "there is no such file or folder; `list_files` shows what there is".to_owned(),
        NotADirectory => "a part of the path that should be a folder is a file".to_owned(),
        IsADirectory => "is a folder, not a file".to_owned(),
        InvalidInput | InvalidFilename => {
            "cannot be a path: it is too long or has a character that the system refuses".to_owned()
        }
        StorageFull => "the disk is full; nothing was changed".to_owned(),
        _ if is_link_loop(&err) => {
            "its symbolic links lead in a circle; use the file that they should lead to".to_owned()
        }
        _ => format!("{err}; choose another path or try again later"),
    };
    ToolError::new(format!("`{given}`: {reason}")).with_source(err)
}

fn is_link_loop(err: &io::Error) -> bool {
    #[cfg(unix)]
    return err.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    return false;
}
