//! Behaviour, through the public API.
