//! Stores of conversations: what each promises, and what it survives.

mod conformance;
mod faulty;
mod killed;
#[cfg(target_os = "linux")]
mod room;
mod sqlite;
