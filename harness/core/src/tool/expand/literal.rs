//! Traits that find out whether a type accepts a literal as its default value. The macro need not know the type's name:
//! an alias of `String` accepts `"a"`, but an enum accepts only its own values.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet, VecDeque},
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use crate::tool::{CancellationToken, Progress, State, ToolContext};

/// A type that accepts every literal of this kind as its default.
///
/// A type that accepts only some literals of a kind does not implement this trait. For example, a type may parse a
/// string at run time and reject it. A compile error is not possible then.
#[diagnostic::on_unimplemented(
    message = "the default of a parameter of the type `{Self}` cannot be this literal",
    label = "not known to be a `{Self}` before it is read",
    note = "write a value of the type: a variant (`default = Order::Up`), a constant or a call (`default = Id::new(7)`)"
)]
pub trait TakesLiteral<Kind> {
    /// The smallest integer that the type accepts.
    const LEAST: i128 = i128::MIN;
    /// The largest integer that the type accepts.
    const GREATEST: i128 = i128::MAX;
    /// Whether the type accepts 0.
    const ZERO: bool = true;
}

/// A string literal.
#[derive(Debug)]
pub struct TextLiteral;

/// A number literal without a decimal point.
#[derive(Debug)]
pub struct IntegerLiteral;

/// A number literal with a decimal point.
#[derive(Debug)]
pub struct FloatLiteral;

/// The literal `true` or `false`.
#[derive(Debug)]
pub struct BoolLiteral;

/// A character literal.
#[derive(Debug)]
pub struct CharLiteral;

/// A list literal with items of one kind.
#[derive(Debug)]
pub struct ListLiteral<Kind>(Kind);

/// An empty list literal.
#[derive(Debug)]
pub struct EmptyList;

/// A list literal with items of several kinds.
#[derive(Debug)]
pub struct MixedList;

macro_rules! takes {
    ($($kind:ty: $($ty:ty),+;)*) => {$($(
        #[diagnostic::do_not_recommend]
        impl TakesLiteral<$kind> for $ty {}
    )+)*};
}
takes! {
    TextLiteral: String, Box<str>, Arc<str>, Cow<'_, str>, PathBuf, Box<Path>, Arc<Path>, Cow<'_, Path>;
    IntegerLiteral: f32, f64;
    FloatLiteral: f32, f64;
    BoolLiteral: bool;
    CharLiteral: char;
}

macro_rules! takes_integer {
    ($($ty:ident)*) => {$(
        #[diagnostic::do_not_recommend]
        impl TakesLiteral<IntegerLiteral> for $ty {
            const LEAST: i128 = $ty::MIN as i128;
            const GREATEST: i128 = $ty::MAX as i128;
        }

        #[diagnostic::do_not_recommend]
        impl TakesLiteral<IntegerLiteral> for NonZero<$ty> {
            const LEAST: i128 = <$ty as TakesLiteral<IntegerLiteral>>::LEAST;
            const GREATEST: i128 = <$ty as TakesLiteral<IntegerLiteral>>::GREATEST;
            const ZERO: bool = false;
        }
    )*};
}
takes_integer!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

/// Implements the trait for types that wrap another type, and accept the same literals as the inner type.
macro_rules! takes_as {
    ($($ty:ident)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<Kind, T: TakesLiteral<Kind>> TakesLiteral<Kind> for $ty<T> {
            const LEAST: i128 = T::LEAST;
            const GREATEST: i128 = T::GREATEST;
            const ZERO: bool = T::ZERO;
        }
    )*};
}
takes_as!(Option Box Arc);

macro_rules! takes_list {
    ($($ty:ty, <$($other:ident),*>;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<Kind, T: TakesLiteral<Kind>, $($other),*> TakesLiteral<ListLiteral<Kind>> for $ty {
            const LEAST: i128 = T::LEAST;
            const GREATEST: i128 = T::GREATEST;
            const ZERO: bool = T::ZERO;
        }

        #[diagnostic::do_not_recommend]
        impl<T, $($other),*> TakesLiteral<EmptyList> for $ty {}
    )*};
}
takes_list! {
    Vec<T>, <>;
    Box<[T]>, <>;
    Arc<[T]>, <>;
    VecDeque<T>, <>;
    HashSet<T, S>, <S>;
    BTreeSet<T>, <>;
}

/// A `Value` accepts every literal.
#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for Value {}

// The host supplies values of these types, so a default is an error. Other code reports this error. Accepting every
// literal here prevents a second error.
#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for ToolContext {}

#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for CancellationToken {}

#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for Progress {}

#[diagnostic::do_not_recommend]
impl<Kind, T> TakesLiteral<Kind> for State<T> {}
