//! Reports runs as spans and metrics that follow OpenTelemetry's conventions for generative AI. With the feature `otel`
//! of `harness`, all traces are reported, so a program only sets up its exporter: see [the list of spans and
//! metrics](harness_core::trace#opentelemetry).
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
