//! Measures the build time of a tool: a library with two hundred tools (`macros/*.rs`) is compared
//! with the same library without tools.

use std::{fs, path::Path};

use crate::{
    figures::Figure,
    folder::{Folder, median},
    subject::Failure,
};

/// The file with the tool, the name of its library in the tables, and the dependency in the
/// manifest.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("harness", "harness", "harness = { path = \"HERE\" }"),
    ("rig", "rig 0.46", "rig = \"=0.46.0\""),
    ("aisdk", "aisdk 0.5", "aisdk = { version = \"=0.5.2\", features = [\"openai\"] }"),
];

const TOOLS: usize = 200;

/// The number of measurements with tools and without tools. The medians count.
const ROUNDS: usize = 5;

/// The commands of cargo, and their names in the tables.
const COMMANDS: [(&str, &str); 2] = [("check", "check ms a tool"), ("build", "build ms a tool")];

struct Library {
    name: &'static str,
    folder: Folder,
    without: String,
    with: String,
    /// The CPU seconds of each command, with tools and without tools.
    spent: [(Vec<f64>, Vec<f64>); 2],
}

pub fn measure() -> Result<Vec<Figure>, Failure> {
    let root = std::env::temp_dir().join(format!("macros-{}", std::process::id()));
    let mut libraries = Vec::new();
    for (file, name, line) in LIBRARIES {
        libraries.push(Library::prepare(&root, file, name, line)?);
    }
    for _ in 0..ROUNDS {
        for library in &mut libraries {
            library.round()?;
        }
    }
    fs::remove_dir_all(root)?;
    Ok(libraries.iter().map(Library::figure).collect())
}

impl Library {
    fn prepare(root: &Path, file: &str, name: &'static str, line: &str) -> Result<Self, Failure> {
        let folder = Folder::new(root, file, line, "[profile.dev]\ndebug = 0\n")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("macros").join(file);
        let source = fs::read_to_string(source.with_extension("rs"))?;
        let (head, tool) = source.split_once("// --\n").ok_or("no mark before the tool")?;
        let mut with = head.to_owned();
        for at in 0..TOOLS {
            with.push_str(&tool.replace("fn find(", &format!("fn find_{at}(")));
        }
        let library = Self {
            name,
            folder,
            without: head.to_owned(),
            with,
            spent: [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())],
        };
        // The dependencies are built before the measurement.
        for (command, _) in COMMANDS {
            library.cargo(command, &library.without)?;
        }
        Ok(library)
    }

    fn cargo(&self, command: &str, source: &str) -> Result<f64, Failure> {
        fs::write(self.folder.path("src/lib.rs"), source)?;
        self.folder.cargo(&[command, "--ignore-rust-version"])
    }

    fn round(&mut self) -> Result<(), Failure> {
        for (at, (command, _)) in COMMANDS.into_iter().enumerate() {
            let with = self.cargo(command, &self.with)?;
            let without = self.cargo(command, &self.without)?;
            if let Some(spent) = self.spent.get_mut(at) {
                spent.0.push(with);
                spent.1.push(without);
            }
        }
        Ok(())
    }

    fn figure(&self) -> Figure {
        let each = |(with, without): &(Vec<f64>, Vec<f64>)| {
            (median(with) - median(without)) * 1e3 / TOOLS as f64
        };
        let values: Vec<_> = COMMANDS
            .iter()
            .zip(&self.spent)
            .map(|((_, name), spent)| (*name, each(spent)))
            .collect();
        Figure::new("macros", "tools", self.name, &values)
    }
}
