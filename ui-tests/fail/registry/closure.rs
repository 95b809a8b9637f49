//! A closure in the list.

use harness::tools;

fn g() { let _ = tools![|x| x]; }

fn main() {}
