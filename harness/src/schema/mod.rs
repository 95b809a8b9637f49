//! What a value may be: schemas of types, their strict forms for vendors, the check of a value against
//! a schema, and all that is wrong with it. It knows nothing of tools, calls or providers.

mod check;
mod derive;
mod fault;
mod keys;
mod length;
mod nearest;
mod range;
mod strict;

pub(crate) use self::{
    check::{faults, problems, without_nulls},
    derive::{Property, kind_of, schema_of, schema_of_type},
    fault::{Fault, Misfit, step},
    keys::problem_of_keys,
    nearest::nearest,
};
pub use self::{
    derive::ToolSchema,
    length::{Length, Lengthy, Textual, pattern},
    range::{Range, Ranged},
    strict::NotStrict,
};
