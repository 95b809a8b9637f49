//! The stored form of conversations: each conversation is the list of its facts in the order in
//! which they happened.

mod context_edits;
mod decision;
mod envelope;
mod fact;
mod head;
mod listing;
mod memory;
mod prefix;
mod read_fact;
mod source;
mod store;
mod wait;

pub use self::envelope::now;
pub use self::{
    context_edits::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary},
    decision::{Always, CallBinding, Decider, Decision, Reason, Repeat},
    envelope::{Envelope, FORMAT, WriterId},
    fact::{
        AnswerCheck, Fact, FactKind, InterruptCause, LimitKind, LimitScope, RecordedLimits,
        WantedAnswer,
    },
    head::{Head, Incarnation, StoredFacts},
    listing::{ConversationInfo, ConversationPage, ConversationQuery, Metadata},
    memory::MemoryJournal,
    prefix::Prefix,
    source::Source,
    store::{
        Journal, JournalFuture, Lease, busy, check_base, check_id, conflict, too_few, unknown,
    },
    wait::{Awaited, CallSpent, Wait},
};
#[doc(hidden)]
pub use self::{source::Sources, store::foreign_page};
