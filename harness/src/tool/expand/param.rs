//! What a parameter of a tool can be: something that the model fills in, or something that the
//! host supplies. One trait decides, so that an alias or a re-export is as good as the name.

use std::{
    marker::PhantomData,
    mem::{Discriminant, needs_drop},
    str::FromStr,
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value::Error as Plain},
    forward_to_deserialize_any,
};
use serde_json::Value;

use crate::{
    schema::{Fault, Misfit, step},
    tool::{CancellationToken, Progress, State, StateType, ToolContext},
};

/// A type that a function with `#[tool]` can take.
///
/// Nobody implements it by hand: a type that is `serde::Deserialize` and `schemars::JsonSchema`
/// is filled in by the model; [`ToolContext`], [`State`], [`CancellationToken`] and [`Progress`]
/// are supplied by the host. `Source` says which of the two it is and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a tool parameter",
    label = "the model cannot fill this in",
    note = "a parameter is read from JSON and described by a schema: put `#[derive(serde::Deserialize, schemars::JsonSchema)]` on the type (for `Vec<T>`, `Option<T>` or a map, on `T`); it must also be `Send + Sync` and own its data: what calls share and change is taken as `State<T>`",
    note = "for a type of another package turn on its feature `serde`, and the feature of `schemars` that knows it, such as `chrono04`, `url2` or `uuid1`; if there is none, take a `String` and parse it",
    note = "what the host supplies is taken as `&ToolContext`, `State<T>`, `CancellationToken` or `Progress`; the `T` of a `State` is `Send + Sync` and has a size, such as `Arc<dyn Trait + Send + Sync>`"
)]
pub trait ToolParam<Source>: Sized {
    /// Where the value comes from, and how to get it.
    const ORIGIN: Origin<Self>;
}

/// Says that the model fills the parameter in.
#[derive(Debug)]
pub struct FromModel;

/// Says that the host supplies the parameter.
#[derive(Debug)]
pub struct FromHost;

/// Where the value of a parameter comes from.
#[derive(Debug)]
pub enum Origin<T> {
    /// The model writes it, as JSON.
    Model {
        /// The schema of the type.
        schema: fn(&mut SchemaGenerator) -> Schema,
        /// Whether it may be left out.
        optional: fn() -> bool,
        /// Reads it; `None` is an argument that was left out.
        decode: fn(Option<&Value>) -> Result<T, Misfit>,
    },
    /// The host has it.
    Host {
        /// How to get it.
        supply: fn(&ToolContext) -> Result<T, String>,
        /// The value of the program that it is, if the program has to give one.
        needs: Option<StateType>,
    },
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + Sync + 'static> ToolParam<FromModel> for T {
    const ORIGIN: Origin<Self> = Origin::Model {
        schema: SchemaGenerator::subschema_for::<T>,
        optional: || T::deserialize(Missing).is_ok(),
        decode,
    };
}

#[diagnostic::do_not_recommend]
impl ToolParam<FromHost> for ToolContext {
    const ORIGIN: Origin<Self> =
        Origin::Host { supply: |context| Ok(context.clone()), needs: None };
}

#[diagnostic::do_not_recommend]
impl ToolParam<FromHost> for CancellationToken {
    const ORIGIN: Origin<Self> =
        Origin::Host { supply: |context| Ok(context.cancellation().clone()), needs: None };
}

#[diagnostic::do_not_recommend]
impl ToolParam<FromHost> for Progress {
    const ORIGIN: Origin<Self> =
        Origin::Host { supply: |context| Ok(context.progress().clone()), needs: None };
}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> ToolParam<FromHost> for State<T> {
    const ORIGIN: Origin<Self> = Origin::Host {
        supply: |context| {
            // An agent is not built, and a run does not begin, without it: only a program that
            // calls the tool itself can come here.
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
    const ORIGIN: Origin<Self> =
        Origin::Host { supply: |context| Ok(context.state()), needs: None };
}

/// Reads an argument. The message says where inside the argument the fault is.
fn decode<T: DeserializeOwned>(value: Option<&Value>) -> Result<T, Misfit> {
    let Some(value) = value else {
        return T::deserialize(Missing).map_err(|err| err.to_string().into());
    };
    // Only a value that is not read is read again for the place of the fault.
    T::deserialize(value)
        .or_else(|_| serde_path_to_error::deserialize(value).map_err(|err| Misfit(explain(&err))))
}

/// Where the fault is, as a JSON pointer, and what it is.
fn explain(err: &serde_path_to_error::Error<serde_json::Error>) -> Fault {
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
    Fault { at: pointer, reason: err.inner().to_string() }
}

/// An argument that was left out: only a type that can do without one reads it.
struct Missing;

impl<'de> Deserializer<'de> for Missing {
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

/// Asks a type whether it can be the key of a map, which JSON writes as a string. What a type reads
/// is known only when it reads; but a type that is read from a string says so by a trait, and an
/// enum is told by its discriminant.
#[derive(Debug)]
pub struct Key<K>(PhantomData<K>);

impl<K: FromStr> Key<K> {
    /// Whether it is made of a string.
    pub const IS_PARSED: bool = true;
}

impl<K: TryFrom<String>> Key<K> {
    /// Whether it is made of a `String`, as `#[serde(try_from = "String")]` asks.
    pub const IS_CONVERTED: bool = true;
}

/// What [`Key`] says of every other type.
pub trait OtherKey {
    /// It is not made of a string.
    const IS_PARSED: bool = false;
    /// It is not made of a `String`.
    const IS_CONVERTED: bool = false;
    /// Whether it is an enum of names.
    const IS_NAME: bool;
}

impl<K> OtherKey for Key<K> {
    // Of a type that is no enum the discriminant is one byte. With `#[repr(u8)]` that of an enum is
    // too: it asks for `FromStr` then. An enum with values in it is longer, or has to be dropped.
    const IS_NAME: bool =
        size_of::<Discriminant<K>>() > 1 && size_of::<K>() <= 8 && !needs_drop::<K>();
}

/// How a type that is not owned is read and lent: `&str` as `String`, `&Path` as `PathBuf`,
/// `&[T]` as `Vec<T>`, `&T` as `T`.
pub trait Lent {
    /// What is read and kept while the tool runs.
    type Owned;

    /// What the function gets.
    fn lend(owned: &Self::Owned) -> &Self;
}

impl<T> Lent for T {
    type Owned = T;

    fn lend(owned: &T) -> &T {
        owned
    }
}

impl<T> Lent for [T] {
    type Owned = Vec<T>;

    fn lend(owned: &Vec<T>) -> &[T] {
        owned
    }
}

impl Lent for str {
    type Owned = String;

    fn lend(owned: &String) -> &str {
        owned
    }
}

impl Lent for std::path::Path {
    type Owned = std::path::PathBuf;

    fn lend(owned: &std::path::PathBuf) -> &std::path::Path {
        owned
    }
}

/// The owned form of a type that is lent.
pub type Owned<T> = <T as Lent>::Owned;
