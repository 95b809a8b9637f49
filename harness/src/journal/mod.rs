//! What is stored: conversations, each as the list of its facts in the order in which they
//! happened.
//!
#![doc = include_str!("../../guide/durable.md")]

mod decision;
mod envelope;
mod fact;
mod head;
mod listing;
mod memory;
mod moves;
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
    decision::{Always, CallBinding, Decider, Decision, Reason, Repeat},
    envelope::{Envelope, FORMAT, Life},
    fact::{
        AnswerCheck, Fact, FactKind, InterruptCause, Limit, LimitScope, RunLimits, WantedAnswer,
    },
    head::{Head, Incarnation, StoredFacts},
    listing::{Conversations, Listing, Metadata, Summary},
    memory::MemoryJournal,
    moves::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary},
    source::Source,
    store::{Hold, Journal, JournalFuture, busy, check_id, conflict, too_few, unknown},
    wait::{Awaited, CallSpent, Wait},
};
pub(crate) use self::{envelope::now, source::Sources};
