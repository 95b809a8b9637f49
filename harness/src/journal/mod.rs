//! What is stored: conversations, each as the list of its facts in the order in which they
//! happened.
//!
#![doc = include_str!("../../guide/durable.md")]

mod envelope;
mod fact;
mod head;
mod listing;
mod memory;
mod moves;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

pub(crate) use self::envelope::now;
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresBuilder, PostgresJournal};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteBuilder, SqliteJournal, SqliteSynchronous};
pub use self::{
    envelope::{Envelope, FORMAT, Life},
    fact::{
        Always, AnswerCheck, Awaited, CallSpent, Decider, Decision, Fact, FactKind, InterruptCause,
        Limit, LimitScope, Reason, Repeat, RunLimits, Wait, WantedAnswer,
    },
    head::{Head, Incarnation, StoredFacts},
    listing::{Conversations, Listing, Metadata, Summary},
    memory::MemoryJournal,
    moves::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary},
    store::{Hold, Journal, JournalFuture, busy, check_id, conflict, too_few, unknown},
};
