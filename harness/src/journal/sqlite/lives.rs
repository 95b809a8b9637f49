//! Who lives: a file for each open journal, locked as long as it is open. The system lets go of the
//! lock when the process ends in any way, so a file that can be locked is that of somebody dead.
//!
//! A life begins, and the dead are removed, only inside a transaction that writes, so that nobody
//! takes a file for dead that is made and not locked yet. A name is never used twice.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::journal::Life;

/// How often to try where somebody else removes the folder at the same time.
const TRIES: usize = 100;

/// The folder of the lives, and one's own, once there is one.
pub(super) struct Lives {
    folder: PathBuf,
    own: Option<(String, File)>,
}

impl Lives {
    pub(super) fn beside(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-lives");
        Self { folder: folder.into(), own: None }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The own life, which begins now if it has not. Inside a transaction that writes.
    pub(super) fn own(&mut self) -> io::Result<&str> {
        let begun = match self.own.take() {
            Some(own) => own,
            None => self.begin()?,
        };
        Ok(&self.own.insert(begun).0)
    }

    fn begin(&self) -> io::Result<(String, File)> {
        let life = Life::random().to_string();
        for tries in (0..TRIES).rev() {
            fs::create_dir_all(&self.folder)?;
            match File::create_new(self.folder.join(&life)) {
                Ok(file) => {
                    file.try_lock()?;
                    self.sweep(&life);
                    return Ok((life, file));
                }
                // Whoever ended last has removed the folder.
                Err(err) if err.kind() == io::ErrorKind::NotFound && tries > 0 => {}
                Err(err) => return Err(err),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Removes the files of the dead. What cannot be removed is left to the next one.
    fn sweep(&self, own: &str) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for file in files.flatten() {
            if let Some(life) = file.file_name().to_str()
                && life != own
                && Life::parse(life).is_some()
                && self.is_dead(life).unwrap_or(false)
            {
                self.remove(life);
            }
        }
    }

    /// Whether somebody else has ended. A name that is none is that of nobody.
    pub(super) fn is_dead(&self, life: &str) -> io::Result<bool> {
        if Life::parse(life).is_none() {
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

    /// Removes the file of somebody dead.
    pub(super) fn remove(&self, life: &str) {
        // Without its file it is as dead as before.
        drop(fs::remove_file(self.folder.join(life)));
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        let Some((life, file)) = self.own.take() else { return };
        self.remove(&life);
        drop(file);
        // If it was the last one.
        drop(fs::remove_dir(&self.folder));
    }
}
