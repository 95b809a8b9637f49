//! Lists with an item of another type, out of range, of another length.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = ["a", 1])] a: Vec<String>, /// B
 #[param(default = [1, 300])] b: &[u8], /// C
 #[param(default = [1])] c: [u8; 2], /// D
 #[param(default = [1, 2, 3])] d: (u8, u8)) -> usize {
    a.len() + b.len() + usize::from(c[0] + d.0)
}

fn main() {}
