//! Providers over HTTP: connections, timeouts, retries, fallbacks and limits; and the fakes that stand in for them.

mod bodies;
mod bodies_kept;
mod chaos;
mod client_anthropic;
mod client_arrivals;
mod client_connections;
mod client_live;
mod client_providers;
mod client_retry;
mod client_tls;
mod clocks;
mod context_full;
mod fallback;
mod models;
mod prompt_cache;
mod retry;
mod soak;
mod tap;
mod testing_bodies;
mod testing_scripted;
mod testing_server;
mod throttle;
mod verdicts;

use harness_test_support::{decoded, kept, times, wire_providers};
