//! When what is sent is made smaller, and what is said of its size.

use crate::{
    error::{Error, ErrorKind},
    provider::ContextTokens,
};

/// When old results are cleared and the oldest part of a conversation is summed up, in percent of the window of
/// the model: see the [module](crate::context).
///
/// The window is the one that the [table of models](crate::models) says, or the one that is set here, or the one
/// that the vendor has named when it refused a request. Where nobody knows it, nothing is cleared or summed up
/// before the vendor refuses a request.
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
    /// Clears at 60 percent, sums up at 80, and keeps the user's own words in up to 15.
    pub fn new() -> Self {
        Self {
            tokens: None,
            clear_at: Some(60),
            compact_at: Some(80),
            user_words: 15,
            vendor_summaries: false,
        }
    }

    /// Nothing is cleared or summed up, and a conversation that does not fit fails. It can still be summed up by
    /// [`Chat::compact`](crate::Chat::compact).
    pub fn off() -> Self {
        Self { clear_at: None, compact_at: None, ..Self::new() }
    }

    /// Sets how many tokens the window has. Unless set, the table of models says it.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets at how many percent of the window results of tools that only read are cleared, from 1 to 95.
    #[must_use]
    pub fn clear_at(mut self, percent: u8) -> Self {
        self.clear_at = Some(percent);
        self
    }

    /// Clears nothing.
    #[must_use]
    pub fn keep_results(mut self) -> Self {
        self.clear_at = None;
        self
    }

    /// Sets at how many percent of the window the oldest part is summed up, from 1 to 95. Room for the summary has to
    /// be left.
    #[must_use]
    pub fn compact_at(mut self, percent: u8) -> Self {
        self.compact_at = Some(percent);
        self
    }

    /// Sums up nothing.
    #[must_use]
    pub fn keep_messages(mut self) -> Self {
        self.compact_at = None;
        self
    }

    /// Sets in how many percent of the window the user's own words stay as they are when they are summed up, the newest
    /// ones first, up to 50. The first message and the newest one always stay.
    #[must_use]
    pub fn user_words(mut self, percent: u8) -> Self {
        self.user_words = percent;
        self
    }

    /// Asks the vendor for a summary of its own where it has one: on Anthropic's Messages the block of a compaction on
    /// demand, on OpenAI's Responses the items of `/responses/compact`. It is sent to the model that has made it alone,
    /// with the thinking of the newest turns; a summary in words is there for all others. Where the vendor has none, as
    /// on Chat Completions, and where it fails, the model gives one in words.
    /// [`Event::ContextCompacted`](crate::Event::ContextCompacted) says which one it was.
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
    /// Fails if a part of the window is none.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str, percent: u8| {
            let text =
                format!("`Window::{what}({percent})`: set at least 1 and at most 95 percent");
            Err(Error::new(ErrorKind::Configuration, text))
        };
        let is_part = |percent: &Option<u8>| percent.is_none_or(|it| (1..=95).contains(&it));
        match self {
            Self { clear_at: Some(at), .. } if !is_part(&self.clear_at) => wrong("clear_at", *at),
            Self { compact_at: Some(at), .. } if !is_part(&self.compact_at) => {
                wrong("compact_at", *at)
            }
            Self { user_words, .. } if *user_words > 50 => Err(Error::new(
                ErrorKind::Configuration,
                format!("`Window::user_words({user_words})`: set at most 50 percent"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether nothing is ever moved by itself.
    pub(crate) fn is_off(&self) -> bool {
        self.clear_at.is_none() && self.compact_at.is_none()
    }

    /// Whether the vendor is asked for a summary of its own.
    pub(crate) fn asks_vendor(&self) -> bool {
        self.vendor_summaries
    }

    /// What the program has set.
    pub(crate) fn set_tokens(&self) -> Option<u64> {
        self.tokens
    }

    /// From how many tokens on results are cleared.
    pub(crate) fn clears_at(&self, window: u64) -> Option<u64> {
        self.clear_at.map(|at| percent(window, at))
    }

    /// From how many tokens on the oldest part is summed up.
    pub(crate) fn compacts_at(&self, window: u64) -> Option<u64> {
        self.compact_at.map(|at| percent(window, at))
    }

    /// How many tokens the user's own words may have that stay.
    pub(crate) fn user_tokens(&self, window: u64) -> u64 {
        percent(window, self.user_words)
    }
}

/// So many percent of a window.
pub(crate) fn percent(window: u64, percent: u8) -> u64 {
    let part = u128::from(window) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// How full the window of a conversation is: see [`Chat::context`](crate::Chat::context).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextUse {
    /// How many tokens the window has: a request and its answer together. `None` if nobody knows it.
    pub window: Option<u64>,
    /// How many tokens the next request will have before what is said next. It is an estimate, which is corrected by
    /// what the vendor has counted of the requests before.
    pub used: u64,
    /// What these tokens are made of, as far as that can be told without the vendor: they add up to an estimate that
    /// is not corrected.
    pub parts: ContextTokens,
    /// How many tokens fewer the request would have if results were cleared now.
    pub clearable: u64,
    /// How many messages of the transcript a summary stands for.
    pub summed_up: usize,
    /// How many [searches](crate::tool::ToolSearch) have found tools. After each of them requests begin with other tools, so
    /// the vendor has to read them anew, unless it takes found tools apart.
    pub tool_searches: usize,
}
