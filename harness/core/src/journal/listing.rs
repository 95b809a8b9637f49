//! What a program stores about its conversations, and how it lists them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the program stores about a conversation. The library itself reads only `parent`.
///
/// ```
/// use harness::journal::{Journal, ConversationQuery, MemoryJournal, Metadata};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let journal = MemoryJournal::default();
/// let known = Metadata::new().owner("ada").title("Travel to Turin").tag("topic", "travel");
/// journal.describe("chat-17", &known).await?;
///
/// let page = journal.list(&ConversationQuery::new().owner("ada")).await?;
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
    /// The owner of the conversation.
    pub owner: Option<String>,
    /// The title of the conversation.
    pub title: Option<String>,
    /// The conversation that this one is part of. Deleting that one deletes this one.
    pub parent: Option<String>,
    /// Other values, by name.
    pub tags: BTreeMap<String, String>,
}

impl Metadata {
    /// Metadata without any value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the conversation that this one is part of. Deleting that one deletes this one.
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

/// Selects conversations for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationQuery {
    /// Only those of this owner.
    pub owner: Option<String>,
    /// Only those that are part of this conversation.
    pub parent: Option<String>,
    /// How many conversations a page has at most. The default is 50, and a journal returns at most
    /// 1,000.
    pub limit: usize,
    /// The end of the page before: its [`next`](ConversationPage::next). It can be sent to a web page
    /// and set here when it comes back.
    pub after: Option<String>,
}

impl Default for ConversationQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl ConversationQuery {
    /// All conversations, 50 on each page.
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

    /// Sets how many conversations a page has at most, from 1 to 1,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Continues after a page. After the last page, which has no [`next`](ConversationPage::next), the
    /// listing begins again.
    #[must_use]
    pub fn after(mut self, page: &ConversationPage) -> Self {
        self.after.clone_from(&page.next);
        self
    }

    /// How many conversations a page has at most.
    pub fn page_size(&self) -> usize {
        self.limit.clamp(1, 1000)
    }
}

/// One page of conversations. Those that changed last come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationPage {
    /// The conversations.
    pub conversations: Vec<ConversationInfo>,
    /// The beginning of the next page, if there is one.
    pub next: Option<String>,
}

impl ConversationPage {
    /// A page, and the beginning of the next one.
    pub fn new(conversations: Vec<ConversationInfo>, next: Option<String>) -> Self {
        Self { conversations, next }
    }
}

/// What a journal returns about one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationInfo {
    /// The name of the conversation.
    pub id: String,
    /// What the program has stored about it.
    pub metadata: Metadata,
    /// How many facts it has.
    pub facts: u64,
    /// When it was created, in milliseconds since the beginning of 1970 in UTC.
    pub created_at: u64,
    /// When its facts or metadata changed last, in milliseconds since the beginning of 1970 in UTC.
    pub updated_at: u64,
}

impl ConversationInfo {
    /// What a journal returns about a conversation.
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
