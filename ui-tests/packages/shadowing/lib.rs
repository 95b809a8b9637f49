//! A package whose names hide those of the standard library and of other crates.
#![cfg(test)]
#![allow(dead_code, non_camel_case_types, reason = "the names are there to be in the way")]

use harness::{tool, tools, toolset};

mod std {}
mod serde {}
mod schemars {}
struct Result;
struct Option;
struct String;
struct Vec;
struct Box;
struct Tool;
struct ToolDef;
struct Some;
trait Into {}
trait Default {}
trait Send {}
const TOOL: () = ();
const SCHEMA: () = ();
fn tool() {}

/// Adds.
#[tool(side_effects = ["read", "network"], timeout = "1s", idempotent)]
fn add(
    /// First
    a: ::std::option::Option<i64>,
    /// Second
    #[param(default = 1, range(0..=9))]
    b: i64,
    /// Text
    #[param(default = "x")]
    text: &str,
    /// List
    list: &[i64],
) -> ::std::result::Result<i64, ::std::string::String> {
    let _ = (text, list);
    Ok(a.map_or(b, |a| a + b))
}

struct Files;

#[toolset]
impl Files {
    /// Reads.
    #[tool(side_effects = "read")]
    async fn read(&self) -> i64 {
        1
    }
}

#[test]
fn it_builds() {
    assert_eq!(tools![add].len(), 1);
    assert_eq!(::std::sync::Arc::new(Files).tools().len(), 1);
    let none: ::std::vec::Vec<harness::Tool> = tools![];
    assert!(none.is_empty());
}
