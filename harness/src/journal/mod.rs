//! What is stored: conversations, each as the list of its facts in the order in which they
//! happened.
//!
#![doc = include_str!("../../guide/durable.md")]

mod context_edits;
mod decision;
mod envelope;
mod fact;
mod head;
mod listing;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod source;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod wait;

#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresBuilder, PostgresJournal};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteBuilder, SqliteJournal, SqliteSynchronous};
pub use self::{
    context_edits::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary},
    decision::{Always, CallBinding, Decider, Decision, Reason, Repeat},
    envelope::{Envelope, FORMAT, WriterId},
    fact::{
        AnswerCheck, Fact, FactKind, InterruptCause, Limit, LimitScope, RunLimits, WantedAnswer,
    },
    head::{Head, Incarnation, StoredFacts},
    listing::{ConversationInfo, ConversationPage, ConversationQuery, Metadata},
    memory::MemoryJournal,
    source::Source,
    store::{Journal, JournalFuture, Lease, busy, check_id, conflict, too_few, unknown},
    wait::{Awaited, CallSpent, Wait},
};
pub(crate) use self::{envelope::now, source::Sources};
