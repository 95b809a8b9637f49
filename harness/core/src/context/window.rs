//! The settings for the reduction of the context, and the report of its size.

use crate::{
    error::{Error, ErrorKind},
    provider::ContextTokens,
};

/// The percentages of the model's window at which old results are cleared and the oldest messages are summarized: see
/// the [module](crate::context).
///
/// The size of the window is the size that the program sets here, or else the size in the [table of
/// models](crate::models). If a vendor refuses a request and states a smaller size, the smaller size applies. If the
/// size is unknown, nothing is cleared or summarized until a vendor refuses a request.
///
/// ```
/// use harness::{Agent, context::Window, testing::{ScriptedProvider, reply}};
///
/// let model = ScriptedProvider::new([reply().text("Hello.")]);
/// let window = Window::new().tokens(32_000).clear_at(50).compact_at(75);
/// let agent = Agent::builder(model).window(window).build()?;
/// assert_eq!(agent.chat().context().window, Some(32_000));
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    tokens: Option<u64>,
    clear_at: Option<u8>,
    compact_at: Option<u8>,
    user_words: u8,
    vendor_summaries: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// Clears at 60 percent of the window, summarizes at 80 percent, and keeps the user's own messages up to 15 percent
    /// of the window.
    pub fn new() -> Self {
        Self {
            tokens: None,
            clear_at: Some(60),
            compact_at: Some(80),
            user_words: 15,
            vendor_summaries: false,
        }
    }

    /// Never clears or summarizes automatically. Requests are sent even if the conversation does not fit into the
    /// window, and the run fails when the vendor refuses a request. The program can still summarize the conversation
    /// with `Chat::compact`.
    pub fn off() -> Self {
        Self { clear_at: None, compact_at: None, ..Self::new() }
    }

    /// Sets the size of the window in tokens, at least 1. The default is the size in the table of models.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the percentage of the window, from 1 to 95, at which results of tools that only read are cleared. Must not
    /// be above [`compact_at`](Self::compact_at).
    #[must_use]
    pub fn clear_at(mut self, percent: u8) -> Self {
        self.clear_at = Some(percent);
        self
    }

    /// Turns clearing off.
    #[must_use]
    pub fn keep_results(mut self) -> Self {
        self.clear_at = None;
        self
    }

    /// Sets the percentage of the window, from 1 to 95, at which the oldest part of the conversation is summarized. The
    /// summary has to fit into the rest of the window.
    #[must_use]
    pub fn compact_at(mut self, percent: u8) -> Self {
        self.compact_at = Some(percent);
        self
    }

    /// Turns summarizing off.
    #[must_use]
    pub fn keep_messages(mut self) -> Self {
        self.compact_at = None;
        self
    }

    /// Sets the percentage of the window, up to 50, for the user's own messages that stay unchanged beside a summary.
    /// Newer messages are preferred. The first and the newest message are always kept.
    #[must_use]
    pub fn user_words(mut self, percent: u8) -> Self {
        self.user_words = percent;
        self
    }

    /// Uses the vendor's own summaries where the vendor offers summaries. On Anthropic's Messages, the summary is the
    /// block of a compaction on demand. On OpenAI's Responses, the summary is the items of `/responses/compact`. Only
    /// the model that made a summary gets this summary, together with the reasoning of the newest turns. All other
    /// models get a text summary. The model also writes a text summary if the vendor's summary fails, or if the vendor
    /// offers no summaries (Chat Completions). `Event::ContextCompacted` reports which kind was made.
    ///
    /// ```
    /// use harness::context::Window;
    ///
    /// let window = Window::new().vendor_summaries();
    /// # let _ = window;
    /// ```
    #[must_use]
    pub fn vendor_summaries(mut self) -> Self {
        self.vendor_summaries = true;
        self
    }

    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the window has no tokens, if a percentage is out of range, or if
    /// `clear_at` is above `compact_at`.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str, percent: u8| {
            let text =
                format!("`Window::{what}({percent})`: set at least 1 and at most 95 percent");
            Err(Error::new(ErrorKind::Configuration, text))
        };
        let is_part = |percent: &Option<u8>| percent.is_none_or(|it| (1..=95).contains(&it));
        match self {
            Self { tokens: Some(0), .. } => Err(Error::new(
                ErrorKind::Configuration,
                "`Window::tokens(0)`: set at least 1, or leave it out: then the table of models is asked",
            )),
            Self { clear_at: Some(at), .. } if !is_part(&self.clear_at) => wrong("clear_at", *at),
            Self { compact_at: Some(at), .. } if !is_part(&self.compact_at) => {
                wrong("compact_at", *at)
            }
            Self { clear_at: Some(clear), compact_at: Some(compact), .. } if clear > compact => {
                let text = format!(
                    "`Window::clear_at({clear})` is above `compact_at({compact})`, so the oldest part would be \
                     summarized before anything is cleared: set `clear_at` to at most {compact}, or turn one of the \
                     two off by `keep_results()` or `keep_messages()`"
                );
                Err(Error::new(ErrorKind::Configuration, text))
            }
            Self { user_words, .. } if *user_words > 50 => Err(Error::new(
                ErrorKind::Configuration,
                format!("`Window::user_words({user_words})`: set at most 50 percent"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether clearing and summarizing happen only at the program's request.
    #[doc(hidden)]
    pub fn is_off(&self) -> bool {
        self.clear_at.is_none() && self.compact_at.is_none()
    }

    /// Whether the vendor's own summaries are used.
    #[doc(hidden)]
    pub fn needs_vendor_summary(&self) -> bool {
        self.vendor_summaries
    }

    /// The size of the window that the program has set, in tokens.
    #[doc(hidden)]
    pub fn set_tokens(&self) -> Option<u64> {
        self.tokens
    }

    /// The number of tokens at which results are cleared.
    #[doc(hidden)]
    pub fn clears_at(&self, window: u64) -> Option<u64> {
        self.clear_at.map(|at| percent(window, at))
    }

    /// The number of tokens at which the oldest part is summarized.
    #[doc(hidden)]
    pub fn compacts_at(&self, window: u64) -> Option<u64> {
        self.compact_at.map(|at| percent(window, at))
    }

    /// The maximum number of tokens of the kept user messages.
    #[doc(hidden)]
    pub fn user_tokens(&self, window: u64) -> u64 {
        percent(window, self.user_words)
    }
}

/// A percentage of a window, in tokens.
#[doc(hidden)]
pub fn percent(window: u64, percent: u8) -> u64 {
    let part = u128::from(window) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// How full the window of a conversation is, as `Chat::context` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextUse {
    /// The size of the window in tokens, for a request and its answer together. `None` if unknown.
    pub window: Option<u64>,
    /// The estimated number of tokens of the next request, without its new message. The estimate is corrected by the
    /// vendor's counts for earlier requests.
    pub used: u64,
    /// The parts of `used`, estimated without the vendor's counts. So their sum may differ from `used`.
    pub parts: ContextTokens,
    /// The number of tokens that clearing results would save now.
    pub clearable: u64,
    /// The number of messages, from the beginning of the transcript, that a summary replaces. Replaced messages that
    /// are still sent are included.
    pub summed_up: usize,
    /// The number of [searches](crate::tool::ToolSearch) that found tools. Each such search changes the tools at the
    /// beginning of later requests. The change causes a cache miss at the vendor, unless the vendor accepts found tools
    /// at a later position.
    pub tool_searches: usize,
}
