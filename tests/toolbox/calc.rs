//! `calc`: arithmetic as in mathematics, exact where it can be, and every mistake by its column.

use harness::toolbox::{Number, calc};
use proptest::prelude::*;

fn value(expression: &str) -> String {
    match calc(expression) {
        Ok(number) => number.to_string(),
        Err(err) => panic!("{expression}: {err}"),
    }
}

fn mistake(expression: &str) -> String {
    match calc(expression) {
        Ok(number) => panic!("{expression} = {number}"),
        Err(err) => err.to_string(),
    }
}

#[test]
fn it_computes_as_in_mathematics() {
    let cases = [
        ("17 * 23 - 100", "291"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 3 - 4", "3"),
        ("100 / 10 / 5", "2"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^-1", "0.5"),
        ("2^3^2", "512"),
        ("-2^-2", "-0.25"),
        ("2 * -3", "-6"),
        ("2 - -3", "5"),
        ("- -3", "3"),
        ("+3", "3"),
        ("-7 % 3", "-1"),
        ("7 % -3", "1"),
        ("7.5 % 2", "1.5"),
        ("1 / 2", "0.5"),
        ("6 / 3", "2"),
        ("6.0 / 3", "2.0"),
        ("1.5 + .5", "2.0"),
        ("2e3", "2000.0"),
        ("1.5E-2", "0.015"),
        ("0 * -1.0", "0.0"),
        ("-0.0", "0.0"),
        ("0^0", "1"),
        ("10^-2", "0.01"),
        ("(-1)^1000000000001", "-1"),
        ("1^99999999999999999999", "1"),
        ("0^99999999999999999999", "0"),
        ("4^0.5", "2.0"),
        ("  1\t+\n1 ", "2"),
    ];
    for (expression, expected) in cases {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn integers_are_exact_or_refused_and_never_wrapped() {
    assert_eq!(value("2^100"), "1267650600228229401496703205376");
    assert_eq!(value("2^126 + (2^126 - 1)"), i128::MAX.to_string());
    assert_eq!(value("-(2^126) - 2^126"), i128::MIN.to_string());
    assert_eq!(value("(-(2^126) - 2^126) % -1"), "0");
    let overflows = [
        ("2^127", 2),
        ("1 + 2 * 170141183460469231731687303715884105727", 7),
        ("2^126 + 2^126", 7),
        ("-(2^126) - 2^126 - 1", 18),
        ("-(-(2^126) - 2^126)", 1),
        ("(-(2^126) - 2^126) / -1", 20),
        ("3^9999999999", 2),
    ];
    for (expression, column) in overflows {
        let text = mistake(expression);
        assert!(text.starts_with(&format!("column {column}: the result of ")), "{text}");
        assert!(text.contains("does not fit") && text.contains("such as `2.0`"), "{text}");
    }
    let text = mistake("1 + 170141183460469231731687303715884105728");
    assert!(text.starts_with("column 5: this number does not fit"), "{text}");
    assert_eq!(value("2.0^127"), format!("{:?}", 2f64.powi(127)));
}

#[test]
fn what_has_no_value_is_an_error_with_a_way_out() {
    let cases = [
        ("1 / 0", "column 3: division by zero"),
        ("1 % 0", "column 3: division by zero"),
        ("1 / (2 - 2)", "column 3: division by zero"),
        ("1.0 / 0.0", "column 5: division by zero"),
        ("0^-1", "column 2: division by zero"),
        ("0.0^-1", "column 4: division by zero"),
        ("(-8)^0.5", "column 5: a negative number has no real power"),
        ("1e308 * 10", "column 7: the result of `*` is larger"),
        ("1e999", "column 1: this number is larger"),
    ];
    for (expression, expected) in cases {
        let text = mistake(expression);
        assert!(text.starts_with(expected), "{expression}: {text}");
    }
}

#[test]
fn every_mistake_names_its_column_and_a_way_out() {
    let cases = [
        ("", 1, "the expression ends"),
        ("1 +", 4, "the expression ends"),
        ("(1 + 2", 1, "add a `)`"),
        ("1 + 2)", 6, "closes nothing"),
        ("()", 2, "a number"),
        ("2(3)", 2, "write `*`"),
        ("2 3", 3, "write `*`"),
        ("1..2", 3, "a digit is missing"),
        ("5.", 3, "a digit is missing"),
        (".", 2, "a digit is missing"),
        ("1e", 3, "a digit is missing"),
        ("1e+", 4, "a digit is missing"),
        ("1,000", 2, "without separators"),
        ("1_000", 2, "`_000` is a name"),
        ("sqrt(2)", 1, "`sqrt` is a name"),
        ("1 + pi", 5, "`pi` is a name"),
        ("π", 1, "`π` is a name"),
        ("0x10", 2, "`x10` is a name"),
        ("17 × 23", 4, "write `*`"),
        ("8 ÷ 2", 3, "write `/`"),
        ("5 − 3", 3, "write `-`"),
        ("5²", 2, "write `^2`"),
        ("[1]", 1, "group with `(`"),
        ("1 == 1", 3, "compares nothing"),
        ("50%", 4, "the expression ends"),
        ("$5", 1, "remove it"),
        ("1; 2", 2, "remove it"),
        ("1 + 🦀", 5, "remove it"),
        ("1/0 + x", 7, "`x` is a name"),
    ];
    for (expression, column, expected) in cases {
        let err = calc(expression).expect_err(expression);
        assert_eq!(err.column(), column, "{expression}: {err}");
        assert!(err.to_string().contains(expected), "{expression}: {err}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(value(&nested(64)), "1");
    assert!(mistake(&nested(65)).contains("inside each other"));
    assert!(mistake(&"-".repeat(500)).contains("inside each other"));
    assert!(mistake(&"2^".repeat(400)).contains("inside each other"));
    assert_eq!(value(&format!("{}1", "1+".repeat(499))), "500");
    assert!(mistake(&"1+".repeat(501)).contains("compute it in parts"));
    assert!(mistake(&"1".repeat(65)).contains("more than 64 characters"));
    assert!(mistake(&"(".repeat(1_000_000)).contains("compute it in parts"));
}

/// An expression, and what it is worth by a way of its own: integers as `i128` without limits that
/// are met here, decimals as `f64`.
#[derive(Clone, Debug)]
enum Tree {
    Integer(i64),
    Float(f64),
    Negative(Box<Tree>),
    Pair(char, Box<Tree>, Box<Tree>),
    Power(Box<Tree>, u32),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (0..1000i64).prop_map(Tree::Integer),
        (0..1000u32).prop_map(|eighths| Tree::Float(f64::from(eighths) / 8.0)),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let operator = prop::sample::select(vec!['+', '-', '*', '/', '%']);
        prop_oneof![
            inner.clone().prop_map(|tree| Tree::Negative(Box::new(tree))),
            (operator, inner.clone(), inner.clone()).prop_map(|(op, left, right)| Tree::Pair(
                op,
                Box::new(left),
                Box::new(right)
            )),
            (inner, 0..3u32).prop_map(|(base, power)| Tree::Power(Box::new(base), power)),
        ]
    })
}

impl Tree {
    /// Written with only the parentheses that are needed, so that precedence is put to the test.
    fn write(&self, out: &mut String, outer: u8) {
        let own = match self {
            Self::Integer(_) | Self::Float(_) => 9,
            Self::Pair('+' | '-', ..) => 1,
            Self::Pair(..) => 2,
            Self::Negative(_) => 3,
            Self::Power(..) => 4,
        };
        if own < outer {
            out.push('(');
        }
        match self {
            Self::Integer(integer) => out.push_str(&integer.to_string()),
            Self::Float(float) => out.push_str(&format!("{float:?}")),
            Self::Negative(inner) => {
                out.push('-');
                inner.write(out, 3);
            }
            Self::Pair(operator, left, right) => {
                left.write(out, own);
                out.push(*operator);
                right.write(out, own + 1);
            }
            Self::Power(base, power) => {
                base.write(out, 5);
                out.push_str(&format!("^{power}"));
            }
        }
        if own < outer {
            out.push(')');
        }
    }

    /// `None` where it has no value.
    fn worth(&self) -> Option<Number> {
        Some(match self {
            Self::Integer(integer) => Number::Integer(i128::from(*integer)),
            Self::Float(float) => Number::Float(*float),
            Self::Negative(inner) => match inner.worth()? {
                Number::Integer(integer) => Number::Integer(-integer),
                Number::Float(float) => Number::Float(-float),
            },
            Self::Power(base, power) => {
                let base = base.worth()?;
                match base {
                    Number::Integer(base) => {
                        Number::Integer((0..*power).try_fold(1i128, |p, _| p.checked_mul(base))?)
                    }
                    Number::Float(base) => Number::Float(base.powf(f64::from(*power))),
                }
            }
            Self::Pair(operator, left, right) => match (left.worth()?, right.worth()?) {
                (Number::Integer(left), Number::Integer(right)) => match operator {
                    '+' => Number::Integer(left.checked_add(right)?),
                    '-' => Number::Integer(left.checked_sub(right)?),
                    '*' => Number::Integer(left.checked_mul(right)?),
                    '%' => Number::Integer(left.checked_rem(right)?),
                    _ if right == 0 => return None,
                    _ if left % right == 0 => Number::Integer(left / right),
                    _ => Number::Float(left as f64 / right as f64),
                },
                (left, right) => {
                    let (left, right) = (left.to_f64(), right.to_f64());
                    if right == 0.0 && matches!(operator, '/' | '%') {
                        return None;
                    }
                    Number::Float(match operator {
                        '+' => left + right,
                        '-' => left - right,
                        '*' => left * right,
                        '/' => left / right,
                        _ => left % right,
                    })
                }
            },
        })
    }
}

proptest! {
    #[test]
    fn it_agrees_with_another_evaluation(tree in tree()) {
        let mut text = String::new();
        tree.write(&mut text, 0);
        match (calc(&text), tree.worth()) {
            (Ok(found), Some(expected)) => prop_assert_eq!(found, expected, "{}", text),
            (Err(_), None) => {}
            (found, expected) => prop_assert!(false, "{text}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn nothing_makes_it_panic(text in "[0-9.e+*/%^() -]{0,40}|\\PC{0,40}") {
        if let Ok(Number::Float(float)) = calc(&text) {
            prop_assert!(float.is_finite());
        }
    }
}
