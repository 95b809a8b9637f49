//! The types that a parameter of a tool can have: types that the model fills in, and types that the host supplies. A
//! trait distinguishes them, so an alias or a re-export of a type works like its original name.

use std::{
    marker::PhantomData,
    mem::{Discriminant, needs_drop},
    str::FromStr,
};

use harness_schema::{ReadFault, ValueFault, step};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value::Error as Plain},
    forward_to_deserialize_any,
};
use serde_json::Value;

use crate::tool::{CancellationToken, Progress, State, StateType, ToolContext};

/// A type that a function with `#[tool]` can take.
///
/// Do not implement this trait. The model fills in every type that is `serde::Deserialize` and `schemars::JsonSchema`.
/// The host supplies [`ToolContext`], [`State`], [`CancellationToken`] and [`Progress`]. `Source` is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a tool parameter",
    label = "the model cannot fill this in",
    note = "a parameter is read from JSON and described by a schema: put `#[derive(serde::Deserialize, schemars::JsonSchema)]` on the type (for `Vec<T>`, `Option<T>` or a map, on `T`); it must also be `Send + Sync` and own its data: what calls share and change is taken as `State<T>`",
    note = "if the derive is there, look at `Cargo.toml`: it must be that of `schemars` 1 and `serde` 1, since the trait of another version is another trait",
    note = "for a type of another package turn on its feature `serde`, and the feature of `schemars` that knows it, such as `chrono04`, `url2` or `uuid1`; if there is none, take a `String` and parse it",
    note = "what the host supplies is taken as `&ToolContext`, `State<T>`, `CancellationToken` or `Progress`; the `T` of a `State` is `Send + Sync` and has a size, such as `Arc<dyn Trait + Send + Sync>`"
)]
pub trait ToolParam<Source>: Sized {
    /// Where a value of this type comes from, and how to obtain the value.
    const ORIGIN: ParamOrigin<Self>;
}

/// Marks a parameter that the model fills in.
#[derive(Debug)]
pub struct FromModel;

/// Marks a parameter that the host supplies.
#[derive(Debug)]
pub struct FromHost;

/// Where the value of a parameter comes from.
#[derive(Debug)]
pub enum ParamOrigin<T> {
    /// The model writes the value, as JSON.
    Model {
        /// The schema of the type.
        schema: fn(&mut SchemaGenerator) -> Schema,
        /// Whether the argument may be missing.
        optional: fn() -> bool,
        /// Decodes the argument. `None` stands for a missing argument.
        decode: fn(Option<&Value>) -> Result<T, ReadFault>,
    },
    /// The host supplies the value.
    Host {
        /// Obtains the value.
        supply: fn(&ToolContext) -> Result<T, String>,
        /// The type of the shared value that the program must provide; `None` if no shared value is required.
        needs: Option<StateType>,
    },
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + Sync + 'static> ToolParam<FromModel> for T {
    const ORIGIN: ParamOrigin<Self> = ParamOrigin::Model {
        schema: SchemaGenerator::subschema_for::<T>,
        optional: || T::deserialize(MissingArgument).is_ok(),
        decode,
    };
}

#[diagnostic::do_not_recommend]
impl ToolParam<FromHost> for ToolContext {
    const ORIGIN: ParamOrigin<Self> =
        ParamOrigin::Host { supply: |context| Ok(context.clone()), needs: None };
}

#[diagnostic::do_not_recommend]
impl ToolParam<FromHost> for CancellationToken {
    const ORIGIN: ParamOrigin<Self> =
        ParamOrigin::Host { supply: |context| Ok(context.cancellation().clone()), needs: None };
}

#[diagnostic::do_not_recommend]
impl ToolParam<FromHost> for Progress {
    const ORIGIN: ParamOrigin<Self> =
        ParamOrigin::Host { supply: |context| Ok(context.progress().clone()), needs: None };
}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> ToolParam<FromHost> for State<T> {
    const ORIGIN: ParamOrigin<Self> = ParamOrigin::Host {
        supply: |context| {
            // Without the value, an agent is not built and a run does not start. So only a program that calls the tool
            // by itself can reach this error.
            context.state().ok_or_else(|| {
                format!(
                    "the program has no `{}` to share; add one with `ToolContext::with`",
                    std::any::type_name::<T>()
                )
            })
        },
        needs: Some(StateType::of::<T>()),
    };
}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> ToolParam<FromHost> for Option<State<T>> {
    const ORIGIN: ParamOrigin<Self> =
        ParamOrigin::Host { supply: |context| Ok(context.state()), needs: None };
}

