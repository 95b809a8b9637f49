//! The events of a run, and their JSON form.

pub(crate) mod announcements;
pub(crate) mod event;
pub(crate) mod event_json;
pub(crate) mod numbered;
pub(crate) mod stream;
pub(crate) mod watcher;
