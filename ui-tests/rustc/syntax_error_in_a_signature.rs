//! Signatures that rustc cannot read: it says so, and we say nothing; those who name the functions
//! hear of no further mistake.
//!
//! - at `y`: expected one of `:`, `@`, or `|`, found `y`
//! - at `{`: expected type, found `{`

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = 1)] x y: u8) {}
/// Does it.
#[tool(side_effects = "none")]
fn g(/// A
 x: u8) -> {}

fn main() {
    let _ = tools![f, g];
    let _ = (f::tool(), g::TOOL.name);
}
