//! What `#[tool]` makes of a function: constants only, so that nothing is done at start-up and
//! everything declared is known in `const` context.

use std::{fmt, sync::OnceLock, time::Duration};

use serde_json::{Map, Value};

use crate::message::Arguments;

use super::{
    SideEffects, Tool, ToolFuture, ToolSchema,
    call::{self, Call, Shared},
    fault::Misfit,
    keys,
    literal::TakesLiteral,
    param::{Origin, ToolParam},
    range::Range,
    review::Review,
    schema::{kind_of, schema_of},
    validate,
};

/// What `#[tool]` makes of a function; `calc::TOOL` is the one of `calc`.
///
/// ```
/// use harness::tool;
///
/// /// Adds two numbers.
/// #[tool(side_effects = "none")]
/// fn add(/** first */ a: i64, /** second */ b: i64) -> i64 {
///     a + b
/// }
///
/// const _: () = assert!(add::TOOL.side_effects.is_read_only());
/// assert_eq!(add::TOOL.name, "add");
/// assert_eq!(add(1, 2), 3);
/// ```
pub struct ToolDef {
    /// The name by which the model calls it.
    pub name: &'static str,
    /// What the model is told of it.
    pub description: &'static str,
    /// What it does to the world.
    pub side_effects: SideEffects,
    /// Whether it may be repeated with the same arguments without further effect.
    pub idempotent: bool,
    /// How long a call may take, if the tool itself says so.
    pub time_limit: Option<Duration>,
    pub(super) review: Option<fn(&Shared, &Arguments) -> Review>,
    pub(super) params: &'static [ParamDef],
    pub(super) run: fn(Call) -> ToolFuture,
    /// Where the schema is kept once it is made.
    schema: fn() -> &'static SchemaCell,
}

/// What is declared of a deprecated function, behind a name that is not deprecated: only what is
/// deprecated itself may name the function under every lint, and it is named by nobody.
pub trait Declared {
    /// What is declared.
    const TOOL: &'static ToolDef;
}

/// Where the schema of a tool is kept once it is made, and what is wrong with it once that was asked.
#[derive(Debug, Default)]
pub struct SchemaCell {
    schema: OnceLock<ToolSchema>,
    problem: OnceLock<Option<String>>,
}

impl SchemaCell {
    /// An empty one.
    pub const fn new() -> Self {
        Self { schema: OnceLock::new(), problem: OnceLock::new() }
    }
}

impl ToolDef {
    /// What a function declares; [`Self::idempotent`] and [`Self::within`] say the rest.
    pub const fn new(
        name: &'static str,
        description: &'static str,
        side_effects: SideEffects,
        params: &'static [ParamDef],
        schema: fn() -> &'static SchemaCell,
        run: fn(Call) -> ToolFuture,
    ) -> Self {
        Self {
            name,
            description,
            side_effects,
            idempotent: false,
            time_limit: None,
            review: None,
            params,
            run,
            schema,
        }
    }

    /// Declares that it may be repeated.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Declares how long a call may take.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Declares what says of each call whether a person should look at it.
    #[must_use]
    pub const fn reviewed(mut self, review: fn(&Shared, &Arguments) -> Review) -> Self {
        self.review = Some(review);
        self
    }

    /// The tool itself. It costs one small allocation.
    pub fn tool(&'static self) -> Tool {
        Tool::declared(self, None)
    }

