//! The tool `calc`: an expression is parsed, then computed.

use harness_macros::tool;

use super::{
    error::CalcError,
    number::Number,
    parse::{self, Expr},
};

/// Computes an arithmetic expression.
///
/// It takes integers, decimals such as `1.5` and `2e-3`, `+ - * / // % **`, signs and parentheses.
/// `**` or `^` is the power; it binds tightest and to the right: `-2**2` is -4 and `2**3**2` is 512.
/// Integers are exact up to 38 digits; `/` stays exact if nothing is left over and gives a decimal
/// otherwise, and a decimal has about 16 digits. `//` divides and rounds down: `-7 // 2` is -4. `%` is
/// the remainder and has the sign of the left side. There are no variables, functions or units, and
/// `*` is always written.
///
/// # Errors
/// Fails with the column of the fault if the expression cannot be parsed, if the result does not exist (division by
/// zero), or if an integer does not fit into 128 bits. Integers never wrap around.
///
/// # Examples
/// ```
/// use harness::toolbox::{Number, calc};
///
/// assert_eq!(calc("17 * 23 - 100"), Ok(Number::Integer(291)));
/// assert_eq!(calc("1 / 8"), Ok(Number::Float(0.125)));
///
/// let mistake = calc("2 + 3 x").unwrap_err();
/// assert_eq!(mistake.column(), 7);
/// ```
#[tool(side_effects = "none")]
pub fn calc(
    /// such as `17 * 23`
    expression: &str,
) -> Result<Number, CalcError> {
    evaluate(&parse::expression(expression)?)
}

/// The parser limits length and depth of expressions, so this recursion is bounded.
fn evaluate(expr: &Expr) -> Result<Number, CalcError> {
    match expr {
        Expr::Number(number) => Ok(*number),
        Expr::Negate { operand, column } => evaluate(operand)?.negate(*column),
        Expr::Apply { operator, left, right, column } => {
            evaluate(left)?.apply(*operator, evaluate(right)?, *column)
        }
    }
}
