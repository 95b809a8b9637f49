//! A program in a folder of its own, as somebody outside has it, and what cargo takes to build it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::subject::Failure;

pub struct Folder(PathBuf);

impl Folder {
    /// Makes one with this line among its dependencies, in which `HERE` stands for the library, and
    /// with these profiles.
    pub fn new(root: &Path, name: &str, line: &str, profiles: &str) -> Result<Self, Failure> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Self(root.join(name));
        fs::create_dir_all(folder.path("src"))?;
        let library = here.join("../..").canonicalize()?;
        let line = line.replace("HERE", &library.display().to_string());
        let manifest = format!(
            "[workspace]\n[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\n{line}\n\
             tokio = {{ version = \"1\", features = [\"rt-multi-thread\", \"macros\"] }}\n{profiles}"
        );
        fs::write(folder.path("Cargo.toml"), manifest)?;
        // The same versions for all, as far as they have the same dependencies.
        fs::copy(here.join("Cargo.lock"), folder.path("Cargo.lock"))?;
        Ok(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&self.0);
        // A user's own settings: those of who measures do not count.
        for name in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS"] {
            command.env_remove(name);
        }
        command
    }

    /// The processor seconds of cargo and of all that it starts.
    pub fn cargo(&self, words: &[&str]) -> Result<f64, Failure> {
        let begun = children()?;
        let status = self.command(words).stderr(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("`cargo {}` failed", words.join(" ")).into());
        }
        Ok(children()? - begun)
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The processor seconds of all processes that this one has started and that have ended.
fn children() -> Result<f64, Failure> {
    /// What the kernel counts in on every Linux.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may hold anything.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no fields")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = (field(13).ok_or("no time")?, field(14).ok_or("no time")?);
    Ok((user + system) / TICKS)
}
