//! The future of a method that stays in its thread.
//!
//! - at `f`: `f` is not `Send`

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
async fn f(&self) -> i64 {
    let rc = std::rc::Rc::new(1);
    std::future::ready(()).await;
    *rc
}
}

fn main() {}
