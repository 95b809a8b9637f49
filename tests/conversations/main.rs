//! Conversations that journals keep: processes that end, conversations by name, copies, steps and formats.

mod chats;
mod chats_steered;
mod chats_sweep;
mod chats_watched;
mod durable;
mod durable_faults;
#[cfg(unix)]
mod file_modes;
mod formats;
mod identity;
mod observed;
mod random;
mod reconcile;
mod reopened;
mod steps;
mod steps_cut_short;
mod steps_stopped;
mod taken_up;
mod waiting;

use harness_test_support::{door, kept, probe, step, summaries, times};
