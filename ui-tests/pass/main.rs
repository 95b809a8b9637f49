//! Shapes that a function may have. All of them are modules of one program, for linking is what takes the time. Each one
//! compiles without a warning, with its own `main`, which says what its calls answer.

#![deny(warnings)]
#![allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    elided_lifetimes_in_paths,
    unexpected_cfgs,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "a fixture is written as somebody may write it who has not asked for these lints"
)]

use std::{collections::BTreeSet, fs, path::Path};

macro_rules! shapes {
    ($($name:ident)*) => {
        $(mod $name;)*

        $(#[test]
        fn $name() {
            $name::main();
        })*

        const SHAPES: &[&str] = &[$(stringify!($name)),*];
    };
}

shapes! {
    alias_of_the_context
    all_wrong_arguments
    any_value
    anyhow_result
    asynchronous
    blanket_traits
    boolean
    cancellation_token
    cfg
    computed_comment
    const_context
    constants_beside
    context
    date_time
    default
    default_of_an_alias
    denied_lints
    description_from_a_file
    enum_of_names
    errors_inside
    float
    function_in_a_function
    generic_helper
    image
    limits
    list
    map_key_in_a_type
    map_keys
    methods
    module_of_its_name
    mutable_binding
    name_and_description
    names_beside
    nested_struct
    newtype
    no_parameters
    no_prelude
    number_that_json_does_not_have
    option
    ordinary_function
    other_attributes
    output_schema
    own_error
    path
    progress
    reconcile
    reexport
    review
    sections
    state
    struct_output
    synchronous
    tagged_enum
    text
    twelve_parameters
    two_toolsets
    types_of_std
    unit
    unit_or_error
    uuid
    visible_in_crate
    written_by_a_macro
}

/// No file is left out.
#[test]
fn all_shapes_are_listed() {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("pass")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
    let names: BTreeSet<String> = names.filter(|name| name != "main").collect();
    assert_eq!(names, SHAPES.iter().map(|name| (*name).to_owned()).collect());
}
