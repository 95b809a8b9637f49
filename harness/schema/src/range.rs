//! The range of a numeric parameter: `#[param(range(1..=100))]`.

use serde_json::{Map, Number, Value};

/// A type for which `#[param(range(..))]` is allowed: a number, or an `Option` of a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no range",
    label = "only numbers have a range",
    note = "`#[param(range(..))]` is for integers and floats, and for `Option` of one; limits of a text or a list are given with `#[param(length(..))]`"
)]
pub trait Ranged {
    /// The type of the limits.
    type Number;

    /// Converts a number to a limit of the range.
    fn edge(number: Self::Number) -> Edge;
}

macro_rules! ranged {
    ($($number:ty => $edge:ident: $wide:ty),* $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl Ranged for $number {
            type Number = $number;

            #[allow(
                clippy::cast_lossless,
                trivial_numeric_casts,
                reason = "`i128::from` does not take every integer"
            )]
            fn edge(number: $number) -> Edge {
                Edge::$edge(number as $wide)
            }
        }
    )*};
}
ranged!(
    u8 => Integer: i128, u16 => Integer: i128, u32 => Integer: i128, u64 => Integer: i128,
    usize => Integer: i128, i8 => Integer: i128, i16 => Integer: i128, i32 => Integer: i128,
    i64 => Integer: i128, isize => Integer: i128, f32 => Float: f64, f64 => Float: f64,
);

macro_rules! ranged_non_zero {
    ($($number:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Ranged for std::num::NonZero<$number> {
            type Number = $number;

            fn edge(number: $number) -> Edge {
                <$number>::edge(number)
            }
        }
    )*};
}
ranged_non_zero!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

#[diagnostic::do_not_recommend]
impl<T: Ranged> Ranged for Option<T> {
    type Number = T::Number;

    fn edge(number: T::Number) -> Edge {
        T::edge(number)
    }
}

/// The limits of a number. `None` means that there is no lower or no upper limit.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    low: Option<Edge>,
    high: Option<Edge>,
    /// Whether the upper limit belongs to the range.
    inclusive: bool,
}

/// A limit of a range: exact for integers, a float for floats.
#[derive(Clone, Copy, Debug)]
pub enum Edge {
    /// A limit for integers.
    Integer(i128),
    /// A limit for floats.
    Float(f64),
}

impl Edge {
    fn to_value(self) -> Option<Number> {
        match self {
            Self::Integer(integer) => Number::from_i128(integer),
            Self::Float(float) => Number::from_f64(float),
        }
    }
}

impl Range {
    /// The range of a `T` with these limits. `None` means that there is no lower or no upper limit.
    pub fn of<T: Ranged<Number = N>, N>(low: Option<N>, high: Option<N>, inclusive: bool) -> Self {
        let (low, high) = (low.map(T::edge), high.map(T::edge));
        // For integers, `..10` equals `..=9`. `..=9` is written as `maximum`, a keyword that all
        // readers of schemas support.
        match high {
            Some(Edge::Integer(high)) if !inclusive => {
                Self { low, high: Some(Edge::Integer(high - 1)), inclusive: true }
            }
            Some(_) | None => Self { low, high, inclusive },
        }
    }

    /// Whether the range contains no number.
    pub fn is_empty(&self) -> bool {
        match (self.low, self.high) {
            (Some(Edge::Integer(low)), Some(Edge::Integer(high))) => low > high,
            (Some(Edge::Float(low)), Some(Edge::Float(high))) => {
                if self.inclusive {
                    low > high
                } else {
                    low >= high
                }
            }
            _ => false,
        }
    }

    /// Adds the range to the schema of a number.
    pub fn describe(&self, schema: &mut Map<String, Value>) {
        if let Some(low) = self.low.and_then(Edge::to_value) {
            schema.insert("minimum".to_owned(), Value::Number(low));
        }
        if let Some(high) = self.high.and_then(Edge::to_value) {
            let key = if self.inclusive { "maximum" } else { "exclusiveMaximum" };
            schema.insert(key.to_owned(), Value::Number(high));
        }
    }
}
