//! A list of files that make other programs run code. A program can change the list. The list compares names only, and
//! does not access the disk.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    sync::{LazyLock, OnceLock},
};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::code_list::{BESIDE, LIST};
use harness_core::error::{Error, ErrorKind};

/// The files that make other programs run code when they find them: settings of editors, shells and package managers,
/// hooks, and files that turn a folder into a git repository.
///
/// Writing `.envrc` or `.vscode/tasks.json` amounts to running a command later, when a person enters or opens the
/// folder. So `write_file` of [`Files`](super::Files) requests an approval, with the reason, before it writes a file on
/// this list. Each entry is a glob below any folder, so `.vscode/**` also matches `a/b/.vscode/tasks.json`. A match
/// ignores case, and dots and spaces at the end of a name, as some file systems do. Links inside the folder are
/// resolved first.
///
/// The list contains files whose code runs without a decision to run the project. Sources, tests, manifests
/// (`Cargo.toml`, `package.json`), `Makefile` and `justfile` are not on the list. Building or testing a project runs
/// these files anyway, so a person should review their changes as code.
///
/// Entries also match the name of the folder of [`Files`](super::Files): if this folder is `.github`, writing
/// `workflows/ci.yml` needs an approval. If an entry matches the folder itself, such as `node_modules/mine`, the entry
/// has no effect on the files inside, because the program has chosen this folder. Files inside `.git` are never
/// written, with any list and in any folder.
///
/// ```
/// use harness::toolbox::{CodeFiles, Files};
///
/// let code = CodeFiles::default()
///     .with("deploy/*.sh", "it runs on the servers at night")?
///     .without(".env.{development,production,staging,test}")?;
/// let nothing_around = |_: &std::path::Path| false;
/// let reason = code.reason("app/deploy/now.sh".as_ref(), nothing_around);
/// assert_eq!(reason, Some("it runs on the servers at night"));
/// assert!(code.reason("app/.ENVRC".as_ref(), nothing_around).is_some());
/// assert_eq!(code.reason("src/main.rs".as_ref(), nothing_around), None);
///
/// let tools = Files::in_folder(".")?.with_code_files(code).tools();
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone)]
pub struct CodeFiles {
    rules: Vec<CodeFileRule>,
    /// All globs of the list in one set, compiled on first use.
    set: OnceLock<GlobSet>,
}

#[derive(Clone)]
struct CodeFileRule {
    glob: String,
    reason: String,
    compiled: Glob,
}

impl Default for CodeFiles {
    fn default() -> Self {
        let listed =
            LIST.iter().flat_map(|(globs, reason)| globs.iter().map(|glob| (*glob, *reason)));
        // A test checks that each listed glob is valid.
        let rules =
            listed.filter_map(|(glob, reason)| CodeFileRule::new(glob, reason.to_owned()).ok());
        Self { rules: rules.collect(), set: OnceLock::new() }
    }
}

impl CodeFiles {
    /// Creates an empty list, for a program that lists its own files.
    pub fn none() -> Self {
        Self { rules: Vec::new(), set: OnceLock::new() }
    }

    /// Adds files to the list. The reason continues a sentence that begins with the path, such as `it runs at night`.
    ///
    /// # Errors
    /// Fails if `glob` is not a valid glob.
    pub fn with(mut self, glob: &str, reason: impl Into<String>) -> Result<Self, Error> {
        let rule = CodeFileRule::new(glob, reason.into()).map_err(|fault| {
            let text = format!("`CodeFiles::with`: {fault}; write one such as `deploy/*.sh`");
            Error::new(ErrorKind::Configuration, text)
        })?;
        self.rules.push(rule);
        self.set = OnceLock::new();
        Ok(self)
    }

    /// Removes files from the list, by their glob as returned by [`CodeFiles::iter`].
    ///
    /// # Errors
    /// Fails if the list does not contain this glob, so that a program notices a change of the default list.
    pub fn without(mut self, glob: &str) -> Result<Self, Error> {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.glob != glob);
        if self.rules.len() == before {
            let text = format!(
                "`CodeFiles::without`: `{glob}` is not on the list; `CodeFiles::iter` says what is"
            );
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        self.set = OnceLock::new();
        Ok(self)
    }

