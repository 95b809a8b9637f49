//! Shows which journals are open. Each open journal keeps a lock on a file of its own. The operating system releases
//! the lock when the process ends. So if a file can be locked, its journal is no longer open.
//!
//! A file is created and locked in one write transaction, and files of closed journals are removed in a write
//! transaction. So no process removes a new file before the file is locked. A name is never used twice.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use harness_core::journal::WriterId;

/// How often to try again if another process removes the folder at the same time.
const TRIES: usize = 100;

/// The folder with the files of open journals, and this journal's own file, if it was already created.
pub(super) struct OpenJournals {
    database: PathBuf,
    folder: PathBuf,
    own: Option<(String, File)>,
}

impl OpenJournals {
    pub(super) fn beside(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-lives");
        Self { database: database.to_owned(), folder: folder.into(), own: None }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of the journal's own file. The first call creates the file, inside a write transaction.
    pub(super) fn own(&mut self) -> io::Result<&str> {
        let begun = match self.own.take() {
            Some(own) => own,
            None => self.begin()?,
        };
        Ok(&self.own.insert(begun).0)
    }

    fn begin(&self) -> io::Result<(String, File)> {
        let life = WriterId::random().to_string();
        let (mut folder, mut file) = (DirBuilder::new(), OpenOptions::new());
        folder.recursive(true);
        file.read(true).write(true).create_new(true);
        #[cfg(unix)]
        self.share(&mut folder, &mut file);
        for tries in (0..TRIES).rev() {
            folder.create(&self.folder)?;
            match file.open(self.folder.join(&life)) {
                Ok(file) => {
                    file.try_lock()?;
                    self.sweep(&life);
                    return Ok((life, file));
                }
                // Another journal was the last to close, and has removed the folder.
                Err(err) if err.kind() == io::ErrorKind::NotFound && tries > 0 => {}
                Err(err) => return Err(err),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Gives access to the folder only to users who may use the database.
    #[cfg(unix)]
    fn share(&self, folder: &mut DirBuilder, file: &mut OpenOptions) {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};

        let mode = fs::metadata(&self.database).map_or(0o600, |it| it.permissions().mode()) & 0o666;
        file.mode(mode);
        // Users who may read the folder also need the right to enter it.
        folder.mode(mode | (mode & 0o444) >> 2);
    }

    /// Removes the files of closed journals. A file that cannot be removed stays, and the next journal tries again.
    fn sweep(&self, own: &str) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for file in files.flatten() {
            if let Some(life) = file.file_name().to_str()
                && life != own
                && WriterId::parse(life).is_some()
                && self.is_dead(life).unwrap_or(false)
            {
                self.remove(life);
            }
        }
    }

    /// Whether another journal is closed. An invalid name belongs to no journal, so the result is `true`.
    pub(super) fn is_dead(&self, life: &str) -> io::Result<bool> {
        if WriterId::parse(life).is_none() {
            return Ok(true);
        }
        let file = match File::open(self.folder.join(life)) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(err) => return Err(err),
        };
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }

    /// Removes the file of a closed journal.
    pub(super) fn remove(&self, life: &str) {
        // A failure does no harm: the file can still be locked, so the journal still counts as closed.
        drop(fs::remove_file(self.folder.join(life)));
    }
}

impl Drop for OpenJournals {
    fn drop(&mut self) {
        let Some((life, file)) = self.own.take() else { return };
        self.remove(&life);
        drop(file);
        // `remove_dir` fails if the folder still contains a file.
        drop(fs::remove_dir(&self.folder));
    }
}
