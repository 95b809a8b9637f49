//! JSON Schemas: schemas of Rust types, strict forms for vendors, and checks of values with a list of faults.
//!
//! The package `harness` uses this package for tool arguments and typed answers. The code here does not depend on
//! tools, calls or providers. Programs use only the parts that `harness::tool` exports.

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
mod strict_size;
mod unread;
mod words;

pub use self::{
    compile::{SchemaChecker, Unchecked, UnusableSchema},
    derive::{
        DerivedAnswer, DerivedSchema, MemberSchema, ToolSchema, WRAPPED, output_schema, schema_of,
        schema_of_answer, schema_of_type,
    },
    fault::{ReadFault, ValueFault, step},
    forms::{EncodedSchema, SchemaCache, SchemaForm},
    keys::never_read,
    length::{Length, Lengthy, Textual, pattern},
    nearest::{misspelt, nearest},
    range::{Range, Ranged},
    strict::{NotStrict, StrictForm},
};
