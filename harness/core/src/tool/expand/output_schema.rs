//! Asks the return type of a function for its schema. Functions may return types without a schema.

use std::{fmt, marker::PhantomData};

use harness_schema::output_schema;
use schemars::JsonSchema;
use serde_json::Value;

use super::reconcile::UninhabitedValue;

/// The return type of a function.
pub struct ReturnTypeProbe<T>(PhantomData<fn() -> T>);

impl<T> fmt::Debug for ReturnTypeProbe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returned")
    }
}

/// Asks for the return type of a function, which is not called.
pub fn returned<T>(_: impl FnOnce(UninhabitedValue) -> T) -> ReturnTypeProbe<T> {
    ReturnTypeProbe(PhantomData)
}

/// The same for a function that returns a future.
pub fn returned_later<F: Future>(
    _: impl FnOnce(UninhabitedValue) -> F,
) -> ReturnTypeProbe<F::Output> {
    ReturnTypeProbe(PhantomData)
}

// The answers are methods of the same name behind different numbers of references. The method behind the most
// references is found first.

/// The answer of [`ReturnTypeProbe`] for a `Result` whose value has a schema.
pub trait SchemaInResult {
    /// The schema of the value.
    fn __harness_output_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema, E> SchemaInResult for &&ReturnTypeProbe<Result<T, E>> {
    fn __harness_output_schema(&self) -> Option<Value> {
        output_schema::<T>()
    }
}

/// The answer of [`ReturnTypeProbe`] for a type that has a schema.
pub trait OwnSchema {
    /// The schema.
    fn __harness_output_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema> OwnSchema for &ReturnTypeProbe<T> {
    fn __harness_output_schema(&self) -> Option<Value> {
        output_schema::<T>()
    }
}

/// The answer of [`ReturnTypeProbe`] for all other types.
pub trait OtherSchema {
    /// These types have no schema.
    fn __harness_output_schema(&self) -> Option<Value> {
        None
    }
}

impl<T> OtherSchema for ReturnTypeProbe<T> {}
