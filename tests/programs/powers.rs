//! `calc` reads powers and whole quotients as Python writes them.

use harness::toolbox::{Number, calc};

#[test]
fn powers_and_whole_quotients_are_those_of_python() {
    let integers = [
        ("2 ** 10", 1024),
        ("2**3**2", 512),
        ("(2**3)**2", 64),
        ("-2**2", -4),
        ("(-2)**2", 4),
        ("-2**-0", -1),
        ("2 * 3**2", 18),
        ("2**3 * 2", 16),
        ("2 ^ 2 ** 3", 256),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("7 // -2", -4),
        ("-7 // -2", 3),
        ("6 // -2", -3),
        ("100 // 7 // 2", 7),
        ("7 // 2 * 2", 6),
        ("2**7 // 3", 42),
    ];
    for (expression, value) in integers {
        assert_eq!(calc(expression), Ok(Number::Integer(value)), "{expression}");
    }
    let floats = [
        ("2 ** -1", 0.5),
        ("2 ** 0.5 ** 2", 1.189_207_115_002_721),
        ("7.5 // 2", 3.0),
        ("-7.5 // 2", -4.0),
        ("1 // 0.1", 9.0),
        ("-1 // 0.1", -10.0),
        ("6.0 // -2", -3.0),
    ];
    for (expression, value) in floats {
        assert_eq!(calc(expression), Ok(Number::Float(value)), "{expression}");
    }
    for expression in ["2 ***3", "2 * * 3", "2 / / 3", "** 2", "// 2", "2 **", "2 ///3"] {
        assert!(calc(expression).is_err(), "{expression}");
    }
    let mistake = calc("1 + 7 // 0").expect_err("there is none");
    assert_eq!(mistake.column(), 7);
    assert!(calc("-170141183460469231731687303715884105727 - 1 // 1").is_ok());
    assert!(calc("(-170141183460469231731687303715884105727 - 1) // -1").is_err());
}
