//! JSON Schemas: the schemas of types, their strict forms for vendors, and the check of a value
//! with a list of its faults.
//!
//! The package `harness` uses it for the arguments of tools and for typed answers. It knows nothing of tools, calls or
//! providers. Most of it is for that package alone; programs use what `harness::tool` exports of it.

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
    compile::{SchemaChecker, Unchecked, UnusableSchema},
    derive::{
        DerivedAnswer, DerivedSchema, MemberSchema, ToolSchema, WRAPPED, output_schema, schema_of,
        schema_of_answer, schema_of_type,
    },
    fault::{ReadFault, ValueFault, step},
    forms::{EncodedSchema, SchemaCache, SchemaForm},
    keys::{never_read, never_read_in},
    length::{Length, Lengthy, Textual, pattern},
    nearest::{misspelt, nearest},
    range::{Range, Ranged},
    strict::{NotStrict, StrictForm},
};
