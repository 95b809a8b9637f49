//! Lengths, patterns and examples, of every kind of type that has them.

include!("../support.rs");

use std::{borrow::Cow, collections::HashSet, path::Path};

use harness::{tool, toolset};

const MOST: usize = 5;

#[derive(Clone, Copy, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Up,
    Down,
}

type Name = String;

/// Does it.
#[tool(side_effects = "none")]
#[expect(clippy::too_many_arguments)]
fn all(
    /// A
    #[param(length(1..=64), pattern = "^[a-z]+$", example = "abc")]
    text: &str,
    /// B
    #[param(length(..MOST), example = ["a", "b"])]
    list: Vec<String>,
    /// C
    #[param(length(2..))]
    #[param(pattern = r"^\d+(\.\d+)?$")]
    name: Option<Name>,
    /// D
    #[param(example = 1, example = 2.5, range(..=3.0))]
    number: f64,
    /// E
    #[param(example = Order::Down, example = "up")]
    order: Order,
    /// F
    #[param(length(1..=2), default = "x", example = "yz")]
    path: &Path,
    /// G
    #[param(length(..=3))]
    set: HashSet<u8>,
    /// H
    #[param(pattern = r"[a(*\]]|(?:x{2}|\$)+", length(1..))]
    cow: Cow<'_, str>,
    /// I
    #[param(length(1..=3), example = [1, 2])]
    lent: &[u8],
) -> usize {
    let order = usize::from(matches!(order, Order::Up));
    let sizes = [text.len(), list.len(), name.map_or(0, |name| name.len()), set.len(), cow.len()];
    sizes.iter().sum::<usize>() + number as usize + order + path.as_os_str().len() + lent.len()
}

struct Shop;

impl Shop {
    const LONGEST: usize = 9;
}

#[toolset]
impl Shop {
    /// Sells.
    #[tool(side_effects = "write")]
    fn sell(
        &self,
        /// What
        #[param(length(1..=Self::LONGEST), example = Self::usual())]
        what: String,
    ) -> String {
        what
    }

    fn usual() -> String {
        "bread".into()
    }
}

#[tokio::main]
pub(crate) async fn main() {
    let tool = all::tool();
    schema(&tool, "/properties/text/minLength", "1");
    schema(&tool, "/properties/text/maxLength", "64");
    schema(&tool, "/properties/text/pattern", "\"^[a-z]+$\"");
    schema(&tool, "/properties/text/examples", "[\"abc\"]");
    schema(&tool, "/properties/list/minItems", "absent");
    schema(&tool, "/properties/list/maxItems", "4");
    schema(&tool, "/properties/list/examples", "[[\"a\",\"b\"]]");
    schema(&tool, "/properties/name/minLength", "2");
    schema(&tool, "/properties/name/maxLength", "absent");
    schema(&tool, "/properties/number/examples", "[1,2.5]");
    schema(&tool, "/properties/order/examples", "[\"down\",\"up\"]");
    schema(&tool, "/properties/path/maxLength", "2");
    schema(&tool, "/properties/path/default", "\"x\"");
    schema(&tool, "/properties/path/examples", "[\"yz\"]");
    schema(&tool, "/properties/set/maxItems", "3");
    schema(&tool, "/properties/cow/minLength", "1");
    schema(&tool, "/properties/lent/maxItems", "3");
    schema(&tool, "/properties/lent/examples", "[[1,2]]");
    let tool = std::sync::Arc::new(Shop).tools().remove(0);
    schema(&tool, "/properties/what/maxLength", "9");
    schema(&tool, "/properties/what/examples", "[\"bread\"]");
    harness::ToolRegistry::new([all::tool(), tool]).unwrap().check().unwrap();
}
