//! What others write: a provider, a journal and a kit of tools. They depend on `harness-core` alone and use only what its docs
//! show.

pub mod journal;
pub mod provider;
pub mod toolkit;
