//! Futures that are returned by functions that are not `async`.
//!
//! - at `impl Future<Output = u8>`: write that attribute below `#[tool]`
//! - at `Pin<Box<dyn Future<Output = u8> + Send>>`: a future is awaited only if the function is written as `async fn`
//! - at `Later`: a future is awaited only if the function is written as `async fn`
//! - at `Ready<u8>`: a future is awaited only if the function is written as `async fn`

use std::{future::{Ready, ready}, pin::Pin};

use harness::tool;

/// Counts.
#[tool(side_effects = "none")]
fn opaque() -> impl Future<Output = u8> { async { 1 } }
/// Counts.
#[tool(side_effects = "none")]
fn boxed() -> Pin<Box<dyn Future<Output = u8> + Send>> { Box::pin(async { 1 }) }
type Later = Pin<Box<dyn Future<Output = Result<u8, String>> + Send>>;
/// Counts.
#[tool(side_effects = "none")]
fn by_alias() -> Later { Box::pin(async { Ok(1) }) }
/// Counts.
#[tool(side_effects = "none")]
fn in_a_result() -> Result<Ready<u8>, String> { Ok(ready(1)) }

fn main() {}
