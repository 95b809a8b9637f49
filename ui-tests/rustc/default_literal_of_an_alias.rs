//! Literals that do not fit the type behind an alias.
//!
//! - at `300`: the default of `a` is 300, which is no `Small`
//! - at `0`: the default of `b` is 0, which is no `std::num::NonZeroU8`
//! - at `true`: the default of a parameter of the type
//! - at `[1, -300]`: the default of `d` is [1, -300], which is no `Box<[i8]>`
//! - at `1.5`: the default of a parameter of the type

use harness::tool;

type Small = u8;
type Name = String;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = 300)] a: Small, /// B
 #[param(default = 0)] b: std::num::NonZeroU8, /// C
 #[param(default = true)] c: Name, /// D
 #[param(default = [1, -300])] d: Box<[i8]>, /// E
 #[param(default = 1.5)] e: Name) -> usize {
    usize::from(a) + usize::from(b.get()) + c.len() + d.len() + e.len()
}

fn main() {}
