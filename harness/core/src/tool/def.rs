//! The declaration that `#[tool]` creates for a function. The declaration consists of constants. So nothing runs at
//! start-up, and the declaration can be used in `const` context.

use std::{fmt, time::Duration};

use harness_schema::{
    DerivedSchema, Range, SchemaChecker, ToolSchema, never_read, schema_of, step,
};
use serde_json::{Map, Value};

use super::{
    ConcurrencyLimit, ReconcileFuture, SideEffects, Tool, ToolError, ToolFuture,
    expand::{
        call::{DeclaredCall, SharedReceiver},
        declared::{MadeSchema, ParamDef, SchemaCell},
    },
    review::Review,
    tool::unusable,
};
use crate::message::Arguments;

/// The declaration that `#[tool]` creates for a function. For a function `calc`, the declaration is the constant
/// `calc::TOOL`.
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
    /// The name by which the model calls the tool.
    pub name: &'static str,
    /// The description that the model reads.
    pub description: &'static str,
    /// The name for people, if it differs from [`name`](Self::name).
    pub title: Option<&'static str>,
    /// The side effects of a call.
    pub side_effects: SideEffects,
    /// Whether repeating a call with the same arguments has no further effect.
    pub idempotent: bool,
    /// The time limit of a call; `None` if the tool declares none.
    pub time_limit: Option<Duration>,
    /// How many calls of the tool may run at the same time in the program; `None` without a limit.
    pub at_once: Option<usize>,
    pub(super) review: Option<fn(&SharedReceiver, &Arguments) -> Review>,
    pub(super) reconcile: Option<fn(DeclaredCall) -> ReconcileFuture>,
    pub(super) params: &'static [ParamDef],
    pub(super) run: fn(DeclaredCall) -> ToolFuture,
    returns: Option<fn() -> Option<Value>>,
    /// Returns the cell that caches the schema.
    schema: fn() -> &'static SchemaCell,
}

impl ToolDef {
    /// Creates a declaration from the values that every function declares. [`Self::idempotent`], [`Self::time_limit`] and
    /// the other methods add the optional values.
    pub const fn new(
        name: &'static str,
        description: &'static str,
        side_effects: SideEffects,
        params: &'static [ParamDef],
        schema: fn() -> &'static SchemaCell,
        run: fn(DeclaredCall) -> ToolFuture,
    ) -> Self {
        Self {
            name,
            description,
            title: None,
            side_effects,
            idempotent: false,
            time_limit: None,
            at_once: None,
            review: None,
            reconcile: None,
            params,
            run,
            returns: None,
            schema,
        }
    }

    /// Declares the name for people.
    #[must_use]
    pub const fn title(mut self, title: &'static str) -> Self {
        self.title = Some(title);
        self
    }

    /// Declares the function that creates the schema of the returned value.
    #[must_use]
    pub const fn returns(mut self, schema: fn() -> Option<Value>) -> Self {
        self.returns = Some(schema);
        self
    }

    /// Declares that repeating a call with the same arguments has no further effect.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Declares the time limit of a call.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Declares the maximum number of calls that run at the same time. The minimum is one.
    #[must_use]
    pub const fn at_once(mut self, most: usize) -> Self {
        self.at_once = Some(most);
        self
    }

