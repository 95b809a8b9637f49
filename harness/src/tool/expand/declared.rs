//! What the expansion of `#[tool]` declares of a function and of its parameters: constants only.

use std::{fmt, sync::OnceLock};

use serde_json::Value;

use super::{
    held::Held,
    literal::TakesLiteral,
    param::{Origin, ToolParam},
};
use crate::{
    schema::{Checker, Length, Misfit, Property, Range, ToolSchema, Unusable},
    tool::{Places, StateType, ToolDef},
};

/// What is declared of a deprecated function, behind a name that is not deprecated: only what is
/// deprecated itself may name the function under every lint, and it is named by nobody.
pub trait Declared {
    /// What is declared.
    const TOOL: &'static ToolDef;
}

/// What is kept of a tool once it is made: its schema, what is wrong with it, and the places of its calls.
#[derive(Debug, Default)]
pub struct SchemaCell {
    pub(in crate::tool) made: OnceLock<MadeSchema>,
    pub(in crate::tool) problem: OnceLock<Option<String>>,
    pub(in crate::tool) places: OnceLock<Places>,
    pub(in crate::tool) output: OnceLock<Option<Value>>,
}

/// What the model is told, and what each call is checked against.
#[derive(Debug)]
pub(in crate::tool) struct MadeSchema {
    pub(in crate::tool) schema: ToolSchema,
    pub(in crate::tool) checker: Result<Checker, Unusable>,
}

impl SchemaCell {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            made: OnceLock::new(),
            problem: OnceLock::new(),
            places: OnceLock::new(),
            output: OnceLock::new(),
        }
    }
}

/// Whether there is nothing to read in a text.
pub const fn is_blank(text: &str) -> bool {
    text.trim_ascii().is_empty()
}

/// Stops the build with this message unless the rule holds.
///
/// # Panics
/// Panics, while compiling, if it does not hold.
#[expect(clippy::panic, reason = "it only ever runs in a constant, where a panic is an error")]
#[track_caller]
pub const fn rule(holds: bool, message: &str) {
    if !holds {
        panic!("{}", message);
    }
}

/// Reads an argument and throws it away.
type Reads = fn(&ParamDef, Option<Value>, Option<&Checker>) -> Result<(), Misfit>;

/// What a parameter declares.
#[derive(Clone, Copy)]
pub struct ParamDef {
    pub(in crate::tool) name: &'static str,
    pub(in crate::tool) description: &'static str,
    pub(in crate::tool) injected: bool,
    /// The value of the program that it is, if the program has to give one.
    pub(in crate::tool) needs: Option<StateType>,
    pub(in crate::tool) schema: Option<fn(&mut schemars::SchemaGenerator) -> schemars::Schema>,
    pub(in crate::tool) optional: fn() -> bool,
    pub(in crate::tool) has_default: bool,
    pub(in crate::tool) default: Option<fn() -> Option<Value>>,
    pub(in crate::tool) range: Option<fn() -> Range>,
    pub(in crate::tool) length: Option<Length>,
    pub(in crate::tool) pattern: Option<&'static str>,
    /// What the model may write; nothing for one that JSON cannot say.
    pub(in crate::tool) examples: &'static [fn() -> Option<Value>],
    pub(in crate::tool) check: Reads,
}

