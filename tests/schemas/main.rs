//! Schemas of tools and of typed answers: what `#[tool]` and types make, what is checked, and what a vendor gets to enforce.

mod answer_ends;
mod answer_hostile;
mod answer_types;
mod answer_views;
mod answer_ways;
mod schema_checks;
mod schema_hostile;
mod schema_oracle;
mod schema_random;
mod state;
mod strict_forms;
mod structured_results;
mod tool_by_hand;
mod tool_context;
mod tool_limits;
mod tool_macro;
mod tool_results;
mod tool_review;
mod tool_schema;
mod tool_values;
mod typed_answers;

use harness_test_support::{decoded, probe, setting, times};
