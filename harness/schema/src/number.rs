//! Compares numbers and values as JSON Schema does: 1.0 equals 1, and large integers keep all their
//! digits.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Compares two numbers without rounding.
pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => with_float(one, float(other)),
        (None, Some(other)) => with_float(other, float(one)).reverse(),
        // JSON has no NaN, so `partial_cmp` always has a result. `total_cmp` would order -0.0
        // before 0.0.
        (None, None) => float(one).partial_cmp(&float(other)).unwrap_or(Ordering::Equal),
    }
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_possible_truncation, reason = "it is below 2^100")]
fn with_float(integer: i128, float: f64) -> Ordering {
    if float.abs() >= 2_f64.powi(100) {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let below = float.floor();
    let rest = if float > below { Ordering::Less } else { Ordering::Equal };
    integer.cmp(&(below as i128)).then(rest)
}

/// Whether JSON Schema counts the number as an integer, for example 3.0.
pub(super) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || float(number).fract() == 0.0
}

/// The integer value of a float such as `3.0`. `None` above 2^53, where a float stands for several
/// integers.
#[expect(clippy::cast_possible_truncation, reason = "whole and at most 2^53")]
pub(super) fn written_as_float(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i64)
}

/// Whether a number is a multiple of the number `of` in decimal arithmetic. In decimal arithmetic,
/// 0.3 is a multiple of 0.1.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    let exact = || {
        let ((one, places), (other, more)) = (decimal(number)?, decimal(of)?);
        if places >= more {
            // The remainder is computed digit by digit to avoid an overflow.
            let mut rest = one.checked_rem(other)?;
            for _ in more..places {
                rest = rest.checked_mul(10)?.checked_rem(other)?;
            }
            return Some(rest == 0);
        }
        let scale = 10_i128.checked_pow(more.abs_diff(places));
        // If the product overflows, it is larger than the number, so only zero is a multiple.
        Some(match scale.and_then(|scale| other.checked_mul(scale)) {
            Some(other) => one.checked_rem(other)? == 0,
            None => one == 0,
        })
    };
    exact().unwrap_or_else(|| float(number) % float(of) == 0.0)
}

/// Splits a number into an integer of its decimal digits, and an exponent of ten.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(part.len().try_into().ok()?)?;
    Some((format!("{whole}{part}").parse().ok()?, exponent))
}

/// Whether two values are equal. Numbers are compared by value.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => one == other,
    }
}

/// Writes a canonical text of a value. Two values have the same text exactly if they are equal.
pub(super) fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => {
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^100")]
            let whole = Some(float(number))
                .filter(|float| float.fract() == 0.0 && float.abs() < 2_f64.powi(100))
                .map(|float| float as i128);
            match number.as_i128().or(whole) {
                Some(integer) => out.push_str(&integer.to_string()),
                None => out.push_str(&float(number).to_string()),
            }
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in sorted {
                out.push_str(&format!("{name:?}:"));
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::String(text) => out.push_str(&format!("{text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_compare_without_a_loss() {
        let table = [
            ("1", "1.0", Ordering::Equal),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("18446744073709551615", "1.8446744073709552e19", Ordering::Less),
            ("-1", "-1.5", Ordering::Greater),
            ("-2", "-1.5", Ordering::Less),
            ("1", "1e300", Ordering::Less),
            ("1", "-1e300", Ordering::Greater),
            ("0", "-0.0", Ordering::Equal),
        ];
        for (one, other, expected) in table {
            assert_eq!(compare(&number(one), &number(other)), expected, "{one} {other}");
            assert_eq!(compare(&number(other), &number(one)), expected.reverse(), "{other} {one}");
        }
    }

    #[test]
    fn a_multiple_is_one_in_decimals() {
        let table = [
            ("19.99", "0.01", true),
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("7", "2", false),
            ("1e20", "5", true),
            ("4.0", "2", true),
            ("-6", "3", true),
            ("1e300", "7", false),
            ("1e300", "0.01", true),
            ("3", "1e308", false),
            ("0", "1e308", true),
            ("1e308", "5e-324", true),
            ("1e-308", "1e308", false),
        ];
        for (one, of, expected) in table {
            assert_eq!(is_multiple(&number(one), &number(of)), expected, "{one} {of}");
        }
    }

    #[test]
    fn equal_values_have_one_canonical_text() {
        let values: Vec<Value> = [
            "1",
            "1.0",
            "10e-1",
            "true",
            "\"1\"",
            "[1]",
            "{\"a\":1,\"b\":2}",
            "{\"b\":2.0,\"a\":1}",
            "9007199254740993",
            "9007199254740992.0",
            "-0.0",
            "0",
            "1152921504606846976",
            "1.152921504606846976e18",
            "1e300",
        ]
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
        let text = |value: &Value| {
            let mut out = String::new();
            canonical(value, &mut out);
            out
        };
        for one in &values {
            for other in &values {
                assert_eq!(equal(one, other), text(one) == text(other), "{one} {other}");
            }
        }
    }
}
