//! A list with a function whose name is refused: only the name is wrong.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn char() {}
mod words {
    use harness::tool;
    /// Does it.
    #[tool(side_effects = "none", handle = String)]
    pub(crate) fn it() {}
}

fn main() {
    let _ = tools![char, words::String];
    char();
    words::it();
}
