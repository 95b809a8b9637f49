//! What a program knows of its conversations, and how it lists them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the program knows of a conversation. The library reads only `parent`.
///
/// ```
/// use harness::journal::{Journal, Listing, MemoryJournal, Metadata};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let journal = MemoryJournal::default();
/// let known = Metadata::new().owner("ada").title("Travel to Turin").tag("topic", "travel");
/// journal.describe("chat-17", &known).await?;
///
/// let page = journal.list(&Listing::new().owner("ada")).await?;
/// assert_eq!(page.conversations[0].id, "chat-17");
/// assert_eq!(page.conversations[0].metadata.title.as_deref(), Some("Travel to Turin"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Metadata {
    /// Whose it is.
    pub owner: Option<String>,
    /// What it is called.
    pub title: Option<String>,
    /// The conversation that this one is part of, and with which it is deleted.
    pub parent: Option<String>,
    /// Anything else.
    pub tags: BTreeMap<String, String>,
}

impl Metadata {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whose it is.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets what it is called.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets which conversation it is part of: it is deleted with that one.
    #[must_use]
    pub fn parent(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Adds a value under a name.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }
}

/// Which conversations are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Only those of this owner.
    pub owner: Option<String>,
    /// Only those that are part of this one.
    pub parent: Option<String>,
    /// So many at most, 50 unless set; a journal gives no more than 1,000.
    pub limit: usize,
    /// From where the page before ended: its [`next`](Conversations::next), which can be sent to a web page
    /// and set here when it comes back.
    pub after: Option<String>,
}

impl Default for Listing {
    fn default() -> Self {
        Self::new()
    }
}

impl Listing {
    /// All conversations, 50 a page.
    pub fn new() -> Self {
        Self { owner: None, parent: None, limit: 50, after: None }
    }

    /// Lists only those of this owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Lists only those that are part of this conversation.
    #[must_use]
    pub fn parent(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Sets how many a page has, from 1 to 1,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Goes on where a page ended. The last page has no [`next`](Conversations::next): after it, the listing
    /// begins anew.
    #[must_use]
    pub fn after(mut self, page: &Conversations) -> Self {
        self.after.clone_from(&page.next);
        self
    }

    /// How many a page has.
    pub fn page_size(&self) -> usize {
        self.limit.clamp(1, 1000)
    }
}

/// One page of conversations, the one that changed last first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversations {
    /// The conversations.
    pub conversations: Vec<Summary>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Conversations {
    /// A page, and where the next one begins.
    pub fn new(conversations: Vec<Summary>, next: Option<String>) -> Self {
        Self { conversations, next }
    }
}

/// What a journal says of one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Its name.
    pub id: String,
    /// What the program knows of it.
    pub metadata: Metadata,
    /// How many facts it has.
    pub facts: u64,
    /// When it was made, in milliseconds since the beginning of 1970 in UTC.
    pub created_at: u64,
    /// When its facts or metadata changed last, in milliseconds since the beginning of 1970 in UTC.
    pub updated_at: u64,
}

impl Summary {
    /// What a journal says of a conversation.
    pub fn new(
        id: impl Into<String>,
        metadata: Metadata,
        facts: u64,
        created_at: u64,
        updated_at: u64,
    ) -> Self {
        Self { id: id.into(), metadata, facts, created_at, updated_at }
    }
}
