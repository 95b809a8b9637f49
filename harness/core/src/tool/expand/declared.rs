//! The constants that `#[tool]` declares for a function and its parameters.

use std::{fmt, sync::OnceLock};

use harness_schema::{
    Length, MemberSchema, Range, ReadFault, SchemaChecker, ToolSchema, UnusableSchema,
};
use serde_json::Value;

use super::{
    literal::TakesLiteral,
    param::{ParamOrigin, ToolParam},
    shared_state::SharedStateProbe,
};
use crate::tool::{ConcurrencyLimit, StateType, ToolDef};

/// Gives the declaration of a deprecated function a name that is not deprecated. Rust warns about every use of a
/// deprecated function outside of deprecated code. So the implementation of this trait is marked as deprecated, and
/// other code uses only the trait.
pub trait DeclaredTool {
    /// The declaration of the tool.
    const TOOL: &'static ToolDef;
}

/// Caches what is created at the first use of a tool: its schema, its fault, its concurrency limit and its output
/// schema.
#[derive(Debug, Default)]
pub struct SchemaCell {
    pub(in crate::tool) made: OnceLock<MadeSchema>,
    pub(in crate::tool) problem: OnceLock<Option<String>>,
    pub(in crate::tool) concurrency: OnceLock<ConcurrencyLimit>,
    pub(in crate::tool) output: OnceLock<Option<Value>>,
}

/// The schema that is sent to the model, and the checker of the arguments.
#[derive(Debug)]
pub(in crate::tool) struct MadeSchema {
    pub(in crate::tool) schema: ToolSchema,
    pub(in crate::tool) checker: Result<SchemaChecker, UnusableSchema>,
}

impl SchemaCell {
    /// Creates an empty cell.
    pub const fn new() -> Self {
        Self {
            made: OnceLock::new(),
            problem: OnceLock::new(),
            concurrency: OnceLock::new(),
            output: OnceLock::new(),
        }
    }
}

/// Whether a text is empty or only white space.
pub const fn is_blank(text: &str) -> bool {
    text.trim_ascii().is_empty()
}

/// Stops the build with `message` if `holds` is false.
///
/// # Panics
/// Panics at compile time if `holds` is false.
#[expect(clippy::panic, reason = "it only ever runs in a constant, where a panic is an error")]
#[track_caller]
pub const fn rule(holds: bool, message: &str) {
    if !holds {
        panic!("{}", message);
    }
}

/// Decodes an argument and discards the value.
type ArgumentCheck = fn(&ParamDef, Option<Value>, Option<&SchemaChecker>) -> Result<(), ReadFault>;

/// The declaration of a parameter.
#[derive(Clone, Copy)]
pub struct ParamDef {
    pub(in crate::tool) name: &'static str,
    pub(in crate::tool) description: &'static str,
    pub(in crate::tool) injected: bool,
    /// The type of the shared value that the parameter needs. `None` if the parameter is not a shared value, or is
    /// optional.
    pub(in crate::tool) needs: Option<StateType>,
    pub(in crate::tool) schema: Option<fn(&mut schemars::SchemaGenerator) -> schemars::Schema>,
    pub(in crate::tool) optional: fn() -> bool,
    pub(in crate::tool) has_default: bool,
    pub(in crate::tool) default: Option<fn() -> Option<Value>>,
    pub(in crate::tool) range: Option<fn() -> Range>,
    pub(in crate::tool) length: Option<Length>,
    pub(in crate::tool) pattern: Option<&'static str>,
    /// The example values for the model. `None` stands for a value that cannot be written as JSON.
    pub(in crate::tool) examples: &'static [fn() -> Option<Value>],
    pub(in crate::tool) check: ArgumentCheck,
}

