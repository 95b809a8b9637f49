//! Measures the time that a user needs before the first run. A program with one request
//! (`hello/*.rs`) exists for each library, in a separate folder. Each program is built from
//! scratch, and built again after a change of its `main.rs`. The size of the program is measured,
//! too.

use std::{fs, path::Path};

use crate::{
    figures::Figure,
    folder::{Folder, median},
    subject::Failure,
};

/// The file of each program, its name in the tables, and the dependency in its manifest. The
/// dependency uses default features, unless the library needs other features for this program.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("harness", "harness", "harness = { path = \"HERE\" }"),
    ("harness_tool", "harness, with a tool", "harness = { path = \"HERE\" }"),
    // The floor: the packages that `harness` uses for a request, with the same features.
    (
        "by_hand",
        FLOOR,
        "reqwest = { version = \"0.13\", default-features = false, features = [\"rustls-no-provider\", \"system-proxy\"] }\n\
         rustls = { version = \"0.23\", default-features = false, features = [\"ring\", \"std\", \"tls12\"] }\n\
         serde_json = \"1\"",
    ),
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

/// The program that uses no library for models.
pub const FLOOR: &str = "reqwest, by hand";

/// The number of builds from scratch (`BUILDS`), and of builds after a change (`REBUILDS`). The
/// medians count. The release build takes longest and runs once.
const BUILDS: usize = 3;
const REBUILDS: usize = 11;

struct Program {
    name: &'static str,
    folder: Folder,
    packages: f64,
    debug: Vec<f64>,
    clock: Vec<f64>,
    release: f64,
    again: Vec<f64>,
    megabytes: f64,
}

/// Builds the programs in turn: debug builds, builds after a change, and release builds if
/// `release` is `true`. Release builds take so long that the other results are stored before them.
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
        // cargo never builds packages from a registry incrementally, but does so with packages from
        // a path. This profile turns that off, so that all libraries are built in the same way.
        let profiles =
            "[profile.dev.package.\"*\"]\nincremental = false\n[profile.release]\nstrip = true\n";
        let folder = Folder::new(root, file, line, profiles)?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::copy(here.join("hello").join(format!("{file}.rs")), folder.path("src/main.rs"))?;
        let mut program = Self {
            name,
            folder,
            packages: 0.0,
            debug: Vec::new(),
            clock: Vec::new(),
            release: f64::NAN,
            again: Vec::new(),
            megabytes: f64::NAN,
        };
        program.folder.cargo(&["fetch"])?;
        let words = ["tree", "-e", "normal,build", "--prefix", "none"];
        let tree = program.folder.command(&words).output()?;
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
        let target = self.folder.path("target");
        if target.exists() {
            fs::remove_dir_all(target)?;
        }
        let (spent, clock) = self.folder.timed_cargo(&["build", "--ignore-rust-version"])?;
        self.debug.push(spent);
        self.clock.push(clock);
        Ok(())
    }

    fn release(&mut self) -> Result<(), Failure> {
        self.release = self.folder.cargo(&["build", "--release", "--ignore-rust-version"])?;
        let binary = fs::metadata(self.folder.path("target/release/hello"))?;
        self.megabytes = binary.len() as f64 / 1e6;
        Ok(())
    }

    /// Changes the text that the program prints, as a developer might do, and builds the program
    /// again.
    fn build_again(&mut self, at: usize) -> Result<(), Failure> {
        let main = self.folder.path("src/main.rs");
        let text = fs::read_to_string(&main)?;
        let (head, tail) = text.split_once("Hello").ok_or("no `Hello` in the program")?;
        let tail = tail.trim_start_matches('!');
        fs::write(&main, format!("{head}Hello{}{tail}", "!".repeat(at + 1)))?;
        let spent = self.folder.cargo(&["build", "--ignore-rust-version"])?;
        self.again.push(spent);
        Ok(())
    }

    fn figure(&self) -> Figure {
        let values = [
            ("packages", self.packages),
            ("debug CPU s", median(&self.debug)),
            ("debug s", median(&self.clock)),
            ("release CPU s", self.release),
            ("incremental CPU s", median(&self.again)),
            ("stripped MB", self.megabytes),
        ];
        Figure::new("build", "hello", self.name, &values)
    }
}
