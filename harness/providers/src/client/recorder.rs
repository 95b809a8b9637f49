//! Records requests and responses in files.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use reqwest::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use harness_core::{
    error::{Error, ErrorKind},
    secret::{HIDDEN, SecretFilter, Secrets, is_secret_name},
};

/// Records the requests of a provider and the responses of its server, byte by byte, with known secrets replaced. Use
/// it to find out why a server refuses a request, or to show a response to other people.
///
/// ```
/// use harness::{
///     Agent, AnthropicProvider,
///     client::Tap,
///     testing::{LoopbackServer, anthropic},
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("wire");
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let server = LoopbackServer::start([anthropic::body().text("Cold.").answer()]).await?;
/// let tap = Tap::to_folder(&folder)?;
/// let provider = AnthropicProvider::builder().api_key("sk-0123").base_url(server.url()).build()?;
/// Agent::builder(provider.with_tap(tap)).build()?.run("Oslo?").await?;
///
/// let head = std::fs::read_to_string(folder.join("000001-head.txt"))?;
/// assert!(head.contains("x-api-key: [secret]"));
/// let request = std::fs::read_to_string(folder.join("000001-request.json"))?;
/// assert!(request.contains("Oslo?"));
/// let answer = std::fs::read_to_string(folder.join("000001-answer.txt"))?;
/// assert!(answer.contains("message_start"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each request, including retries, has a number and three files. The first file contains the headers of the request
/// and of the response, and how the request ended. The second file contains the body of the request, and the third the
/// body of the answer as far as it arrived. `cargo run --example decode -- --wire anthropic 000001-answer.txt` decodes
/// an answer.
///
/// Two kinds of secrets are replaced. The first kind is the values of
/// [`Provider::secrets`](harness_core::provider::Provider::secrets), such as the key. If an answer breaks off inside
/// such a value, the received part of the value is replaced too, unless this part is shorter than six bytes. The second
/// kind is secret headers of requests and responses: the value of a header is replaced if the name of the header ends
/// with `key` or has a word such as `token`, `jwt`, `secret`, `pass`, `session`, `auth` or `cookie`. In other headers,
/// such as `location`, JSON Web Tokens are replaced, as well as the user, password, query and fragment of URLs. Nothing
/// else is replaced. For example, a key in base64 stays. **The conversation is written unchanged**, so the files are as
/// private as the conversation. On Unix only their owner may read them. Invalid UTF-8 becomes U+FFFD.
///
/// The run waits while files are written, so a slow disk slows the run down. If a file cannot be written, the run goes
/// on, recording stops, and [`problem`](Self::problem) returns the reason. A tap never deletes files, so use it only
/// for a limited time.
#[derive(Clone, Debug)]
pub struct Tap(Arc<TapFolder>);

#[derive(Debug)]
struct TapFolder {
    path: PathBuf,
    last: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl Tap {
    /// Records into this folder, and creates it if it does not exist. Existing files stay: new numbers follow the
    /// largest existing number below 2^32.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the folder cannot be created, read or written.
    pub fn to_folder(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let last = opened(&path).map_err(|err| {
            let text = format!("nothing can be recorded in the folder `{}`: {err}", path.display());
            Error::new(ErrorKind::Configuration, text).with_source(err)
        })?;
        Ok(Self(Arc::new(TapFolder {
            path,
            last: AtomicU64::new(last),
            problem: Mutex::default(),
        })))
    }

    /// The reason why recording has stopped; `None` while the recording continues.
    pub fn problem(&self) -> Option<String> {
        self.0.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed(&self, err: &io::Error) {
        let mut problem = self.0.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.get_or_insert_with(|| format!("`{}`: {err}", self.0.path.display()));
    }

    /// Opens the files of one request; `None` if recording has stopped.
    pub(super) fn begin(
        &self,
        url: &str,
        headers: &HeaderMap,
        secrets: Secrets,
    ) -> Option<ExchangeRecord> {
        if self.problem().is_some() {
            return None;
        }
        let begun = || {
            let (number, head) = loop {
                let number = self.0.last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                match self.file(number, HEAD) {
                    // Another process has used this number in the same folder.
                    Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                    file => break (number, file?),
                }
            };
            let mut head = RecordFile::new(head, &secrets, self);
            head.write(format!("POST {url}\n{}", lines(headers)).as_bytes());
            let request = RecordFile::new(self.file(number, REQUEST)?, &secrets, self);
            let answer = RecordFile::new(self.file(number, ANSWER)?, &secrets, self);
            Ok(ExchangeRecord { head, request: Some(request), answer, ended: false })
        };
        begun().map_err(|err| self.failed(&err)).ok()
    }

    fn file(&self, number: u64, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(self.0.path.join(format!("{number:06}-{name}")))
    }
}

const HEAD: &str = "head.txt";
const REQUEST: &str = "request.json";
const ANSWER: &str = "answer.txt";

/// Creates the folder if it does not exist, and returns the largest number of its files.
fn opened(path: &Path) -> io::Result<u64> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    let probe = path.join(format!(".{:032x}", fastrand::u128(..)));
    File::create_new(&probe)?;
    fs::remove_file(&probe)?;
    let mut last = 0;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.split_once('-')?.0.parse::<u32>().ok());
        last = last.max(number.map_or(0, u64::from));
    }
    Ok(last)
}

