//! What `#[tool]`, `#[toolset]` and `tools![]` expand to: how the parameters of a function are declared and
//! decoded, how the function is called, and how its return value reaches the model. Users do not need it; the
//! crate's `__private` exports it for the expansions.
//!
//! An expansion stands among the user's traits, and a blanket trait has its methods on these types, too. So it calls
//! functions by their path. Where the type has to be asked, which only a method call can do, the method has a name that begins
//! with `__harness_`.

#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod declared;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod literal;
pub(super) mod output_faults;
#[doc(hidden)]
pub mod output_schema;
#[doc(hidden)]
pub mod param;
#[doc(hidden)]
pub mod reconcile;
#[doc(hidden)]
pub mod returned;
pub(crate) mod shared_state;
