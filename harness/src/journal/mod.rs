//! What is stored: conversations, each as the list of its facts in the order in which they
//! happened.
//!
#![doc = include_str!("../../guide/durable.md")]

mod envelope;
mod fact;
mod listing;
mod memory;
mod moves;
#[cfg(feature = "postgres")]
mod postgres;
mod source;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresBuilder, PostgresJournal};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteBuilder, SqliteJournal, SqliteSynchronous};
pub(crate) use self::{envelope::now, source::Sources};
pub use self::{
    envelope::{Envelope, FORMAT, Life},
    fact::{
        Always, AnswerCheck, Awaited, CallBinding, CallSpent, Decider, Decision, Fact, FactKind,
        InterruptCause, Limit, LimitScope, Reason, Repeat, RunLimits, Wait, WantedAnswer,
    },
    listing::{Conversations, Listing, Metadata, Summary},
    memory::MemoryJournal,
    moves::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary},
    source::Source,
    store::{Hold, Journal, JournalFuture, busy, check_id, conflict, too_few, unknown},
};