/// Writes one line for each header. Secret header values, and secret parts of other values, are replaced.
fn lines(headers: &HeaderMap) -> String {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = match value.is_sensitive() || is_secret_name(name.as_str()) {
            true => HIDDEN.to_owned(),
            false => without_tokens(&String::from_utf8_lossy(value.as_bytes())),
        };
        format!("{name}: {value}\n")
    };
    headers.iter().map(line).collect()
}

/// Removes user, password, query and fragment of URLs, and JSON Web Tokens, from the value of a header.
fn without_tokens(value: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '<' | '>' | '"');
    let mut left = String::with_capacity(value.len());
    for word in value.split_inclusive(is_end) {
        let bare = word.trim_end_matches(is_end);
        let end = word.get(bare.len()..).unwrap_or_default();
        let place = bare.find(['?', '#']).map_or(bare, |at| bare.get(..=at).unwrap_or(bare));
        let user = place.find("://").and_then(|at| {
            let authority = place.get(at + 3..)?;
            let authority = authority.split(['/', '?', '#']).next()?;
            Some((at + 3, at + 3 + authority.rfind('@')?))
        });
        // A JSON Web Token begins with `{"alg":..` in base64, which is `eyJ`.
        let is_token =
            bare.split(['=', ':']).any(|part| part.starts_with("eyJ") && part.contains('.'));
        match user {
            _ if is_token => left.push_str(HIDDEN),
            Some((from, to)) => {
                left.push_str(place.get(..from).unwrap_or_default());
                left.push_str(HIDDEN);
                left.push_str(place.get(to..).unwrap_or_default());
            }
            None => left.push_str(place),
        }
        if !is_token && place.len() < bare.len() {
            left.push_str(HIDDEN);
        }
        left.push_str(end);
    }
    left
}

/// The open files of one request.
pub(super) struct ExchangeRecord {
    head: RecordFile,
    request: Option<RecordFile>,
    answer: RecordFile,
    ended: bool,
}

impl ExchangeRecord {
    /// Takes the file of the request body, for the code that writes the body.
    pub(super) fn request(&mut self) -> Option<RecordFile> {
        self.request.take()
    }

    /// Records the status and the headers of the response.
    pub(super) fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.head.write(format!("\n{status}\n{}", lines(headers)).as_bytes());
    }

    /// Records a chunk of the response body; `None` is the end of the body.
    pub(super) fn record(&mut self, piece: Option<&[u8]>) {
        match piece {
            Some(piece) => self.answer.write(piece),
            None => {
                self.answer.is_whole = true;
                self.end("The answer is complete.");
            }
        }
    }

    /// Records that the connection broke.
    pub(super) fn broke(&mut self, err: &dyn std::error::Error) {
        let mut text = format!("The connection broke: {err}");
        let mut cause = err.source();
        while let Some(err) = cause {
            text += &format!(": {err}");
            cause = err.source();
        }
        self.end(&text);
    }

    fn end(&mut self, text: &str) {
        if !self.ended {
            self.head.write(format!("\n{text}\n").as_bytes());
        }
        self.ended = true;
    }
}

impl Drop for ExchangeRecord {
    fn drop(&mut self) {
        // Has no effect if an end was recorded. Otherwise the run was stopped, or the rest of the body was not read.
        self.end("Nothing more was read.");
    }
}

/// A file that is being written. Text that may be the beginning of a secret is written only after later text has shown
/// that it is no secret.
pub(super) struct RecordFile {
    file: File,
    cleaner: Option<SecretFilter>,
    tap: Tap,
    is_whole: bool,
}

impl RecordFile {
    fn new(file: File, secrets: &Secrets, tap: &Tap) -> Self {
        let cleaner = Some(SecretFilter::new(secrets.clone(), 0));
        Self { file, cleaner, tap: tap.clone(), is_whole: false }
    }

    /// Writes bytes, with secrets replaced.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let Some(cleaner) = &mut self.cleaner else { return };
        let clean = cleaner.push(bytes);
        if let Err(err) = self.file.write_all(clean.as_bytes()) {
            self.cleaner = None;
            self.tap.failed(&err);
        }
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        let Some(cleaner) = self.cleaner.take() else { return };
        let rest = if self.is_whole { cleaner.finish() } else { cleaner.finish_cut() };
        if let Err(err) = self.file.write_all(rest.as_bytes()) {
            self.tap.failed(&err);
        }
    }
}