/// Decodes an argument. The error contains the position of the fault in the argument.
fn decode<T: DeserializeOwned>(value: Option<&Value>) -> Result<T, ReadFault> {
    let Some(value) = value else {
        return T::deserialize(MissingArgument).map_err(|err| err.to_string().into());
    };
    // Decode again to find the position of the fault. This decoding is slower, so only a failed argument is decoded
    // twice.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|err| ReadFault(explain(&err)))
    })
}

/// The position of the fault as a JSON pointer, and its reason.
fn explain(err: &serde_path_to_error::Error<serde_json::Error>) -> ValueFault {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in err.path().iter() {
        pointer.push_str(&match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => step(key),
            Segment::Enum { variant } => step(variant),
            Segment::Unknown => break,
        });
    }
    ValueFault { at: pointer, reason: err.inner().to_string() }
}

/// The deserializer for a missing argument. Only a type that needs no value, such as `Option`, can be decoded.
struct MissingArgument;

impl<'de> Deserializer<'de> for MissingArgument {
    type Error = Plain;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Plain> {
        Err(Plain::custom("is missing"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Plain> {
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Plain> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Finds out whether a type can be the key of a map, which JSON writes as a string. Only decoding would prove this, so
/// the probe uses two signs. The type has `FromStr` or `TryFrom<String>`, or the size of its discriminant shows an enum
/// without fields.
#[derive(Debug)]
pub struct MapKeyProbe<K>(PhantomData<K>);

impl<K: FromStr> MapKeyProbe<K> {
    /// Whether the type has `FromStr`.
    pub const __HARNESS_IS_PARSED: bool = true;
}

impl<K: TryFrom<String>> MapKeyProbe<K> {
    /// Whether the type can be converted from a `String`, as `#[serde(try_from = "String")]` requires.
    pub const __HARNESS_IS_CONVERTED: bool = true;
}

/// The fallback of [`MapKeyProbe`] for every other type.
pub trait OtherKey {
    /// The type does not have `FromStr`.
    const __HARNESS_IS_PARSED: bool = false;
    /// The type cannot be converted from a `String`.
    const __HARNESS_IS_CONVERTED: bool = false;
    /// Whether the type is an enum without fields.
    const __HARNESS_IS_NAME: bool;
}

impl<K> OtherKey for MapKeyProbe<K> {
    // The discriminant of a type that is not an enum has one byte. The discriminant of an enum with `#[repr(u8)]` has
    // one byte too, so an enum with this attribute needs `FromStr`. An enum with fields is larger than 8 bytes or has
    // to be dropped.
    const __HARNESS_IS_NAME: bool =
        size_of::<Discriminant<K>>() > 1 && size_of::<K>() <= 8 && !needs_drop::<K>();
}

/// Defines how a borrowed parameter type is decoded and lent to the function: `&str` as `String`, `&Path` as `PathBuf`,
/// `&[T]` as `Vec<T>`, `&T` as `T`.
pub trait LentType {
    /// The owned type that is decoded, and kept while the tool runs.
    type Owned;

    /// Lends the value to the function.
    fn lend(owned: &Self::Owned) -> &Self;
}

impl<T> LentType for T {
    type Owned = T;

    fn lend(owned: &T) -> &T {
        owned
    }
}

impl<T> LentType for [T] {
    type Owned = Vec<T>;

    fn lend(owned: &Vec<T>) -> &[T] {
        owned
    }
}

impl LentType for str {
    type Owned = String;

    fn lend(owned: &String) -> &str {
        owned
    }
}

impl LentType for std::path::Path {
    type Owned = std::path::PathBuf;

    fn lend(owned: &std::path::PathBuf) -> &std::path::Path {
        owned
    }
}

/// The owned type of a borrowed parameter type.
pub type OwnedForm<T> = <T as LentType>::Owned;
