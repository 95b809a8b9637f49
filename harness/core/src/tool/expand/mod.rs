//! What `#[tool]`, `#[toolset]` and `tools![]` expand to: how the parameters of a function are declared and
//! decoded, how the function is called, and how its return value reaches the model. Users do not need it; the
//! crate's `__private` exports it for the expansions.
//!
//! An expansion stands among the user's traits, and a blanket trait has its methods on these types, too. So it calls
//! functions by their path. Where the type has to be asked, which only a method call can do, the method has a name that begins
//! with `__harness_`.

pub(crate) mod call;
pub(crate) mod declared;
pub(crate) mod json;
pub(crate) mod literal;
pub(super) mod output_faults;
pub(crate) mod output_schema;
pub(crate) mod param;
pub(crate) mod reconcile;
pub(crate) mod returned;
pub(crate) mod shared_state;
