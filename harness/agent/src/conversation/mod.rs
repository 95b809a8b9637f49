//! A conversation: its messages, its journal, and answers from outside.

pub(crate) mod answers;
pub(crate) mod blocking;
pub(crate) mod chat;
pub(crate) mod context;
pub(crate) mod durable;
pub(crate) mod fork;
pub(crate) mod inbox;
pub(crate) mod journaling;
pub(crate) mod observed;
pub(crate) mod open;
pub(crate) mod past_trace;
pub(crate) mod spending;
pub(crate) mod spilling;
pub(crate) mod state;
