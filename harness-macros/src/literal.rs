//! Recognizes literals, their kinds, and the suffixes of numbers.

use syn::{Expr, ExprLit, Lit};

use crate::values::ungroup;

/// The kind of a literal; for numbers, with the signed value.
pub(crate) enum Literal {
    Integer(i128),
    Float(f64),
    Text,
    Char,
    Bool,
    Other,
}

/// The suffix of a literal number, such as `u8`; `None` without a suffix.
pub(crate) fn suffix(expr: &Expr) -> Option<String> {
    let suffix = match ungroup(expr) {
        Expr::Unary(unary) => return suffix(&unary.expr),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.suffix(),
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.suffix(),
        Expr::Lit(ExprLit { lit: Lit::Byte(_), .. }) => "u8",
        _ => "",
    };
    (!suffix.is_empty()).then(|| suffix.to_owned())
}

/// The literal in an expression, or `None` for other expressions.
pub(crate) fn literal(expr: &Expr) -> Option<Literal> {
    match ungroup(expr) {
        Expr::Lit(ExprLit { lit, .. }) => Some(match lit {
            Lit::Int(number) => match number.base10_parse::<i128>() {
                // syn parses `1f64` as an integer literal with a suffix.
                Ok(number_value) if !number.suffix().starts_with('f') => {
                    Literal::Integer(number_value)
                }
                _ => Literal::Float(number.base10_digits().parse().unwrap_or(f64::MAX)),
            },
            Lit::Float(number) => Literal::Float(number.base10_parse().unwrap_or(f64::MAX)),
            Lit::Str(_) => Literal::Text,
            Lit::Char(_) => Literal::Char,
            Lit::Bool(_) => Literal::Bool,
            Lit::Byte(byte) => Literal::Integer(byte.value().into()),
            _ => Literal::Other,
        }),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => {
            match literal(&unary.expr)? {
                Literal::Integer(number) => Some(Literal::Integer(-number)),
                Literal::Float(number) => Some(Literal::Float(-number)),
                Literal::Text | Literal::Char | Literal::Bool | Literal::Other => None,
            }
        }
        _ => None,
    }
}
