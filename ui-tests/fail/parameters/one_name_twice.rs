//! Two parameters with one name in the schema.

use harness::tool;

/// Copies.
#[tool(side_effects = "write")]
fn copy(/// From
        path: String, /// To
        #[param(rename = "path")] target: String) -> String { path + &target }

fn main() {}
