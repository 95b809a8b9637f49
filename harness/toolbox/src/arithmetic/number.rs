//! The numbers of `calc`, and the operators on them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::error::CalcError;

/// A number, exact as long as possible.
///
/// Serialized as a JSON number. An integer beyond 64 bits, which many JSON parsers cannot read, is serialized as a
/// string of its digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An exact integer.
    Integer(i128),
    /// A decimal of double precision. Always finite.
    Float(f64),
}

/// An operator between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

impl ArithmeticOperator {
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Remainder => "%",
            Self::Power => "^",
        }
    }
}

impl Number {
    /// Converts to the nearest double-precision float.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    fn is_zero(self) -> bool {
        self == Self::Integer(0) || self == Self::Float(0.0)
    }

    pub(super) fn negate(self, column: usize) -> Result<Self, CalcError> {
        match self {
            Self::Integer(integer) => match integer.checked_neg() {
                Some(negated) => Ok(Self::Integer(negated)),
                None => Err(too_large(ArithmeticOperator::Subtract, column)),
            },
            Self::Float(float) => Ok(Self::Float(0.0 - float)),
        }
    }

    pub(super) fn apply(
        self,
        operator: ArithmeticOperator,
        right: Self,
        column: usize,
    ) -> Result<Self, CalcError> {
        use ArithmeticOperator::{Divide, FloorDivide, Remainder};
        let divides = matches!(operator, Divide | FloorDivide | Remainder);
        if divides && right.is_zero() {
            return Err(CalcError::new(column, "division by zero; the right side must not be 0"));
        }
        match (self, right) {
            (Self::Integer(left), Self::Integer(right)) => exact(operator, left, right, column),
            (left, right) => rounded(operator, left.to_f64(), right.to_f64(), column),
        }
    }
}

fn exact(
    operator: ArithmeticOperator,
    left: i128,
    right: i128,
    column: usize,
) -> Result<Number, CalcError> {
    let exact = match operator {
        ArithmeticOperator::Add => left.checked_add(right),
        ArithmeticOperator::Subtract => left.checked_sub(right),
        ArithmeticOperator::Multiply => left.checked_mul(right),
        // The smallest integer has the remainder 0 for -1, although the division itself would overflow.
        ArithmeticOperator::Remainder => Some(left.wrapping_rem(right)),
        ArithmeticOperator::FloorDivide => {
            let is_rounded_up = left.wrapping_rem(right) != 0 && (left < 0) != (right < 0);
            left.checked_div(right).map(|whole| whole - i128::from(is_rounded_up))
        }
        ArithmeticOperator::Divide if left.wrapping_rem(right) == 0 => left.checked_div(right),
        ArithmeticOperator::Divide => {
            return rounded(operator, left as f64, right as f64, column);
        }
        ArithmeticOperator::Power => return power(left, right, column),
    };
    exact.map(Number::Integer).ok_or_else(|| too_large(operator, column))
}

fn power(base: i128, exponent: i128, column: usize) -> Result<Number, CalcError> {
    match base {
        // For these bases, the exponent may have any size.
        1 => return Ok(Number::Integer(1)),
        -1 => return Ok(Number::Integer(if exponent % 2 == 0 { 1 } else { -1 })),
        0 if exponent >= 0 => return Ok(Number::Integer(i128::from(exponent == 0))),
        _ => {}
    }
    if exponent < 0 {
        return rounded(ArithmeticOperator::Power, base as f64, exponent as f64, column);
    }
    u32::try_from(exponent)
        .ok()
        .and_then(|exponent| base.checked_pow(exponent))
        .map(Number::Integer)
        .ok_or_else(|| too_large(ArithmeticOperator::Power, column))
}

fn rounded(
    operator: ArithmeticOperator,
    left: f64,
    right: f64,
    column: usize,
) -> Result<Number, CalcError> {
    if operator == ArithmeticOperator::Power && left == 0.0 && right < 0.0 {
        return Err(CalcError::new(
            column,
            "division by zero; 0 has no negative power, so the exponent must be 0 or more",
        ));
    }
    let float = match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::FloorDivide => {
            // The division may round up to the next whole number, so the remainder is subtracted first.
            let rest = left % right;
            let is_rounded_up = rest != 0.0 && (rest < 0.0) != (right < 0.0);
            ((left - rest) / right).round() - f64::from(u8::from(is_rounded_up))
        }
        ArithmeticOperator::Remainder => left % right,
        ArithmeticOperator::Power => left.powf(right),
    };
    if float.is_nan() {
        return Err(CalcError::new(
            column,
            "a negative number has no real power with a fractional exponent; write a whole exponent",
        ));
    }
    if float.is_infinite() {
        return Err(CalcError::new(
            column,
            format!("the result of `{}` is larger than any decimal (1.8e308)", operator.symbol()),
        ));
    }
    // Adding 0 turns a negative zero into a positive zero.
    Ok(Number::Float(float + 0.0))
}

fn too_large(operator: ArithmeticOperator, column: usize) -> CalcError {
    CalcError::new(
        column,
        format!(
            "the result of `{}` does not fit into a 128-bit integer; write one of the numbers as a \
             decimal, such as `2.0`, if about 16 digits are enough",
            operator.symbol()
        ),
    )
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            // The float is written as in JSON: the fewest digits that give the same number.
            Self::Float(float) => write!(f, "{float:?}"),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(integer) => match i64::try_from(integer) {
                Ok(integer) => to.serialize_i64(integer),
                Err(_) => to.collect_str(&integer),
            },
            Self::Float(float) => to.serialize_f64(float),
        }
    }
}
