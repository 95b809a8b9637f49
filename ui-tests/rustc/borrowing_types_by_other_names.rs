//! Types that borrow without a lifetime in the signature.
//!
//! - at `Query`: is not general enough
//! - at `&Query`: is not general enough
//! - at `Text`: is not general enough
//! - at `Vec<Text>`: is not general enough

use harness::{tool, toolset};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query<'a> { text: &'a str }
type Text = Query<'static>;
/// Finds.
#[tool(side_effects = "read")]
fn find(/// What
        query: Query) -> usize { query.text.len() }
/// Finds.
#[tool(side_effects = "read")]
fn find_lent(/// What
             query: &Query) -> usize { query.text.len() }
struct Files;
#[toolset]
impl Files {
    /// Finds.
    #[tool(side_effects = "read")]
    async fn find(&self, /// What
                  text: Text) -> usize { text.text.len() }
    /// Finds.
    #[tool(side_effects = "read")]
    fn find_all(&self, /// What
                texts: Vec<Text>) -> usize { texts.len() }
}

fn main() {}
