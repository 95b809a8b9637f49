//! The ready tools, called with JSON as a model calls them, on real files and processes.

mod calc;
mod calls;
mod code_files;
#[cfg(unix)]
mod escape;
mod files;
mod ignore_files;
mod search;
#[cfg(unix)]
mod shell;
#[cfg(target_os = "linux")]
mod stops;

use std::sync::atomic::{AtomicBool, Ordering};

use harness_test_support::{measured, process};

use self::calls::{call, call_in};

/// Ends the thread that asks for it, also when the test fails.
struct SetWhenDropped<'b>(&'b AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
