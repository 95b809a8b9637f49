//! Spans and metrics of runs by OpenTelemetry's conventions for generative AI. The feature `otel` of
//! `harness` sends all traces to it, so a program only sets up its exporter:
//! [what there is](harness_core::trace#opentelemetry).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod journal;
mod names;
mod spans;

pub use self::spans::OtelListener;
