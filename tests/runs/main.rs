//! Runs: their turns and events, how they end, how they are stopped and steered, and what is reported of them.

mod agent;
mod cancelled;
mod circumstances;
mod early;
mod events;
mod interrupt;
mod left_over;
mod machine;
mod machine_later;
mod panics;
mod panics_in_drops;
mod resume;
mod secret;
mod steering;
mod steering_sweep;
mod strict;
mod sweep;
mod threads;
mod threads_outlived;
mod trace;
mod trace_hostile;
mod trace_sink;
mod transcript;

use harness_test_support::{approvers, door, facts, kept, probe, process, times, transcripts};
