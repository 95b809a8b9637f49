//! When the context is made smaller, and how its size is reported.

use crate::{
    error::{Error, ErrorKind},
    provider::ContextTokens,
};

/// When old results are cleared and the oldest part of a conversation is summarized, in percent of
/// the model's window: see the [module](crate::context).
///
/// The size of the window is the one that is set here, or else the one in the [table of
/// models](crate::models). If the vendor states a smaller size when it refuses a request, that size
/// counts. If the size is not known, nothing is cleared or summarized before the vendor refuses a
/// request.
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
    /// Clears at 60 percent of the window, summarizes at 80 percent, and keeps the user's own
    /// messages in up to 15 percent.
    pub fn new() -> Self {
        Self {
            tokens: None,
            clear_at: Some(60),
            compact_at: Some(80),
            user_words: 15,
            vendor_summaries: false,
        }
    }

    /// Clears and summarizes nothing by itself. The model is asked even if the conversation does not
    /// fit into the window; the run fails when the vendor refuses the request. The program can still summarize it by `Chat::compact`.
    pub fn off() -> Self {
        Self { clear_at: None, compact_at: None, ..Self::new() }
    }

    /// Sets how many tokens the window has, at least 1. Unless this is set, the table of models is
    /// asked.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets at what percentage of the window, from 1 to 95, results of tools that only read are
    /// cleared. It may not be above [`compact_at`](Self::compact_at).
    #[must_use]
    pub fn clear_at(mut self, percent: u8) -> Self {
        self.clear_at = Some(percent);
        self
    }

    /// Turns off clearing.
    #[must_use]
    pub fn keep_results(mut self) -> Self {
        self.clear_at = None;
        self
    }

    /// Sets at what percentage of the window, from 1 to 95, the oldest part is summarized. The rest
    /// of the window must have room for the summary.
    #[must_use]
    pub fn compact_at(mut self, percent: u8) -> Self {
        self.compact_at = Some(percent);
        self
    }

    /// Turns off summarizing.
    #[must_use]
    pub fn keep_messages(mut self) -> Self {
        self.compact_at = None;
        self
    }

    /// Sets how much of the window, in percent, up to 50, the user's own messages may take that are
    /// kept unchanged when the conversation is summarized. The newest ones are kept first. The
    /// first message and the newest one are always kept.
    #[must_use]
    pub fn user_words(mut self, percent: u8) -> Self {
        self.user_words = percent;
        self
    }

    /// Asks the vendor for a summary of its own if it has such a function: on Anthropic's Messages
    /// the block of a compaction on demand, on OpenAI's Responses the items of
    /// `/responses/compact`. This summary is sent only to the model that has made it, with the
    /// reasoning of the newest turns; a summary as text is kept for all other models. If the vendor
    /// has none, as on Chat Completions, or if its summary fails, the model writes one as text.
    /// `Event::ContextCompacted` says which of the two was made.
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
    /// Fails with [`ErrorKind::Configuration`] if the window has no tokens, if a percentage is out
    /// of range, or if results would be cleared above the share at which the oldest part is
    /// summarized.
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

    /// Whether nothing is ever cleared or summarized without the program's request.
    #[doc(hidden)]
    pub fn is_off(&self) -> bool {
        self.clear_at.is_none() && self.compact_at.is_none()
    }

    /// Whether the vendor is asked for a summary of its own.
    #[doc(hidden)]
    pub fn needs_vendor_summary(&self) -> bool {
        self.vendor_summaries
    }

    /// The size of the window that the program has set.
    #[doc(hidden)]
    pub fn set_tokens(&self) -> Option<u64> {
        self.tokens
    }

    /// From how many tokens on results are cleared.
    #[doc(hidden)]
    pub fn clears_at(&self, window: u64) -> Option<u64> {
        self.clear_at.map(|at| percent(window, at))
    }

    /// From how many tokens on the oldest part is summarized.
    #[doc(hidden)]
    pub fn compacts_at(&self, window: u64) -> Option<u64> {
        self.compact_at.map(|at| percent(window, at))
    }

    /// How many tokens the kept messages of the user may have.
    #[doc(hidden)]
    pub fn user_tokens(&self, window: u64) -> u64 {
        percent(window, self.user_words)
    }
}

/// This percentage of a window, in tokens.
#[doc(hidden)]
pub fn percent(window: u64, percent: u8) -> u64 {
    let part = u128::from(window) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// How full the window of a conversation is: see `Chat::context`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextUse {
    /// How many tokens the window has, for a request and its answer together. `None` if it is not
    /// known.
    pub window: Option<u64>,
    /// How many tokens the next request will have, without the next message. It is an estimate,
    /// corrected by what the vendor has counted for earlier requests.
    pub used: u64,
    /// What these tokens consist of, as far as that can be estimated without the vendor. The parts
    /// add up to an estimate that is not corrected.
    pub parts: ContextTokens,
    /// How many tokens would be saved if results were cleared now.
    pub clearable: u64,
    /// How many messages at the beginning of the transcript a summary replaces. Those of them whose words stay in what is
    /// sent are counted, too.
    pub summed_up: usize,
    /// How many [searches](crate::tool::ToolSearch) have found tools. After each of them, requests
    /// begin with other tools, which is a cache miss at the vendor, unless the vendor takes found
    /// tools separately.
    pub tool_searches: usize,
}
