//! Behaviour, through the public API.

mod toolbox;
