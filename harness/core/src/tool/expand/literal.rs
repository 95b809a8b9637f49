//! Which literals can be the default of a type that the macro does not know by its spelling: an alias of `String`
//! accepts `"a"`, and an enum accepts only a value of its own.

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
/// A type can reject some strings only when it parses them, which is too late for an error of the compiler. So a type
/// that accepts only some literals of a kind does not implement this trait.
#[diagnostic::on_unimplemented(
    message = "the default of a parameter of the type `{Self}` cannot be this literal",
    label = "not known to be a `{Self}` before it is read",
    note = "write a value of the type: a variant (`default = Order::Up`), a constant or a call (`default = Id::new(7)`)"
)]
pub trait TakesLiteral<Kind> {
    /// The least integer that the type accepts.
    const LEAST: i128 = i128::MIN;
    /// The greatest integer that the type accepts.
    const GREATEST: i128 = i128::MAX;
    /// Whether the type accepts 0.
    const ZERO: bool = true;
}

/// A string.
#[derive(Debug)]
pub struct TextLiteral;

/// A number without a decimal point.
#[derive(Debug)]
pub struct IntegerLiteral;

/// A number with a decimal point.
#[derive(Debug)]
pub struct FloatLiteral;

/// `true` or `false`.
#[derive(Debug)]
pub struct BoolLiteral;

/// A character.
#[derive(Debug)]
pub struct CharLiteral;

/// A list whose items are of one kind.
#[derive(Debug)]
pub struct ListLiteral<Kind>(Kind);

/// An empty list.
#[derive(Debug)]
pub struct EmptyList;

/// A list whose items are of several kinds.
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

/// Implements the trait for types that wrap another type: they accept the literals that the inner type accepts.
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

// The error that the host supplies these parameters is reported elsewhere.
#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for ToolContext {}

#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for CancellationToken {}

#[diagnostic::do_not_recommend]
impl<Kind> TakesLiteral<Kind> for Progress {}

#[diagnostic::do_not_recommend]
impl<Kind, T> TakesLiteral<Kind> for State<T> {}
