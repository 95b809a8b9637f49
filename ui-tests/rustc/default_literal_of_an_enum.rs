//! A literal of which nobody knows whether it is a name of an enum.
//!
//! - at `"up"`: the default of a parameter of the type `Order` cannot be this literal
//! - at `["asc"]`: the default of a parameter of the type `Vec<Order>`
//! - at `3`: the default of a parameter of the type `Order`

use harness::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
enum Order { Asc, Desc }
/// Sorts.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = "up")] a: Order, /// B
 #[param(default = ["asc"])] b: Vec<Order>, /// C
 #[param(default = 3)] c: Order) -> bool {
    matches!((a, c), (Order::Asc, Order::Desc)) && b.is_empty()
}

fn main() {}
