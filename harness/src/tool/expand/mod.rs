//! What `#[tool]`, `#[toolset]` and `tools![]` expand to: how a function's parameters are declared and
//! read, how it is called, and how what it returns reaches the model. Users read none of it; the
//! crate's `__private` hands it to the expansions.

pub(crate) mod call;
pub(crate) mod declared;
pub(crate) mod held;
pub(crate) mod json;
pub(crate) mod literal;
pub(crate) mod output_schema;
pub(crate) mod param;
pub(crate) mod reconcile;
pub(crate) mod returned;
pub(super) mod search;
