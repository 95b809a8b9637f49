//! A derive of another version of `schemars`: it implements another trait of the same name.
//!
//! - at `Query`: the trait of another version is another trait

use harness::tool;

mod schemars_0_8 {
    pub(crate) trait JsonSchema {}
}
#[derive(serde::Deserialize)]
struct Query { text: String }
impl schemars_0_8::JsonSchema for Query {}
/// Finds.
#[tool(side_effects = "read")]
fn find(/// What
        query: Query) -> usize { query.text.len() }

fn main() {}
