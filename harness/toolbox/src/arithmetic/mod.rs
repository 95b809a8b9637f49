//! The tool `calc`: arithmetic on numbers, and nothing else. There are no names and no functions, so an expression can
//! reach nothing outside of itself.

mod error;
mod evaluate;
mod number;
mod parse;

pub use self::{error::CalcError, evaluate::calc, number::Number};
