//! The attribute macros of `harness`; see there for what they accept.
