//! A program in a separate folder, as a user of a library would have it, and the CPU time that
//! cargo needs to build it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use crate::subject::Failure;

pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with a program. `line` is a line of its dependencies, in which `HERE` is
    /// replaced by the path of the library. `profiles` is the text of its profiles.
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
        // All programs use the same versions of dependencies that they have in common.
        fs::copy(here.join("Cargo.lock"), folder.path("Cargo.lock"))?;
        Ok(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&self.0);
        // The settings of the person who runs the measurement are removed, because other users do
        // not have them.
        for name in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs cargo. Returns the CPU seconds of cargo and of all processes that it starts.
    pub fn cargo(&self, words: &[&str]) -> Result<f64, Failure> {
        Ok(self.timed_cargo(words)?.0)
    }

    /// Runs cargo. Returns its CPU seconds and the seconds on the clock.
    pub fn timed_cargo(&self, words: &[&str]) -> Result<(f64, f64), Failure> {
        let (clock, begun) = (Instant::now(), children()?);
        let status = self.command(words).stderr(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("`cargo {}` failed", words.join(" ")).into());
        }
        Ok((children()? - begun, clock.elapsed().as_secs_f64()))
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The CPU seconds of all processes that this process has started and that have ended.
fn children() -> Result<f64, Failure> {
    /// The number of ticks per second in which every Linux kernel counts.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may contain any characters.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no fields")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = (field(13).ok_or("no time")?, field(14).ok_or("no time")?);
    Ok((user + system) / TICKS)
}
