//! What a user waits for before the first run: a program that asks once (`hello/*.rs`) with each
//! library, in folders of their own, built from nothing, built again after its `main.rs` was
//! touched, and how large it is.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{figures::Figure, subject::Failure};

/// The program's file, its name in the tables, and the line of its manifest: default features,
/// except where those are a program of their own.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("harness", "harness", "harness = { path = \"HERE\" }"),
    ("harness_tool", "harness, with a tool", "harness = { path = \"HERE\" }"),
    ("rig", "rig 0.46", "rig = \"=0.46.0\""),
    ("genai", "genai 0.7", "genai = \"=0.7.2\""),
    (
        "async_openai",
        "async-openai 0.43",
        "async-openai = { version = \"=0.43.0\", features = [\"chat-completion\"] }",
    ),
    (
        "llm",
        "llm 1.3",
        "llm = { version = \"=1.3.8\", default-features = false, features = [\"openai\", \"anthropic\", \"rustls-tls\"] }",
    ),
    ("aisdk", "aisdk 0.5", "aisdk = { version = \"=0.5.2\", features = [\"openai\"] }"),
];

/// So often is a program built from nothing, and built again; the medians count. The release build
/// takes longest, and is done once.
const BUILDS: usize = 3;
const REBUILDS: usize = 11;

struct Program {
    name: &'static str,
    folder: PathBuf,
    packages: f64,
    debug: Vec<f64>,
    release: f64,
    again: Vec<f64>,
    megabytes: f64,
}

/// Builds each program in turn: debug, again and again, and release if that is wanted, which takes
/// so long that what there is before is kept first.
pub fn measure(
    release: bool,
    keep: impl Fn(Vec<Figure>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let root = std::env::temp_dir().join(format!("hello-{}", std::process::id()));
    let mut programs = Vec::new();
    for (file, name, line) in PROGRAMS {
        match Program::prepare(&root, file, name, line) {
            Ok(program) => programs.push(program),
            Err(err) => println!("{name} is left out: {err}"),
        }
    }
    for _ in 0..BUILDS {
        programs.retain_mut(|program| match program.build() {
            Ok(()) => true,
            Err(err) => {
                println!("{} is left out: {err}", program.name);
                false
            }
        });
    }
    for at in 0..REBUILDS {
        for program in &mut programs {
            program.build_again(at)?;
        }
    }
    keep(programs.iter().map(Program::figure).collect())?;
    if release {
        for program in &mut programs {
            program.release()?;
        }
        keep(programs.iter().map(Program::figure).collect())?;
    }
    Ok(fs::remove_dir_all(root)?)
}

impl Program {
    fn prepare(root: &Path, file: &str, name: &'static str, line: &str) -> Result<Self, Failure> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = root.join(file);
        fs::create_dir_all(folder.join("src"))?;
        let library = here.join("../..").canonicalize()?;
        let line = line.replace("HERE", &library.display().to_string());
        // What comes from a registry is never built incrementally; what comes from a path would be.
        let manifest = format!(
            "[workspace]\n[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\n{line}\n\
             tokio = {{ version = \"1\", features = [\"rt-multi-thread\", \"macros\"] }}\n\
             [profile.dev.package.\"*\"]\nincremental = false\n\
             [profile.release]\nstrip = true\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::copy(here.join("hello").join(format!("{file}.rs")), folder.join("src/main.rs"))?;
        // The same versions for all, as far as they have the same dependencies.
        fs::copy(here.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        let mut program = Self {
            name,
            folder,
            packages: 0.0,
            debug: Vec::new(),
            release: f64::NAN,
            again: Vec::new(),
            megabytes: f64::NAN,
        };
        program.cargo(&["fetch"])?;
        let tree = program.command(&["tree", "-e", "normal,build", "--prefix", "none"]).output()?;
        let tree = String::from_utf8(tree.stdout)?;
        let mut packages: Vec<_> = tree
            .lines()
            .map(|line| line.trim_end_matches(" (*)"))
            .filter(|line| !line.is_empty() && !line.starts_with("hello v"))
            .collect();
        packages.sort_unstable();
        packages.dedup();
        program.packages = packages.len() as f64;
        Ok(program)
    }

    fn build(&mut self) -> Result<(), Failure> {
        let target = self.folder.join("target");
        if target.exists() {
            fs::remove_dir_all(target)?;
        }
        let spent = self.cargo(&["build", "--ignore-rust-version"])?;
        self.debug.push(spent);
        Ok(())
    }

    fn release(&mut self) -> Result<(), Failure> {
        self.release = self.cargo(&["build", "--release", "--ignore-rust-version"])?;
        let binary = fs::metadata(self.folder.join("target/release/hello"))?;
        self.megabytes = binary.len() as f64 / 1e6;
        Ok(())
    }

    /// The program says something else each time, as it does when somebody works at it.
    fn build_again(&mut self, at: usize) -> Result<(), Failure> {
        let main = self.folder.join("src/main.rs");
        let text = fs::read_to_string(&main)?;
        let (head, tail) = text.split_once("Hello").ok_or("no `Hello` in the program")?;
        let tail = tail.trim_start_matches('!');
        fs::write(&main, format!("{head}Hello{}{tail}", "!".repeat(at + 1)))?;
        let spent = self.cargo(&["build", "--ignore-rust-version"])?;
        self.again.push(spent);
        Ok(())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(words).current_dir(&self.folder);
        // A user's own settings: those of who measures do not count.
        for name in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS"] {
            command.env_remove(name);
        }
        command
    }

    /// The processor seconds of cargo and of all that it starts.
    fn cargo(&self, words: &[&str]) -> Result<f64, Failure> {
        let begun = children()?;
        let status = self.command(words).stderr(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("`cargo {}` failed", words.join(" ")).into());
        }
        Ok(children()? - begun)
    }

    fn figure(&self) -> Figure {
        let values = [
            ("packages", self.packages),
            ("debug CPU s", median(&self.debug)),
            ("release CPU s", self.release),
            ("incremental CPU s", median(&self.again)),
            ("stripped MB", self.megabytes),
        ];
        Figure::new("build", "hello", self.name, &values)
    }
}

fn median(values: &[f64]) -> f64 {
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
