//! Finds the schema of a function's return type. A return type may have no schema.

use std::{fmt, marker::PhantomData};

use harness_schema::output_schema;
use schemars::JsonSchema;
use serde_json::Value;

use super::reconcile::UninhabitedValue;

/// Stands for the return type of a function, and returns its schema.
pub struct ReturnTypeProbe<T>(PhantomData<fn() -> T>);

impl<T> fmt::Debug for ReturnTypeProbe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returned")
    }
}

/// Infers the return type of a function without calling the function.
pub fn returned<T>(_: impl FnOnce(UninhabitedValue) -> T) -> ReturnTypeProbe<T> {
    ReturnTypeProbe(PhantomData)
}

/// Infers the output type of the future that a function returns, without calling the function.
pub fn returned_later<F: Future>(
    _: impl FnOnce(UninhabitedValue) -> F,
) -> ReturnTypeProbe<F::Output> {
    ReturnTypeProbe(PhantomData)
}

// The three traits have the same method, for different numbers of references to the probe. The compiler selects the
// applicable method with the most references.

/// Selected by [`ReturnTypeProbe`] for a `Result` whose value has a schema.
pub trait SchemaInResult {
    /// The schema of the value.
    fn __harness_output_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema, E> SchemaInResult for &&ReturnTypeProbe<Result<T, E>> {
    fn __harness_output_schema(&self) -> Option<Value> {
        output_schema::<T>()
    }
}

/// Selected by [`ReturnTypeProbe`] for a type that has a schema.
pub trait OwnSchema {
    /// The schema of the return type.
    fn __harness_output_schema(&self) -> Option<Value>;
}

impl<T: JsonSchema> OwnSchema for &ReturnTypeProbe<T> {
    fn __harness_output_schema(&self) -> Option<Value> {
        output_schema::<T>()
    }
}

/// The fallback of [`ReturnTypeProbe`] for all other types.
pub trait OtherSchema {
    /// Returns `None`, because the type has no schema.
    fn __harness_output_schema(&self) -> Option<Value> {
        None
    }
}

impl<T> OtherSchema for ReturnTypeProbe<T> {}
