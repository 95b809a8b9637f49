//! Types of parameters that borrow.

use std::borrow::Cow;

use harness::{tool, toolset};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query<'a> { text: &'a str }
/// Finds.
#[tool(side_effects = "read")]
fn find(/// What
        query: Query<'_>) -> usize { query.text.len() }
/// Finds.
#[tool(side_effects = "read")]
async fn find_all<'a>(/// What
                      queries: Vec<Query<'a>>, /// Which
                      one: &Query<'_>) -> usize { queries.len() + one.text.len() }
struct Files;
#[toolset]
impl Files {
    /// Finds.
    #[tool(side_effects = "read")]
    fn find(&self, /// What
            query: Option<Query<'_>>) -> usize { query.map_or(0, |query| query.text.len()) }
}
/// Finds.
#[tool(side_effects = "read")]
fn find_text(/// What
             text: Cow<'_, str>) -> usize { text.len() }

fn main() {}