impl ParamDef {
    /// The property of the schema for this parameter; `None` if the host supplies the value.
    pub(in crate::tool) fn property(&self) -> Option<MemberSchema<'static>> {
        Some(MemberSchema {
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

    /// Decodes an argument and discards the value.
    pub(in crate::tool) fn check(
        &self,
        value: Option<Value>,
        checker: Option<&SchemaChecker>,
    ) -> Result<(), ReadFault> {
        (self.check)(self, value, checker)
    }

    /// Whether the host supplies the value.
    pub const fn is_injected(&self) -> bool {
        self.injected
    }

    /// Whether the model may omit the argument.
    pub(in crate::tool) fn is_optional(&self) -> bool {
        self.has_default || (self.optional)()
    }

    /// Decodes an argument that `checker` has already checked. `Ok(None)` means that the default is used.
    pub(in crate::tool) fn read<T>(
        &self,
        decode: fn(Option<&Value>) -> Result<T, ReadFault>,
        value: Option<Value>,
        checker: Option<&SchemaChecker>,
    ) -> Result<Option<T>, ReadFault> {
        if self.has_default && value.as_ref().is_none_or(Value::is_null) {
            return Ok(None);
        }
        let first = match (decode(value.as_ref()), value) {
            (Ok(decoded), _) => return Ok(Some(decoded)),
            (Err(misfit), None) => return Err(misfit),
            (Err(misfit), Some(value)) => (misfit, value),
        };
        // Second attempt: `serde` rejects 3.0 for an integer type.
        let (misfit, mut value) = first;
        if checker.is_some_and(|checker| checker.integers_of(self.name, &mut value)) {
            return decode(Some(&value)).map(Some).map_err(|_| misfit);
        }
        Err(misfit)
    }
}

/// A parameter with its Rust type.
pub struct TypedParam<T> {
    /// The declaration of the parameter.
    pub def: ParamDef,
    /// Finds out whether the type shares mutable state.
    pub held: SharedStateProbe<T>,
    pub(in crate::tool) origin: ParamOrigin<T>,
    pub(in crate::tool) default: Option<fn() -> T>,
}

/// Declares a parameter of this type. The macro calls this function so that the compiler checks the trait bound.
pub const fn param<T: ToolParam<Source>, Source>(
    name: &'static str,
    description: &'static str,
) -> TypedParam<T> {
    let (injected, needs, schema, optional): (_, _, _, fn() -> bool) = match T::ORIGIN {
        ParamOrigin::Model { schema, optional, .. } => (false, None, Some(schema), optional),
        ParamOrigin::Host { needs, .. } => (true, needs, None, || true),
    };
    TypedParam {
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
                ParamOrigin::Model { decode, .. } => def.read(decode, value, checker).map(drop),
                ParamOrigin::Host { .. } => Ok(()),
            },
        },
        held: SharedStateProbe::ASKED,
        origin: T::ORIGIN,
        default: None,
    }
}

impl<T> TypedParam<T> {
    /// Uses this JSON value if the argument is missing or `null`.
    #[must_use]
    pub const fn or_json(mut self, value: fn() -> Option<Value>) -> Self {
        self.def.has_default = true;
        self.def.default = Some(value);
        self
    }

    /// Uses `default` if the argument is missing or `null`. `value` returns the default as JSON; `None` if JSON cannot
    /// represent the default.
    #[must_use]
    pub const fn or(mut self, default: fn() -> T, value: fn() -> Option<Value>) -> Self {
        self.default = Some(default);
        self.or_json(value)
    }

    /// Stops the build unless every literal of this kind is valid for the type.
    pub const fn accepts<Kind>(&self)
    where
        T: TakesLiteral<Kind>,
    {
    }

    /// Whether the type accepts all integers from `least` to `greatest`, and 0 too if `zero` is true.
    pub const fn accepts_integers<Kind>(&self, least: i128, greatest: i128, zero: bool) -> bool
    where
        T: TakesLiteral<Kind>,
    {
        T::LEAST <= least && greatest <= T::GREATEST && (T::ZERO || !zero)
    }

    /// Accepts only numbers in this range.
    #[must_use]
    pub const fn within(mut self, range: fn() -> Range) -> Self {
        self.def.range = Some(range);
        self
    }

    /// Accepts only texts or lists of this length.
    #[must_use]
    pub const fn long(mut self, length: Length) -> Self {
        self.def.length = Some(length);
        self
    }

    /// Accepts only texts that match this pattern.
    #[must_use]
    pub const fn matching(mut self, pattern: &'static str) -> Self {
        self.def.pattern = Some(pattern);
        self
    }

    /// Shows the model these values as examples.
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

impl<T> fmt::Debug for TypedParam<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Param").field("name", &self.def.name).finish_non_exhaustive()
    }
}
