//! The compile-fail tests.