    /// What the model is told, made at the first call and kept.
    pub fn schema(&'static self) -> &'static ToolSchema {
        (self.schema)().schema.get_or_init(|| ToolSchema {
            name: self.name.to_owned(),
            description: self.description.trim().to_owned(),
            input_schema: schema_of(self.params),
        })
    }

    /// The tool of a method, with its value.
    #[doc(hidden)]
    pub fn bind(&'static self, this: &Shared) -> Tool {
        Tool::declared(self, this.receiver())
    }

    /// Stops the build if two tools of a list have one name.
    #[doc(hidden)]
    #[track_caller]
    pub const fn unique_in(&self, list: &[&'static Self]) {
        let mut left = list;
        while let [first, rest @ ..] = left {
            let mut others = rest;
            while let [other, tail @ ..] = others {
                if same(first.name.as_bytes(), other.name.as_bytes()) {
                    panic_twice(first.name);
                }
                others = tail;
            }
            left = rest;
        }
    }

    /// What is wrong with the declaration that only the types could say, found out at the first call
    /// and kept.
    pub(super) fn problem(&'static self) -> Option<&'static str> {
        (self.schema)().problem.get_or_init(|| self.find_problem()).as_deref()
    }

    fn find_problem(&'static self) -> Option<String> {
        let schema = &self.schema().input_schema;
        self.params.iter().find_map(|param| {
            if let Some(problem) = keys::problem(param, schema) {
                return Some(format!(
                    "the parameter `{}` of the tool `{}` {problem}; JSON object keys are strings: take a \
                     list of entries, or a key with `#[serde(try_from = \"String\")]`",
                    param.name, self.name
                ));
            }
            if let Some(range) = param.range.map(|range| range()).filter(Range::is_empty) {
                return Some(format!(
                    "the range of the parameter `{}` of the tool `{}` is empty: {range:?}",
                    param.name, self.name
                ));
            }
            let default = param.default?()?;
            let misfit = param.check(Some(default)).err()?;
            Some(format!(
                "the default of the parameter `{}` of the tool `{}` does not fit: {}",
                param.name, self.name, misfit.fault
            ))
        })
    }

    /// All that is wrong with an argument which was not read, one line each.
    pub(super) fn lines(&'static self, name: &str, misfit: &Misfit) -> Vec<String> {
        let schema = &self.schema().input_schema;
        misfit.lines(name, |value| match schema.get("properties").and_then(|all| all.get(name)) {
            Some(property) => validate::faults(property, value, schema),
            None => Vec::new(),
        })
    }

    /// All that is wrong with these arguments; nothing is run.
    pub(super) fn check(&'static self, arguments: &Map<String, Value>) -> Vec<String> {
        let mut lines = Vec::new();
        for param in self.params.iter().filter(|param| !param.injected) {
            if let Err(misfit) = param.check(arguments.get(param.name).cloned()) {
                lines.extend(self.lines(param.name, &misfit));
            }
        }
        let unknown = arguments.keys().filter(|name| {
            !self.params.iter().any(|param| !param.injected && param.name == name.as_str())
        });
        lines.extend(unknown.map(|name| call::unknown(name, self.params)));
        lines
    }
}

impl fmt::Debug for ToolDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDef")
            .field("name", &self.name)
            .field("side_effects", &self.side_effects.to_string())
            .field("idempotent", &self.idempotent)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let (mut one, mut other) = (one, other);
    loop {
        match (one, other) {
            ([], []) => return true,
            ([a, rest @ ..], [b, tail @ ..]) if *a == *b => (one, other) = (rest, tail),
            _ => return false,
        }
    }
}

/// Panics, while compiling, with the name in the message.
#[expect(clippy::panic, reason = "it only ever runs in a constant, where a panic is an error")]
#[track_caller]
const fn panic_twice(name: &str) -> ! {
    const BEFORE: &[u8] = b"two tools in this list are both named `";
    const AFTER: &[u8] = b"`; give one of them `#[tool(name = \"...\")]`";
    let mut message = [b' '; 256];
    let mut used = 0;
    let mut part = 0;
    while part < 3 {
        let mut text = match part {
            0 => BEFORE,
            1 => name.as_bytes(),
            _ => AFTER,
        };
        while let ([byte, rest @ ..], Some((_, [slot, ..]))) =
            (text, message.split_at_mut_checked(used))
        {
            *slot = *byte;
            text = rest;
            used += 1;
        }
        part += 1;
    }
    match core::str::from_utf8(message.split_at(used).0) {
        Ok(message) => panic!("{}", message),
        Err(_) => panic!("two tools in this list have one name"),
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

/// What a parameter declares.
#[derive(Clone, Copy)]
pub struct ParamDef {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) injected: bool,
    pub(super) schema: Option<fn(&mut schemars::SchemaGenerator) -> schemars::Schema>,
    pub(super) optional: fn() -> bool,
    pub(super) has_default: bool,
    pub(super) default: Option<fn() -> Option<Value>>,
    pub(super) range: Option<fn() -> Range>,
    pub(super) check: fn(&Self, Option<Value>) -> Result<(), Misfit>,
}

impl ParamDef {
    /// Reads an argument and throws it away.
    pub(super) fn check(&self, value: Option<Value>) -> Result<(), Misfit> {
        (self.check)(self, value)
    }

    /// Whether the host supplies it.
    pub const fn is_injected(&self) -> bool {
        self.injected
    }

    /// Whether the model may leave it out.
    pub(super) fn is_optional(&self) -> bool {
        self.has_default || (self.optional)()
    }

    /// What the model is to write, for a message.
    pub(super) fn expectation(&self) -> String {
        let about = self.description.lines().next().unwrap_or_default().trim();
        match kind_of(self) {
            Some(kind) => format!("is required: {kind}, {about:?}"),
            None => format!("is required: {about:?}"),
        }
    }

    /// Reads an argument: `None` says that the default is to be taken.
    pub(super) fn read<T>(
        &self,
        decode: fn(Option<Value>) -> Result<T, Misfit>,
        value: Option<Value>,
    ) -> Result<Option<T>, Misfit> {
        if self.has_default && value.as_ref().is_none_or(Value::is_null) {
            return Ok(None);
        }
        if value.is_none() && !(self.optional)() {
            return Err(self.expectation().into());
        }
        let number = match &value {
            Some(Value::Number(number)) => Some(number.clone()),
            _ => None,
        };
        let decoded = decode(value)?;
        if let (Some(range), Some(number)) = (self.range, number) {
            range().check(&number)?;
        }
        Ok(Some(decoded))
    }
}

/// A parameter, and the type that it has in Rust.
pub struct Param<T> {
    /// What it declares.
    pub def: ParamDef,
    pub(super) origin: Origin<T>,
    pub(super) default: Option<fn() -> T>,
}

/// A parameter of this type. The one place where the macro names the bound.
pub const fn param<T: ToolParam<Source>, Source>(
    name: &'static str,
    description: &'static str,
) -> Param<T> {
    let (injected, schema, optional): (_, _, fn() -> bool) = match T::ORIGIN {
        Origin::Model { schema, optional, .. } => (false, Some(schema), optional),
        Origin::Host(_) => (true, None, || true),
    };
    Param {
        def: ParamDef {
            name,
            description,
            injected,
            schema,
            optional,
            has_default: false,
            default: None,
            range: None,
            check: |def, value| match T::ORIGIN {
                Origin::Model { decode, .. } => def.read(decode, value).map(drop),
                Origin::Host(_) => Ok(()),
            },
        },
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