impl ParamDef {
    /// What the model is told of it, or nothing if the host supplies it.
    pub(in crate::tool) fn property(&self) -> Option<Property<'static>> {
        Some(Property {
            name: self.name,
            description: self.description,
            schema: self.schema?,
            range: self.range.map(|range| range()),
            length: self.length,
            pattern: self.pattern,
            examples: self.examples.iter().filter_map(|example| example()).collect(),
            default: self.default.and_then(|default| default()),
            optional: self.is_optional(),
        })
    }

    /// Reads an argument and throws it away.
    pub(in crate::tool) fn check(
        &self,
        value: Option<Value>,
        checker: Option<&Checker>,
    ) -> Result<(), Misfit> {
        (self.check)(self, value, checker)
    }

    /// Whether the host supplies it.
    pub const fn is_injected(&self) -> bool {
        self.injected
    }

    /// Whether the model may leave it out.
    pub(in crate::tool) fn is_optional(&self) -> bool {
        self.has_default || (self.optional)()
    }

    /// Reads an argument: `None` says that the default is to be taken. The argument fits what `checker`
    /// says of it.
    pub(in crate::tool) fn read<T>(
        &self,
        decode: fn(Option<&Value>) -> Result<T, Misfit>,
        value: Option<Value>,
        checker: Option<&Checker>,
    ) -> Result<Option<T>, Misfit> {
        if self.has_default && value.as_ref().is_none_or(Value::is_null) {
            return Ok(None);
        }
        let first = match (decode(value.as_ref()), value) {
            (Ok(decoded), _) => return Ok(Some(decoded)),
            (Err(misfit), None) => return Err(misfit),
            (Err(misfit), Some(value)) => (misfit, value),
        };
        // `serde` does not take 3.0 for an integer.
        let (misfit, mut value) = first;
        if checker.is_some_and(|checker| checker.integers_of(self.name, &mut value)) {
            return decode(Some(&value)).map(Some).map_err(|_| misfit);
        }
        Err(misfit)
    }
}

/// A parameter, and the type that it has in Rust.
pub struct Param<T> {
    /// What it declares.
    pub def: ParamDef,
    /// Asks its type whether it shares what changes.
    pub held: Held<T>,
    pub(in crate::tool) origin: Origin<T>,
    pub(in crate::tool) default: Option<fn() -> T>,
}

/// A parameter of this type. The one place where the macro names the bound.
pub const fn param<T: ToolParam<Source>, Source>(
    name: &'static str,
    description: &'static str,
) -> Param<T> {
    let (injected, needs, schema, optional): (_, _, _, fn() -> bool) = match T::ORIGIN {
        Origin::Model { schema, optional, .. } => (false, None, Some(schema), optional),
        Origin::Host { needs, .. } => (true, needs, None, || true),
    };
    Param {
        def: ParamDef {
            name,
            description,
            injected,
            needs,
            schema,
            optional,
            has_default: false,
            default: None,
            range: None,
            length: None,
            pattern: None,
            examples: &[],
            check: |def, value, checker| match T::ORIGIN {
                Origin::Model { decode, .. } => def.read(decode, value, checker).map(drop),
                Origin::Host { .. } => Ok(()),
            },
        },
        held: Held::ASKED,
        origin: T::ORIGIN,
        default: None,
    }
}

impl<T> Param<T> {
    /// Takes this JSON value when the argument is left out or `null`.
    #[must_use]
    pub const fn or_json(mut self, value: fn() -> Option<Value>) -> Self {
        self.def.has_default = true;
        self.def.default = Some(value);
        self
    }

    /// Takes this value when the argument is left out or `null`; `value` says it in JSON, if it
    /// can be said.
    #[must_use]
    pub const fn or(mut self, default: fn() -> T, value: fn() -> Option<Value>) -> Self {
        self.default = Some(default);
        self.or_json(value)
    }

    /// Stops the build unless every literal of this kind is good for the type.
    pub const fn takes<Kind>(&self)
    where
        T: TakesLiteral<Kind>,
    {
    }

    /// Whether all integers between these are good for the type, and 0 if it is among them.
    pub const fn holds<Kind>(&self, least: i128, greatest: i128, zero: bool) -> bool
    where
        T: TakesLiteral<Kind>,
    {
        T::LEAST <= least && greatest <= T::GREATEST && (T::ZERO || !zero)
    }

    /// Takes only numbers of this range.
    #[must_use]
    pub const fn within(mut self, range: fn() -> Range) -> Self {
        self.def.range = Some(range);
        self
    }

    /// Takes only texts or lists of this length.
    #[must_use]
    pub const fn long(mut self, length: Length) -> Self {
        self.def.length = Some(length);
        self
    }

    /// Takes only texts of this form.
    #[must_use]
    pub const fn matching(mut self, pattern: &'static str) -> Self {
        self.def.pattern = Some(pattern);
        self
    }

    /// Shows the model these values.
    #[must_use]
    pub const fn shown(mut self, examples: &'static [fn() -> Option<Value>]) -> Self {
        self.def.examples = examples;
        self
    }
}

impl fmt::Debug for ParamDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParamDef").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Param<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Param").field("name", &self.def.name).finish_non_exhaustive()
    }
}
