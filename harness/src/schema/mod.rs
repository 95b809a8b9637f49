//! JSON Schemas: the schemas of types, their strict forms for vendors, and the check of a value
//! with a list of its faults. This module depends on no tools, calls or providers.

mod check;
mod close;
mod compile;
mod derive;
mod fault;
mod forms;
mod keys;
mod length;
mod limits;
mod nearest;
mod node;
mod number;
mod pattern;
mod portable;
mod range;
mod shape;
mod short;
mod strict;
mod unread;
mod words;

pub use self::{
    compile::Unchecked,
    derive::ToolSchema,
    length::{Length, Lengthy, Textual, pattern},
    range::{Range, Ranged},
    strict::{NotStrict, StrictForm},
};
pub(crate) use self::{
    compile::{Checker, Unusable},
    derive::{
        Derived, DerivedAnswer, Property, WRAPPED, output_schema, schema_of, schema_of_answer,
        schema_of_type,
    },
    fault::{Fault, Misfit, step},
    forms::{Forms, Parameters, Told},
    keys::{never_read, never_read_in},
    nearest::{misspelt, nearest},
};
