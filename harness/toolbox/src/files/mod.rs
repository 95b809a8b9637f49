//! The file tools: they read, write, list and search files inside one folder, and never outside.

mod blocking_work;
mod code_files;
mod code_list;
mod difference;
mod ignore_files;
mod list;
mod pattern;
mod read;
mod root;
mod search;
mod tools;
mod walk;
mod write;

pub use self::{code_files::CodeFiles, tools::Files};
