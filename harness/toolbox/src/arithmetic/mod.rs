//! The tool `calc`: arithmetic on numbers only. Expressions have no names and no functions, so an expression cannot
//! access any other data.

mod error;
mod evaluate;
mod number;
mod parse;

pub use self::{error::CalcError, evaluate::calc, number::Number};
