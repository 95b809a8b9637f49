//! Replaces the module `otel` if that feature is off. Nothing here has an effect.

use std::future::Future;

use super::{Happened, Redactor};
use crate::tool::DispatchOutcome;

/// Stands in for the type that reports to OpenTelemetry.
#[derive(Default)]
pub(super) struct SilentSpans;

impl SilentSpans {
    pub(super) fn is_listening(&self) -> bool {
        false
    }

    pub(super) fn happened(&mut self, _: &Happened) {}

    pub(super) fn begin_operation(&mut self, _: &'static str, _: &str, _: &str) {}

    pub(super) fn chunk(&mut self) {}

    pub(super) fn chat(&self) -> SilentScope {
        SilentScope
    }

    pub(super) fn call(&mut self, _: &str, _: &Redactor) -> SilentScope {
        SilentScope
    }
}

/// Stands in for a span in which code runs.
#[derive(Clone, Copy, Debug)]
pub struct SilentScope;

impl SilentScope {
    /// Runs the function without a span.
    #[doc(hidden)]
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Returns the future unchanged, without a span.
    #[doc(hidden)]
    pub fn call<F: Future<Output = DispatchOutcome>>(self, run: F) -> F {
        run
    }
}
