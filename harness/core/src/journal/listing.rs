//! Metadata that a program stores with a conversation, and the listing of conversations.

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
    /// The parent conversation, to which this conversation belongs. Deleting the parent also deletes this conversation.
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

    /// Sets the parent conversation, to which this conversation belongs. Deleting the parent also deletes this
    /// conversation.
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

/// Selects the conversations of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationQuery {
    /// Lists only conversations of this owner.
    pub owner: Option<String>,
    /// Lists only conversations with this parent.
    pub parent: Option<String>,
    /// The maximum number of conversations on a page. The default is 50; a journal returns at most 1,000.
    pub limit: usize,
    /// The [`next`](ConversationPage::next) of the previous page. A program can pass this value through a web page and
    /// set it here for the following request.
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

    /// Lists only conversations of this owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Lists only conversations with this parent.
    #[must_use]
    pub fn parent(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Sets the maximum number of conversations on a page, from 1 to 1,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Continues after this page. After the last page ([`next`](ConversationPage::next) is `None`), the listing
    /// starts over.
    #[must_use]
    pub fn after(mut self, page: &ConversationPage) -> Self {
        self.after.clone_from(&page.next);
        self
    }

    /// The maximum number of conversations on a page, after the limits of 1 and 1,000 are applied.
    pub fn page_size(&self) -> usize {
        self.limit.clamp(1, 1000)
    }
}

/// One page of conversations, most recently changed first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationPage {
    /// The conversations.
    pub conversations: Vec<ConversationInfo>,
    /// The position of the next page. `None` on the last page.
    pub next: Option<String>,
}

impl ConversationPage {
    /// A page. `next` is the position of the next page.
    pub fn new(conversations: Vec<ConversationInfo>, next: Option<String>) -> Self {
        Self { conversations, next }
    }
}

/// A listed conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationInfo {
    /// The name of the conversation.
    pub id: String,
    /// The metadata that the program stored.
    pub metadata: Metadata,
    /// The number of facts.
    pub facts: u64,
    /// The time of creation, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// The time of the last change to facts or metadata, in milliseconds since the Unix epoch.
    pub updated_at: u64,
}

impl ConversationInfo {
    /// A listed conversation. Times are in milliseconds since the Unix epoch.
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
