//! The code to which `#[tool]`, `#[toolset]` and `tools![]` expand: it declares and decodes the parameters of a
//! function, calls the function, and turns its return value into a result. The crate's `__private` exports this code
//! for the expansions only.
//!
//! An expansion becomes a part of the user's code, where the user's blanket traits may add methods to these types. So
//! expansions call functions by their full path. If only a method call can select an implementation by the type, the
//! method's name begins with `__harness_`.

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