    /// The concurrency limit of the function. All tools that are created from the function share the limit.
    pub(super) fn concurrency_limit(&'static self) -> Option<&'static ConcurrencyLimit> {
        let most = self.at_once?;
        Some((self.schema)().concurrency.get_or_init(|| ConcurrencyLimit::new(most)))
    }

    /// Declares the function that reviews each call before the decision whether the call may run.
    #[must_use]
    pub const fn review(mut self, review: fn(&SharedReceiver, &Arguments) -> Review) -> Self {
        self.review = Some(review);
        self
    }

    /// Declares the function that finds out whether an interrupted call happened.
    #[must_use]
    pub const fn reconcile(mut self, reconcile: fn(DeclaredCall) -> ReconcileFuture) -> Self {
        self.reconcile = Some(reconcile);
        self
    }

    /// Creates the tool. This costs one small allocation.
    pub fn tool(&'static self) -> Tool {
        Tool::declared(self, None)
    }

    /// The name, description and schema that the model gets. Created at the first call of this method, and then cached.
    pub fn schema(&'static self) -> &'static ToolSchema {
        &self.made().schema
    }

    /// The schema of the returned value; `None` if the type of the value has no schema. Created at the first call of
    /// this method, and then cached.
    pub fn output_schema(&'static self) -> Option<&'static Value> {
        let make = || self.returns.and_then(|schema| schema());
        (self.schema)().output.get_or_init(make).as_ref()
    }

    fn made(&'static self) -> &'static MadeSchema {
        (self.schema)().made.get_or_init(|| {
            let DerivedSchema { told, checked } =
                schema_of(self.params.iter().filter_map(ParamDef::property));
            let schema = ToolSchema {
                name: self.name.to_owned(),
                description: self.description.trim().to_owned(),
                input_schema: told,
            };
            MadeSchema { schema, checker: SchemaChecker::of_arguments(&checked) }
        })
    }

    /// The checker that checks the arguments of each call.
    pub(super) fn checker(&'static self) -> Result<&'static SchemaChecker, ToolError> {
        self.made().checker.as_ref().map_err(|err| ToolError::new(unusable(self.name, err)))
    }

    /// Creates the tool of a method, bound to the method's value.
    pub fn bind(&'static self, this: &SharedReceiver) -> Tool {
        Tool::declared(self, this.receiver())
    }

    /// Stops the build if two tools of a list have the same name.
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

    /// A fault of the declaration that the compiler cannot find. The first call of this method searches for the fault.
    /// Later calls return the cached answer.
    pub(super) fn problem(&'static self) -> Option<&'static str> {
        (self.schema)().problem.get_or_init(|| self.find_problem()).as_deref()
    }

    fn find_problem(&'static self) -> Option<String> {
        let schema = &self.schema().input_schema;
        let checker = match &self.made().checker {
            Ok(checker) => checker,
            Err(err) => return Some(unusable(self.name, err)),
        };
        self.params.iter().find_map(|param| {
            let check = |value| param.check(Some(value), None);
            if let Some(problem) = never_read(Some(param.name), schema, &check) {
                let Self { name, .. } = self;
                return Some(format!("the parameter `{}` of the tool `{name}` {problem}", param.name));
            }
            if let Some(range) = param.range.map(|range| range()).filter(Range::is_empty) {
                return Some(format!(
                    "the range of the parameter `{}` of the tool `{}` is empty: {range:?}",
                    param.name, self.name
                ));
            }
            let place = format!("/properties{}", step(param.name));
            let unread = checker.unchecked().iter().filter(|_| param.pattern.is_some());
            if let Some(part) =
                { unread }.find(|part| part.keyword() == "pattern" && part.pointer() == place)
            {
                return Some(format!(
                    "the pattern of the parameter `{}` of the tool `{}` cannot be checked: {}; write \
                     it without that, or check it in the function",
                    param.name,
                    self.name,
                    part.reason()
                ));
            }
            let misfit = |whose: &str, value: Option<Value>| {
                let (param_name, tool) = (param.name, self.name);
                let Some(value) = value else {
                    return Some(format!(
                        "the {whose} of the parameter `{param_name}` of the tool `{tool}` cannot be \
                         written as JSON: put `#[derive(serde::Serialize)]` on its type"
                    ));
                };
                let wrong = match checker.faults_of(param.name, &value).into_iter().next() {
                    Some(fault) => fault,
                    None => param.check(Some(value), Some(checker)).err()?.0,
                };
                Some(format!(
                    "the {whose} of the parameter `{param_name}` of the tool `{tool}` does not fit: \
                     {wrong}"
                ))
            };
            // A default must fit its parameter's schema: a person who decides about a call sees the default, and the
            // call runs with it.
            let default = param.default.and_then(|default| misfit("default", default()));
            default.or_else(|| param.examples.iter().find_map(|example| misfit("example", example())))
        })
    }

    /// Checks the arguments against the schema. If the arguments fit, returns them without the optional members that
    /// are `null` although the schema does not accept `null`. Otherwise, returns all faults, one per line, including
    /// the faults of decoding the arguments into the parameter types.
    pub(super) fn read(
        &'static self,
        mut arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, ToolError> {
        let checker = self.checker()?;
        let mut faults = match checker.read(Value::Object(arguments)) {
            Ok(Value::Object(arguments)) => return Ok(arguments),
            Ok(_) => return Ok(Map::new()),
            Err((Value::Object(rest), faults)) => {
                arguments = rest;
                faults
            }
            Err((_, faults)) => {
                arguments = Map::new();
                faults
            }
        };
        let named: Vec<&str> = self.params.iter().map(|param| param.name).collect();
        for param in self.params.iter().filter(|param| !param.injected) {
            let Some(value) = arguments.get(param.name) else { continue };
            if faults.iter().any(|fault| fault.is_of(param.name)) {
                continue;
            }
            if let Err(misfit) = param.check(Some(value.clone()), Some(checker)) {
                faults.push(misfit.0.below(param.name));
            }
        }
        // The faults are in the order of the parameters. Faults of other arguments come last.
        let mut lines = Vec::with_capacity(faults.len());
        for name in named {
            for fault in faults.extract_if(.., |fault| fault.is_of(name)) {
                lines.push(fault.line());
            }
        }
        for fault in faults {
            lines.push(fault.line());
        }
        Err(ToolError::BadArguments(lines))
    }

    /// Checks these arguments and returns all their faults. The tool does not run.
    pub(super) fn check(&'static self, arguments: Map<String, Value>) -> Result<(), ToolError> {
        let arguments = self.read(arguments)?;
        let checker = self.checker().ok();
        let mut lines = Vec::new();
        for param in self.params.iter().filter(|param| !param.injected) {
            if let Err(misfit) = param.check(arguments.get(param.name).cloned(), checker) {
                lines.push(misfit.0.below(param.name).line());
            }
        }
        if lines.is_empty() { Ok(()) } else { Err(ToolError::BadArguments(lines)) }
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

/// Panics at compile time, with the name in the message.
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
