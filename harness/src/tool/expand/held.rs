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
///
/// The answers are types, so that a constant can be made of them: the methods of a trait cannot run in
/// one, and it is the trait that answers for types of which nothing is known.
#[derive(Debug)]
pub struct Held<T>(PhantomData<fn() -> T>);

impl<T> Held<T> {
    /// Asks this type.
    pub const ASKED: Self = Self(PhantomData);
}

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

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Held<T> {
    /// Whether the model could fill it in: of every other type more is said elsewhere.
    pub fn is_read(&self) -> Yes {
        Yes
    }
}

impl<T: SharesState> Held<T> {
    /// Whether it is there to be shared.
    pub fn is_shared(&self) -> Yes {
        Yes
    }
}

impl<T: Sync> Held<T> {
    /// Whether several threads can look at it.
    pub fn is_sync(&self) -> Yes {
        Yes
    }
}

impl<T: RefUnwindSafe> Held<T> {
    /// Whether nothing in it changes while it is looked at.
    pub fn is_still(&self) -> Yes {
        Yes
    }
}

/// What [`Held`] says of every other type.
pub trait NotHeld {
    /// The model could not fill it in.
    fn is_read(&self) -> No {
        No
    }

    /// It does not say so.
    fn is_shared(&self) -> No {
        No
    }

    /// One thread looks at it.
    fn is_sync(&self) -> No {
        No
    }

    /// Something in it changes, or it hides what it is.
    fn is_still(&self) -> No {
        No
    }
}

impl<T> NotHeld for Held<T> {}

/// Whether the answers let a parameter be: whether it is read, shared, looked at by several threads, and
/// still. They are never asked for, only their types.
pub const fn may_be_read<F, Read, Shared, Several, Still>(_: &F) -> bool
where
    F: Fn() -> (Read, Shared, Several, Still),
    Read: Answer,
    Shared: Answer,
    Several: Answer,
    Still: Answer,
{
    !Read::IS || !Shared::IS && (Several::IS || Still::IS)
}
