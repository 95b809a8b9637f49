//! Stands in for `otel` where that feature is off: nothing listens, and nothing is done.

use std::future::Future;

use super::{Happened, Redactor};
use crate::tool::Dispatched;

/// What would be told to OpenTelemetry.
#[derive(Default)]
pub(super) struct Spans;

impl Spans {
    pub(super) fn listens(&self) -> bool {
        false
    }

    pub(super) fn happened(&mut self, _: &Happened) {}

    pub(super) fn asks(&mut self, _: &'static str, _: &str, _: &str) {}

    pub(super) fn chunk(&mut self) {}

    pub(super) fn chat(&self) -> Scope {
        Scope
    }

    pub(super) fn call(&mut self, _: &str, _: &Redactor) -> Scope {
        Scope
    }
}

/// Within which something is done.
#[derive(Clone, Copy)]
pub(crate) struct Scope;

impl Scope {
    /// Does it.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Runs a call to its end.
    pub(crate) fn call<F: Future<Output = Dispatched>>(self, run: F) -> F {
        run
    }
}
