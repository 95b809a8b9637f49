//! The ready tools, called with JSON as a model calls them, on real files and processes.

mod calc;
