//! Asks what a function returns for its schema, if it has one. No function has to return such a type.

use std::{fmt, marker::PhantomData};

use schemars::JsonSchema;
use serde_json::Value;

use super::reconcile::Never;
use crate::schema::output_schema;

/// What a function returns.
pub struct Returned<T>(PhantomData<fn() -> T>);

impl<T> fmt::Debug for Returned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returned")
    }
}

/// Asks for the type of what a function returns, which is not called.
pub fn returned<T>(_: impl FnOnce(Never) -> T) -> Returned<T> {
    Returned(PhantomData)
}

/// The same of a function whose future returns it.
pub fn returned_later<F: Future>(_: impl FnOnce(Never) -> F) -> Returned<F::Output> {
    Returned(PhantomData)
}

// The answers are methods of one name behind a different number of references, and the one with the most is
// found first.

/// What [`Returned`] says of a `Result` whose value has a schema.
pub trait SchemaInResult {
    /// The schema of the value.
    fn output_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema, E> SchemaInResult for &&Returned<Result<T, E>> {
    fn output_schema(&self) -> Option<Value> {
        output_schema::<T>()
    }
}

/// What [`Returned`] says of a type that has a schema.
pub trait OwnSchema {
    /// The schema.
    fn output_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema> OwnSchema for &Returned<T> {
    fn output_schema(&self) -> Option<Value> {
        output_schema::<T>()
    }
}

/// What [`Returned`] says of all other types.
pub trait OtherSchema {
    /// There is none.
    fn output_schema(&self) -> Option<Value> {
        None
    }
}

impl<T> OtherSchema for Returned<T> {}
