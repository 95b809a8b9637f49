//! Tests for parts of a program: whether a journal keeps its promises ([`journal_conformance`]), and whether an agent
//! survives a crash at each point of a run ([`Crashtest`]).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod conformance;
mod crashtest;

pub use self::{
    conformance::{Conformance, journal_conformance},
    crashtest::{CrashFinding, CrashReport, Crashtest, Harm, crash_point},
};
