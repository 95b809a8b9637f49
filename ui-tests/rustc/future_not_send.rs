//! A future that stays in its thread.
//!
//! - at `read_file`: used across an await

use harness::tool;

async fn sleep() {}
/// Reads.
#[tool(side_effects = "read")]
async fn read_file() -> i64 {
    let rc = std::rc::Rc::new(1);
    sleep().await;
    *rc
}

fn main() {}
