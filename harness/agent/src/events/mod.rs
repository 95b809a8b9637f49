//! What a run reports while it goes on, and its form as JSON.

pub(crate) mod announcements;
pub(crate) mod event;
pub(crate) mod event_json;
pub(crate) mod numbered;
pub(crate) mod stream;
pub(crate) mod watcher;
