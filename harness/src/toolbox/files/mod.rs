//! The file tools: they read, write, list and search inside one folder, and nothing leads out.

mod list;
mod off_loop;
mod read;
mod root;
mod search;
mod tools;
mod walk;
mod write;

pub use self::tools::Files;
