//! A list with the name of a primitive type, without a function of that name.
//!
//! - at `char`: no_tool_can_be_called_char

use harness::tools;

fn main() {
    let _ = tools![char];
}
