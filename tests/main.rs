//! Behaviour, through the public API.

mod tool_macro;
