//! Refuses parameters that share mutable state. A `Mutex` can be decoded from JSON, but each call would get a new
//! `Mutex`, so the calls would share nothing. A `Cell`, or a type that contains one, is refused by the bound `Sync` of
//! [`ToolParam`](super::param::ToolParam).

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, VecDeque},
    marker::PhantomData,
    sync::{Arc, Mutex, RwLock, Weak, atomic},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// A type that shares mutable state, or a container of such a type.
pub trait SharesState {}

macro_rules! shares {
    ($(<$($param:ident),*> $ty:ty;)*) => {$(
        impl<$($param: ?Sized),*> SharesState for $ty {}
    )*};
}
shares! {
    <T> Mutex<T>;
    <T> RwLock<T>;
    <T> Cell<T>;
    <T> RefCell<T>;
    <T> Weak<T>;
    <> atomic::AtomicBool;
    <> atomic::AtomicIsize;
    <> atomic::AtomicUsize;
}

#[cfg(target_has_atomic = "8")]
shares! { <> atomic::AtomicI8; <> atomic::AtomicU8; }
#[cfg(target_has_atomic = "16")]
shares! { <> atomic::AtomicI16; <> atomic::AtomicU16; }
#[cfg(target_has_atomic = "32")]
shares! { <> atomic::AtomicI32; <> atomic::AtomicU32; }
#[cfg(target_has_atomic = "64")]
shares! { <> atomic::AtomicI64; <> atomic::AtomicU64; }

macro_rules! shares_inside {
    ($(<$($other:ident),*> $ty:ty;)*) => {$(
        impl<T: SharesState, $($other),*> SharesState for $ty {}
    )*};
}
shares_inside! {
    <> Option<T>;
    <> Vec<T>;
    <> VecDeque<T>;
    <> [T];
    <K> BTreeMap<K, T>;
    <K, S> HashMap<K, T, S>;
}

impl<T: SharesState, const N: usize> SharesState for [T; N] {}
impl<T: SharesState + ?Sized> SharesState for Box<T> {}
impl<T: SharesState + ?Sized> SharesState for Arc<T> {}

/// Finds out whether a type shares mutable state.
///
/// The answer is a type, so that a constant can use the answer. The fallback for all other types is a trait method, and
/// a constant cannot call trait methods.
#[derive(Debug)]
pub struct SharedStateProbe<T>(PhantomData<fn() -> T>);

impl<T> SharedStateProbe<T> {
    /// The probe for this type.
    pub const ASKED: Self = Self(PhantomData);
}

// The bounds exclude types that cannot be a parameter at all: other code reports a better error for such types.
impl<T: SharesState + DeserializeOwned + JsonSchema + Send + Sync + 'static> SharedStateProbe<T> {
    /// Selected by the compiler for a type that shares mutable state.
    pub fn __harness_is_shared(&self) -> Yes {
        Yes
    }
}

/// The fallback of [`SharedStateProbe`] for every other type.
pub trait WithoutSharedState {
    /// Selected by the compiler for a type that does not share mutable state.
    fn __harness_is_shared(&self) -> No {
        No
    }
}

impl<T> WithoutSharedState for SharedStateProbe<T> {}

/// The answer "yes" or "no", as a type.
pub trait TypeAnswer {
    /// `true` for "yes".
    const IS: bool;
}

/// The answer "yes".
#[derive(Clone, Copy, Debug)]
pub struct Yes;

/// The answer "no".
#[derive(Clone, Copy, Debug)]
pub struct No;

impl TypeAnswer for Yes {
    const IS: bool = true;
}

impl TypeAnswer for No {
    const IS: bool = false;
}

/// Whether the answer is "no". Only the return type of the function is used; the function is not called.
pub const fn is_no<A: TypeAnswer>(_: &impl Fn() -> A) -> bool {
    !A::IS
}
