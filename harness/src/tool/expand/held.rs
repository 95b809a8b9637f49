//! Refuses parameters that share what changes: a `Mutex` is read from JSON as well as what is in it,
//! but a new one for each call, so that nobody shares it. That a `Cell` is no parameter, nor a type with
//! one in it, is said by `Sync`, which [`ToolParam`](super::param::ToolParam) asks for.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, VecDeque},
    marker::PhantomData,
    sync::{Arc, Mutex, RwLock, Weak, atomic},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// A type whose values are there to be shared and changed, or a container of one.
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

/// Asks a type whether it is there to be shared.
///
/// The answer is a type, so that a constant can be made of it: the methods of a trait cannot run in one,
/// and it is the trait that answers for types of which nothing is known.
#[derive(Debug)]
pub struct Held<T>(PhantomData<fn() -> T>);

impl<T> Held<T> {
    /// Asks this type.
    pub const ASKED: Self = Self(PhantomData);
}

// Of a type that is no parameter at all more is said elsewhere.
impl<T: SharesState + DeserializeOwned + JsonSchema + Send + Sync + 'static> Held<T> {
    /// It is.
    pub fn is_shared(&self) -> Yes {
        Yes
    }
}

/// What [`Held`] says of every other type.
pub trait NotHeld {
    /// It is not.
    fn is_shared(&self) -> No {
        No
    }
}

impl<T> NotHeld for Held<T> {}

/// An answer.
pub trait Answer {
    /// Whether it is "yes".
    const IS: bool;
}

/// The answer "yes".
#[derive(Clone, Copy, Debug)]
pub struct Yes;

/// The answer "no".
#[derive(Clone, Copy, Debug)]
pub struct No;

impl Answer for Yes {
    const IS: bool = true;
}

impl Answer for No {
    const IS: bool = false;
}

/// Whether the answer is "no". It is never asked for, only its type.
pub const fn is_no<A: Answer>(_: &impl Fn() -> A) -> bool {
    !A::IS
}
