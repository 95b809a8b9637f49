//! Values that a program shares with its tools: the parameter type `State<T>`, the types that a tool needs, and the
//! container of the values.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::Arc,
};

/// A value that the program shares with its tools. A tool takes the value as a parameter.
///
/// Give the value to the agent with `AgentBuilder::state`, or to one run with `Run::state`. Building an agent fails if
/// a tool takes a value that the agent does not have, unless `AgentBuilder::state_per_run` announces that each run sets
/// the value.
///
/// ```
/// use harness::{Agent, State, testing::{ScriptedProvider, reply}, tool, tools};
///
/// struct Stock(u32);
///
/// /// Counts what is left.
/// #[tool(side_effects = "read")]
/// fn count(stock: State<Stock>) -> u32 {
///     stock.0
/// }
///
/// let model = ScriptedProvider::new([reply().text("Ready.")]);
/// let error = Agent::builder(model.clone()).tools(tools![count]).build().unwrap_err();
/// assert!(error.to_string().contains("the tool `count` takes `State<"));
/// assert!(Agent::builder(model).tools(tools![count]).state(Stock(3)).build().is_ok());
/// ```
pub struct State<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State<{}>", type_name::<T>())
    }
}

/// The type of a value that a tool needs. Contains functions in place of the type's id and name, because these are not
/// available in `const` context.
#[derive(Clone, Copy, Debug)]
pub struct StateType {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
    /// The id of `Arc<T>`. Programs often give an `Arc<T>` in place of a `T` by mistake.
    shared: fn() -> TypeId,
}

impl StateType {
    #[doc(hidden)]
    pub const fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>, name: type_name::<T>, shared: TypeId::of::<Arc<T>> }
    }

    #[doc(hidden)]
    pub fn id(&self) -> TypeId {
        (self.id)()
    }

    /// The name of the type with its path.
    #[doc(hidden)]
    pub fn name(&self) -> &'static str {
        (self.name)()
    }

    pub(super) fn shared_id(&self) -> TypeId {
        (self.shared)()
    }
}

/// Shared values, at most one of each type. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct SharedValues(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl SharedValues {
    /// Adds a value. An earlier value of the same type is replaced.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), value);
    }

    /// Adds all values of `others`. Earlier values of the same types are replaced.
    pub(super) fn extend(&mut self, others: &Self) {
        if self.0.is_empty() {
            self.clone_from(others);
        } else if !others.0.is_empty() {
            let others = others.0.iter().map(|(id, value)| (*id, Arc::clone(value)));
            Arc::make_mut(&mut self.0).extend(others);
        }
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        let value = Arc::clone(self.0.get(&TypeId::of::<T>())?);
        value.downcast().ok().map(State)
    }

    /// Copies the value of this type from `others`, unless `self` already has a value of this type.
    pub fn take_over(&mut self, id: TypeId, others: &Self) {
        if let Some(value) = others.0.get(&id).filter(|_| !self.has(id)) {
            Arc::make_mut(&mut self.0).insert(id, Arc::clone(value));
        }
    }

    /// Whether a value of this type exists.
    pub fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }
}
