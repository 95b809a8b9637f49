//! The attribute is not imported.
//!
//! - at `tool`: cannot find attribute `tool`

mod other {
    /// A.
    #[tool(side_effects = "none")]
    pub fn one() -> i64 { 1 }
}

fn main() {}
