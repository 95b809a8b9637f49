//! A conversation: its messages, its journal, and what others answer meanwhile.

pub(crate) mod blocking;
pub(crate) mod chat;
pub(crate) mod durable;
pub(crate) mod external_answers;
pub(crate) mod inbox;
pub(crate) mod observed;
pub(crate) mod spilling;
