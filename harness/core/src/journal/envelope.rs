//! The stored form of a fact: its JSON text, its writer, its time and its format.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{
    Fact,
    read_fact::{name_of, read_fact},
};
use crate::error::{Error, ErrorKind};

/// The format of the facts that this version of the library writes, and the only format that it reads. Later versions
/// will also read this format.
pub const FORMAT: u32 = 1;

/// The stored form of a [`Fact`] in a [`Journal`](super::Journal): the JSON text, the writer, and the version of the
/// library that wrote the fact.
///
/// A journal stores an envelope unchanged even if this version of the library cannot read the fact in it. In that case,
/// only [`fact`](Self::fact) fails.
///
/// ```
/// use harness::{Message, journal::{Fact, Envelope}};
///
/// let fact = Fact::UserSaid { message: Message::user("Hello"), limits: None };
/// let envelope = Envelope::of(&fact, 0)?;
/// let stored = serde_json::to_string(&envelope)?;
/// let again: Envelope = serde_json::from_str(&stored)?;
/// assert_eq!(again.fact()?, fact);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Envelope {
    /// The format of the JSON text in `fact`.
    pub format: u32,
    /// The version of the library that wrote the fact, such as `0.2.0`.
    pub version: Arc<str>,
    /// The writer of the fact.
    pub life: WriterId,
    /// The time of writing, in milliseconds since the Unix epoch. Use this time only for display, because the clocks of
    /// machines differ.
    pub at: u64,
    /// The duration of the run up to this fact, in milliseconds, summed over all processes. The time limit of a run
    /// applies to this duration.
    pub elapsed: u64,
    /// The JSON text of the fact.
    pub fact: Arc<str>,
}

impl Envelope {
    /// Puts a fact into an envelope, with this process as the writer and the current time. `elapsed` is the duration of
    /// the run so far, in milliseconds.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the fact cannot be written as JSON.
    pub fn of(fact: &Fact, elapsed: u64) -> Result<Self, Error> {
        let json = serde_json::to_string(fact).map_err(|err| {
            Error::new(ErrorKind::Journal, "a fact cannot be written as JSON").with_source(err)
        })?;
        Ok(Self::stored(FORMAT, version(), WriterId::of_this_process(), now(), elapsed, json))
    }

    /// Rebuilds an envelope from the columns in which a journal stored it.
    pub fn stored(
        format: u32,
        version: impl Into<Arc<str>>,
        life: WriterId,
        at: u64,
        elapsed: u64,
        fact: impl Into<Arc<str>>,
    ) -> Self {
        Self { format, version: version.into(), life, at, elapsed, fact: fact.into() }
    }

    /// The name of the fact, without parsing the fact. `None` if the name is not the first member of the JSON text. This
    /// library writes it first.
    #[doc(hidden)]
    pub fn name(&self) -> Option<&str> {
        name_of(&self.fact)
    }

    /// Parses the fact.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if this version of the library cannot read the fact. The error names the
    /// version that wrote the fact. The envelope keeps the text.
    pub fn fact(&self) -> Result<Fact, Error> {
        let Self { format, version, fact, .. } = self;
        if *format != FORMAT {
            return Err(Error::new(
                ErrorKind::Journal,
                format!(
                    "the fact has format {format} and was written by version {version} of the \
                     library; this is version {}, which reads only format {FORMAT}. Use version \
                     {version}, or a later one that reads this format",
                    env!("CARGO_PKG_VERSION")
                ),
            ));
        }
        read_fact(fact).map_err(|err| {
            Error::new(
                ErrorKind::Journal,
                format!(
                    "the fact, which version {version} of the library wrote in format {format}, \
                     cannot be read by version {}",
                    env!("CARGO_PKG_VERSION")
                ),
            )
            .with_source(err)
        })
    }
}

/// The version of this library, in one allocation that all envelopes share.
fn version() -> Arc<str> {
    static VERSION: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(VERSION.get_or_init(|| env!("CARGO_PKG_VERSION").into()))
}

/// The current time, in milliseconds since the Unix epoch.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Identifies a writer of facts. Each conversation that a process has opened is a writer. A process that writes facts
/// without opening a conversation is a writer, too. The id is a random number that is unique to the writer. By this id,
/// a writer recognizes its own facts in a journal, even if another writer wrote equal facts. The text form is 16
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(u64);

impl WriterId {
    /// The writer id of this process.
    pub fn of_this_process() -> Self {
        static LIFE: OnceLock<WriterId> = OnceLock::new();
        *LIFE.get_or_init(Self::random)
    }

    /// A new random writer id, for example for tests that act as several processes.
    pub fn random() -> Self {
        // `RandomState` takes its keys from the random numbers of the operating system.
        Self(RandomState::new().hash_one(fastrand::u64(..)))
    }

    /// Reads 16 hexadecimal digits. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriterId({self})")
    }
}

impl Serialize for WriterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WriterId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("a life is 16 hexadecimal digits"))
    }
}
