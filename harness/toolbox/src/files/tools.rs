//! The file tools as the model sees them. The other modules of this folder do the work.

use std::{path::Path, sync::Arc};

use harness_macros::toolset;

use super::{
    blocking_work::{OTHERS, SEARCHES, off_loop},
    code_files::CodeFiles,
    list, read,
    root::RootFolder,
    search,
    write::FileWrite,
};
use harness_core::{
    error::Error,
    message::Arguments,
    tool::{CancellationToken, Review, ToolContext, ToolError},
};

/// The approximate maximum size of one result, in bytes. A run truncates only larger results, so it does not truncate
/// results of the file tools.
pub(super) const MAX_TEXT: usize = 48 * 1024;

/// Tools for the files inside one folder: `read_file`, `write_file`, `list_files`, `search_files`.
///
/// ```
/// use harness::{Tool, toolbox::Files};
///
/// let files = Files::in_folder(".")?;
/// let all = files.tools();
/// let only_reading: Vec<Tool> =
///     files.tools().into_iter().filter(|tool| tool.side_effects().is_read_only()).collect();
/// assert_eq!((all.len(), only_reading.len()), (4, 3));
/// # Ok::<(), harness::Error>(())
/// ```
///
/// Neither `..` nor an absolute path nor a symbolic link leads outside of the folder, even if the folder is changed at
/// the same time: the operating system resolves each path relative to the opened folder (`openat2` on Linux, one
/// component at a time elsewhere). A renamed folder stays the same folder. Pipes, sockets and devices are not opened.
/// Hard links in the folder, and file systems that are mounted inside of it, count as inside.
///
/// The approval request for a write shows the change. A write needs an approval if the file makes other programs run
/// code, such as `.envrc`: see [`CodeFiles`] for the list. Directly before the new file replaces the old file, the path
/// and its content are checked again. If they have changed since the approval, nothing is written.
///
/// The tools never block the async runtime on the disk. When a call is stopped, its work stops between two steps, and a
/// search also stops in the middle of a long line. A file is written completely or not at all. Work that still runs
/// when the program ends does not delay the end of the process. In one process, at most 8 searches and lists and at
/// most 32 other calls run at the same time. Further calls wait.
///
/// A replaced file keeps its mode and, if the system allows it, its owner. Another hard link to the old file keeps the
/// old text, and access lists are not copied. A program that is killed during a write may leave a file
/// `.<16 digits>.tmp` beside the target.
#[derive(Debug)]
pub struct Files {
    root: Arc<RootFolder>,
    code: Arc<CodeFiles>,
}

#[toolset]
impl Files {
    /// Creates tools for this folder and everything below it.
    ///
    /// # Errors
    /// Fails if the folder does not exist or cannot be opened.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Arc<Self>, Error> {
        let root = Arc::new(RootFolder::open(folder.as_ref())?);
        Ok(Arc::new(Self { root, code: Arc::default() }))
    }

    /// Sets the files for which `write_file` requests an approval, in place of [`CodeFiles::default`].
    #[must_use]
    pub fn with_code_files(self: Arc<Self>, files: CodeFiles) -> Arc<Self> {
        Arc::new(Self { root: Arc::clone(&self.root), code: Arc::new(files) })
    }

    /// Reads a text file in UTF-8: whole, or a window of its lines. If there is more, the first line
    /// of the answer says which lines follow and how many there are; one call gives at most 48 KiB
    /// of text.
    ///
    /// # Errors
    /// Fails if the folder has no such file, if the file is not UTF-8 text, or if `first_line` is after its end.
    #[tool(side_effects = "read")]
    pub async fn read_file(
        &self,
        /// relative to the folder, such as `src/main.rs`; what leads out of it is refused
        path: &str,
        /// the line to begin with
        #[param(default = 1, range(1..))]
        first_line: u64,
        /// how many lines, if not all
        #[param(range(1..))]
        lines: Option<u64>,
        stop: CancellationToken,
    ) -> Result<String, ToolError> {
        let (root, path) = (Arc::clone(&self.root), path.to_owned());
        let lines = lines.unwrap_or(u64::MAX);
        off_loop(&OTHERS, &stop, move |stop| read::read(&root, &path, first_line, lines, stop))
            .await
    }

    /// Writes a text file: makes a new one, with the folders on the way to it, or replaces all
    /// that the old one has. The file changes in one step: it has the old text or the new one,
    /// never a part. Nothing is written into `.git`.
    ///
    /// # Errors
    /// Fails and leaves the file unchanged if the path leads outside of the folder or into `.git`, is no regular file,
    /// or cannot be written, and if the path now leads elsewhere than when the write was approved.
    #[tool(side_effects = "write", idempotent, review = Self::review_of_a_write)]
    pub async fn write_file(
        &self,
        /// relative to the folder, such as `src/main.rs`; what leads out of it is refused
        path: &str,
        /// the whole text of the file
        content: String,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let Self { root, code } = self;
        let (root, code, given) = (Arc::clone(root), Arc::clone(code), path.to_owned());
        let stop = context.cancellation().clone();
        let context = context.clone();
        off_loop(&OTHERS, &stop, move |stop| {
            let write = FileWrite { root: &root, code: &code, given: &given, content: &content };
            write.run(&context, stop)
        })
        .await
    }

    fn review_of_a_write(&self, arguments: &Arguments) -> Review {
        let text = |name| arguments.get(name).and_then(|value| value.as_str());
        let (Some(given), Some(content)) = (text("path"), text("content")) else {
            return Review::pass();
        };
        FileWrite { root: &self.root, code: &self.code, given, content }.review()
    }

    /// Lists files, sorted by path, at most 1000. Without `glob`: all that is directly in the
    /// folder, folders with `/` at the end. With `glob`: the files at any depth below it whose
    /// path fits, without links, `.git` and what `.gitignore` and `.ignore` files name.
    ///
    /// # Errors
    /// Fails if there is no such folder inside the folder of the tools, or if `glob` is not a valid glob.
    #[tool(side_effects = "read")]
    pub async fn list_files(
        &self,
        /// a folder, relative to the folder of the tools
        #[param(default = ".")]
        path: String,
        /// such as `src/**/*.rs`; without `/`, such as `*.rs`, it fits names in any folder
        glob: Option<String>,
        stop: CancellationToken,
    ) -> Result<String, ToolError> {
        let root = Arc::clone(&self.root);
        off_loop(&SEARCHES, &stop, move |stop| list::list(&root, &path, glob.as_deref(), stop))
            .await
    }

    /// Searches the lines of files for a regular expression and answers with `path:line: text`
    /// for each line that fits, at most 200. Of a long line only the part around the hit is shown.
    /// Binary files, links, `.git` and what `.gitignore` and `.ignore` files name are left out.
    ///
    /// # Errors
    /// Fails if the pattern is not a regular expression, if `glob` is not a valid glob, or if there is no such file or
    /// folder inside the folder of the tools.
    #[tool(side_effects = "read")]
    pub async fn search_files(
        &self,
        /// a regular expression for a part of one line, such as `fn \w+\(`; `(?i)` ignores case
        pattern: String,
        /// a file or folder, relative to the folder of the tools
        #[param(default = ".")]
        path: String,
        /// only files that fit this glob, such as `*.rs`
        glob: Option<String>,
        stop: CancellationToken,
    ) -> Result<String, ToolError> {
        let root = Arc::clone(&self.root);
        off_loop(&SEARCHES, &stop, move |stop| {
            search::search(&root, &pattern, &path, glob.as_deref(), stop)
        })
        .await
    }
}
