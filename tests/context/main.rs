//! What is sent of a long conversation: what is cleared, kept, summarized and found again.

mod context_arguments;
mod context_from_elsewhere;
mod context_imitations;
mod context_moves;
mod context_quotations;
mod context_random;
mod context_refused;
mod context_small;
mod context_summaries;
mod context_turns;
mod context_wires;
mod earlier_thinking;
mod spilling;
mod tool_search;
mod tool_search_choice;
mod vendor_summaries;
mod vendors;

use harness_test_support::{door, facts, kept, probe, step, summaries, times, wire_providers};
