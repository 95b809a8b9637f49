//! Refuses parameters that share what changes: a `Mutex` is read from JSON as well as what is in it,
//! but a new one for each call, so that nobody shares it.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, VecDeque},
    marker::PhantomData,
    panic::RefUnwindSafe,
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

/// Asks a type whether it shares what changes. A type that says so by [`SharesState`] is known by
/// that; a `Cell` inside of a type of the program's own by the marks that the type has not.
#[derive(Debug)]
pub struct Held<T: ?Sized>(PhantomData<T>);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Held<T> {
    /// Whether the model could fill it in: of every other type more is said elsewhere.
    pub const IS_READ: bool = true;
}

impl<T: SharesState + ?Sized> Held<T> {
    /// Whether it is there to be shared.
    pub const IS_SHARED: bool = true;
}

impl<T: Sync + ?Sized> Held<T> {
    /// Whether several threads can look at it.
    pub const IS_SYNC: bool = true;
}

impl<T: RefUnwindSafe + ?Sized> Held<T> {
    /// Whether nothing in it changes while it is looked at.
    pub const IS_STILL: bool = true;
}

/// What [`Held`] says of every other type.
pub trait NotHeld {
    /// The model could not fill it in.
    const IS_READ: bool = false;
    /// It does not say so.
    const IS_SHARED: bool = false;
    /// One thread looks at it.
    const IS_SYNC: bool = false;
    /// Something in it changes, or it hides what it is.
    const IS_STILL: bool = false;
}

impl<T: ?Sized> NotHeld for Held<T> {}