    /// The globs on the list, with their reasons. A file that is listed only beside another file, such as `config`
    /// beside `HEAD`, has no entry of its own.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rules.iter().map(|rule| (rule.glob.as_str(), rule.reason.as_str()))
    }

    /// The reason why a file makes other programs run code, or `None` for another file. `path` is relative to a root
    /// and contains no links. `is_there` returns whether another path relative to this root exists.
    pub fn reason(&self, path: &Path, is_there: impl Fn(&Path) -> bool) -> Option<&str> {
        let parts: Vec<String> = folded(path);
        let name = PathBuf::from(parts.join("/"));
        let listed =
            self.set().matches(&name).into_iter().min().and_then(|first| self.rules.get(first));
        listed.map(|rule| rule.reason.as_str()).or_else(|| self.beside(path, &parts, is_there))
    }

    /// Like `reason`, for a path below a root with a known name, such as `workflows/ci.yml` below `.github`. Entries
    /// that match the root itself, such as `node_modules/mine`, are ignored.
    pub(super) fn reason_below(
        &self,
        root: &Path,
        path: &Path,
        is_there: impl Fn(&Path) -> bool,
    ) -> Option<&str> {
        self.reason(path, is_there).or_else(|| {
            let fits = |path: &Path| self.set().matches(folded(path).join("/"));
            let around = fits(root);
            let first = fits(&root.join(path)).into_iter().filter(|rule| !around.contains(rule));
            first.min().and_then(|first| self.rules.get(first)).map(|rule| rule.reason.as_str())
        })
    }

    fn set(&self) -> &GlobSet {
        self.set.get_or_init(|| set_of(self.rules.iter().map(|rule| rule.compiled.clone())))
    }

    fn beside(
        &self,
        path: &Path,
        parts: &[String],
        is_there: impl Fn(&Path) -> bool,
    ) -> Option<&str> {
        // A neighbour makes other files count only while the neighbour itself is on the list.
        let is_listed = |neighbour: &str| {
            self.rules.iter().any(|rule| rule.glob.eq_ignore_ascii_case(neighbour))
        };
        let entries = NEIGHBOURS.iter().filter(|entry| is_listed(entry.neighbour));
        entries.into_iter().find_map(|NeighbourRule { neighbour, globs, reason }| {
            let mut folders = path.ancestors().skip(1);
            let is_beside = folders.any(|folder| {
                let from_there = parts.get(folder.components().count()..).unwrap_or_default();
                globs.is_match(from_there.join("/")) && is_there(&folder.join(neighbour))
            });
            is_beside.then_some(*reason)
        })
    }
}

struct NeighbourRule {
    neighbour: &'static str,
    globs: GlobSet,
    reason: &'static str,
}

static NEIGHBOURS: LazyLock<Vec<NeighbourRule>> = LazyLock::new(|| {
    let entries = BESIDE.iter().map(|(neighbour, globs, reason)| {
        let globs = globs.iter().filter_map(|glob| compile(glob).ok());
        NeighbourRule { neighbour, globs: set_of(globs), reason }
    });
    entries.collect()
});

fn set_of(globs: impl Iterator<Item = Glob>) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob);
    }
    // Building the set fails only if the set is too large. The list of a program is never that large.
    set.build().unwrap_or_default()
}

impl fmt::Debug for CodeFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl CodeFileRule {
    fn new(glob: &str, reason: String) -> Result<Self, String> {
        let compiled = compile(&format!("**/{}", glob.to_lowercase()));
        let compiled = compiled.map_err(|err| format!("`{glob}` is not a glob: {}", err.kind()))?;
        Ok(Self { glob: glob.to_owned(), reason, compiled })
    }
}

fn compile(glob: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(glob).literal_separator(true).empty_alternates(true).build()
}

/// Whether a path is `.git` or a path inside `.git`.
pub(super) fn is_in_git(path: &Path) -> bool {
    folded(path).iter().any(|part| part == ".git" || part == "git~1")
}

/// The parts of a path, without the differences that some file systems ignore.
fn folded(path: &Path) -> Vec<String> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_string_lossy()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    parts.map(|part| fold(&part)).collect()
}

/// Removes all differences between names that some file systems ignore: case, trailing dots and spaces, invisible
/// characters, and the text after a colon.
fn fold(name: &str) -> String {
    let name = name.split(':').next().filter(|name| !name.is_empty()).unwrap_or(name);
    let seen = |c: &char| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    // Conversion to upper case first also unifies letters with the same upper-case letter: `ſ` and `s`, `K` and `k`.
    let name: String = name.chars().filter(seen).flat_map(char::to_uppercase).collect();
    let name = name.to_lowercase();
    let trimmed = name.trim_end_matches(['.', ' ']);
    if trimmed.is_empty() { name } else { trimmed.to_owned() }
}
