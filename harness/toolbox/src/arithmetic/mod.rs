//! The tool `calc`: arithmetic on numbers, and nothing else. It has no names and no functions, so no expression
//! reaches anything outside of it.

mod error;
mod evaluate;
mod number;
mod parse;

pub use self::{error::CalcError, evaluate::calc, number::Number};
