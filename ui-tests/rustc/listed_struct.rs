//! A struct in a list.
//!
//! - at `S`: no function or associated item named `tool`

use harness::tools;

struct S;
fn g() { let _ = tools![S]; }

fn main() {}
