//! What is stored: conversations, each as the list of its facts in the order in which they
//! happened.
//!
#![doc = include_str!("../../guide/durable.md")]

mod entry;
mod envelope;
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
    entry::{
        Always, AnswerCheck, Awaited, CallSpent, Decider, Decision, Entry, InterruptCause, Limit,
        LimitScope, Reason, Repeat, RunLimits, Wait, WantedAnswer,
    },
    envelope::{Envelope, FORMAT, Life},
    listing::{Conversations, Listing, Metadata, Summary},
    memory::MemoryJournal,
    moves::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary},
    store::{Hold, Journal, JournalFuture, busy, check_id, conflict, too_few, unknown},
};
