//! Lines about a parameter that are no entries of the list, so that they would be a part of the entry before.

use harness::{State, tool};

/// Finds text.
///
/// # Arguments
/// - `path`: Path of the file- `limit`: How many
#[tool(side_effects = "read")]
fn in_one_line(path: String, limit: u8) -> usize { path.len().min(limit.into()) }

/// Finds text.
///
/// # Arguments
/// - `path`: Path of the file
///   - `limit`: How many
#[tool(side_effects = "read")]
fn indented(path: String, limit: u8) -> usize { path.len().min(limit.into()) }

/// Finds text.
///
/// # Arguments
/// - `path`: Path of the file
/// -`limit`: How many
#[tool(side_effects = "read")]
fn without_a_space(path: String, limit: u8) -> usize { path.len().min(limit.into()) }

/// Finds text.
///
/// # Arguments
/// 1. path: Path of the file
/// 2. limit (u8): How many
#[tool(side_effects = "read")]
fn numbered(path: String, limit: u8, _hits: State<u8>) -> usize { path.len().min(limit.into()) }

fn main() {}
