//! The tool `calc`: arithmetic on numbers, and nothing else. It knows no names and no functions,
//! so that no expression reaches anything outside of it.

mod error;
mod number;
mod parse;

use self::parse::Expr;
pub use self::{error::CalcError, number::Number};

/// Computes an arithmetic expression.
///
/// It takes integers, decimals such as `1.5` and `2e-3`, `+ - * / % ^`, unary minus and
/// parentheses; `^` is the power, binds tightest and to the right (`-2^2` is -4, `2^3^2` is 512).
/// Integers are exact up to 38 digits: `/` stays exact if the division has no remainder and gives a
/// decimal otherwise; a decimal has about 16 digits. `%` is the remainder, with the sign of the
/// left side. There are no variables, functions or units, and `*` is always written.
///
/// # Errors
/// Fails with the column of the mistake if the expression cannot be read, and if the result does
/// not exist (division by zero) or does not fit; nothing is rounded or wrapped silently.
pub fn calc(expression: &str) -> Result<Number, CalcError> {
    evaluate(&parse::expression(expression)?)
}

/// The parser bounds the depth, so the recursion is bounded.
fn evaluate(expr: &Expr) -> Result<Number, CalcError> {
    match expr {
        Expr::Number(number) => Ok(*number),
        Expr::Negate { operand, column } => evaluate(operand)?.negate(*column),
        Expr::Apply { operator, left, right, column } => {
            evaluate(left)?.apply(*operator, evaluate(right)?, *column)
        }
    }
}
